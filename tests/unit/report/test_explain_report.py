"""The page of an explanation: every byte in a row, small owners added up, advice with what it gives back now."""

from __future__ import annotations

from dataclasses import replace

from rlmem.core.findings import Advice, Finding
from rlmem.core.holdings import Explanation, GpuShare, Holding, Portion, ThreadStack, TreeExplanation
from rlmem.documents.explanation import explanation_document
from rlmem.report.explain import explain_view, folded
from rlmem.report.markdown import render

MIB = 1 << 20
BUFFER = Holding(
    path="model.replay_buffer.observations['image']",
    kind="array",
    type="numpy.ndarray",
    nbytes=4000 * MIB,
    resident_bytes=300 * MIB,
    filled=75,
    capacity=1000,
)
LEAK = Holding(
    path="infos", kind="container", type="list", nbytes=9 * MIB, resident_bytes=9 * MIB, filled=3100, estimated=True
)
SMALL = tuple(
    Holding(path=f"model.policy.layer{n}.weight", kind="tensor", type="torch.Tensor", nbytes=1000, resident_bytes=1000)
    for n in range(5)
)


def process(pid: int = 7, role: str = "main", **more: object) -> Explanation:
    given = {
        "holdings": (BUFFER, LEAK, *SMALL),
        "portions": (Portion(name="heap", resident_bytes=50 * MIB),),
        "unexplained_bytes": 2 * MIB,
        "rss_bytes": 361 * MIB + 5000,
        "pss_bytes": 300 * MIB,
        "uss_bytes": 290 * MIB,
        "threads": (ThreadStack(tid=pid, name="python", reserved_bytes=8 * MIB, resident_bytes=40_960),),
        **more,
    }
    return Explanation(pid=pid, start=1, command="python train.py", role=role, way="agent", **given)  # type: ignore[arg-type]


def page(tree: TreeExplanation, **more: object) -> str:
    return render(explain_view(explanation_document(tree, **more)))  # type: ignore[arg-type]


def test_growth_is_said_in_a_sentence_and_against_the_limit() -> None:
    text = page(TreeExplanation(processes=(process(),)), limit_bytes=4000 * MIB, limit_source="cgroup v2")
    assert "allocated 3.91 GiB, resident 300 MiB, 7.5 % full: will grow by 3.61 GiB" in text
    assert "will grow by 3.61 GiB to 3.97 GiB of 3.91 GiB: does not fit" in text
    assert "75 of 1,000" in text
    assert "3,100, no end" in text
    assert "1 threads hold 40.0 KiB of stack" in text


def test_a_size_that_was_reckoned_from_a_sample_carries_its_range() -> None:
    near, wide = (
        Holding(
            path=path, kind="container", type="list", nbytes=1200 * MIB, resident_bytes=1200 * MIB, filled=5000,
            estimated=True, low_bytes=low * MIB, high_bytes=high * MIB,
        )
        for path, low, high in (("near", 1195, 1205), ("wide", 1024, 1434))
    )  # fmt: skip
    tree = TreeExplanation(processes=(process(holdings=(near, wide)),))
    text = page(tree)
    assert "~1.17 GiB (1.00–1.40)" in text
    assert text.count("(1.00–1.40)") == text.count("–1.")  # a range of 1 % is not shown
    assert [holding.low_bytes for holding in explanation_document(tree).top.holdings] == [1195 * MIB, 1024 * MIB]


def test_a_list_that_keeps_graphs_is_said_first_with_the_line_that_adds_to_it() -> None:
    kept = Holding(
        path="losses", kind="container", type="list", nbytes=90 * MIB, resident_bytes=90 * MIB, filled=100,
        graphs=99, graph_bytes=89 * MIB, added_at="train.py:38: losses.append(loss)",
    )  # fmt: skip
    view = explain_view(explanation_document(TreeExplanation(processes=(process(holdings=(BUFFER, kept)),))))
    assert view.verdict[1] == (
        "losses keeps the autograd graphs of 99 tensors, 89.0 MiB: it grows with each one added "
        "(train.py:38: losses.append(loss))",
        "bad",
    )


def test_small_owners_are_added_up_and_nothing_is_lost() -> None:
    document = explanation_document(TreeExplanation(processes=(process(),)))
    holdings = document.top.holdings
    rows = folded(holdings, document.top.rss_bytes)
    assert [row.path for row in rows] == [BUFFER.path, "infos", "model.policy (5 parts)"]
    assert sum(row.resident_bytes for row in rows) == sum(holding.resident_bytes for holding in holdings)
    many = [replace(holdings[0], path=f"x{number}.y") for number in range(60)]
    assert sum(row.resident_bytes for row in folded(many, MIB)) == 60 * 300 * MIB
    assert folded(many, MIB)[-1].path == "35 others"


def test_workers_are_one_section_and_all_in_the_table() -> None:
    workers = [process(pid=pid, role="worker") for pid in (8, 9, 10)]
    tree = TreeExplanation(processes=(process(), *workers), pss_bytes=900 * MIB, uss_bytes=800 * MIB)
    text = page(tree)
    assert text.count("the largest of 3") == 1
    assert all(f"{pid} worker" in text for pid in (8, 9, 10))
    assert "4 processes hold 900 MiB together" in text


def test_gpus_and_advice_are_shown() -> None:
    finding = Finding(
        code="MEM101", name="duplicate-next-obs", severity="warning", title="stored twice", saves_bytes=MIB
    )
    idle = Finding(code="MEM901", name="setting-without-effect", severity="info", title="no effect")
    share = GpuShare(gpu="NVIDIA H200", used_bytes=900, allocated_bytes=100, reserved_bytes=300)
    tree = TreeExplanation(processes=(process(gpus=(share,), trimmed_bytes=3 * MIB),))
    document = explanation_document(tree, advice=(Advice(finding=finding, returns_bytes=5 * MIB), Advice(finding=idle)))
    text = render(explain_view(document))
    assert "would give back 5.00 MiB of what is resident now" in text
    assert "no effect" not in text
    assert "600 B" in text
    assert "malloc_trim gave back 3.00 MiB" in text


def test_a_process_without_names_or_memory_is_a_page_too() -> None:
    bare = Explanation(pid=1, start=0, command="x" * 300, rss_bytes=0)
    text = page(TreeExplanation(processes=(bare,), notes=("a note",)))
    assert "a note" in text
    assert "…" in text
