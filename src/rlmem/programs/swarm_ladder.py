"""The ladder as numbers: every rung in fresh processes at two numbers of agents, its plan beside what it took.

One point is one fresh process with a whole iteration in it, collection and update. Two points give what one more agent
costs; what all agents share (interpreter, networks, the chunk being worked on) falls out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rlmem.documents.ladder import FEW_WINDOWS, MOST_CHUNK
from rlmem.errors import UsageError, did_you_mean
from rlmem.frameworks import predict, resolve
from rlmem.process.calibration import read_calibration
from rlmem.programs.cases import settings_case
from rlmem.programs.launch import Answer, launch, training_python
from rlmem.programs.points import make_point
from rlmem.swarm.settings import BY_NAME, RUNGS, Rung, Settings
from rlmem.swarm.spec import swarm_spec
from rlmem.units import parse_count

#: Agents of the two points: of rungs that store whole windows (up to 13 MiB an agent), and of those that store a stream
#: (9 kB: with fewer agents, what one of them takes drowns in what all share).
WHOLE, STREAM = (200, 400), (2_000, 10_000)
#: A plan is that of every iteration but the first: a collection finds what the update before it brought in.
ITERATIONS = 2
#: Collection flies sixteen chunks together, and both points should fly as many.
TOGETHER = 16
#: Rungs that are shown with every window encoded by itself, too, and the one that learns from all windows as well.
BESIDE, FULL = ("stream", "gyro"), "gyro"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a line of the table runs."""

    rung: Rung
    sizes: tuple[int, ...]
    encoding: str = "window"
    ae_share: float = 1.0
    #: What differs from the rung itself; empty for the rung.
    variant: str = ""

    def settings(self, agents: int) -> Settings:
        """One optimizer step an iteration, as assessed."""
        return Settings(
            agents=agents,
            minibatches=1,
            iterations=ITERATIONS,
            chunk=self.chunk,
            rung=self.rung.name,
            encoding=self.encoding,
            ae_share=self.ae_share,
        )

    @property
    def chunk(self) -> int:
        """The same at every size."""
        return max(1, min(MOST_CHUNK, self.sizes[0] // TOGETHER))

    @property
    def name(self) -> str:
        """``gyro``, or ``gyro, encoding window``."""
        return f"{self.rung.name}, {self.variant}" if self.variant else self.rung.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One point: a fresh process, and its plan. What is not known is ``None``."""

    agents: int
    status: str
    planned_bytes: int
    peak_bytes: int | None = None
    #: Where the peak was: ``collect`` or ``update``.
    phase: str | None = None
    stored_bytes: int | None = None
    #: Of the iteration: collection and update.
    seconds: float | None = None
    note: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether the iteration was finished."""
        return self.status == "ok"

    @property
    def error(self) -> float | None:
        """How far the plan is off, as a share of the truth; positive when too much was planned."""
        return self.planned_bytes / self.peak_bytes - 1 if self.is_ok and self.peak_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the ladder with its points."""

    row: Row
    points: tuple[Taken, ...]

    @property
    def is_ok(self) -> bool:
        """Whether all its points were measured."""
        return all(point.is_ok for point in self.points)

    @property
    def stored_per_agent(self) -> float | None:
        """What the store keeps for an agent; exact, from its tensors."""
        last = self.points[-1]
        return None if last.stored_bytes is None else last.stored_bytes / last.agents

    @property
    def planned_per_agent(self) -> float | None:
        """What one more agent adds to the planned peak."""
        return slope([(point.agents, point.planned_bytes) for point in self.points])

    @property
    def peak_per_agent(self) -> float | None:
        """What one more agent adds to the measured peak."""
        found = [(point.agents, point.peak_bytes) for point in self.points if point.is_ok and point.peak_bytes]
        return slope([(agents, nbytes) for agents, nbytes in found if nbytes is not None])

    @property
    def seconds(self) -> float | None:
        """An iteration of the most agents."""
        return self.points[-1].seconds

    @property
    def error(self) -> float | None:
        """The plan's largest error, of all points."""
        found = [point.error for point in self.points if point.error is not None]
        return max(found, key=abs) if found else None


def slope(points: Sequence[tuple[int, int]]) -> float | None:
    """The rise from the first point to the last; ``None`` where there is only one.

    >>> slope([(100, 5_000), (300, 25_000)])
    100.0
    """
    if len(points) < 2:
        return None
    (few, low), (many, high) = points[0], points[-1]
    return (high - low) / (many - few)


def rows(sizes: tuple[int, ...] | None = None, only: Sequence[str] = ()) -> tuple[Row, ...]:
    """The table's rows: all rungs, and beside some of them what else decides their time; of some rungs only if asked."""
    for name in only:
        if name not in BY_NAME:
            raise UsageError(f"--only {name!r} is not one of {', '.join(BY_NAME)}{did_you_mean(name, BY_NAME)}")
    return tuple(row for rung in RUNGS if not only or rung.name in only for row in _rows(rung, sizes))


def _rows(rung: Rung, sizes: tuple[int, ...] | None) -> Iterator[Row]:
    if rung.store != "stream":
        yield Row(rung=rung, sizes=sizes or WHOLE)
        return
    sizes = sizes or STREAM
    yield Row(rung=rung, sizes=sizes, encoding="sequence", ae_share=FEW_WINDOWS)
    few = sizes[:1]
    if rung.name in BESIDE:
        yield Row(rung=rung, sizes=few, ae_share=FEW_WINDOWS, variant="encoding window")
    if rung.name == FULL:
        yield Row(rung=rung, sizes=few, encoding="sequence", variant="ae_share 1")


def parse_sizes(text: str) -> tuple[int, int]:
    """Two numbers of agents, the smaller first.

    >>> parse_sizes("400,200"), parse_sizes("2k,10k")
    ((200, 400), (2000, 10000))
    """
    try:
        found = sorted(parse_count(word) for word in text.split(","))
    except UsageError as error:
        raise UsageError(f"--agents {text!r}: {error}; write two numbers, such as 200,400") from None
    if len(found) != 2 or found[0] == found[1]:
        raise UsageError(f"--agents {text!r}: write two different numbers, such as 200,400")
    if found[0] < 1:
        raise UsageError(f"--agents {text!r}: at least 1")
    return found[0], found[1]


def measure(
    wanted: Sequence[Row],
    tell: Callable[[str], None],
    *,
    python: str | None = None,
    cap_bytes: int | None = None,
    time_limit_s: float | None = None,
) -> Iterator[Line]:
    """Every row, one fresh process after the other; ``tell`` hears of each."""
    python = training_python(python, ("torch", "rlmem"))
    for row in wanted:
        points: list[Taken] = []
        for agents in row.sizes:
            points.append(take(row.settings(agents), python, cap_bytes=cap_bytes, time_limit_s=time_limit_s))
            tell(_said(row, points[-1]))
        yield Line(row=row, points=tuple(points))


def take(settings: Settings, python: str, *, cap_bytes: int | None = None, time_limit_s: float | None = None) -> Taken:
    """Two iterations in a fresh process, and their plan."""
    case = settings_case(settings, ITERATIONS)
    answer = launch(case.path, case.body, python, cap_bytes=cap_bytes, time_limit_s=time_limit_s)
    ledger = predict(resolve(swarm_spec(settings)), read_calibration(python))
    versions = {str(name): str(text) for name, text in answer.body.get("versions", {}).items()}
    point = make_point({"agents": settings.agents}, answer, ledger, case, cap_bytes, versions)
    assert point.predicted is not None
    return Taken(
        agents=settings.agents,
        status=point.status,
        planned_bytes=point.predicted.expected,
        peak_bytes=point.peak_bytes,
        phase=max(point.phases, key=lambda name: point.phases[name]) if point.is_ok else None,
        stored_bytes=stored(point.components) if point.is_ok else None,
        seconds=iteration_seconds(answer) if point.is_ok else None,
        note=point.note,
        versions=versions,
    )


def stored(components: Mapping[str, int]) -> int:
    """What the rollout's own tensors take.

    >>> stored({"rollout.stream": 5940, "rollout.actions": 1600, "workers.env-state": 49})
    7540
    """
    return sum(nbytes for name, nbytes in components.items() if name.startswith("rollout."))


def iteration_seconds(answer: Answer) -> float:
    """Of collection and update, as the process took them; the mean over its iterations."""
    phases = answer.body["phases"]
    return float(sum(phases[name]["seconds"] for name in ("collect", "update"))) / ITERATIONS


def _said(row: Row, point: Taken) -> str:
    where = f"{row.name}, {point.agents:,} agents"
    if not point.is_ok:
        return f"{where}: {point.status}: {point.note}"
    assert point.peak_bytes is not None and point.error is not None
    return f"{where}: {point.peak_bytes / 2**20:,.0f} MiB, planned {point.error:+.1%}, {point.seconds:.1f} s"
