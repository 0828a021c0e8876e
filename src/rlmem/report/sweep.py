"""Sweeps and benchmarks as plain data, for those that do not take documents yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.documents.bench import BenchDocument
from rlmem.documents.contract import from_plain, to_plain
from rlmem.documents.sweep import SweepDocument
from rlmem.documents.sweep_comparison import SweepComparisonDocument, compare_sweeps
from rlmem.report.bench import bench_view
from rlmem.report.compare_sweeps import compare_sweeps_view
from rlmem.report.sweep_view import sweep_view
from rlmem.report.view import View


def read_sweep_document(data: Any, where: str) -> dict[str, Any]:
    """A saved document of any version, as the newest one has it; rows and lines are made again from the points."""
    return to_plain(from_plain(SweepDocument, data, where))


def plain_sweep_view(document: Mapping[str, Any]) -> View:
    """What ``rlmem measure`` shows."""
    return sweep_view(from_plain(SweepDocument, document, "sweep"))


def compare_plain_sweeps(documents: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Two sweeps side by side."""
    return to_plain(compare_sweeps([from_plain(SweepDocument, each, "sweep") for each in documents], labels))


def compare_plain_sweeps_view(document: Mapping[str, Any]) -> View:
    """The pairs as tables."""
    return compare_sweeps_view(from_plain(SweepComparisonDocument, document, "comparison"))


def read_bench_document(data: Any, where: str) -> dict[str, Any]:
    """A saved benchmark."""
    return to_plain(from_plain(BenchDocument, data, where))


def plain_bench_view(document: Mapping[str, Any]) -> View:
    """One row per profile."""
    return bench_view(from_plain(BenchDocument, document, "benchmark"))
