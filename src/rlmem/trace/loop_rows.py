"""Next observations of a loop of its own that need no array: an edit that keeps each observation once, or why there is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlmem.agent.protocol import ArrayRow, Facts
from rlmem.core.edits import Edit
from rlmem.remedies.base import Remedy
from rlmem.scripts import Script
from rlmem.units import format_size

#: Names of what comes next, and of what comes before it.
NEXT = re.compile(
    r"next|new_|_prime|tp1|_?2$|(obs|states?|observations?|s|o)_$|_n$|after|then|following", re.IGNORECASE
)
#: Arrays below this share of all are not worth a change.
_LEAST_SHARE = 0.1
#: Wrappers that stack frames, and their argument for how many.
_STACKS = {
    "FrameStackObservation": ((1, "stack_size"),),
    "FrameStack": ((1, "num_stack"), (1, "k"), (1, "n_frames")),
    "VecFrameStack": ((1, "n_stack"),),
}
#: What a script may ask of an array besides its rows.
_ASKED = ("shape", "dtype", "nbytes")
_IMPORT = "from rlmem.buffers import Rows"

ROWS_ONCE = Remedy(
    name="rows-once",
    kind="lossless",
    title="keep every observation once",
    costs="batches come out bit for bit the same; the last observation of each episode is kept beside the others",
    find=lambda subject, goal: None,  # of loops of one's own alone: it is an edit, tried by running it
    slowdown=1.0,
    basis="estimate: two rows are compared a step, a batch is gathered once more where episodes end",
)
HOW = "rlmem.buffers.Rows in place of the two arrays: what follows row i is row i + 1, wherever that has the same bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """Observations and those that follow them in arrays of the same size: names, edits, and why there are none."""

    name: str
    next_name: str
    script: Script
    line: int
    nbytes: int
    edits: tuple[Edit, ...] = ()
    reason: str = ""
    #: Frames in a stack, where the script stacks them along the first or the last axis of a row.
    frames: int = 1

    @property
    def frames_by_hand(self) -> str:
        """What the same data takes once each frame is kept once."""
        return (
            f"to leave learning as it is: rlmem.buffers.Replay keeps each frame of the stack of {self.frames} once, so that "
            f"{self.name} and {self.next_name} together take about {format_size(self.nbytes // self.frames)} "
            "(docs/buffers.md)"
        )

    @property
    def by_hand(self) -> str:
        """What to do where no edit can be shown."""
        return (
            f"{self.next_name} ({Path(self.script.path).name}, line {self.line}) keeps {format_size(self.nbytes)} of what "
            f"{self.name} has already: rlmem.buffers.Replay in their place keeps each observation once, and each frame of a "
            f"stack once (docs/buffers.md); no edit is shown because {self.reason}"
        )


def kept_twice(script: Script, facts: Facts) -> Twice | None:
    """The largest pair of arrays of which one holds what comes after the other's rows."""
    scripts = script.project.all_of(script) if script.project else (script,)
    arrays = [row for row in facts.get("arrays", ()) if len(row.get("shape", ())) > 1 and row.get("where")]
    whole = sum(row["nbytes"] for row in facts.get("arrays", ()))
    for row in sorted(arrays, key=lambda row: -row["nbytes"]):
        if row["nbytes"] < whole * _LEAST_SHARE:
            break
        for one, target, call in _made(scripts, row):
            if (name := _name(target)) is None or not NEXT.search(name):
                continue
            for other in arrays:
                same = other is not row and (other["shape"], other["dtype"]) == (row["shape"], row["dtype"])
                for two, first, made in _made(scripts, other) if same else ():
                    before = _name(first)
                    if two is one and before and not NEXT.search(before) and _is_like(one, target, first):
                        return _twice(scripts, one, (first, made), (target, call), row)
    return None


def _twice(
    scripts: tuple[Script, ...],
    script: Script,
    first: tuple[ast.expr, ast.Call],
    second: tuple[ast.expr, ast.Call],
    row: ArrayRow,
) -> Twice:
    (target, call), (after, made) = first, second
    reason = _reason(scripts, script, first, second, str(row["made_by"]))
    edits: list[Edit] = []
    if not reason:
        edits = [script.edit(call.func, "Rows"), script.edit(made, f"{ast.unparse(target)}.next")]
        imported = script.add_import(_IMPORT)
        edits += [imported] if imported is not None else []
    return Twice(
        name=str(ast.unparse(target)),
        next_name=str(ast.unparse(after)),
        script=script,
        line=made.lineno,
        nbytes=row["nbytes"],
        edits=tuple(edits),
        reason=reason,
        frames=_frames(scripts, row["shape"]),
    )


