"""Steps as edits of a training script: arguments of its model, literals behind them, the class of its environments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from rlmem.core.edits import Edit, overlap
from rlmem.core.spec import RunSpec
from rlmem.remedies.base import Step, Steps
from rlmem.remedies.program import Arguments, arguments, by_hand
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.names import Name
from rlmem.scripts.training import Model, environment_of, models

#: Buffers of SB3's own, which a compact one can replace; a class of the user's does something of its own.
OWN_BUFFERS = (
    "ReplayBuffer",
    "DictReplayBuffer",
    "HerReplayBuffer",
    "RolloutBuffer",
    "DictRolloutBuffer",
)
_VEC_ENV = "stable_baselines3.common.vec_env"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """Edits of a script, and what is left to do by hand with the reason."""

    edits: tuple[Edit, ...] = ()
    by_hand: tuple[str, ...] = ()


class _UnclearError(Exception):
    """A step that cannot be written as an edit; the message says why."""


def edit_script(script: Script, start: RunSpec, steps: Steps) -> Edited:
    """The steps on a resolved run as edits of the script that builds it."""
    wanted = arguments(start, steps)
    try:
        model = _model(script, start)
    except _UnclearError as reason:
        return Edited(by_hand=(str(reason), *by_hand(steps)))
    edits: list[Edit] = []
    left: list[str] = []
    jobs = [
        _swap(script, model, wanted),
        *(_value(script, model, name, text, start) for name, text in wanted.values.items()),
    ]
    jobs += [_options(script, model, wanted)]
    jobs += [_environment(script, model, step, start) for step in wanted.rest]
    names = ["storage", *wanted.values, wanted.options_name, *(step.remedy.name for step in wanted.rest)]
    for name, job in zip(names, jobs, strict=True):
        try:
            found = list(job)
            if overlap(found, edits):
                raise _UnclearError("another step changes the same place")
            edits += found
        except _UnclearError as reason:
            left.append(f"{name}: {reason}")
    return Edited(edits=tuple(edits), by_hand=tuple(left))


def _model(script: Script, start: RunSpec) -> Model:
    """The one model of the run's algorithm."""
    wanted = start.text("algorithm").replace("_", "")
    built = [model for model in models(script) if model.algorithm.lower() == wanted]
    learning = [model for model in built if model.learns] or built
    if len(learning) == 1:
        return learning[0]
    found = f"{len(learning)} places that build it" if learning else "no place that plainly builds it"
    raise _UnclearError(f"{script.path} has {found}, so that no edit can be shown")


def _swap(script: Script, model: Model, wanted: Arguments) -> Iterator[Edit]:
    if wanted.swap is None:
        return
    given = _given(script, model, wanted.class_name)
    if given is None:
        yield script.add_argument(model.call, f"{wanted.class_name}={wanted.swap.store}")
    else:
        dotted = script.qualified(given)
        if dotted is None or Name(dotted).leaf not in OWN_BUFFERS:
            raise _UnclearError(f"{wanted.class_name} is {script.segment(given)}; {wanted.swap.sentence}")
        yield script.edit(given, wanted.swap.store)
    yield from _imported(script, f"from {wanted.swap.module} import {wanted.swap.store}")


def _given(script: Script, model: Model, name: str) -> ast.expr | None:
    given = model.argument(name)
    if given is None and script.has_unknown_arguments(model.call):
        raise _UnclearError(f"{name} may be among the arguments that {model.algorithm}(…) unpacks")
    return given


def _imported(script: Script, text: str) -> Iterator[Edit]:
    edit = script.add_import(text)
    if edit is not None:
        yield edit


def _options(script: Script, model: Model, wanted: Arguments) -> Iterator[Edit]:
    if not wanted.options:
        return
    given = _given(script, model, wanted.options_name)
    items = list(wanted.options.items())
    if given is None:
        text = ", ".join(f"{name}={value}" for name, value in items)
        yield script.add_argument(model.call, f"{wanted.options_name}=dict({text})")
        return
    found = script.definition(given)
    if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "dict":
        yield from (script.add_argument(found, f"{name}={value}") for name, value in items)
    elif isinstance(found, ast.Dict) and found.keys:
        end = script.span(found.values[-1])[1]
        text = "".join(f', "{name}": {value}' for name, value in items)
        yield Edit(start=end, end=end, text=text)
    else:
        options = ", ".join(f'"{name}": {value}' for name, value in items)
        raise _UnclearError(f"{script.segment(given)} is not a dict that can be edited; it needs {options}")


def _value(script: Script, model: Model, name: str, text: str, start: RunSpec) -> Iterator[Edit]:
    given = _given(script, model, name)
    if given is None:
        yield script.add_argument(model.call, f"{name}={grouped(text, '_')}")
        return
    yield turn(script, given, name, text, start.get(name))


