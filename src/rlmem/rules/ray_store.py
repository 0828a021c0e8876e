"""Ray starts with an object store of its default size.

``ray.init()`` sets 30 % of the machine's memory aside for its object store, on top of what the driver and the workers use.
The store takes it as objects come, and beyond it spills to disk; the machine then is out of memory, or a worker is killed
at 95 %, although the heaps would have fit.

```python
ray.init()
```

It is a warning in a program that learns with RLlib, Tune or TorchRL and starts Ray without a word about the machine. In
a library, behind ``ray.is_initialized()``, and beside ``num_cpus`` or ``num_gpus`` it is for information.

Use instead: ``ray.init(object_store_memory=2 * 1024**3)``, the size of the batches that are under way at once, and drop
references when they are done with.

Fix: none: the size depends on the run.

Reference: ray-project/ray#49173, #13443, #4877; "Out-of-memory prevention" in Ray's documentation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import conditions, imports_any, leaf
from rlmem.rules.workers import runs_in_program
from rlmem.scripts import Script

#: Arguments that say that the store is somebody else's business: another cluster, a test, or limits of another kind.
_SETTLED = ("object_store_memory", "local_mode", "_memory", "_system_config", "_redis_max_memory", "redis_address")
#: Arguments that say that somebody thought about the machine.
_THOUGHT = ("num_cpus", "num_gpus", "resources", "runtime_env", "namespace")
#: What a program does with Ray that fills its store.
_WORK = ("train", "fit", "learn", "run", "build", "build_algo", "sample", "collect", "remote", "get", "put")
_LEARNS = ("rllib", "tune", "torchrl", "train", "air", "torch", "tensorflow", "jax", "gymnasium", "gym")


_MUCH = re.compile(
    r"atari|ALE/|NoFrameskip|[Ii]mage|[Cc]nn|conv_filters|num_(rollout_workers|env_runners|workers)|ray\.put"
)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for a local cluster without ``object_store_memory``; for information where others decide about it."""
    if "ray" not in script.text or not imports_any(script, "ray"):
        return
    for call in script.calls_of("init", roots=("ray",)):
        name = script.called(call)
        if name is None or name.dotted != "ray.init" or script.has_unknown_arguments(call):
            continue
        address = script.argument(call, "address", 0)
        if any(script.argument(call, each) is not None for each in _SETTLED) or (
            address is not None and not (isinstance(address, ast.Constant) and address.value in (None, "local"))
        ):
            continue
        if _only_looks(script, call):
            continue
        bare = not any(script.argument(call, each) is not None for each in _THOUGHT)
        yield rule.finding(
            "ray.init() may take up to 30 % of the machine's memory for its object store",
            severity=rule.severity if bare and _is_large(script) and _is_program(script, call) else "info",
            place=script.place(call),
            remedy="ray.init(object_store_memory=…): the batches that are under way at once, in bytes",
        )


def _is_large(script: Script) -> bool:
    """Whether the file learns from much: images, or data put into the store; a toy leaves most of the store untouched."""
    return _learns(script) and bool(_MUCH.search(script.text))


def _learns(script: Script) -> bool:
    """Whether the file is about learning: RLlib, Tune, Train, or a framework of its own."""
    names = [alias.name for node in script.imports_nodes for alias in node.names]
    names += [node.module or "" for node in script.imports_nodes if isinstance(node, ast.ImportFrom)]
    words = {word for name in names for word in name.split(".")}
    return not words.isdisjoint(_LEARNS)


def _only_looks(script: Script, call: ast.Call) -> bool:
    """Whether the same function stops Ray again before anything is done with it: a look at the cluster."""
    here = script.function_of(call)
    ends = [
        each.lineno
        for each in script.calls_of("shutdown", roots=("ray",))
        if script.function_of(each) is here and each.lineno > call.lineno
    ]
    between = [each for each in script.calls if ends and call.lineno < each.lineno < min(ends)]
    return bool(ends) and not any(leaf(each) in _WORK or script.function_called(each) for each in between)


def _is_program(script: Script, call: ast.Call) -> bool:
    """Whether this file starts Ray for itself: not behind ``is_initialized()``, and not in a function for others."""
    if any("is_initialized" in ast.unparse(each.test) for each in conditions(script, call, None)):
        return False
    return script.path.endswith(".ipynb") or runs_in_program(script, call)
