"""Stores on the tape: reserved at build, full after collection."""

from __future__ import annotations

import pytest

from rlmem.core.layers import infer, parse_layers
from rlmem.core.ledger import Ledger
from rlmem.core.quantity import Quantity
from rlmem.model.learner import STATE_COPIES, Learner, Network
from rlmem.model.storage import Array, Store
from rlmem.model.tape import Tape

ROWS = Quantity.of(1000, "rows", "test")
ARRAYS = (
    Array(name="observations", rows=ROWS, row_values=100, dtype="uint8", why="the space's dtype"),
    Array(name="rewards", rows=ROWS, row_values=1, dtype="float32", why="always"),
    Array(name="never", rows=ROWS, row_values=9, dtype="float64", why="unused", written=False),
    Array(name="infos", rows=ROWS, row_values=186, dtype="uint8", why="dicts", eager=True),
)


def play(*, lazy: bool = True) -> Ledger:
    tape = Tape()
    store = Store(tape, "replay", ARRAYS, lazy=lazy)
    with tape.phase("build"):
        store.build()
    with tape.phase("collect"):
        store.fill()
    store.settle()
    with tape.phase("update"):
        pass
    return tape.ledger()


def test_an_array_is_rows_times_row_bytes() -> None:
    assert [array.amount.value for array in ARRAYS] == [100_000, 4_000, 72_000, 186_000]
    assert ARRAYS[0].amount.formula == "rows × observations row bytes = 1,000 × 100 = 100,000 B"


def test_a_lazy_store_is_reserved_then_fills_then_is_there() -> None:
    ledger = play()
    assert [ledger.only(phase=phase).nbytes for phase in ("build", "collect", "update")] == [186_000, 290_000, 290_000]
    fills = {e.component: e.residency for e in ledger.only(phase="collect").entries}
    assert fills == {
        "replay.observations": "filling",
        "replay.rewards": "filling",
        "replay.never": "reserved",
        "replay.infos": "resident",
    }


def test_a_store_written_at_once_is_resident_from_the_start() -> None:
    assert play(lazy=False).only(phase="build").nbytes == 362_000


def test_the_whole_store_and_a_copy_of_a_part() -> None:
    tape = Tape()
    store = Store(tape, "replay", ARRAYS, device="vram")
    assert store.amount.value == 362_000
    copy = store.copy("rewards", "resume.rewards")
    assert (copy.device, copy.amount.value, copy.component) == ("vram", 4_000, "resume.rewards")


NET = Network(name="policy", chains={"net": infer(parse_layers(["linear 4", "relu", "linear 2"]), (10,))}, loose=3)


def test_a_network_counts_its_loose_values_but_steps_by_its_largest_layer() -> None:
    assert (NET.parameters, NET.largest_parameter) == (44 + 10 + 3, 44)


@pytest.mark.parametrize(("optimizer", "copies"), [("adam", 2), ("adamw", 2), ("rmsprop", 1), ("sgd-momentum", 1)])
def test_optimizer_state_appears_at_the_first_step_and_only_once(optimizer: str, copies: int) -> None:
    tape = Tape()
    learner = Learner(tape, device="ram", optimizer=optimizer, optimizer_origin="test")
    with tape.phase("build"):
        learner.build(NET)
    for _ in range(3):
        with tape.phase("update"):
            learner.step(NET)
    with tape.phase("checkpoint"):
        pass
    ledger = tape.ledger()
    assert ledger.only(phase="build").nbytes == 57 * 4
    assert ledger.only(phase="checkpoint", component="learner.optimizer").nbytes == copies * 57 * 4
    assert ledger.only(phase="checkpoint").nbytes == (1 + copies) * 57 * 4


def test_plain_sgd_keeps_no_state() -> None:
    tape = Tape()
    with tape.phase("update"):
        Learner(tape, device="ram", optimizer="sgd", optimizer_origin="test").step(NET)
    assert tape.ledger().components == ("learner.step",)
    assert STATE_COPIES["sgd"] == 0


def test_a_step_needs_one_layer_on_the_cpu_and_all_of_them_on_the_gpu() -> None:
    needs = {}
    for device in ("ram", "vram"):
        tape = Tape()
        with tape.phase("update"):
            Learner(tape, device=device, optimizer="adam", optimizer_origin="test").step(NET)
        needs[device] = tape.ledger().only(component="learner.step").nbytes
    assert needs == {"ram": 2 * 44 * 4, "vram": 2 * 57 * 4}


def test_targets_are_kept_apart_from_what_is_trained() -> None:
    tape = Tape()
    with tape.phase("build"):
        copy = Network(name="target", chains=NET.chains, trained=False)
        Learner(tape, device="ram", optimizer="adam", optimizer_origin="test").build(NET, copy)
    assert tape.ledger().only(component="learner.targets").nbytes == 54 * 4
