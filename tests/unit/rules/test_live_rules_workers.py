"""What rules about workers see in a running process and its children."""

from __future__ import annotations

import os

from rlmem.core.findings import Finding
from rlmem.core.holdings import Explanation, GpuShare, Holding, TreeExplanation
from rlmem.rules import find_live, find_rule
from rlmem.rules.shared_memory import SharedMemory, check_live, read_shared_memory

MIB, GIB = 1 << 20, 1 << 30
MAIN = Explanation(pid=7, start=1, command="python train.py", rss_bytes=GIB)


def worker(pid: int, start: int = 1, **more: object) -> Explanation:
    return Explanation(pid=pid, start=start, command="python train.py", role="worker", **more)  # type: ignore[arg-type]


def tree(*processes: Explanation) -> TreeExplanation:
    return TreeExplanation(processes=processes)


def found(code: str, subject: TreeExplanation) -> list[Finding]:
    return [finding for finding in find_live(subject) if finding.code == code]


def on_gpu(used: int | None) -> tuple[GpuShare, ...]:
    return (GpuShare(gpu="0", used_bytes=used),)


def test_a_cuda_context_in_several_workers_is_found_with_their_sum() -> None:
    workers = [worker(pid, gpus=on_gpu(400 * MIB)) for pid in (8, 9, 10)]
    (finding,) = found("MEM503", tree(MAIN, *workers))
    assert finding.saves_bytes == 1200 * MIB
    assert "3 workers" in finding.title


def test_one_worker_a_learner_or_unknown_vram_are_no_contexts_in_workers() -> None:
    assert not found("MEM503", tree(MAIN, worker(8, gpus=on_gpu(400 * MIB)), worker(9)))
    assert not found("MEM503", tree(MAIN, *(worker(pid, gpus=on_gpu(8 * GIB)) for pid in (8, 9))))
    assert not found("MEM503", tree(MAIN, *(worker(pid, gpus=on_gpu(None)) for pid in (8, 9))))


def test_workers_of_three_generations_are_found_with_what_the_older_ones_hold() -> None:
    started = [(8, 100), (9, 110), (10, 10_000), (11, 10_050), (12, 20_000), (13, 20_001)]
    workers = [worker(pid, start, pss_bytes=100 * MIB) for pid, start in started]
    (finding,) = found("MEM507", tree(MAIN, *workers))
    assert finding.saves_bytes == 400 * MIB


def test_training_and_evaluation_workers_are_two_generations_at_most() -> None:
    workers = [worker(pid, start, pss_bytes=100 * MIB) for pid, start in ((8, 100), (9, 110), (10, 900), (11, 9_000))]
    assert not found("MEM507", tree(MAIN, *workers))


def test_forked_workers_that_copied_a_parents_lists_are_found() -> None:
    rows = Holding(path="dataset.rows", kind="container", type="list", nbytes=GIB, resident_bytes=GIB)
    parent = Explanation(pid=7, start=1, command="python train.py", rss_bytes=2 * GIB, holdings=(rows,))
    copied = [worker(pid, uss_bytes=700 * MIB, shared_anonymous_bytes=MIB) for pid in (8, 9)]
    fresh = [worker(pid, uss_bytes=10 * MIB, shared_anonymous_bytes=GIB) for pid in (8, 9)]
    (finding,) = found("MEM505", tree(parent, *copied))
    assert finding.saves_bytes == 1400 * MIB
    assert not found("MEM505", tree(parent, *fresh))
    assert not found("MEM505", tree(MAIN, *copied))


def test_shared_memory_is_judged_by_what_is_left_of_it() -> None:
    rule = find_rule("MEM508")[0]

    def said(size: int, free: int) -> list[str]:
        shared = SharedMemory(size_bytes=size, free_bytes=free)
        return [finding.severity for finding in check_live(rule, tree(MAIN), lambda pid: shared)]

    assert said(64 * MIB, 2 * MIB) == ["warning"]
    assert said(64 * MIB, 40 * MIB) == ["info"]
    assert said(64 * MIB, 64 * MIB) == []
    assert said(16 * GIB, 12 * GIB) == []
    assert not list(check_live(rule, tree(MAIN), lambda pid: None))


def test_the_shared_memory_of_this_process_can_be_read_and_that_of_nobody_cannot() -> None:
    own = read_shared_memory(os.getpid())
    assert own is not None
    assert 0 <= own.free_bytes <= own.size_bytes
    assert read_shared_memory(2**30) is None
