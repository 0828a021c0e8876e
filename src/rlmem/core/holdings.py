"""What a running process holds: its resident memory by owner, by class, and the rest, in one page-exact sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rlmem.core.components import OTHER, component_of, process_of
from rlmem.core.ledger import PHASES, Entry, Ledger, merge
from rlmem.core.memory_classes import ARENAS, FILES, HEAP, LIBRARY_CODE, LIBRARY_DATA, PYMALLOC, SHARED, UNKNOWN
from rlmem.core.quantity import Quantity

#: How the names of owners were had, best first; ``pages`` means that only classes could be told.
WAYS = ("agent", "remote-exec", "debugger", "pages")
#: How resident pages were read, best first. The first two know which pages, the third how much of each mapping, the
#: fourth only sums of a process.
PAGE_METHODS = ("pagemap-scan", "pagemap", "smaps", "status")
#: Classes whose pages are those of files, which unrelated processes share.
_OF_FILES = (LIBRARY_CODE, LIBRARY_DATA, FILES, SHARED)
#: Classes that objects of the program lie in, where no owner is known.
_OF_OBJECTS = (HEAP, ARENAS, PYMALLOC)
#: Owners that a plan does not have are a line each from this share of the whole on.
_OWN_LINE = 0.005


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

    def ledger(self) -> Ledger:
        """Return what the process holds as a ledger; see ``TreeExplanation.ledger``."""
        return TreeExplanation(processes=(self,)).ledger()


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

    def ledger(self) -> Ledger:
        """Return what the processes hold as a ledger, in the components of a plan as far as owners tell them.

        Its sum is what they hold together, each shared page once: ``other`` are owners that no plan has, ``unexplained``
        is memory that nobody owns. What owners will still take until the run ends is ``reserved``. All entries are of
        the phase that the first process is in; one that does not say is taken to collect.
        """
        phase = self.top.phase if self.top.phase in PHASES else "collect"
        entries = merge(entry for process in self.processes for entry in _entries(process, phase or "collect"))
        whole = {device: sum(entry.nbytes for entry in entries if entry.device == device) for device in ("ram", "vram")}
        return Ledger(
            merge(
                replace(entry, component=OTHER)
                if entry.group == OTHER and entry.nbytes < _OWN_LINE * whole[entry.device]
                else entry
                for entry in entries
            )
        )


def sum_known(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of the sizes that are known; None when none is."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _entries(process: Explanation, phase: str) -> Iterator[Entry]:
    name = process_of(process.role)

    def entry(component: str, amount: Quantity, device: str = "ram", residency: str = "resident") -> Entry:
        own = component if name == "main" or component == UNKNOWN else name
        return Entry(
            component=own,
            device=device,
            process=name,
            phase=phase,
            amount=amount,
            basis="measured",
            residency=residency,
        )

    owners = [(holding, _component(holding)) for holding in process.holdings]
    of_files, of_nobody = _shared_once(process)
    for holding, component in owners:
        scale = of_nobody if holding.device == "ram" else 1.0
        yield entry(component, _amount(holding, scale), holding.device)
        if holding.growth_bytes:
            come = Quantity.of(holding.growth_bytes, holding.path, "still to come until the run ends")
            yield entry(component, come, holding.device, "reserved")
    for portion in process.portions:
        component = f"{OTHER}.shared-memory" if portion.name == SHARED else "runtime"
        if portion.name in _OF_OBJECTS and name == "main" and process.way == "pages":
            component = UNKNOWN  # nobody was asked for names: the program's own objects are in it too
        scale = of_files if portion.name in _OF_FILES else of_nobody
        yield entry(component, _seen(portion.resident_bytes, portion.name, scale))
    yield entry(UNKNOWN, _seen(process.unexplained_bytes, UNKNOWN, of_nobody))
    yield from (entry(component, amount, "vram") for component, amount in _vram(process))


def _component(holding: Holding) -> str:
    return component_of(holding.path, holding.kind, holding.type, has_transitions=holding.has_transitions)


def _amount(holding: Holding, scale: float) -> Quantity:
    low, high = holding.low_bytes, holding.high_bytes
    if low is None or high is None:
        return _seen(holding.resident_bytes, holding.path, scale)
    expected, low, high = (round(scale * nbytes) for nbytes in (holding.resident_bytes, low, high))
    return Quantity.of(expected, holding.path, "resident pages, from a sample", low=low, high=high)


def _seen(nbytes: int, name: str, scale: float) -> Quantity:
    return Quantity.of(round(scale * nbytes), name, "resident pages")


def _shared_once(process: Explanation) -> tuple[float, float]:
    """Return what to count of pages of files and of all others, so that the sum is the process's PSS.

    How much is shared is known of each kind, and not which pages are: all of a kind are counted alike.
    """
    if process.pss_bytes is None or process.uss_bytes is None or process.rss_bytes <= process.pss_bytes:
        return 1.0, 1.0
    files = sum(portion.resident_bytes for portion in process.portions if portion.name in _OF_FILES)
    rest, excess = process.rss_bytes - files, process.rss_bytes - process.pss_bytes
    shared = process.rss_bytes - process.uss_bytes
    of_rest = round(excess * min(1.0, (process.shared_anonymous_bytes or 0) / shared))
    # Shared pages of a kind that no class tells apart are taken from the other kind.
    of_files = min(excess - of_rest, files)
    of_rest = min(excess - of_files, rest)
    return 1 - of_files / files if files else 1.0, 1 - of_rest / rest if rest else 1.0


def _vram(process: Explanation) -> Iterator[tuple[str, Quantity]]:
    """What of a process's VRAM is no named tensor: the allocator's spare room, the context, and what is left."""
    named = sum(holding.resident_bytes for holding in process.holdings if holding.device == "vram")
    for share in process.gpus:
        if share.allocated_bytes is not None and share.reserved_bytes is not None:
            spare = max(0, share.reserved_bytes - share.allocated_bytes)
            yield "runtime.allocator-cache", Quantity.of(spare, share.gpu, "torch: reserved without what is allocated")
        if share.other_bytes is not None:
            yield "runtime.cuda-context", Quantity.of(share.other_bytes, share.gpu, "driver: used without torch's")
    known = [share.used_bytes if share.allocated_bytes is None else share.allocated_bytes for share in process.gpus]
    left = sum(nbytes for nbytes in known if nbytes is not None) - named
    if left > 0:
        yield UNKNOWN, Quantity.of(left, UNKNOWN, "VRAM that no named tensor has")
