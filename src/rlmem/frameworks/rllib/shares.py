"""A plan's figures for one process of each role, as a measurement from outside sees them: with its share of what all map."""

from __future__ import annotations

from rlmem.core.ledger import Ledger
from rlmem.core.spec import RunSpec
from rlmem.frameworks.rllib.counts import RAY, SERVER, STORE, counts

#: Ray's own processes together map about one and a half times the files an actor maps; an idle worker a third.
OWN_FILES, IDLE_FILES = 1.5, 0.36
#: Workers that Ray keeps ready: what a run does not use of them is idle.
READY = 3

#: Low, expected and high.
Sizes = tuple[int, int, int]


def by_role(spec: RunSpec, ledger: Ledger) -> dict[str, Sizes]:
    """One process of each role in its largest phase, Ray's own together (the state server among them), and the object store."""
    number = counts(spec)
    files = ledger.only(component="runtime.shared", phase="update").nbytes
    others = OWN_FILES + IDLE_FILES * max(0, READY - sum(number.values()))
    share = files / (sum(number.values()) + others)
    found: dict[str, Sizes] = {}
    for role in ledger.processes:
        low, expected, high = max((_held(ledger, role, phase) for phase in ledger.phases), key=lambda sizes: sizes[1])
        count = number.get(role, 1)
        more = round({STORE: 0.0, RAY: others}.get(role, 1.0) * share)
        found[role] = (low // count + more, expected // count + more, high // count + more)
    if SERVER in found:
        own, server = found[RAY], found.pop(SERVER)
        found[RAY] = (own[0] + server[0], own[1] + server[1], own[2] + server[2])
    return found


def _held(ledger: Ledger, role: str, phase: str) -> Sizes:
    """What a role holds in a phase, all its processes together, without what all map."""
    entries = ledger.only(process=role, phase=phase, device="ram").entries
    amounts = [entry.amount for entry in entries if entry.counts and entry.component != "runtime.shared"]
    return (sum(each.low for each in amounts), sum(each.value for each in amounts), sum(each.high for each in amounts))
