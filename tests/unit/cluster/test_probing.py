"""Nodes that are asked together: Ray's tables, the driver that asks, and what is said when Ray does not tell. Ray need not be here."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rlmem.app.explain_cluster import cluster_document
from rlmem.cluster.holdings import NodeHoldings, ProcessHoldings, to_data
from rlmem.ray.actors import accessor_of
from rlmem.ray.looking import Known
from rlmem.ray.probing import Probes, _why
from rlmem.ray.trials import Actors
from rlmem.report.cluster_view import cluster_view
from rlmem.report.render import render_view

ROWS = [
    {
        "NodeID": node,
        "Alive": True,
        "Resources": {"node:__internal_head__": 1.0} if node == "head" else {},
        "NodeManagerAddress": "192.0.2.1",
        "NodeManagerHostname": "here",
        "NodeManagerPort": port,
    }
    for port, node in enumerate(("head", "second"))
]


class Answer:
    """A method of an actor: ``remote`` answers at once."""

    def __init__(self, function: Any) -> None:
        self.remote = lambda *words: Answered(function, words)


class Answered:
    def __init__(self, function: Any, words: tuple[Any, ...]) -> None:
        self.function, self.words = function, words


class Ray:
    """Two nodes with a probe each; ``tables`` are Ray's own, or the error that comes instead of them."""

    __version__ = "2.60.0"

    def __init__(self, tables: Any, *, job: str = "02000000") -> None:
        self.tables, self.job, self.known = tables, job, {}
        self.actors = {row["NodeID"]: self.probe(row["NodeID"]) for row in ROWS}

    def probe(self, node: str) -> Any:
        def look(known: Known, _options: Any) -> dict[str, Any]:
            self.known[node] = known
            processes = (ProcessHoldings(pid=7, command="ray::Judge", rss_bytes=9, pss_bytes=8),)
            return {"node": to_data(NodeHoldings(node_id=node, processes=processes)), "machine": node, "rlmem": "1"}

        def tables() -> Any:
            if isinstance(self.tables, Exception):
                raise self.tables
            return self.tables

        return SimpleNamespace(hello=Answer(lambda: None), tables=Answer(tables), look=Answer(look))

    def nodes(self) -> list[dict[str, Any]]:
        return ROWS

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_job_id=lambda: self.job, gcs_address="192.0.2.1:6379")

    def wait(self, waiting: list[Answered], **_: Any) -> tuple[list[Answered], list[Answered]]:
        return waiting[:1], waiting[1:]

    def get(self, answered: Answered, **_: Any) -> Any:
        return answered.function(*answered.words)


def asked(ray: Ray, **more: Any) -> Any:
    probes = Probes(ray, deadline_s=5.0, **{"own_driver": True, **more})
    probes._actors = ray.actors
    return probes.ask()


def tables(*workers: dict[str, Any]) -> dict[str, Any]:
    return {"actors": [], "workers": list(workers), "store_left": []}


def driver(node: str, pid: int, job: str) -> dict[str, Any]:
    return {"node_id": node, "pid": pid, "kind": "DRIVER", "job": job}


def test_the_driver_that_asks_is_known_by_its_job_whatever_its_number() -> None:
    """Through Ray's client it is a process of the head's, and our own number may be another driver's there."""
    ray = Ray(tables(driver("head", 7, "01000000"), driver("head", 8, "02000000"), driver("second", 8, "03000000")))
    assert asked(ray).is_complete
    assert {node: known.askers for node, known in ray.known.items()} == {"head": (8,), "second": ()}
    assert {node: known.drivers for node, known in ray.known.items()} == {"head": (7, 8), "second": (8,)}


def test_a_driver_that_does_not_only_ask_is_looked_at() -> None:
    ray = Ray(tables(driver("head", 8, "02000000")))
    asked(ray, own_driver=False)
    assert ray.known["head"].askers == ()


def test_tables_that_cannot_be_read_are_told_and_nothing_is_complete() -> None:
    found = asked(Ray(AttributeError("'GlobalState' object has no attribute 'x'")))
    assert not found.is_complete
    document = cluster_document(found)
    assert document.complete is False
    (note,) = document.notes
    assert note.startswith("Ray's tables could not be read (AttributeError: 'GlobalState' object has no attribute 'x')")
    assert "drivers are not in these sums" in " ".join(render_view(document, cluster_view, "text", None).split())
    assert asked(Ray(tables())).notes == ()


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("RayTaskError(AttributeError)", "Traceback:\n  File …\nAttributeError: no x\n", "AttributeError: no x"),
        ("GetTimeoutError", "not\nin time", "GetTimeoutError: not in time"),
    ],
)
def test_why_a_probe_failed_is_a_line(kind: str, text: str, line: str) -> None:
    assert _why(type(kind, (Exception,), {})(text)) == line


def test_the_tables_of_older_rays_are_read_under_their_name() -> None:
    class Old:
        """As in Ray 2.50 and 2.51."""

        global_state_accessor: Any = None

        def _check_connected(self) -> None:
            self.global_state_accessor = "connected"

    assert accessor_of(Old()) == "connected"
    assert accessor_of(SimpleNamespace(_connect_and_get_accessor=lambda: "connected")) == "connected"


def test_a_trial_whose_actors_are_not_known_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as any error there
    now = iter(range(0, 1000, 100))
    actors = Actors(lambda: float(next(now)))
    with caplog.at_level(logging.WARNING, "rlmem"):
        assert (actors.pids(), actors.pids()) == ((), ())
    assert len([record for record in caplog.records if "not in its measured peak" in record.message]) == 1
