"""The explanation of a process as a document, and those that earlier versions wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlmem.core.findings import Advice, Finding, Place
from rlmem.core.holdings import Explanation, GpuShare, Holding, Portion, Progress, ThreadStack, TreeExplanation
from rlmem.documents.contract import from_plain, schema_of, to_plain
from rlmem.documents.explanation import ExplanationDocument, explanation_document
from rlmem.errors import UsageError

WRITTEN = Path(__file__).parents[2] / "golden" / "written_by_0" / "explain.json"
BUFFER = Holding(
    path="model.replay_buffer.rewards",
    kind="array",
    type="numpy.ndarray",
    nbytes=4000,
    resident_bytes=300,
    filled=75,
    capacity=1000,
    run_rows=500,
)
PROCESS = Explanation(
    pid=7,
    start=1,
    command="python train.py",
    way="agent",
    rss_bytes=5300,
    holdings=(BUFFER,),
    portions=(Portion(name="heap", resident_bytes=4000),),
    unexplained_bytes=1000,
    threads=(ThreadStack(tid=7, name="python", reserved_bytes=8192, resident_bytes=4096),),
    gpus=(GpuShare(gpu="NVIDIA H200", used_bytes=900, reserved_bytes=300),),
    progress=Progress(step=75, total=500),
    pauses_s=(0.25, 0.5),
)
FINDING = Finding(
    code="MEM101",
    name="duplicate-next-obs",
    severity="warning",
    title="stored twice",
    changes=(("optimize_memory_usage", True),),
    place=Place(path="train.py", line=38, column=1, end_line=38, end_column=9),
)
DOCUMENT = explanation_document(
    TreeExplanation(processes=(PROCESS,), notes=("a note",)),
    findings=(FINDING,),
    advice=(Advice(finding=FINDING, returns_bytes=5),),
    limit_bytes=10_000,
)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with the value at ``processes.0.way`` changed, or taken out where there is none."""
    plain = to_plain(DOCUMENT)
    part: Any = plain
    *way, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    for word in way:
        part = part[word]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return plain


def test_an_explanation_reads_back_as_it_was_written() -> None:
    plain = json.loads(json.dumps(to_plain(DOCUMENT)))
    Draft202012Validator(schema_of(ExplanationDocument)).validate(plain)
    assert from_plain(ExplanationDocument, plain, "x.json") == DOCUMENT


def test_what_nouns_reckon_is_written_out() -> None:
    process = to_plain(DOCUMENT)["processes"][0]
    assert (process["named_bytes"], process["growth_bytes"], process["full_growth_bytes"]) == (300, 1700, 3700)
    assert (process["holdings"][0]["growth_bytes"], process["holdings"][0]["full_growth_bytes"]) == (1700, 3700)
    assert (process["paused_s"], process["longest_pause_s"]) == (0.75, 0.5)
    assert process["gpus"][0]["other_bytes"] == 600


def test_a_finding_is_as_in_all_documents_and_advice_says_what_it_gives_back() -> None:
    plain = to_plain(DOCUMENT)
    (finding,), (advice,) = plain["findings"], plain["advice"]
    assert finding["changes"] == {"optimize_memory_usage": True}
    assert finding["line"] == 38
    assert advice == {**finding, "returns_bytes": 5}


def test_what_version_1_wrote_is_read() -> None:
    document = from_plain(ExplanationDocument, json.loads(WRITTEN.read_text()), "explain.json")
    assert [process.pid for process in document.processes] == [7, 8, 9, 10]
    assert document.findings[0].line == 38
    assert document.advice[0].changes["optimize_memory_usage"] is True
    assert document.advice[0].returns_bytes == 150 << 20


def test_what_early_releases_of_version_1_did_not_write_is_left_out() -> None:
    plain = json.loads(WRITTEN.read_text())
    del plain["findings"]
    for process in plain["processes"]:
        del process["pauses_s"]
        for holding in process["holdings"]:
            del holding["low_bytes"], holding["high_bytes"], holding["graph_more"]
    document = from_plain(ExplanationDocument, plain, "explain.json")
    assert document.findings == ()
    assert document.top.pauses_s == ()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("processes", ..., "processes: missing"),
        ("processes", [], "processes: expected array"),
        ("processes.0.rss_bytes", -1, "processes[0].rss_bytes: expected integer"),
        ("processes.0.way", "magic", "processes[0].way: 'magic' is not one of agent,"),
        ("processes.0.holdings.0.path", ..., "processes[0].holdings[0].path: missing"),
        ("processes.0.holdings.0.nbytes", "much", "processes[0].holdings[0].nbytes: expected integer"),
        ("advice.0.returns_bytes", ..., "advice[0].returns_bytes: missing"),
        ("findings.0.severity", "fatal", "findings[0].severity: 'fatal' is not one of error,"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: str, value: Any, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_plain(ExplanationDocument, changed(path, value), "x.json")
    assert str(raised.value).startswith(f"x.json: not a complete explain document: {problem}")


@pytest.mark.parametrize("changes", [3, ["no pair"], [["a", 1, 2]]])
def test_a_broken_document_of_version_1_is_refused(changes: Any) -> None:
    plain = json.loads(WRITTEN.read_text())
    plain["findings"][0]["changes"] = changes
    with pytest.raises(UsageError, match=r"x\.json: not a complete rlmem\.explain/1 document: "):
        from_plain(ExplanationDocument, plain, "x.json")
