"""Ledgers: entries, sums, peaks."""

from __future__ import annotations

import pytest

from rlmem.core.ledger import Entry, Ledger, matches, merge
from rlmem.core.plan import Budget, Plan, sentence, verdict_of
from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec
from rlmem.units import GIB


def entry(component: str, nbytes: int, phase: str = "update", device: str = "ram", **more: str) -> Entry:
    amount = Quantity.of(nbytes, component, "test", low=nbytes // 2, high=nbytes * 2)
    fields = {"process": "main", "basis": "exact", **more}
    return Entry(component=component, device=device, phase=phase, amount=amount, **fields)


LEDGER = Ledger(
    (
        entry("replay.observations[image]", 100, "collect"),
        entry("replay.rewards", 10, "collect"),
        entry("replay.observations[image]", 100),
        entry("learner.activations", 50, process="workers"),
        entry("replay.next", 70, "build", residency="reserved"),
        entry("runtime.context", 5, "collect", "vram"),
    )
)


def test_the_peak_of_a_device_is_its_largest_phase_and_comes_first() -> None:
    rows = LEDGER.peaks({"ram": 200, "vram": None})
    assert [(p.device, p.phase, p.expected_bytes, p.is_peak) for p in rows] == [
        ("ram", "update", 150, True),
        ("ram", "build", 0, False),
        ("ram", "collect", 110, False),
        ("vram", "collect", 5, True),
        ("vram", "build", 0, False),
        ("vram", "update", 0, False),
    ]
    assert (rows[0].low_bytes, rows[0].high_bytes, rows[0].spare_bytes) == (75, 300, 50)
    assert rows[3].spare_bytes is None


def test_a_reserved_entry_takes_no_memory_yet() -> None:
    assert LEDGER.only(phase="build").nbytes == 0
    assert not LEDGER.entries[4].counts


def test_a_selection_matches_every_criterion() -> None:
    assert LEDGER.only(component="replay", phase="collect").nbytes == 110
    assert LEDGER.only(process="workers").components == ("learner.activations",)
    assert LEDGER.only(device="vram").phases == ("collect",)
    assert LEDGER.processes == ("main", "workers")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("replay", True),
        ("replay.observations", True),
        ("replay.observations[image]", True),
        ("repl", False),
        ("replay.obs", False),
        ("observations", False),
        ("", False),
    ],
)
def test_a_pattern_is_a_name_or_its_first_words(pattern: str, found: bool) -> None:
    assert matches("replay.observations[image]", pattern) is found


def test_merging_adds_what_is_in_the_same_place_and_keeps_the_weaker_basis() -> None:
    merged = merge(
        [
            entry("a", 1),
            entry("b", 2),
            entry("a", 3, basis="measured"),
            entry("a", 5, residency="reserved"),
            entry("a", 7, "collect"),
        ]
    )
    assert [(e.component, e.phase, e.residency, e.nbytes, e.basis) for e in merged] == [
        ("a", "update", "resident", 4, "measured"),
        ("b", "update", "resident", 2, "exact"),
        ("a", "update", "reserved", 5, "exact"),
        ("a", "collect", "resident", 7, "exact"),
    ]
    assert merged[0].amount.low == 0 + 1


def test_a_group_is_the_first_word() -> None:
    assert LEDGER.entries[0].group == "replay"


@pytest.mark.parametrize(
    ("expected", "high", "limit", "verdict", "words"),
    [
        (10, 11, None, "unknown", "no limit known for RAM"),
        (10, 11, 20, "fits", "fits, 10.0 GiB spare"),
        (10, 21, 20, "tight", "the upper bound is 1.00 GiB over"),
        (20, 20, 20, "tight", "tight, only 0 B spare"),
        (21, 22, 20, "does-not-fit", "does not fit, 1.00 GiB too much"),
    ],
)
def test_a_verdict_follows_from_the_expected_peak_its_upper_bound_and_the_limit(
    expected: int, high: int, limit: int | None, verdict: str, words: str
) -> None:
    amount = Quantity.of(expected * GIB, "x", "y", high=high * GIB)
    held = Entry(component="x", device="ram", process="main", phase="update", amount=amount, basis="exact")
    ledger = Ledger((held,))
    (peak,) = ledger.peaks({"ram": None if limit is None else limit * GIB})
    plan = Plan(spec=RunSpec(), budget=Budget(name="test"), ledger=ledger, peaks=(peak,))
    assert verdict_of(peak) == plan.verdict == verdict
    assert words in sentence(peak)
    assert plan.deciding is peak


def test_entries_take_the_coarsest_name_that_either_ledger_has_on_their_device() -> None:
    fine = Ledger(
        (
            entry("runtime.imports", 100),
            entry("runtime.cuda-context", 7, device="vram"),
            entry("replay.observations[image]", 50),
            entry("replay.rewards", 5),
            entry("replays", 1),
        )
    )
    coarse = Ledger((entry("runtime", 90), entry("replay.observations", 40), entry("unexplained", 3)))
    named = fine.named_as(coarse)
    assert [one.component for one in named.entries] == [
        "runtime",
        "runtime.cuda-context",
        "replay.observations",
        "replay.rewards",
        "replays",
    ]
    assert named.nbytes == fine.nbytes
    assert coarse.named_as(fine) == coarse
