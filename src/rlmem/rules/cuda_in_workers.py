"""Worker processes use the GPU.

A process that touches CUDA gets a context of its own: 300 to 800 MiB of VRAM before it holds a single tensor, and most of a
gigabyte of RAM for the libraries. When an environment moves something to the GPU, or the module that every worker imports does, this
is paid once for each worker.

In a script, the rule fires where an environment that runs in workers (``SubprocVecEnv``, ``AsyncVectorEnv``) puts tensors or
networks on CUDA, loads an SB3 model without ``device="cpu"``, or where the module that starts workers does so when it is
imported. In a running program it fires when several workers hold VRAM.

Example::

    class Arena(gymnasium.Env):
        def __init__(self):
            self.opponent = PPO.load("opponent")        # device="auto": the GPU, in every worker

Use instead: ``device="cpu"`` in environments; work on the GPU in the main process, under ``if __name__ == "__main__":``; set
``CUDA_VISIBLE_DEVICES`` to nothing in workers.

Fix: unsafe, ``device="cpu"`` for a ``load`` in an environment; none otherwise.

Reference: pytorch/pytorch#20532; DLR-RM/stable-baselines3#2116; huggingface/lerobot#3274.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.model.constants import Constants
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf
from rlmem.rules.workers import runs_at_import, with_workers
from rlmem.scripts import Name, Script
from rlmem.scripts.training import OFF_POLICY, ON_POLICY, SB3, Environment
from rlmem.units import GIB, format_size

#: A context is made by these; asking whether there is a GPU makes none.
_MAKES_CONTEXT = {"set_device", "synchronize", "mem_get_info", "init", "current_device"}
_HIDES = "CUDA_VISIBLE_DEVICES"
#: A process with more than this on the GPU is a learner, not a worker with a context.
CONTEXT_AT_MOST = GIB


def check_live(rule: Rule, found: TreeExplanation) -> Iterator[Finding]:
    """Several workers with VRAM, each about as much as a context takes."""
    held = [
        sum(share.used_bytes or 0 for share in process.gpus)
        for process in found.processes[1:]
        if process.role == "worker"
    ]
    contexts = [used for used in held if 0 < used <= CONTEXT_AT_MOST]
    if len(contexts) < 2:
        return
    yield rule.finding(
        f"{len(contexts)} workers hold {format_size(sum(contexts))} of VRAM, a CUDA context each",
        saves_bytes=sum(contexts),
        location="workers",
        remedy="no CUDA in environments; CUDA_VISIBLE_DEVICES set to nothing in workers",
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """CUDA in an environment that runs in workers, or at import of the module that starts them."""
    vectors = with_workers(script)
    if not vectors or _HIDES in script.text:
        return
    count = max((each.n_envs or 0 for each in vectors), default=0)
    inside = {id(node) for each in vectors for factory in each.factories for node in ast.walk(factory)}
    forked = all(each.kind != "subproc" for each in vectors)
    touching: list[tuple[ast.expr, str]] = []
    for call in script.calls:
        how = _touches(script, call)
        if how is None:
            continue
        owner = script.class_of(call)
        if owner is not None and _is_member(script, owner):
            touching.append((call, f"{owner.name} {how}"))
        elif id(call) in inside:
            touching.append((call, f"the factory of the workers {how}"))
        elif not forked and not script.path.endswith(".ipynb") and runs_at_import(script, call):
            touching.append((call, f"the module that every worker imports {how}"))
    touching += [found for vector in vectors for found in _elsewhere(script, vector)]
    for number, (node, what) in enumerate(touching):
        yield _finding(rule, script, node, what, count, first=not number)


def _elsewhere(script: Script, vector: Environment) -> Iterator[tuple[ast.expr, str]]:
    """Environments of another file of the project that touch CUDA, or whose file does when it is imported."""
    seen: set[str] = set()
    for part in (vector.call, *vector.factories):
        for node in ast.walk(part):
            if not isinstance(node, ast.Name) or not node.id[:1].isupper():
                continue
            dotted = script.qualified(node)
            found = script.meaning.abroad(dotted) if dotted and dotted not in seen else None
            if found is None or not isinstance(found[1].node, ast.ClassDef) or not _is_member(found[0], found[1].node):
                continue
            seen.add(dotted or "")
            other, cls = found[0], found[1].node
            touching = ((call, how) for call in other.calls if (how := _touches(other, call)) is not None)
            for call, how in touching:
                if other.class_of(call) is cls or runs_at_import(other, call):
                    where = f"{PurePath(other.path).name}:{other.place(call).line}"
                    yield node, f"{cls.name} ({where}) {how}"
                    break


def _is_member(script: Script, cls: ast.ClassDef) -> bool:
    """Whether a class runs inside a worker: an environment or a wrapper of one, not of a whole vector of them."""
    whole = any(Name(base).leaf.startswith("Vec") for base in script.class_bases(cls))
    return not whole and (script.is_env(cls) or script.is_wrapper(cls))


def _finding(rule: Rule, script: Script, node: ast.expr, what: str, count: int, *, first: bool) -> Finding:
    """The first one has what all of them cost together: a process has one context, however often it is used."""
    context = Constants().find("cuda.context").low
    fix = None
    if isinstance(node, ast.Call) and leaf(node) == "load":
        fix = Fix(title="load on the CPU", edits=(script.add_argument(node, 'device="cpu"'),), safety="unsafe")
    return rule.finding(
        f"{what}: a CUDA context in every worker",
        place=script.place(node),
        costs_bytes=context * (count or 1) if first else None,
        costs_per="" if count else "worker",
        remedy='device="cpu" in environments, CUDA under if __name__ == "__main__": only',
        fix=fix,
    )


def _touches(script: Script, call: ast.Call) -> str | None:
    """How a call gets to the GPU; ``None`` when it does not, or may not."""
    word = leaf(call)
    if word == "cuda" and isinstance(call.func, ast.Attribute) and not call.args:
        return "calls .cuda()"
    if word == "to" and isinstance(call.func, ast.Attribute):
        given = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "device")]
        return "moves something to CUDA" if any(_is_cuda(script, each) for each in given) else None
    name = script.called(call)
    if name is None:
        return None
    if name.root == "torch":
        if name.owner == "cuda":
            return f"calls torch.cuda.{name.leaf}()" if name.leaf in _MAKES_CONTEXT else None
        given_device = script.argument(call, "device")
        makes = name.leaf not in {"device", "load", "Generator", "autocast"}
        return (
            "makes a tensor on CUDA" if makes and given_device is not None and _is_cuda(script, given_device) else None
        )
    if name.root in SB3 and name.leaf == "load" and name.owner in (*OFF_POLICY, *ON_POLICY):
        own = script.class_of(call)
        chosen = script.argument(call, "device", 2)
        automatic = chosen is None and not script.has_unknown_arguments(call)
        inside = own is not None and _is_member(script, own)
        return f'loads a {name.owner} model with device="auto"' if automatic and inside else None
    return None


def _is_cuda(script: Script, expr: ast.expr) -> bool:
    """``"cuda"``, ``"cuda:0"``, ``torch.device("cuda")``, and the usual choice between it and the CPU."""
    value = script.value(expr)
    if isinstance(value, str):
        return value.startswith("cuda")
    found = script.definition(expr)
    device = isinstance(found, ast.Call) and (name := script.called(found)) is not None and name.leaf == "device"
    if not device and not isinstance(found, ast.IfExp):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda")
        for node in ast.walk(found)
    )
