"""The rules about buffers on a running process: growth with an end, and transitions as Python objects."""

from __future__ import annotations

from rlmem.core.findings import Finding
from rlmem.core.holdings import Explanation, Holding, TreeExplanation
from rlmem.rules import find_live
from rlmem.units import GIB, MIB


def found(*holdings: Holding, code: str) -> list[Finding]:
    process = Explanation(pid=1, start=1, command="python train.py", holdings=holdings)
    return [finding for finding in find_live(TreeExplanation(processes=(process,))) if finding.code == code]


def replay(name: str, *, resident: int, filled: int = 370_000, run_rows: int | None = None) -> Holding:
    return Holding(
        path=f"model.replay_buffer.{name}",
        kind="array",
        type="numpy.ndarray",
        nbytes=10 * GIB,
        resident_bytes=resident,
        filled=filled,
        capacity=1_000_000,
        run_rows=run_rows,
    )


def memory(**more: object) -> Holding:
    fields = {
        "path": "agent.memory",
        "kind": "container",
        "type": "collections.deque",
        "nbytes": 60 * MIB,
        "resident_bytes": 60 * MIB,
        "filled": 100_000,
        "capacity": 100_000,
        "has_transitions": True,
    }
    return Holding(**{**fields, **more})  # type: ignore[arg-type]


def test_a_buffer_that_fills_is_said_once_for_all_its_arrays_with_where_it_ends() -> None:
    both = [replay(name, resident=10 * GIB * 37 // 100) for name in ("observations", "next_observations")]
    (finding,) = found(*both, code="MEM113")
    assert finding.severity == "info"
    assert "37 % full" in finding.title
    assert "will reach 20.0 GiB" in finding.title
    assert finding.costs_bytes == sum(holding.growth_bytes or 0 for holding in both)


def test_a_run_that_ends_before_its_buffer_is_full_comes_first() -> None:
    (finding,) = found(replay("observations", resident=GIB, filled=100_000, run_rows=250_000), code="MEM113")
    assert finding.title.endswith("has 1.00 GiB, will reach 2.50 GiB when the run ends (full: 10.0 GiB)")
    assert finding.costs_bytes == GIB * 3 // 2


def test_a_full_buffer_and_a_small_one_are_no_news() -> None:
    full = replay("observations", resident=10 * GIB, filled=1_000_000)
    small = Holding(
        path="b.rewards",
        kind="array",
        type="numpy.ndarray",
        nbytes=4 * MIB,
        resident_bytes=0,
        filled=0,
        capacity=1_000_000,
    )
    assert not found(full, small, code="MEM113")


def test_memory_of_a_gpu_is_allocated_at_once_and_does_not_fill() -> None:
    tensor = Holding(
        path="b.obs",
        kind="tensor",
        type="torch.Tensor",
        nbytes=GIB,
        resident_bytes=0,
        filled=1,
        capacity=9,
        device="vram",
    )
    assert not found(tensor, code="MEM113")


def test_a_long_deque_of_transitions_is_named_with_what_its_objects_take() -> None:
    (finding,) = found(memory(), code="MEM111")
    assert finding.severity == "warning"
    assert "agent.memory holds 100,000 transitions" in finding.title
    assert finding.costs_bytes == 29_000_000


def test_short_memories_other_lists_and_arrays_are_left_alone() -> None:
    assert not found(memory(filled=10_000), code="MEM111")
    assert not found(memory(path="callback.returns", type="list"), code="MEM111")
    assert not found(memory(kind="array", type="numpy.ndarray"), code="MEM111")
    assert not found(memory(path="console._buffer", type="list", has_transitions=False), code="MEM111")
