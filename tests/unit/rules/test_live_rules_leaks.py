"""What rules about leaks, the runtime and limits see in a running process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rlmem.agent import counts
from rlmem.core.findings import Advice, Finding
from rlmem.core.holdings import Explanation, GpuShare, Holding, Portion, TreeExplanation
from rlmem.documents.explanation import explanation_document
from rlmem.process import attach
from rlmem.process.explain import explain_tree, with_limits
from rlmem.process.limits import read_limits
from rlmem.report.explain import explain_view
from rlmem.report.markdown import render
from rlmem.rules import find_live

MIB, GIB = 1 << 20, 1 << 30


def process(pid: int = 7, rss: int = GIB, **more: object) -> Explanation:
    return Explanation(pid=pid, start=1, command="python train.py", way="agent", rss_bytes=rss, **more)  # type: ignore[arg-type]


def tree(*processes: Explanation, **more: object) -> TreeExplanation:
    return TreeExplanation(processes=processes, **more)  # type: ignore[arg-type]


def found(code: str, subject: TreeExplanation) -> list[Finding]:
    return [finding for finding in find_live(subject) if finding.code == code]


def losses(graphs: int, capacity: int | None = None) -> Holding:
    return Holding(
        path="losses", kind="container", type="list", nbytes=MIB, resident_bytes=MIB,
        filled=graphs, capacity=capacity, graphs=graphs,
    )  # fmt: skip


def test_a_list_of_tensors_with_graphs_is_found_and_more_so_the_longer_it_is() -> None:
    (short,) = found("MEM601", tree(process(holdings=(losses(500),))))
    (long,) = found("MEM601", tree(process(holdings=(losses(50_000),))))
    assert (short.severity, long.severity) == ("info", "warning")
    assert "losses holds 50,000 tensors" in long.title


def test_a_few_graphs_or_a_bounded_container_are_nothing_to_say() -> None:
    assert not found("MEM601", tree(process(holdings=(losses(20), losses(50_000, capacity=50_000)))))


def test_graphs_are_found_by_their_bytes_and_not_only_by_their_number() -> None:
    few = replace(losses(100), resident_bytes=400 * MIB, nbytes=400 * MIB, graph_bytes=398 * MIB)
    (finding,) = found("MEM601", tree(process(holdings=(replace(few, added_at="train.py:38: losses.append(loss)"),))))
    assert finding.severity == "warning"
    assert finding.title.endswith("holds 100 tensors with the graphs they came from: 398 MiB")
    assert "(train.py:38: losses.append(loss))" in (finding.remedy or "")
    assert not found("MEM601", tree(process(holdings=(replace(few, capacity=200),))))


def test_no_trim_is_advised_where_kept_graphs_hold_the_heap() -> None:
    heap = (Portion(name="heap", resident_bytes=600 * MIB),)
    kept = replace(losses(100), resident_bytes=400 * MIB, nbytes=400 * MIB, graph_bytes=398 * MIB)
    assert found("MEM703", tree(process(portions=heap, free_heap_bytes=500 * MIB)))
    assert not found("MEM703", tree(process(portions=heap, free_heap_bytes=500 * MIB, holdings=(kept,))))


def test_many_open_figures_are_found_and_twenty_are_not() -> None:
    (finding,) = found("MEM606", tree(process(open_figures=21)))
    assert finding.location == "7"
    assert not found("MEM606", tree(process(open_figures=20), process(open_figures=None)))


def test_three_models_alive_are_found_and_two_are_not() -> None:
    assert found("MEM612", tree(process(models_alive=3)))
    assert not found("MEM612", tree(process(models_alive=2)))


def test_what_trimming_gave_back_is_a_warning_and_what_the_heap_calls_free_is_not() -> None:
    heap = (Portion(name="heap", resident_bytes=600 * MIB), Portion(name="malloc arenas", resident_bytes=100 * MIB))
    (free,) = found("MEM703", tree(process(portions=heap, free_heap_bytes=900 * MIB)))
    assert (free.severity, free.saves_bytes) == ("info", 700 * MIB)
    (given,) = found("MEM703", tree(process(portions=heap, free_heap_bytes=900 * MIB, trimmed_bytes=500 * MIB)))
    assert (given.severity, given.saves_bytes) == ("warning", 500 * MIB)


def test_a_heap_that_gave_little_back_is_silent_whatever_it_called_free() -> None:
    heap = (Portion(name="heap", resident_bytes=600 * MIB),)
    assert not found("MEM703", tree(process(portions=heap, free_heap_bytes=500 * MIB, trimmed_bytes=MIB)))
    assert not found("MEM703", tree(process(rss=64 * GIB, portions=heap, free_heap_bytes=500 * MIB)))


@pytest.mark.parametrize(("allocated", "fires"), [(6 * GIB, True), (9 * GIB, False), (None, False)])
def test_reserved_vram_that_is_not_in_use_is_found(allocated: int | None, fires: bool) -> None:
    share = GpuShare(gpu="NVIDIA H200", used_bytes=11 * GIB, allocated_bytes=allocated, reserved_bytes=10 * GIB)
    assert bool(found("MEM705", tree(process(gpus=(share,))))) == fires


def test_shared_pages_are_told_when_adding_up_misleads() -> None:
    workers = [process(pid=pid, rss=4 * GIB) for pid in range(8)]
    (finding,) = found("MEM004", tree(*workers, pss_bytes=6 * GIB))
    assert "look like 32.0 GiB by RSS and hold 6.00 GiB" in finding.title
    assert not found("MEM004", tree(*workers, pss_bytes=30 * GIB))
    assert not found("MEM004", tree(workers[0], pss_bytes=GIB))


def test_a_limit_below_what_the_machine_has_is_told_when_the_run_will_cross_it() -> None:
    buffer = Holding(path="b", kind="array", type="numpy.ndarray", nbytes=20 * GIB, resident_bytes=GIB)
    growing = process(rss=2 * GIB, holdings=(buffer,))
    limits = {"limit_bytes": 8 * GIB, "limit_source": "cgroup v2 (memory.max)", "machine_bytes": 64 * GIB}
    (finding,) = found("MEM005", tree(growing, **limits))
    assert finding.costs_bytes == 13 * GIB
    assert not found("MEM005", tree(growing, **{**limits, "limit_bytes": 32 * GIB}))
    assert not found("MEM005", tree(growing, **{**limits, "machine_bytes": 16 * GIB}))  # too little either way
    assert not found("MEM005", tree(growing))


def test_findings_are_on_the_page_and_in_the_document_and_not_said_twice() -> None:
    seen = Finding(
        code="MEM601", name="kept-graph", severity="warning", title="kept", saves_bytes=MIB, remedy="detach it"
    )
    planned = Advice(finding=Finding(code="MEM601", name="kept-graph", severity="warning", title="planned"))
    text = render(explain_view(explanation_document(tree(process()), findings=(seen,), advice=(planned,))))
    assert "Findings" in text
    assert "detach it" in text
    assert "planned" not in text


def test_figures_and_models_are_counted_where_their_libraries_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib._pylab_helpers", "stable_baselines3.common.base_class"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert (counts.open_figures(), counts.models_alive()) == (None, None)

    class BaseAlgorithm:
        pass

    class Agent(BaseAlgorithm):
        def __init__(self) -> None:
            self.itself = self

    plots, base = types.ModuleType("plots"), types.ModuleType("base")
    plots.Gcf = types.SimpleNamespace(figs={1: object(), 2: object()})  # type: ignore[attr-defined]
    base.BaseAlgorithm = BaseAlgorithm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib._pylab_helpers", plots)
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.base_class", base)
    kept = [Agent(), Agent()]
    gc.disable()  # the third is deleted at once, and alive in its own cycle until a collection
    try:
        Agent()
        assert (counts.open_figures(), counts.models_alive()) == (2, 3)
    finally:
        gc.enable()
    gc.collect()
    assert counts.models_alive() == len(kept)


FREED = """
import time
blocks = [bytearray(60_000) for _ in range(5000)]
kept = blocks[::50]
del blocks
print("ready", flush=True)
while True: time.sleep(0.01)
"""


@contextmanager
def started(tmp_path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "train.py"
    script.write_text(program, encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, str(script)], env=attach.preload(os.environ), stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heap")
def test_a_real_heap_with_holes_is_seen_and_then_trimmed(tmp_path: Path) -> None:
    if counts.free_heap() is None:
        pytest.skip("this C library does not say what is free")
    with started(tmp_path, FREED) as child:
        before = explain_tree(child.pid, timeout_s=20)
        after = explain_tree(child.pid, timeout_s=20, trim=True)
    assert before.top.free_heap_bytes is not None
    assert before.top.free_heap_bytes > 200 * MIB
    (free,) = found("MEM703", before)
    assert free.saves_bytes is not None
    assert free.saves_bytes > 200 * MIB
    (given,) = found("MEM703", after)
    assert given.severity == "warning"
    assert given.saves_bytes is not None
    assert abs(given.saves_bytes - free.saves_bytes) < 0.2 * free.saves_bytes


def test_limits_of_a_process_are_read_beside_what_the_machine_has() -> None:
    own = with_limits(tree(process(pid=os.getpid())), read_limits(pid=str(os.getpid())))
    assert own.machine_bytes is not None
    assert own.machine_bytes > GIB
    assert own.limit_bytes is None or own.limit_source
