"""What processes hold as a ledger: in components of a plan, with the sum that they hold together."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rlmem.core.holdings import Explanation, GpuShare, Holding, Portion, TreeExplanation
from rlmem.core.ledger import Ledger
from rlmem.documents.explanation import explanation_document
from rlmem.process.explain import explain_tree

MIB = 1 << 20
FACTS = Path(__file__).parents[1] / "golden" / "facts"
TRAINING = """
import rlmem.preload, sys, time
import numpy as np
class Buffer:
    def __init__(self):
        self.observations = np.ones((40, 1 << 20), np.uint8)
        self.rewards = np.zeros(8 << 20, np.uint8)
replay_buffer = Buffer()
scratch = np.ones(16 << 20, np.uint8)
print("ready", flush=True)
time.sleep(600)
"""


def recorded(name: str) -> TreeExplanation:
    """Processes that were explained once; children are those of a vector environment."""
    stored = json.loads((FACTS / f"explain-{name}.json").read_text())
    found = [msgspec.convert(one, Explanation) for one in stored["explained"].values()]
    found.sort(key=lambda process: process.pid != stored["pid"])
    return TreeExplanation(processes=(found[0], *(replace(process, role="worker") for process in found[1:])))


def sizes(ledger: Ledger, **which: Any) -> dict[str, int]:
    """Bytes of each component that counts."""
    totals: dict[str, int] = {}
    for entry in ledger.only(**which).entries:
        if entry.counts:
            totals[entry.component] = totals.get(entry.component, 0) + entry.nbytes
    return totals


@pytest.mark.parametrize("name", ["dqn", "gpu", "image", "pages", "ppo"])
def test_the_sum_is_what_the_processes_hold_together(name: str) -> None:
    tree = recorded(name)
    ledger = tree.ledger()
    held = sum(process.pss_bytes or 0 for process in tree.processes)
    assert ledger.only(device="ram").nbytes == pytest.approx(held, abs=100)
    assert {entry.basis for entry in ledger.entries} == {"measured"}
    (top,) = [peak for peak in ledger.peaks() if peak.device == "ram"]
    assert top.phase == tree.top.phase or tree.top.phase is None


def test_buffers_and_networks_have_the_names_that_a_plan_gives_them() -> None:
    tree = recorded("image")
    ledger = tree.ledger()
    totals = sizes(ledger, device="ram")
    owners = {holding.path: holding.resident_bytes for holding in tree.top.holdings}
    assert totals["replay.observations"] == owners["model.replay_buffer.observations"]
    assert {"learner.parameters", "learner.targets", "runtime", "unexplained"} <= set(totals)
    assert totals["other.losses"] == owners["losses"]
    assert totals["other"] < 0.005 * ledger.only(device="ram").nbytes  # small ones share a line
    reserved = [entry for entry in ledger.only(component="replay").entries if entry.residency == "reserved"]
    assert sum(entry.nbytes for entry in reserved) == sum(
        holding.growth_bytes or 0 for holding in tree.top.holdings if "replay_buffer" in holding.path
    )


def test_workers_are_a_process_and_a_component() -> None:
    tree = recorded("ppo")
    totals = sizes(tree.ledger(), process="workers")
    assert set(totals) == {"workers", "unexplained"}
    assert sum(totals.values()) == pytest.approx(sum(each.pss_bytes or 0 for each in tree.processes[1:]), abs=100)


def test_where_nobody_could_be_asked_the_heap_is_unexplained() -> None:
    tree = recorded("pages")
    heap = next(portion.resident_bytes for portion in tree.top.portions if portion.name == "heap")
    assert sizes(tree.ledger())["unexplained"] >= 0.99 * heap


def test_vram_is_named_tensors_spare_room_the_context_and_the_rest() -> None:
    share = GpuShare(gpu="H200", used_bytes=900, allocated_bytes=200, reserved_bytes=300)
    net = Holding(
        path="policy.weight", kind="tensor", type="torch.Parameter", nbytes=150, resident_bytes=150, device="vram"
    )
    process = Explanation(pid=1, start=1, command="x", way="agent", holdings=(net,), gpus=(share,))
    assert sizes(process.ledger(), device="vram") == {
        "learner.parameters": 150,
        "runtime.allocator-cache": 100,
        "runtime.cuda-context": 600,
        "unexplained": 50,
    }
    blind = replace(process, holdings=(), gpus=(GpuShare(gpu="H200", used_bytes=900),))
    assert sizes(blind.ledger(), device="vram") == {"unexplained": 900}


def test_a_size_from_a_sample_keeps_its_range_and_programs_are_no_workers() -> None:
    sampled = Holding(
        path="episodes", kind="container", type="list", nbytes=900 * MIB, resident_bytes=900 * MIB,
        estimated=True, low_bytes=800 * MIB, high_bytes=950 * MIB,
    )  # fmt: skip
    top = Explanation(pid=1, start=1, command="x", way="agent", rss_bytes=900 * MIB, holdings=(sampled,))
    heap = Portion(name="heap", resident_bytes=MIB)
    other = Explanation(pid=2, start=1, command="blender", role="other", rss_bytes=MIB, portions=(heap,))
    ledger = TreeExplanation(processes=(top, other)).ledger()
    (episodes,) = ledger.only(component="other.episodes").entries
    assert (episodes.amount.low, episodes.nbytes, episodes.amount.high) == (800 * MIB, 900 * MIB, 950 * MIB)
    assert ledger.only(process="other").nbytes == MIB


def test_a_document_gives_the_same_ledger() -> None:
    tree = recorded("image")
    assert sizes(explanation_document(tree).ledger()) == sizes(tree.ledger())


def test_a_real_process_is_a_ledger() -> None:
    with subprocess.Popen([sys.executable, "-c", TRAINING], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        tree = explain_tree(child.pid, timeout_s=30)
        child.kill()
    ledger = tree.ledger()
    totals = sizes(ledger)
    assert totals["replay.observations"] == pytest.approx(40 * MIB, abs=MIB)
    assert totals["other.scratch"] == pytest.approx(16 * MIB, abs=MIB)
    to_come = [entry.nbytes for entry in ledger.only(component="replay.rewards").entries if not entry.counts]
    assert to_come == pytest.approx([8 * MIB], abs=64 << 10)
    assert ledger.nbytes == pytest.approx(tree.pss_bytes, rel=0.01)
