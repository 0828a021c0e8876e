"""Steps as text: fields of a run file, arguments of an SB3 model, hyperparameters of an RL Zoo entry."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlmem.core.fields import find_field, plain_value
from rlmem.core.spec import RunSpec
from rlmem.frameworks import find_adapter
from rlmem.frameworks.base import Swap
from rlmem.remedies.base import Step, Steps, changes_of
from rlmem.units import MIB

#: Fields that are arguments of a model of the same name.
ARGUMENTS = ("buffer_size", "batch_size", "n_steps")
#: Fields that belong to the options of a compact buffer.
OPTIONS = ("codec", "spill_budget")
#: Fields whose change is the buffer's class.
STORES = ("storage",)
#: Text of these is evaluated by rl_zoo3 2.9.
_EVALUATED = ("replay_buffer_class", "replay_buffer_kwargs", "policy_kwargs")
#: Counts that are hyperparameters of RL Zoo beside the model's own arguments.
_ZOO_COUNTS = ("n_envs", "frame_stack")
#: Where spilled experience goes unless the user says otherwise; a folder that is there everywhere, on most machines a disk.
SPILL_FOLDER = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Steps as text: what kind of text, the text, and what is left to do by hand."""

    #: ``diff``, ``yaml``, ``python`` or ``nothing``.
    kind: str
    text: str = ""
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Steps as arguments of a model's constructor: name to Python source."""

    swap: Swap | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    #: Options of the compact buffer: name to Python source.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Steps that no argument expresses.
    rest: Steps = ()

    @property
    def options_name(self) -> str:
        """The argument that carries the options."""
        return (self.swap.options if self.swap else None) or "replay_buffer_kwargs"

    @property
    def class_name(self) -> str:
        """The argument that carries the class."""
        return self.options_name.replace("_kwargs", "_class")


def arguments(start: RunSpec, steps: Steps) -> Arguments:
    """Which steps of a resolved run are arguments, and which are not.

    A buffer that needs more than its class (n-step returns move into its options, a recurrent one is assigned later)
    is left to be written by hand.
    """
    adapter = find_adapter(start)
    swap, values, options, rest = None, dict[str, str](), dict[str, str](), list[Step]()
    for step in steps:
        paths = set(step.change.values)
        found = adapter.swap(start) if paths <= set(STORES) else None
        if found is not None and found.options is not None and start.get("replay.kind") != "n-step":
            swap = found
        elif paths <= set(ARGUMENTS):
            values |= {path: str(value) for path, value in step.change.values.items()}
        elif paths <= set(OPTIONS):
            options |= _options(step.change.values)
        else:
            rest.append(step)
    return Arguments(swap=swap, values=values, options=options, rest=tuple(rest))