def _frames(scripts: tuple[Script, ...], shape: list[int]) -> int:
    for script in scripts:
        for call in script.calls_of(*_STACKS):
            name = script.called(call)
            for place, keyword in _STACKS[name.leaf] if name is not None else ():
                given = script.value(script.argument(call, keyword, place))
                if isinstance(given, int) and given in (shape[1], shape[-1]):
                    return given
    return 1


def _reason(
    scripts: tuple[Script, ...],
    script: Script,
    first: tuple[ast.expr, ast.Call],
    second: tuple[ast.expr, ast.Call],
    made_by: str,
) -> str:
    """Why the two cannot be replaced in place; empty where they can."""
    (target, call), (after, made) = first, second
    if made_by not in ("numpy.zeros", "numpy.empty"):
        return f"they are made by {made_by}"
    if any(script.called(one) is None or not _is_plain(script, one) for one in (call, made)):
        return "they are made with more than a shape and a dtype"
    if script.span(call)[0] > script.span(made)[0]:
        return f"{ast.unparse(after)} is made before {ast.unparse(target)}"
    for name in (target, after):
        for one in scripts:
            problem = _other_use(one, name)
            if problem is not None:
                return (
                    f"line {problem} of {Path(one.path).name} uses {ast.unparse(name)} in another way than by its rows"
                )
    return ""


def _is_plain(script: Script, call: ast.Call) -> bool:
    names = {keyword.arg for keyword in call.keywords}
    leaf = script.called(call)
    return leaf is not None and leaf.leaf in ("zeros", "empty") and names <= {"shape", "dtype"} and len(call.args) <= 2


def _other_use(script: Script, name: ast.expr) -> int | None:
    """A line that does more with an array than to read or write rows of it."""
    if isinstance(name, ast.Attribute):
        written = [target for target, _ in script.walked.attribute_values.get(name.attr, ())]
        uses: list[ast.expr] = [use for use in script.walked.attributes.get(name.attr, ()) if use not in written]
        again = written[1:]
    elif isinstance(name, ast.Name):
        uses = list(script.walked.loads.get(name.id, ()))
        again = []
        bindings = [scope.bindings.get(name.id, ()) for scope in script.walked.scopes.values()]
        if sum(len(found) for found in bindings) > 1:
            return name.lineno
    else:
        return name.lineno
    if again:
        return again[0].lineno
    return next((use.lineno for use in uses if not _is_by_rows(script, use)), None)


def _is_by_rows(script: Script, use: ast.expr) -> bool:
    match script.parent(use):
        case ast.Subscript(value=value, slice=index) if value is use:
            return not isinstance(index, (ast.Tuple, ast.Starred)) and not (
                isinstance(index, ast.Constant) and not isinstance(index.value, int)
            )
        case ast.Attribute(attr=asked):
            return asked in _ASKED
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _made(scripts: tuple[Script, ...], row: ArrayRow) -> Iterator[tuple[Script, ast.expr, ast.Call]]:
    """The assignments that may have made an array: of a call, in the line where it was made."""
    path, _, line = str(row["where"]).rpartition(":")
    for script in scripts:
        if not line.isdigit() or Path(script.path).resolve() != Path(path).resolve():
            continue
        for assign in script.assigns:
            targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
            call = assign.value
            inside = assign.lineno <= int(line) <= (assign.end_lineno or 0)
            if inside and len(targets) == 1 and isinstance(call, ast.Call):
                yield script, targets[0], call


def _name(target: ast.expr) -> str | None:
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else None


def _is_like(script: Script, one: ast.expr, other: ast.expr) -> bool:
    """Whether two arrays belong to the same object, or to the same function."""
    if isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute):
        return ast.dump(one.value) == ast.dump(other.value) and script.class_of(one) is script.class_of(other)
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and script.scope_of(one) is script.scope_of(other)
