"""Why a run died of memory: which limit, what grew before, and the smallest change that would have fit.

Everything is read from what was recorded while it lived; ``rlmem.runner.causes`` says which limit it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.runner.causes import Grown, PostMortem
from rlmem.units import format_count, format_size
from rlmem.watch.holders import read_holders
from rlmem.watch.owners import keeps_graphs
from rlmem.watch.words import DETACH

#: What grew is told for the last minutes before the end, or a quarter of a shorter run.
WINDOW_SECONDS = 300.0
#: A change should leave some room: growth between two looks, the allocator, others on the machine.
FIT = 0.95
#: Growth under this share of the whole is not worth a line.
SMALL_SHARE = 0.01
_INDEX = re.compile(r"(\[[^\[\]]*\])+$")


def examine(found: PostMortem, moments: Sequence[Moment], advice: Sequence[str] = ()) -> PostMortem:
    """The same with what grew before the end, and the changes that would have fit, smallest first."""
    window, grown = what_grew(moments)
    # Stores are counted in resident RAM, which is neither what a GPU has nor what a ulimit counts.
    other = found.kind == "cuda-oom" or found.limit_name.startswith("RLIMIT")
    changes = tuple(fitting_changes(moments, None if other else found.limit_bytes))
    return replace(found, window_s=window, grown=grown, changes=changes, advice=tuple(advice))


def what_grew(moments: Sequence[Moment], window_s: float = WINDOW_SECONDS) -> tuple[float, tuple[Grown, ...]]:
    """Seconds looked back, and what grew in them, largest first; what no owner has is ``the rest``."""
    if len(moments) < 2:
        return 0.0, ()
    end = moments[-1].at_s
    window = min(window_s, max((end - moments[0].at_s) / 4, min(30.0, end - moments[0].at_s)))
    recent = [moment for moment in moments if moment.at_s >= end - window]
    held = read_holders(moments)
    total = recent[-1].tree_bytes - recent[0].tree_bytes
    rows = []
    if held:
        named = [moment for moment in moments if moment.at_s in held]
        late = named[-1]
        # Owners were asked at other times than the ends of the window: like is compared with like. Asked once only, they
        # have gained what they hold since the start.
        early = next((moment for moment in reversed(named) if moment.at_s <= end - window), named[0])
        before = held[early.at_s] if early is not late else ()
        early = early if early is not late else moments[0]
        rows = [row for row in _differences(before, held[late.at_s]) if row.nbytes > 0]
        window, total = late.at_s - early.at_s, late.tree_bytes - early.tree_bytes
        late_total = recent[-1].tree_bytes - late.tree_bytes
        if late_total > SMALL_SHARE * recent[-1].tree_bytes:
            text = f"since owners were last asked ({end - late.at_s:.0f} s before the end)"
            rows.append(Grown(name=text, nbytes=late_total, now_bytes=recent[-1].tree_bytes))
    rest = total - sum(row.nbytes for row in rows if not row.name.startswith("since "))
    rows.append(Grown(name="the rest", nbytes=rest, now_bytes=recent[-1].tree_bytes))
    floor = SMALL_SHARE * max(1, recent[-1].tree_bytes)
    rows = [row for row in rows if row.nbytes >= floor]
    return window, tuple(sorted(rows, key=lambda row: -row.nbytes)[:6])


def _differences(early: Sequence[Holding], late: Sequence[Holding]) -> Iterable[Grown]:
    before = {held.path: held for held in early if held.device == "ram"}
    for held in late:
        if held.device != "ram":
            continue
        old = before.get(held.path)
        items = None if old is None or held.filled is None or old.filled is None else held.filled - old.filled
        gained = held.resident_bytes - (old.resident_bytes if old else 0)
        yield Grown(name=held.path, nbytes=gained, now_bytes=held.resident_bytes, items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """Arrays of one container that share their rows."""

    name: str
    rows: int
    nbytes: int
    resident_bytes: int


def stores(holdings: Iterable[Holding]) -> tuple[_Store, ...]:
    """Containers with a known number of rows, largest first: ``model.replay_buffer`` for its arrays."""
    groups: dict[tuple[str, int], list[Holding]] = {}
    for held in holdings:
        if held.capacity and held.device == "ram" and held.nbytes:
            bare = _INDEX.sub("", held.path)
            # A store is told by its arrays (buffer.observations['image']) or as one (buffer).
            name = bare.rpartition(".")[0] if held.kind in {"array", "tensor"} and "." in bare else bare
            groups.setdefault((name, held.capacity), []).append(held)
    found = (
        _Store(
            name=name,
            rows=rows,
            nbytes=sum(held.nbytes for held in parts),
            resident_bytes=sum(held.resident_bytes for held in parts),
        )
        for (name, rows), parts in groups.items()
    )
    return tuple(sorted(found, key=lambda store: -store.nbytes))


def fitting_changes(moments: Sequence[Moment], limit_bytes: int | None) -> tuple[str, ...]:
    """The largest store with as many rows as would have fitted, and containers that should have an end."""
    named = next((moment for moment in reversed(moments) if moment.holdings), None)
    if named is None or named.holdings is None:
        return ()
    lines = []
    if limit_bytes:
        room = int(limit_bytes * FIT)
        for store in stores(named.holdings)[:1]:
            others = max(0, named.tree_bytes - store.resident_bytes)
            rows = int((room - others) * store.rows // max(1, store.nbytes))
            per_row = f"{store.nbytes / store.rows:,.0f} B a row"
            if 0 < rows < store.rows:
                lines.append(
                    f"`{store.name}` with {format_count(_rounded(rows))} rows instead of {format_count(store.rows)} "
                    f"({per_row}, {format_size(others)} beside it) fits {format_size(limit_bytes)} with 5 % to spare"
                )
            elif rows <= 0:
                lines.append(
                    f"no size of `{store.name}` ({per_row}) fits: without it the run holds {format_size(others)} "
                    f"of {format_size(limit_bytes)}"
                )
    held = read_holders(moments).get(named.at_s, ())
    endless = [each for each in held if each.filled and each.capacity is None and each.device == "ram"]
    lines += [_end(each) for each in endless[:1] if each.resident_bytes > SMALL_SHARE * named.tree_bytes]
    return tuple(lines)


def _end(held: Holding) -> str:
    """What keeps a container without an end from growing."""
    if keeps_graphs(held):
        kept = f"{format_count(held.filled or 0)} items, about {format_size(held.resident_bytes)} with their graphs"
        line = f" ({held.added_at.partition(': ')[0]})" if held.added_at else ""
        return f"`{held.path}` keeps tensors with the graphs they came from ({kept}): {DETACH}{line}"
    return (
        f"give `{held.path}` ({held.type}, {format_count(held.filled or 0)} items, "
        f"{format_size(held.resident_bytes)}) an end, such as collections.deque(maxlen=…)"
    )


def _rounded(rows: int) -> int:
    """Down to two figures: nobody sets a buffer to 212,347 rows."""
    scale = int(10 ** max(0, len(str(rows)) - 2))
    return rows // scale * scale
