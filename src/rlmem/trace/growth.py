"""Whether a loop grows for as long as it runs, from the levels and lengths that the agent saw (``rlmem.agent.levels``).

What fills and stops is taken out first: big arrays that were there from the beginning, bounded deques and caches, lists
whose source compares their length with a number or shortens them. What then still rises steadily to the end, or gets
longer without a bound, is a leak, if it comes to anything over the length of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlmem.agent.levels import rises
from rlmem.agent.protocol import ContainerRow, Facts, LevelFacts, Look
from rlmem.core.ledger import Leak
from rlmem.units import GIB, MIB

#: A loop whose end is not known is thought to take so many steps.
STEPS = 100_000_000
#: What a leak comes to until then, at the least: where the end is known, where it is not.
LEAST_BYTES, LEAST_SHARE, LEAST_ENDLESS = 64 * MIB, 0.1, 8 * GIB
#: What a list without a bound comes to by the end of the run, to be a row of the plan.
LEAST_ROW = MIB
#: Elements a container has gained, and looks it was seen at, before it is believed.
LEAST_GAINED, LEAST_LOOKS = 8, 3
#: Of the rise, what a container must hold to be its owner, and what filling may leave unexplained.
OWNS, UNEXPLAINED = 0.3, 0.3
#: A rate is not known better than this: which of the heap's holes are filled first differs from run to run.
UNSURE = 1.3


def updates_missing(facts: Facts) -> str:
    """What to do where a loop went on and too little of it was seen to tell a leak; nothing where enough was."""
    nothing: LevelFacts = {"per": "update", "points": [], "looks": [], "containers": []}
    seen = facts.get("levels") or nothing
    if facts.get("ended") or (len(seen["looks"]) >= LEAST_LOOKS and len(seen["points"]) >= LEAST_LOOKS):
        return ""
    return f"too few {seen['per']}s were seen to tell whether the loop leaks; --timeout SECONDS gives the dry run more time"


def find_leak(facts: Facts, limit_bytes: int | None = None) -> Leak | None:
    """The leak a dry run saw, if it saw one."""
    seen = facts.get("levels")
    if not seen or len(seen["looks"]) < 2 or facts.get("ended"):  # a run that is over has shown all it takes
        return None
    looks, rows = seen["looks"], seen["containers"]
    first, last = looks[0], looks[-1]
    rounds = last["rounds"] - first["rounds"]
    if rounds <= 0:
        return None
    endless = [row for row in rows if not row["capacity"] and not row["shortened"]]
    filling = [row for row in rows if row["capacity"] or row["shortened"]]
    each, rise, low, high = _level(seen["points"], looks, filling)
    if len(looks) >= LEAST_LOOKS:
        kept = [row for row in endless if row["grown"] >= LEAST_GAINED and not row["plain"]]
        counted = sum(map(_bytes, kept)) / rounds
        if counted > each:
            each, low, high = counted, counted, max(high, counted)
    if not each:
        return None
    level, steps = seen["points"][-1][2], max(1, last["steps"] - first["steps"])
    left = rounds_left(looks)
    if left is None:
        least = min(LEAST_ENDLESS, limit_bytes or LEAST_ENDLESS)
        worth = each * STEPS * rounds / steps >= least
    else:
        worth = each * (left + rounds) >= max(LEAST_BYTES, LEAST_SHARE * level)
    if not worth:
        return None
    return Leak(
        bytes_each=max(1, round(each)),
        low_bytes=max(1, round(min(low, each) / UNSURE)),
        high_bytes=max(1, round(max(high, each) * UNSURE)),
        per=seen["per"],
        rounds=last["rounds"],
        rise_bytes=max(0, rise),
        left=left,
        **_owner(endless, each * rounds),
    )


def filling(facts: Facts, leak: Leak | None = None) -> tuple[tuple[ContainerRow, int], ...]:
    """Containers that grow, and how long each will be: full, or as long as the run lets it.

    Bounds are read from the source. What has none comes as far as the loop goes, where that is known, unless it is the leak.
    """
    seen = facts.get("levels")
    if not seen or len(seen["looks"]) < LEAST_LOOKS or facts.get("ended"):
        return ()
    looks = seen["looks"]
    left, rounds = rounds_left(looks), looks[-1]["rounds"] - looks[0]["rounds"]
    found = []
    for row in seen["containers"]:
        is_endless = (
            not row["capacity"] and not row["shortened"] and left is not None and (leak is None or row["plain"])
        )
        if not (row["capacity"] or is_endless):
            continue
        reached = row["length"] + (math.inf if left is None else row["grown"] * left / rounds)
        length = int(min(row["capacity"] or math.inf, max(row["length"], reached)))
        if row["capacity"] or length * row["bytes_each"] >= LEAST_ROW:
            found.append((row, length))
    return tuple(found)


def _level(
    points: Sequence[Sequence[int]], looks: Sequence[Look], filling: Sequence[ContainerRow]
) -> tuple[float, int, float, float]:
    """Bytes a round, and in all, by which the level rises beyond what fills, least and most; zeros where it does not."""
    first, last = looks[0], looks[-1]
    span = last["rounds"] - first["rounds"]
    explained = sum(map(_bytes, filling))

    def corrected(point: Sequence[int]) -> tuple[int, int, int]:
        rounds, steps, level = point
        share = min(1.0, max(0.0, (rounds - first["rounds"]) / span))
        return rounds, steps, round(level - explained * share - _arrays(looks, rounds))

    found = rises([corrected(point) for point in points])
    raw = rises(points)
    if found is None or raw is None or found[1] < UNEXPLAINED * raw[1]:
        return 0.0, 0, 0.0, 0.0
    return found[0], points[-1][2] - points[0][2], found[2], found[3]


def _arrays(looks: Sequence[Look], rounds: int) -> float:
    """Bytes written of the big arrays at a round, along a line between two looks."""
    before = max(
        (look for look in looks if look["rounds"] <= rounds), key=lambda look: look["rounds"], default=looks[0]
    )
    after = min((look for look in looks if look["rounds"] > rounds), key=lambda look: look["rounds"], default=before)
    width = after["rounds"] - before["rounds"]
    share = (rounds - before["rounds"]) / width if width else 0.0
    return float(before["arrays"] + share * (after["arrays"] - before["arrays"]))


def _bytes(row: ContainerRow) -> int:
    return int(row["bytes_each"] * row["grown"])


def _owner(endless: Sequence[ContainerRow], rise: float) -> dict[str, Any]:
    """The container that holds what grew: one of tensors with their graphs, else the one that gained most."""
    row = next((row for row in endless if row["graph"]), None) or max(endless, key=_bytes, default=None)
    if row is None or not (row["graph"] or _bytes(row) >= OWNS * rise):
        return {}
    return {"owner": str(row["name"]), "kind": row["kind"], "keeps_graphs": bool(row["graph"])}


def rounds_left(looks: Sequence[Look]) -> float | None:
    """Rounds until the outermost loop that moves comes to its end; ``None`` where that is not known.

    >>> rounds_left([{"rounds": 1, "progress": [["i", 1, 50]]}, {"rounds": 3, "progress": [["i", 5, 50]]}])
    22.5
    """
    first, last = looks[0], looks[-1]
    rounds = last["rounds"] - first["rounds"]
    if rounds <= 0:
        return None
    for before, after in zip(first["progress"], last["progress"], strict=False):
        if before[0] == after[0] and before[2] == after[2] and after[1] > before[1]:
            return float(max(0.0, (after[2] - after[1]) * rounds / (after[1] - before[1])))
    return None
