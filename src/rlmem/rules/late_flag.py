"""A variable that sets how memory is taken is set too late.

JAX takes 75 % of the VRAM when it first uses a device, TensorFlow nearly all of it, unless a variable of the environment says
otherwise; thread pools read theirs when their library is loaded. Set after the import, such a variable counts only if
nothing has touched a device by then, which another import may well have done; for thread pools it never counts.

```python
import jax
import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
```

A function that sets such a variable and starts another program sets it for that one.

Use instead: set it first, before any other import, or in the shell that starts the program.

Fix: unsafe: the line moves before the import.

Reference: MichaelTMatthews/Craftax#28; adityab/CrossQ#7; isaac-sim/IsaacLab#4980; openai/spinningup#146.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, method_calls
from rlmem.scripts import Script

_JAX = frozenset(
    {"jax", "jaxlib", "flax", "optax", "haiku", "brax", "gymnax", "chex", "distrax", "rlax", "sbx", "evosax", "jumanji",
     "craftax", "equinox"}
)  # fmt: skip
_TF = frozenset({"tensorflow", "tf_keras", "tensorflow_probability", "tf_agents"})
_MATH = frozenset({"numpy", "torch", "scipy", "pandas", "sklearn", "stable_baselines3", "tensorflow"})
#: Variable, the packages that read it, and how much it matters when it comes late.
FLAGS = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": (_JAX, "warning"),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": (_JAX, "warning"),
    "XLA_PYTHON_CLIENT_ALLOCATOR": (_JAX, "warning"),
    "TF_FORCE_GPU_ALLOW_GROWTH": (_TF, "warning"),
    "OMP_NUM_THREADS": (_MATH, "info"),
    "MKL_NUM_THREADS": (_MATH, "info"),
    "OPENBLAS_NUM_THREADS": (_MATH, "info"),
}
#: Calls that start another program, with the variables as they are then.
_STARTS = (
    "Popen", "run", "call", "check_call", "check_output", "system", "popen", "execv", "execvp", "execl", "execlp", "spawnv",
    "spawnvp", "spawnl", "spawnlp", "posix_spawn",
)  # fmt: skip
#: Read when CUDA is first used, not when torch is imported.
CUDA_FLAGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for variables that are set behind the import that reads them."""
    if "environ" not in script.text and "putenv" not in script.text:
        return
    for name, node in _settings(script):
        statement = script.statement_of(node)
        if _is_for_a_child(script, statement):
            continue
        if name in FLAGS:
            packages, severity = FLAGS[name]
            late = _import_before(script, statement, packages)
            if late is None:
                continue
            package = _package(late, packages)
            yield rule.finding(
                f"{name} is set after {package} is imported",
                severity=severity,
                place=script.place(statement),
                remedy=f"set it before {package} is imported, or in the shell",
                fix=_moved(script, statement, late),
            )
        elif name in CUDA_FLAGS:
            used = _cuda_before(script, statement)
            if used is not None:
                yield rule.finding(
                    f"{name} is set after CUDA is first used in line {script.place(used).line}",
                    place=script.place(statement),
                    remedy="set it before anything is put on the GPU, or in the shell",
                )


def _settings(script: Script) -> Iterator[tuple[str, ast.AST]]:
    """Every variable of the environment that is given a value, with the node that does it."""
    for key, stored in script.walked.item_values.items():
        if isinstance(key, str) and (key in FLAGS or key in CUDA_FLAGS):
            for target, _ in stored:
                if _is_environ(script, target.value):
                    yield key, target
    for call in method_calls(script, "setdefault", "putenv", "update"):
        assert isinstance(call.func, ast.Attribute)
        first = call.args[0] if call.args else None
        if leaf(call) == "putenv" or _is_environ(script, call.func.value):
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, call
            elif isinstance(first, ast.Dict):
                yield from ((str(key.value), call) for key in first.keys if isinstance(key, ast.Constant))


def _is_environ(script: Script, expr: ast.expr) -> bool:
    return script.qualified(expr) == "os.environ" or ast.unparse(expr) in {"os.environ", "environ"}


def _is_for_a_child(script: Script, statement: ast.stmt) -> bool:
    """Whether a function sets the variable and starts a program then, which reads it when it begins."""
    function = script.function_of(statement)
    return function is not None and any(
        script.function_of(call) is function and call.lineno >= statement.lineno
        for call in script.calls_of(*_STARTS, roots=("subprocess", "os"))
    )


def _import_before(script: Script, statement: ast.stmt, packages: frozenset[str]) -> ast.Import | ast.ImportFrom | None:
    """The first import of the file, at its top, that has run when the statement does."""
    inside = script.function_of(statement) is not None
    for node in script.imports_nodes:
        if script.function_of(node) is not None or not _package(node, packages) or _types_only(script, node):
            continue
        if inside or node.lineno < statement.lineno:
            return node
    return None


def _types_only(script: Script, node: ast.AST) -> bool:
    return any(
        isinstance(above, ast.If) and "TYPE_CHECKING" in ast.unparse(above.test) for above in script.ancestors(node)
    )


def _package(node: ast.Import | ast.ImportFrom, packages: frozenset[str]) -> str:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    if isinstance(node, ast.ImportFrom) and node.level:
        return ""
    return next((root for name in names if (root := name.split(".")[0]) in packages), "")


def _moved(script: Script, statement: ast.stmt, late: ast.Import | ast.ImportFrom) -> Fix | None:
    """The line moved up, where that is simple: both stand at the top of the file and ``os`` is known by then or can be."""
    body = script.tree.body
    if statement not in body or late not in body or statement.lineno != statement.end_lineno:
        return None
    line = script.segment(statement)
    imported = [
        node
        for node in body
        if isinstance(node, ast.Import) and any(a.name == "os" and not a.asname for a in node.names)
    ]
    if not line.startswith("os.") or not imported:
        return None
    first = min(imported, key=lambda node: node.lineno)
    edits = [script.remove_statement(statement)]
    if first.lineno > late.lineno:
        if len(first.names) > 1:
            return None
        edits += [script.remove_statement(first)]
        line = f"import os\n{line}"
    return Fix(title="set it before the import", edits=(script.insert_before(late, line), *edits), safety="unsafe")


def _cuda_before(script: Script, statement: ast.stmt) -> ast.Call | None:
    """Something put on the GPU, in the same lines of the file, before the statement."""
    scope = script.function_of(statement)
    for call in method_calls(script, "cuda", "to"):
        if call.lineno >= statement.lineno or script.function_of(call) is not scope:
            continue
        given = script.value(call.args[0]) if call.args else None
        if leaf(call) == "cuda" or (isinstance(given, str) and given.startswith("cuda")):
            return call
    return None
