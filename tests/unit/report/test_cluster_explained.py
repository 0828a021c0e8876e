"""The document, the text and the page of a cluster, from nouns that no Ray was needed for."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError, validate

from rlmem.app.explain_cluster import cluster_document
from rlmem.cli import run
from rlmem.cluster.holdings import ClusterHoldings, NodeHoldings, ProcessHoldings, StoreHoldings
from rlmem.core.holdings import GpuShare, Holding, Portion
from rlmem.documents.cluster import ClusterDocument
from rlmem.documents.contract import from_plain, schema_of, to_plain
from rlmem.errors import UsageError
from rlmem.report.cluster_view import cluster_view
from rlmem.report.html.render import render_html
from rlmem.report.redact import redacted
from rlmem.report.render import render_view
from rlmem.units import GIB, MIB

_found = importlib.util.find_spec("ray")
HAS_RAY = _found is not None and _found.origin is not None
EVIL = "<script>alert(1)</script>"


def owner(path: str, mib: int, **more: Any) -> Holding:
    given = {"kind": "array", "type": "ndarray", "nbytes": mib * MIB, "resident_bytes": mib * MIB}
    return Holding(path=path, **{**given, **more})


def runner(pid: int, mib: int, **more: Any) -> ProcessHoldings:
    given: dict[str, Any] = {
        "command": "ray::SingleAgentEnvRunner.sample",
        "role": "env-runner",
        "actor_class": "SingleAgentEnvRunner",
        "actor_id": f"a{pid}",
        "trial": "d9509_00000",
        "rss_bytes": (mib + 40) * MIB,
        "pss_bytes": (mib + 20) * MIB,
        "uss_bytes": (mib - 5) * MIB,
        "store_bytes": 20 * MIB,
        "way": "agent",
    }
    return ProcessHoldings(pid=pid, **{**given, **more})


HEAD = NodeHoldings(
    node_id="aaaaaaaa",
    address="192.0.2.1",
    host="enigma",
    is_head=True,
    processes=(
        ProcessHoldings(pid=1, command="python train.py", role="driver", rss_bytes=9 * MIB, pss_bytes=8 * MIB),
        ProcessHoldings(pid=2, command="/x/raylet --y", role="ray", rss_bytes=9 * MIB, pss_bytes=7 * MIB, uss_bytes=1),
        ProcessHoldings(pid=3, command="ray::Judge", role="Judge", actor_class="Judge", rss_bytes=5 * MIB),
    ),
    store=StoreHoldings(
        capacity_bytes=200 * MIB, primary_bytes=30 * MIB, resident_bytes=40 * MIB, spilled_bytes=90 * MIB
    ),
    ram_bytes=64 * GIB,
    available_bytes=32 * GIB,
    cpu_s=0.25,
)
SECOND = NodeHoldings(
    node_id="bbbbbbbb",
    address="192.0.2.2",
    processes=(
        runner(
            11,
            300,
            actor_name="left",
            holdings=(
                owner("self.frames", 100),
                owner("self.batch", 60, resident_bytes=MIB, file="object-store"),
                owner("self.net", 7, device="vram"),
                owner("self.replay", 20, nbytes=50 * MIB),
            ),
            portions=(Portion(name="heap", resident_bytes=12 * MIB),),
            smaller_bytes=3 * MIB,
            unexplained_bytes=0,
            gpus=(GpuShare(gpu="A100", used_bytes=500 * MIB),),
            paused_s=0.012,
        ),
        *(runner(pid, 300 - pid) for pid in range(12, 19)),
        ProcessHoldings(
            pid=30,
            parent=11,
            command="simulator",
            role="env-runner",
            actor_class="SingleAgentEnvRunner",
            trial="d9509_00000",
            rss_bytes=MIB,
            pss_bytes=MIB,
            store_bytes=0,
        ),
    ),
    store=StoreHoldings(capacity_bytes=200 * MIB, primary_bytes=0, resident_bytes=160 * MIB),
    ram_bytes=64 * GIB,
    limit_bytes=10 * GIB,
    limit_used_bytes=9 * GIB,
    limit_source="cgroup v2 (memory.max)",
)
LOST = NodeHoldings(node_id="cccccccc", address="192.0.2.3", problem="no answer within 30 s")
FOUND = ClusterHoldings(nodes=(HEAD, SECOND, LOST), address="192.0.2.1:6379", ray="2.60.0", seconds=1.5)


def text(found: ClusterHoldings = FOUND) -> str:
    return render_view(cluster_document(found), cluster_view, "text", None)


def rows(found: str, begin: str) -> list[str]:
    return [line for line in found.splitlines() if line.strip().startswith(begin)]


def test_the_document_keeps_to_its_schema_which_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(json.dumps(to_plain(cluster_document(FOUND))))
    assert run(["schema", "cluster"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    validate(document, schema)
    assert from_plain(ClusterDocument, document, "x.json") == cluster_document(FOUND)
    del document["nodes"][0]["store"]["spilled_bytes"]
    with pytest.raises(ValidationError):
        validate(document, schema)
    with pytest.raises(UsageError, match=r"nodes\[0\].store.spilled_bytes: missing$"):
        from_plain(ClusterDocument, document, "x.json")
    assert schema == json.loads(json.dumps(schema_of(ClusterDocument)))


def test_sums_of_the_document_are_those_of_its_rows() -> None:
    document = cluster_document(FOUND)
    assert (document.complete, document.nodes[2].pss_bytes) == (False, None)
    assert document.pss_bytes == sum(node.pss_bytes or 0 for node in document.nodes)
    assert document.pss_bytes == sum(row.heap_bytes or 0 for row in document.roles)
    (row,) = [row for row in document.roles if row.role == "Judge"]
    assert (row.processes, row.heap_bytes) == (1, None)  # may not be read: unknown, and not 0


def test_a_role_has_its_largest_process_and_children_stand_after_the_actors() -> None:
    document = cluster_document(FOUND)
    (row,) = [row for row in document.roles if row.role == "env-runner"]
    assert (row.processes, row.largest_bytes) == (9, 300 * MIB)
    pids = [process.pid for process in document.nodes[1].processes]
    assert pids == [*range(11, 19), 30]


def test_what_is_in_the_store_is_not_still_to_come() -> None:
    owners = {owner.path: owner for owner in cluster_document(FOUND).nodes[1].processes[0].holdings}
    assert owners["self.batch"].growth_bytes == 0
    assert owners["self.replay"].growth_bytes == 30 * MIB


def test_the_text_says_what_all_hold_who_did_not_answer_and_who_is_near_the_end() -> None:
    said = text()
    assert "12 processes on 2 nodes hold" in said
    assert "node 192.0.2.3 (cccccc): no answer within 30 s; its memory is not in these sums" in said
    assert "node 192.0.2.2 (bbbbbb): 90 % of its limit of 10.0 GiB is in use; Ray kills workers from 95 % on" in said
    assert "90.0 MiB spilled to disk" in said
    assert "asked in 1.5 s, 0.25 s of CPU on the busiest node, 12 ms at most inside a program" in said


def test_owners_stand_in_the_column_of_where_they_lie() -> None:
    said = text()
    title = rows(said, "held by")[-1]
    for path, size, column in (
        ("self.frames", "100 MiB", "held (PSS)"),
        ("self.batch", "60.0 MiB", "of the store"),
        ("self.net", "7.00 MiB", "VRAM"),
        ("self.replay (+ 30.0 MiB to come)", "20.0 MiB", "held (PSS)"),
    ):
        (line,) = rows(said, path)
        assert line.rstrip().endswith(size)
        assert line.index(size) + len(size) == title.index(column) + len(column)


def test_many_alike_are_added_up_and_rays_own_too() -> None:
    said = text()
    assert rows(said, "env-runner 11 SingleAgentEnvRunner 'left'")
    (more,) = rows(said, "env-runner: 4 more")
    assert "850 MiB" in more  # 284 + 283 + 282, and the child of the first
    assert rows(said, "ray: 1 process")
    (closed,) = rows(said, "Judge 3")
    assert "5.00 MiB RSS" in closed


def test_how_to_get_names_is_said_where_nobody_has_an_agent() -> None:
    assert "no process has an agent" not in text()
    silent = replace(FOUND, nodes=(HEAD,))
    assert "'rlmem.ray.naming.start'" in text(silent).replace("\n", "")


def test_notes_are_said_once_with_who_said_them() -> None:
    noted = replace(SECOND, processes=tuple(replace(each, notes=("asleep",)) for each in SECOND.processes))
    assert "11, 12, 13 and 6 more: asleep" in text(replace(FOUND, nodes=(noted,)))


def test_of_many_nodes_the_fullest_have_sections_and_all_have_rows() -> None:
    many = tuple(replace(HEAD, node_id=f"{number:08x}", is_head=False) for number in range(12))
    said = text(replace(FOUND, nodes=many))
    assert len(rows(said, "Node 192.0.2.1")) == 8
    assert "4 more nodes are in the table only" in said


def test_a_cluster_of_which_no_node_answered_says_so() -> None:
    assert "no answer within 30 s" in text(replace(FOUND, nodes=(LOST,)))


def test_the_page_is_whole_and_safe() -> None:
    named = replace(SECOND, processes=(runner(11, 300, actor_name=EVIL, holdings=(owner(EVIL, 50),)),))
    page = render_html(cluster_document(replace(FOUND, nodes=(HEAD, named, LOST))))
    assert page.startswith("<!doctype html>")
    assert EVIL not in page
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    ids = re.findall(r'<section[^>]* id="(\w+)"', page)
    assert ids == ["verdict", "components", "nodes", "processes", "trials", "environment"]
    assert "Node 192.0.2.3 (cccccc): no answer within 30 s" in page
    data = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[0]
    from_plain(ClusterDocument, json.loads(data), "page")


def test_without_names_the_page_is_whole_even_where_a_name_is_one_of_our_words() -> None:
    document = redacted(cluster_document(FOUND), frozenset({"192.0.2.1", "enigma", "agent"}))
    assert document.nodes[0].host == "…"
    assert document.nodes[1].processes[0].way == "…"
    page = render_html(document)
    assert "192.0.2.1" not in page
    assert "Node …" in page


CLOSED = replace(
    HEAD,
    processes=tuple(
        replace(each, pss_bytes=None, uss_bytes=None, store_bytes=None, trial="t1") for each in HEAD.processes
    ),
    store=StoreHoldings(),
)


def test_what_nobody_may_read_is_unknown_in_the_text_and_on_the_page() -> None:
    closed = replace(FOUND, nodes=(CLOSED,))
    said = " ".join(text(closed).split())
    assert "what 3 processes on 1 node hold is unknown" in said
    assert "no node could be asked" not in said
    page = render_html(cluster_document(closed))
    assert "Node 192.0.2.1 (head, aaaaaa): unknown" in page
    assert re.search(r"Judge 3</span><span[^>]*></span><span class=\"size\">5.00 MiB RSS", page)
    assert re.search(r"t1</t[dh]><td[^>]*>3</td><td[^>]*>(<\w+>)?unknown", page)
    assert not re.search(r"\b0 B\b", page.split('<script type="application/json"', maxsplit=1)[0])


def test_of_processes_some_of_which_may_be_read_those_are_added() -> None:
    page = render_html(cluster_document(replace(FOUND, nodes=(HEAD, CLOSED))))
    assert "Node 192.0.2.1 (head, aaaaaa): 55.0 MiB" in page


def test_a_saved_document_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(to_plain(cluster_document(FOUND))))
    assert run(["show", str(path)]) == 0
    assert "Ray 2.60.0 at 192.0.2.1:6379" in capsys.readouterr().out


# -- the command ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed here")
def test_without_ray_the_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--ray"]) == 3
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "rlmem: Ray is not installed here: pip install 'rlmem[ray]'\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "--ray"], "the number of a process is for one process"),
        (["--ray", "--name", "x"], "--name is for one process"),
        (["--ray", "--trim"], "--trim is for one process"),
        (["--ray", "--no-tree"], "--no-tree is for one process"),
        (["1", "--address", "head:6379"], "--address is for a cluster: give --ray too"),
        (["1", "--html", "x.html"], "--html is for a cluster: give --ray too"),
        (["--ray", "--redact"], "give --html FILE too"),
        (["--ray", "--html", "no/such/folder/x.html"], "no such folder"),
        ([], "--ray for a cluster"),
    ],
)
def test_options_that_contradict_are_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *words]) == 2
    assert said in capsys.readouterr().err
