"""Who holds memory at each look, by the owners' names over the whole time: entries of one list are one holder.

Tensors that are kept with their graph hold activations in C++ that a walk over objects sees in part, or not at all. What
they hold is told from the looks: as the count of such tensors rises, so does all that has no owner, by so many bytes each.
That belongs to what keeps the tensors, which is an estimate then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.units import format_size
from rlmem.watch.growth import pairwise_slopes
from rlmem.watch.owners import add_up, keeps_graphs, looks, name_holdings

_ELEMENT = re.compile(r"(.+)\[\d+\]")


def read_holders(moments: Sequence[Moment]) -> dict[float, tuple[Holding, ...]]:
    """The owners, largest first, by the time of each look."""
    asked = looks(moments)
    named = _joined(name_holdings(asked))
    found = _graph_bytes(asked, named)
    return {
        moment.at_s: tuple(sorted(_holders(each, moment, found), key=lambda held: -held.resident_bytes))
        for moment, each in zip(asked, named, strict=True)
    }


def sized(holding: Holding) -> str:
    """``losses 1.34 GiB``; ``about`` for an estimate."""
    about = "about " if holding.estimated else ""
    return f"{holding.path} {about}{format_size(holding.resident_bytes)}"


def _joined(named: Sequence[Mapping[str, Holding]]) -> list[dict[str, Holding]]:
    """The same with the elements of a list as one holder, also where they were seen once and none came or went."""
    lists = [
        Counter(
            match[1] for held in each.values() if held.capacity is None and (match := _ELEMENT.fullmatch(held.path))
        )
        for each in named
    ]
    several = {name for counts in lists for name, count in counts.items() if count > 1}
    joined = []
    for each in named:
        rows: dict[str, list[Holding]] = {}
        for name, held in each.items():
            match = _ELEMENT.fullmatch(name) if held.capacity is None else None
            rows.setdefault(match[1] if match and match[1] in several else name, []).append(held)
        joined.append({name: _one(name, parts) for name, parts in rows.items()})
    return joined


def _one(name: str, parts: Sequence[Holding]) -> Holding:
    """One holder; nothing says that a list of so many elements will have more, or has no end."""
    return parts[0] if parts[0].path == name else replace(add_up(name, parts), filled=None, capacity=None)


def _holders(named: Mapping[str, Holding], moment: Moment, found: tuple[str, float] | None) -> list[Holding]:
    held = named.get(found[0]) if found else None
    if found is None or held is None or not held.filled:
        return list(named.values())
    kept = min(_beside(named, moment), round(held.filled * found[1]))
    whole = replace(
        held,
        nbytes=held.nbytes + kept,
        resident_bytes=held.resident_bytes + kept,
        graph_bytes=held.graph_bytes + kept,
        estimated=True,
    )
    return [whole if each is held else each for each in named.values()]


def _beside(named: Mapping[str, Holding], moment: Moment) -> int:
    """What has no owner."""
    return max(0, moment.tree_bytes - sum(held.resident_bytes for held in named.values() if held.device == "ram"))


def _graph_bytes(asked: Sequence[Moment], named: Sequence[Mapping[str, Holding]]) -> tuple[str, float] | None:
    """The owner that keeps most graphs, and what each of its items keeps beside what was seen; None where nothing is."""
    last = named[-1] if named else {}
    keepers = [name for name, held in last.items() if keeps_graphs(held) and held.filled and held.device == "ram"]
    name = max(keepers, key=lambda name: last[name].filled or 0, default=None)
    if name is None:
        return None
    seen = [
        (float(each[name].filled or 0), float(_beside(each, moment)))
        for moment, each in zip(asked, named, strict=True)
        if name in each
    ]
    rising = [pair for index, pair in enumerate(seen) if index == 0 or pair[0] > seen[index - 1][0]]
    if len(rising) < 2 or len(rising) < len(seen) - 1:  # its count comes and goes: that is no keeping
        return None
    each = median(pairwise_slopes(([count for count, _ in rising], [nbytes for _, nbytes in rising])))
    return (name, each) if each > 0 else None
