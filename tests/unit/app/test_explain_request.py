"""A real process explained by a typed request, as from Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rlmem
from rlmem import ExplainRequest, explain
from rlmem.errors import AnalysisError

MIB = 1 << 20
PROGRAM = (
    "import rlmem.preload, time\nkept = bytearray(b'x') * (30 << 20)\nprint('ready', flush=True)\ntime.sleep(600)\n"
)


@pytest.fixture(scope="module")
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child.pid
        child.kill()


def test_a_process_is_explained_with_its_limit(pid: int) -> None:
    document = explain(ExplainRequest(pid=pid))
    owners = {holding.path: holding.resident_bytes for holding in document.top.holdings}
    assert owners["kept"] == pytest.approx(30 * MIB, abs=MIB)
    assert document.top.way == "agent"
    assert document.limit_bytes is not None
    assert document.limit_bytes > document.top.rss_bytes
    assert document.limit_source
    assert document.ledger().nbytes == pytest.approx(document.pss_bytes, rel=0.01)


def test_what_is_not_asked_for_is_not_done(pid: int) -> None:
    document = explain(ExplainRequest(pid=pid, names=False, advice=False))
    assert document.top.way == "pages"
    assert (document.findings, document.advice, document.top.holdings) == ((), (), ())


def test_every_option_reaches_what_reads_the_process(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"tree": False, "fork_names": True, "unsafe_attach": True, "trim": True, "timeout_s": 7.5, "names": True}
    asked: dict[str, Any] = {}

    def explain_tree(pid: int, **options: Any) -> None:
        asked.update(options)
        raise AnalysisError("enough is known")

    monkeypatch.setattr("rlmem.app.explain.explain_tree", explain_tree)
    with pytest.raises(AnalysisError, match="enough"):
        explain(ExplainRequest(pid=pid, **options))
    assert asked == options


def test_a_process_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AnalysisError, match="no process"):
        explain(ExplainRequest(pid=2**22 + 1))


def test_the_public_names_are_these() -> None:
    assert {"explain", "ExplainRequest"} <= set(rlmem.__all__)
