"""LazyFrames are turned into arrays before they are stored, and then share nothing.

Gym's FrameStack and the wrappers of OpenAI Baselines return LazyFrames: an object that holds references to single
frames, so that consecutive stacks in a replay memory share k − 1 of k frames. ``np.array(obs)`` makes a full copy, a
vector environment joins all observations into one array, and a pipe to a worker process copies them too. The store
then holds every frame k times, as if there were no LazyFrames::

    env = FrameStack(env, 4)
    state = np.array(env.reset())                 # a copy of four frames
    memory.append((state, action, reward, ...))   # every stack whole

Use instead: keep the lazy object in the memory and call ``np.array`` on the sampled batch; stack frames outside the
vector environment, or in the store.

In a vector environment without a replay memory it is information only.

Gymnasium 1.0 and later have no LazyFrames: FrameStackObservation returns arrays, which is MEM102's case.

Fix: none.

Reference: openai/baselines#896; openai/gym#2128; cpnota/autonomous-learning-library#144; chainer/chainerrl#443.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.memories import dotted, memories, store_calls
from rlmem.scripts import Script
from rlmem.scripts.training import environments, models

_WORDS = ("LazyFrames", "FrameStack", "frame_stack")
_COPIES = {"array", "asarray", "tensor", "as_tensor", "from_numpy", "FloatTensor", "stack", "ascontiguousarray"}
_STATES = re.compile(r"obs|state|frame|^next_?s$|^(s|o|x|ns)(_|[12p]|_?next|_?prime|_?t1?|_?tp1)?$", re.IGNORECASE)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Lazy stacks inside vector environments that feed a replay memory, and copies made before storing."""
    if not any(word in script.text for word in _WORDS) or any(model.off_policy for model in models(script)):
        return
    stack = next(_stackers(script), None)
    if stack is None:
        return
    yield from _in_vectors(rule, script)
    yield from _copied(rule, script)


def _stackers(script: Script) -> Iterator[ast.Call]:
    """Where lazy frames come from: a FrameStack that is not Gymnasium's new one, or Baselines' ``frame_stack=True``."""
    for call in script.calls:
        leaf = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        asked = script.argument(call, "frame_stack")
        if leaf == "FrameStack" or (
            leaf.startswith(("wrap", "make")) and asked is not None and script.value(asked) is True
        ):
            yield call


def _in_vectors(rule: Rule, script: Script) -> Iterator[Finding]:
    """A lazy stack made by a member of a vector environment; information only where no replay memory is fed."""
    stored = bool(list(store_calls(script))) or any(memory.is_replay for memory in memories(script))
    for environment in environments(script):
        if not environment.has_workers or "FrameStack" not in environment.wrappers:
            continue
        call = next((call for call in script.calls_of("FrameStack")), environment.call)
        packed = script.argument(call, "lz4_compress", 2)
        compressed = packed is not None and script.value(packed) is True
        why = "compressed frames" if compressed else "lazy frames"
        yield rule.finding(
            f"{why} of FrameStack are joined into whole arrays on their way out of the vector environment",
            severity=rule.severity if stored or compressed else "info",
            place=script.place(call),
            remedy="stack frames outside the vector environment, or store single frames and stack the batch",
        )


def _copied(rule: Rule, script: Script) -> Iterator[Finding]:
    """A stored state that was an array or a tensor first."""
    copies = {
        dotted(target): assign.value
        for assign in script.assigns
        if isinstance(assign, ast.Assign) and _copies(script, assign.value)
        for target in assign.targets
        if _STATES.search(dotted(target)) or _is_state(assign.value)
    }
    done: set[ast.AST] = set()
    for call, text in store_calls(script):
        given = [part for one in call.args for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])]
        direct = (part for part in given if _copies(script, part) and _is_state(part))
        copy = next(direct, None) or next((copies[dotted(part)] for part in given if dotted(part) in copies), None)
        if copy is not None and copy not in done:
            done.add(copy)
            yield rule.finding(
                f"a lazy stack is copied into an array before {text} keeps it, so that no frame is shared",
                place=script.place(copy),
                remedy="store the lazy object and convert the sampled batch",
            )


def _is_state(copy: ast.expr | None) -> bool:
    """Whether what is copied has the name of an observation, or is one as the environment returns it."""
    first = copy.args[0] if isinstance(copy, ast.Call) and copy.args else None
    first = first.func if isinstance(first, ast.Call) else first
    name = dotted(first).rsplit(".", maxsplit=1)[-1] if first is not None else ""
    return bool(_STATES.search(name)) or name == "reset"


def _copies(script: Script, expr: ast.expr | None) -> bool:
    if not isinstance(expr, ast.Call) or not expr.args:
        return False
    name = script.called(expr)
    return name is not None and name.root in {"numpy", "torch"} and name.leaf in _COPIES
