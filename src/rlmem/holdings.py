"""What a running process holds: its resident memory by owner, by class, and the rest, in one page-exact sum."""

from __future__ import annotations

from dataclasses import dataclass, field

#: How the names of owners were had, best first; ``pages`` means that only classes could be told.
WAYS = ("agent", "remote-exec", "debugger", "pages")
#: How resident pages were read, best first. The first two know which pages, the third how much of each mapping, the
#: fourth only sums of a process.
PAGE_METHODS = ("pagemap-scan", "pagemap", "smaps", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One owner: an object of the program by its path from a variable, and the memory beneath it.

    ``nbytes`` is what it has allocated, ``resident_bytes`` what of that is in memory. ``filled`` of ``capacity`` rows
    are used, as the container itself says; ``capacity`` is None for one without a bound (a list that may grow for
    ever). ``run_rows`` are used when the run ends, where that is known and comes before it is full. ``estimated`` sizes come from a sample of a long container. ``graphs`` is how many tensors in it still have the
    autograd graph they came from, and ``graph_bytes`` what of the memory those graphs hold. ``added_at`` is the line of the
    program that adds to it, where that is known. ``file`` is the shared memory or the file that most of it lies in, which other
    processes may have too.
    """

    path: str
    kind: str  # array, tensor, container, store, graph
    type: str
    nbytes: int
    resident_bytes: int
    filled: int | None = None
    capacity: int | None = None
    run_rows: int | None = None
    estimated: bool = False
    device: str = "ram"
    note: str = ""
    graphs: int = 0
    graph_bytes: int = 0
    graph_more: bool = False  # it is longer than what was looked at: the sizes are the least
    added_at: str = ""
    file: str = ""
    low_bytes: int | None = None  # the range of what is resident, where that was reckoned from a sample
    high_bytes: int | None = None
    has_transitions: bool | None = None  # whether the elements of a long container are steps of an environment

    @property
    def keeps_graphs(self) -> bool:
        """Whether it is a container without an end that holds tensors with the graphs they came from."""
        return bool(self.graphs) and self.kind == "container" and self.capacity is None

    @property
    def growth_bytes(self) -> int | None:
        """What is still to come until the run ends; None for a container whose end is not known."""
        return self._growth(self.run_rows)

    @property
    def full_growth_bytes(self) -> int | None:
        """The same in a run that is long enough to fill it."""
        return self._growth(None)

    def _growth(self, rows: int | None) -> int | None:
        """An array is allocated whole: what of it is not resident yet. A container of objects grows by its rows."""
        if self.kind in {"container", "store"} and self.filled is not None:
            if self.capacity is None:
                return None
            end = self.capacity if rows is None else rows
            return round(self.resident_bytes / self.filled * (end - self.filled)) if self.filled else 0
        if self.kind not in {"array", "tensor"}:
            return 0
        nbytes = self.nbytes if rows is None or not self.capacity else round(self.nbytes * rows / self.capacity)
        return max(0, nbytes - self.resident_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Resident memory of one class (``heap``, ``library code``) that no named owner has."""

    name: str
    resident_bytes: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread and its stack: reserved address space against touched pages; None where they cannot be told."""

    tid: int
    name: str
    reserved_bytes: int | None = None
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """VRAM of one process on one GPU. torch's own figures are known with an agent only."""

    gpu: str
    used_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None

    @property
    def other_bytes(self) -> int | None:
        """Context, loaded modules and what torch cannot see."""
        if self.used_bytes is None or self.reserved_bytes is None:
            return None
        return max(0, self.used_bytes - self.reserved_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the training is, as its own objects say: steps over all of its environments."""

    step: int
    total: int | None = None
    source: str = ""
    n_envs: int = 1

    @property
    def rows_left(self) -> int | None:
        """Rows of a replay buffer that are still to be written, one for all environments; None where no end is known."""
        return None if self.total is None else max(0, -((self.step - self.total) // self.n_envs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One process: named + classes + unexplained = resident, to the page."""

    pid: int
    start: int  # clock ticks after boot: with the pid, who it is
    command: str
    role: str = "main"
    state: str = "S"
    way: str = "pages"
    pages_from: str = "pagemap-scan"
    rss_bytes: int = 0
    pss_bytes: int | None = None
    uss_bytes: int | None = None
    swap_bytes: int | None = None
    shared_anonymous_bytes: int | None = None  # pages a fork still shares, copied when one side writes
    holdings: tuple[Holding, ...] = ()
    portions: tuple[Portion, ...] = ()
    unexplained_bytes: int = 0
    threads: tuple[ThreadStack, ...] = ()
    gpus: tuple[GpuShare, ...] = ()
    progress: Progress | None = None
    phase: str | None = None
    trimmed_bytes: int | None = None
    free_heap_bytes: int | None = None  # free inside the C library's heap, as it says; resident or not
    open_figures: int | None = None  # of pyplot
    models_alive: int | None = None  # algorithms of SB3, also those that only a cycle keeps
    seconds: float = 0.0
    pauses_s: tuple[float, ...] = ()  # how long the program stood still to be looked at, each time, by a clock
    notes: tuple[str, ...] = ()

    @property
    def paused_s(self) -> float:
        """How long the program stood still in all."""
        return sum(self.pauses_s)

    @property
    def named_bytes(self) -> int:
        """Resident memory with an owner's name."""
        return sum(holding.resident_bytes for holding in self.holdings if holding.device == "ram")

    @property
    def growth_bytes(self) -> int:
        """What the bounded owners will still take until the run ends."""
        return sum(holding.growth_bytes or 0 for holding in self.holdings if holding.device == "ram")

    @property
    def full_growth_bytes(self) -> int:
        """What they would still take in a run that is long enough to fill them."""
        return sum(holding.full_growth_bytes or 0 for holding in self.holdings if holding.device == "ram")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeExplanation:
    """A process and its children. Together they hold ``pss_bytes``: a page that several share counts once.

    ``limit_bytes`` is what the first of them may reach, ``machine_bytes`` what its machine has.
    """

    processes: tuple[Explanation, ...]
    pss_bytes: int | None = None
    uss_bytes: int | None = None
    shared_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())
    limit_bytes: int | None = None
    limit_source: str = ""
    machine_bytes: int | None = None

    @property
    def top(self) -> Explanation:
        """The process that was asked about."""
        return self.processes[0]