def _options(changes: Mapping[str, Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    if "codec" in changes:
        out["codec"] = f'"{changes["codec"]}"'
    if "spill_budget" in changes:
        out |= {"budget": f'"{changes["spill_budget"] // MIB}MiB"', "spill": f'"{SPILL_FOLDER}"'}
    return out


def run_file(steps: Steps) -> Written:
    """Fields of a run file, as YAML."""
    lines, sections = [], dict[str, dict[str, Any]]()
    for path, value in changes_of(steps).items():
        section, dot, name = path.partition(".")
        if dot:
            sections.setdefault(section, {})[name] = plain_value(find_field(path), value)
        else:
            lines.append(
                f"{path}: {json.dumps(plain_value(find_field(path), value), ensure_ascii=False).strip(chr(34))}"
            )
    for section, values in sections.items():
        inside = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
        lines.append(f"{section}: {{{inside}}}")
    hand = tuple(f"{step.remedy.title}: {step.change.how}" for step in steps)
    return Written(kind="yaml" if lines else "nothing", text="\n".join(lines), by_hand=hand)


def snippet(start: RunSpec, steps: Steps) -> Written:
    """Python for a program that cannot be edited: the import and the arguments."""
    found = arguments(start, steps)
    lines = []
    given = dict(found.values)
    if found.swap:
        lines += [f"from {found.swap.module} import {found.swap.store}", ""]
        given[found.class_name] = found.swap.store
    if found.options:
        given[found.options_name] = f"dict({', '.join(f'{name}={text}' for name, text in found.options.items())})"
    if given:
        lines += ["model = …(", "    …,", *(f"    {name}={text}," for name, text in given.items()), ")"]
    return Written(kind="python" if lines else "nothing", text="\n".join(lines), by_hand=by_hand(found.rest))


def by_hand(steps: Steps) -> tuple[str, ...]:
    """What is left to do, a sentence a step."""
    return tuple(f"{step.remedy.title}: {step.change.how}" for step in steps)


def zoo_hyperparameters(start: RunSpec, steps: Steps) -> tuple[dict[str, str], Arguments]:
    """Hyperparameters of an RL Zoo entry: name to Python source, as ``--hyperparams`` evaluates it.

    rl_zoo3 2.9 evaluates ``--hyperparams`` values, and then ``replay_buffer_class`` once more where it is text, which is
    also what 'rl_zoo3 enjoy' expects of it. A class is named through ``__import__``: rlmem is not among the names it knows.
    """
    found = arguments(start, steps)
    given = dict(found.values)
    given |= {name: str(changes_of(steps)[name]) for name in _ZOO_COUNTS if name in changes_of(steps)}
    if found.swap:
        named = f'__import__("{found.swap.module}",fromlist=["sb3"]).{found.swap.store}'
        given[found.class_name] = repr(named) if found.class_name in _EVALUATED else named
    if found.options:
        given[found.options_name] = f"dict({','.join(f'{name}={text}' for name, text in found.options.items())})"
    rest = tuple(step for step in found.rest if not set(step.change.values) <= set(_ZOO_COUNTS))
    return given, replace(found, rest=rest)


def zoo(target: str, args: tuple[str, ...], start: RunSpec, steps: Steps) -> Written:
    """The hyperparameters as YAML for a file of one's own, and the command line with them."""
    given, found = zoo_hyperparameters(start, steps)
    if not given:
        return Written(kind="nothing", by_hand=by_hand(found.rest))
    algo, _, env = target.partition(":")[2].partition("/")
    lines = [f"{env}:"]
    for name, text in given.items():
        if text.isdigit():
            lines.append(f"  {name}: {text}")
        elif name in _EVALUATED:
            lines.append(f"  {name}: {_quoted(text.strip(chr(39)))}")
        else:
            lines.append(f"  # {name}: rl_zoo3 reads it from the command line only")
    command = f"# {zoo_command(algo, env, args, given)}"
    return Written(
        kind="yaml", text="\n".join([*lines, "", "# or on the command line:", command]), by_hand=by_hand(found.rest)
    )


def _quoted(text: str) -> str:
    """Code as text in YAML."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def zoo_command(algo: str, env: str, args: tuple[str, ...], given: Mapping[str, str]) -> str:
    """The command that trains it, with these hyperparameters and the user's own arguments."""
    return shlex.join(
        ["python", "-m", "rl_zoo3.train", "--algo", algo, "--env", env, *with_hyperparameters(args, given)]
    )


def with_hyperparameters(args: tuple[str, ...], given: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments of rl_zoo3 with further hyperparameters; ``--hyperparams`` counts once, so that it is added to."""
    items = [f"{name}:{text}" for name, text in given.items()]
    if not items:
        return args
    flag = next((i for i, item in enumerate(args) if item in ("-params", "--hyperparams")), None)
    if flag is None:
        return (*args, "--hyperparams", *items)
    end = next((i for i in range(flag + 1, len(args)) if args[i].startswith("-")), len(args))
    kept = [item for item in args[flag + 1 : end] if item.split(":")[0] not in given]
    return (*args[: flag + 1], *kept, *items, *args[end:])
