"""An off-policy model is loaded for inference together with its whole replay buffer.

``SAC.load`` builds the model as it was trained, and with it an empty replay buffer of the size used in training: a million
image transitions ask for tens of gigabytes to call ``predict`` once. Linux reserves them and counts nothing before they
are written, unless the request is larger than what there is: then the load fails with ``Unable to allocate 26.3 GiB``.
Windows, and Linux with strict accounting, charge for all of it at once.

The rule fires when the loaded model is only asked (``predict``, ``evaluate_policy``, ``save``, its ``policy``) and
cannot learn: it is silent when the model goes to a place that cannot be seen. Where the script shows that the buffer is
small, by the model it trains or by the environments it makes, it is for information only.

Example::

    model = DQN.load("dqn_breakout")
    action, _ = model.predict(obs)

Use instead: ``DQN.load("dqn_breakout", buffer_size=1)``.

Fix: safe. ``load`` takes any argument of the constructor in place of the saved one; the predictions stay the same. Unsafe where
the model is saved again, and this size with it; where an object keeps the model and others read it there or inherit it; and
in a notebook with cells that cannot be read.

Reference: RL Zoo's enjoy.py and record_video.py do so; tried with SB3 2.9.2 and sb3-contrib (SAC, DQN, TD3, QR-DQN, TQC and
CrossQ).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.observed import DEFAULT_ROWS, of_environment, replays
from rlmem.rules.syntax import self_attribute
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.sinks import Sink, sinks
from rlmem.scripts.training import Environment, environments
from rlmem.units import MIB

ALGORITHMS = frozenset({"SAC", "DQN", "TD3", "DDPG", "QRDQN", "TQC", "CrossQ"})
_ROOTS = {"stable_baselines3", "sb3_contrib"}
_ASKS = {"predict", "save", "get_parameters", "set_env", "get_env", "get_vec_normalize_env", "set_random_seed", "q_net"}
_READS = {
    "policy",
    "actor",
    "critic",
    "q_net",
    "observation_space",
    "action_space",
    "device",
    "num_timesteps",
    "env",
    "seed",
}
_CALLS = {"evaluate_policy", "print", "predict"}
#: A buffer that asks for less is not worth a warning: it is reserved, and never written.
SMALL_BYTES = 256 * MIB
_SMALL = re.compile(r"^(CartPole|Pendulum|MountainCar|Acrobot|LunarLander|BipedalWalker|FrozenLake|Taxi)\w*-v\d+$")
#: What shows that the model is asked at all.
_PROOF = {"predict", "evaluate_policy", "policy", "actor", "q_net"}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Every ``load`` of an off-policy algorithm whose model is only asked."""
    for call in script.calls_of("load", roots=tuple(_ROOTS)):
        name = script.called(call)
        if name is None or name.owner not in ALGORITHMS or _has_own_size(script, call):
            continue
        found = sinks(script, call, attributes=True, functions=True)
        kept, elsewhere = _kept_on(script, call)
        found += tuple(sink for use in elsewhere for sink in sinks(script, use, attributes=True, functions=True))
        saved = any(sink.kind == "method" and sink.name == "save" for sink in found)
        unsure = saved or bool(elsewhere) or bool(script.source.skipped) or any(_has_heirs(script, cls) for cls in kept)
        if all(_harmless(sink) for sink in found) and any(sink.name.rsplit(".", 1)[-1] in _PROOF for sink in found):
            yield rule.finding(
                severity="info" if _is_small(script, name.owner) else rule.severity,
                title=f"{name.owner}.load() builds the replay buffer of the training for a model that only predicts",
                place=script.place(call),
                remedy=f"{name.owner}.load(…, buffer_size=1)",
                fix=Fix(
                    title="load without the buffer",
                    edits=(script.add_argument(call, "buffer_size=1"),),
                    safety="unsafe" if unsure else "safe",
                ),
            )


def _kept_on(script: Script, call: ast.Call) -> tuple[set[ast.ClassDef], list[ast.Attribute]]:
    """The classes that keep a value on ``self``, and what reads it there from outside: another object, or an heir."""
    classes: set[ast.ClassDef] = set()
    reads: list[ast.Attribute] = []
    waiting, seen = [sink.node for sink in sinks(script, call, functions=True) if sink.kind == "stored"], set()
    while waiting:
        stored = waiting.pop()
        cls = script.class_of(stored)
        if not isinstance(stored, ast.Attribute) or cls is None or (cls, stored.attr) in seen:
            continue
        seen.add((cls, stored.attr))
        classes.add(cls)
        for read in script.walked.attributes.get(stored.attr, ()):
            own = self_attribute(read) is not None
            if own and script.class_of(read) is cls:
                waiting += [sink.node for sink in sinks(script, read, functions=True) if sink.kind == "stored"]
            elif not own or _is_heir(script, script.class_of(read), cls):
                reads.append(read)
    return classes, reads


def _has_heirs(script: Script, cls: ast.ClassDef) -> bool:
    return any(_is_heir(script, each, cls) for each in script.classes)


def _is_heir(script: Script, cls: ast.ClassDef | None, base: ast.ClassDef) -> bool:
    return cls is not None and cls is not base and base.name in script.class_bases(cls)


def _is_small(script: Script, algorithm: str) -> bool:
    """Whether the buffer is small: the one of the same algorithm that is trained here, or one of these environments."""
    trained = [each for each in replays(script) if each.owner == algorithm]
    if any(each.seen.image for each in trained):
        return False
    if trained and all(each.seen.nbytes is not None and each.rows is not None for each in trained):
        return max((each.seen.nbytes or 0) * (each.rows or 0) * each.copies for each in trained) < SMALL_BYTES
    made = environments(script)
    return bool(made) and all(each.id is not None and _is_small_id(script, each) for each in made)


def _is_small_id(script: Script, environment: Environment) -> bool:
    if _SMALL.match(environment.id or ""):
        return True
    each = of_environment(script, environment).nbytes
    return each is not None and 2 * each * DEFAULT_ROWS < SMALL_BYTES


def _has_own_size(script: Script, call: ast.Call) -> bool:
    """Whether a size is given, or may be: by keyword, in ``custom_objects``, in unpacked arguments."""
    if script.has_unknown_arguments(call) or script.argument(call, "buffer_size") is not None:
        return True
    given = script.argument(call, "custom_objects", 3)
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return False
    found = script.definition(given)
    if isinstance(found, ast.Dict):
        keys = [script.value(key) if key is not None else UNKNOWN for key in found.keys]
        return "buffer_size" in keys or UNKNOWN in keys
    return True


def _harmless(sink: Sink) -> bool:
    match sink.kind:
        case "method":
            return sink.name in _ASKS
        case "read":
            return sink.name in _READS
        case "argument":
            return sink.name.rsplit(".", 1)[-1] in _CALLS
        case "tested" | "dropped":
            return True
    return False