def turn(script: Script, given: ast.expr, name: str, text: str, now: object) -> Edit:
    """Another number where a value is decided; refused where the value of the run came from somewhere else.

    A constant that other places use too keeps its value, and the number is written where this place uses it.
    """
    literal = script.literal(given)
    value = script.value(given)
    if literal is None or value is UNKNOWN or value != now:
        came = "is decided elsewhere" if value is UNKNOWN or literal is None else f"is {value!r} in the script"
        raise _UnclearError(f"{script.segment(given)} {came} and was {now!r} in the run; it has to become {text}")
    shared = isinstance(given, ast.Name) and len(script.uses(given)) > 1
    return script.edit(given if shared else literal, grouped(text, script.segment(literal)))


def grouped(text: str, like: str) -> str:
    """A whole number with underscores where the one before had them."""
    return f"{int(text):_}" if "_" in like else text


def _environment(script: Script, model: Model, step: Step, start: RunSpec) -> Iterator[Edit]:
    """Fewer environments, or all of them in one process."""
    made = environment_of(script, model.env)
    paths = set(step.change.values)
    name = script.called(made.call) if made else None
    if made is None or name is None or paths not in ({"n_envs"}, {"vec_env"}):
        raise _UnclearError(step.change.how)
    if paths == {"n_envs"}:
        given = script.argument(made.call, "n_envs", 1) if name.leaf in ("make_vec_env", "make_atari_env") else None
        if given is None:
            raise _UnclearError(step.change.how)
        yield turn(script, given, "n_envs", str(step.change.values["n_envs"]), start.get("n_envs"))
        return
    given = script.argument(made.call, "vec_env_cls", 6) if name.leaf.startswith("make_") else made.call.func
    if given is None or (made.call.keywords and given is made.call.func):
        raise _UnclearError(step.change.how)
    yield script.edit(given, "DummyVecEnv")
    yield from _imported(script, f"from {_VEC_ENV} import DummyVecEnv")


#: What people call the counts of a loop of their own, by the field of a description.
LOOP_NAMES = {
    "buffer_size": (
        "buffer_size",
        "replay_buffer_size",
        "replay_size",
        "memory_size",
        "replay_memory_size",
        "buffer_capacity",
        "replay_capacity",
        "memory_capacity",
    ),
    "n_steps": ("num_steps", "n_steps", "rollout_length", "rollout_steps"),
    "n_envs": ("num_envs", "n_envs"),
    "learning_starts": (
        "learning_starts",
        "learning_start",
        "learn_start",
        "start_steps",
        "start_timesteps",
        "start_training",
        "train_start",
        "training_starts",
        "warmup",
        "warm_up",
        "warmup_steps",
        "prefill",
        "prefill_steps",
        "burn_in",
        "min_replay_size",
        "min_buffer_size",
    ),
}
#: Packages whose ReplayBuffer is SB3's, or a copy of it.
LOOP_BUFFERS = ("stable_baselines3", "cleanrl_utils", "cleanrl")


def edit_loop_buffer(script: Script, store: str, module: str) -> tuple[Edit, ...]:
    """rlmem's buffer where a loop of its own makes SB3's; nothing where it makes none."""
    calls = list(script.calls_of("ReplayBuffer", roots=LOOP_BUFFERS))
    if not calls:
        return ()
    return (*(script.edit(call.func, store) for call in calls), *_imported(script, f"from {module} import {store}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopKnob:
    """A count of a loop of its own: what it means, what it is called, its value, and where it is written."""

    field: str
    name: str
    value: int
    literal: ast.expr

    @property
    def option(self) -> str:
        """Its name as an option of the command line would be compared."""
        return self.name.lstrip("-").replace("-", "_").lower()

    def edit(self, script: Script, value: int) -> Edit:
        """Another number in its place."""
        return script.edit(self.literal, grouped(str(value), script.segment(self.literal)))


def loop_knob(script: Script, field: str) -> LoopKnob | None:
    """The option, field or constant of a script that is a count of this meaning; ``None`` unless there is exactly one."""
    found = {}
    for name, literal in _named_literals(script):
        value = script.value(literal)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            knob = LoopKnob(field=field, name=name, value=int(value), literal=literal)
            if knob.option in LOOP_NAMES[field]:
                found[script.span(literal)] = knob
    return next(iter(found.values())) if len(found) == 1 else None


def _named_literals(script: Script) -> Iterator[tuple[str, ast.expr]]:
    """Options of argparse with their defaults, and names that are given a value at the top or as a class's field."""
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            names = [script.value(item) for item in call.args]
            default = script.argument(call, "default")
            literal = script.literal(default) if default is not None else None
            longest = max((name for name in names if isinstance(name, str)), key=len, default=None)
            if literal is not None and longest is not None:
                yield longest, literal
    for node in ast.walk(script.tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            literal = script.literal(node.value)
            if literal is not None:
                yield node.target.id, literal
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            literal = script.literal(node.value)
            if literal is not None:
                yield node.targets[0].id, literal
