"""What ``rlmem plan`` says first: the verdict, the largest owners, what to change, and the commands that go on from there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlmem.core.plan import DOES_NOT_FIT
from rlmem.core.target import Target
from rlmem.documents.parts import FindingPart
from rlmem.documents.plan import PlanDocument
from rlmem.report.plan import finding_item, gain, limit_note, title_of, verdict_lines, worst_first
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_size

#: Rows of a device; of each when there are two.
MOST_OWNERS, MOST_OWNERS_EACH = 4, 3
MOST_CHANGES, MOST_LINTED = 2, 4
#: What holds or saves less than this share of the peak is left to ``--full``.
SMALL = 0.01
#: The first word of a component, in words.
_KINDS = {
    "arrays": "arrays of the program's own",
    "containers": "Python objects",
    "replay": "replay buffer",
    "rollout": "rollout buffer",
    "learner": "networks and their update",
    "batch": "one batch of an update",
    "workers": "environments",
    "eval": "evaluation",
    "leak": "added so far, and never freed",
    "runtime": "Python and its libraries",
    "checkpoint": "writing a checkpoint",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArguments:
    """The arguments of ``rlmem plan``, from which other commands for the same run are made."""

    target: Target
    #: Options that other commands take too, such as ``("--ram", "16GB")``.
    options: tuple[str, ...] = ()
    ram: str | None = None

    def command(self, name: str, *more: str) -> str:
        """``rlmem NAME`` for the same run."""
        after = ("--", *self.target.args) if self.target.args else ()
        return shlex.join(("rlmem", name, self.target.text, *self.options, *more, *after))

    @property
    def is_script(self) -> bool:
        """A script of the user's, which ``rlmem run`` can start."""
        return self.target.kind == "script"


def first_screen(document: PlanDocument, arguments: PlanArguments) -> View:
    """A plan for someone who sees one for the first time; about 20 lines."""
    owners = Section(title="Where it goes, at the peak", tables=tuple(_owner_tables(document)))
    shown = _changes(document)
    changes = tuple(_smaller(item) if item.code == DOES_NOT_FIT else finding_item(item) for item in shown)
    change = Section(title="What to change", lines=_linted(document, shown), items=changes)
    commands = _commands(document, arguments, len(document.findings) - len(changes))
    return View(
        title=title_of(document.target),
        verdict=verdict_lines(document),
        sections=(owners, *([change] if changes or change.lines else []), commands),
        notes=(*document.notes, limit_note(document)),
    )


def _owner_tables(document: PlanDocument) -> Iterator[Table]:
    tops = [peak for peak, _ in worst_first(document)]
    most = MOST_OWNERS if len(tops) == 1 else MOST_OWNERS_EACH
    for top in tops:
        sizes: dict[str, int] = {}
        for entry in document.held(top.device, top.phase):
            sizes[entry.component] = sizes.get(entry.component, 0) + entry.nbytes
        ordered = sorted(((name, size) for name, size in sizes.items() if size), key=lambda pair: -pair[1])
        total = sum(sizes.values())
        shown = [pair for pair in ordered[:most] if pair[1] >= SMALL * total]
        rest = ordered[len(shown) :]
        rows = [(name, size, _KINDS.get(name.split(".")[0], "")) for name, size in shown]
        rows += [(f"{len(rest)} smaller", sum(size for _, size in rest), "")] if rest else []
        yield Table(
            title=top.device.upper() if len(tops) > 1 else "",
            columns=(Column(title="", right=False), Column(title=""), Column(title=""), Column(title="", right=False)),
            rows=tuple((name, format_size(size), f"{100 * size / total:.0f} %", kind) for name, size, kind in rows),
        )


def _changes(document: PlanDocument) -> tuple[FindingPart, ...]:
    """What to change: what stops the run, then what saves most; what saves next to nothing is for ``--full``."""
    least = {peak.device: SMALL * peak.expected_bytes for peak, _ in worst_first(document)}
    useful = [
        finding
        for finding in document.findings
        if finding.severity == "error"
        or (finding.severity == "warning" and finding.saves_bytes is None)
        or (finding.saves_bytes or 0) >= min(least.values())
    ]
    useful.sort(key=lambda finding: (finding.severity != "error", -(finding.saves_bytes or 0)))
    others = [finding for finding in useful if finding.code != DOES_NOT_FIT]
    return (*others[:MOST_CHANGES], *(finding for finding in useful if finding.code == DOES_NOT_FIT))


def _linted(document: PlanDocument, shown: Sequence[FindingPart]) -> tuple[str, ...]:
    """``also found by lint: MEM101 line 5 (saves 6.57 GiB), MEM601 line 38``: what is not shown in full."""
    others = [finding for finding in document.findings if finding.line and finding not in shown]
    if not others:
        return ()
    texts = [f"{item.code} line {item.line}" + (f" ({gain(item)})" if gain(item) else "") for item in others]
    more = f", {len(texts) - MOST_LINTED} more" if len(texts) > MOST_LINTED else ""
    return (f"also found by lint: {', '.join(texts[:MOST_LINTED])}{more}",)


def _smaller(finding: FindingPart) -> Item:
    """That it does not fit is in the verdict; here stands what would."""
    return Item(lead=finding.code, text=finding.remedy or finding.title, tone="bad")


def _commands(document: PlanDocument, arguments: PlanArguments, left: int) -> Section:
    """What to do next; ``left`` findings are not on this screen."""
    rows = [*_helping(document, arguments)]
    more = f"see {left} more finding{'' if left == 1 else 's'}, and every phase" if left else "see every phase"
    rows.append((more, arguments.command("plan", "--full")))
    columns = (Column(title="", right=False), Column(title="", right=False))
    return Section(title="Next", tables=(Table(title="", columns=columns, rows=tuple(rows)),))


def _helping(document: PlanDocument, arguments: PlanArguments) -> Iterator[tuple[str, str]]:
    match document.verdict:
        case "does-not-fit" | "tight":
            yield "make it fit", arguments.command("fit")
        case "grows" if arguments.is_script and any(finding.line for finding in document.findings):
            yield "find what keeps memory", shlex.join(("rlmem", "lint", arguments.target.text))
        case "unknown":
            yield "measure it", arguments.command("measure")
        case _ if arguments.is_script:
            limit = ("--max-ram", arguments.ram) if arguments.ram else ()
            program = (arguments.target.python or "python", arguments.target.text, *arguments.target.args)
            yield "run it, guarded", shlex.join(("rlmem", "run", *limit, "--", *program))
