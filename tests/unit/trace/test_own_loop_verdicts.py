"""What is said of a loop that grows and of VRAM that nobody predicts, in every format and by every command that judges.

Dry runs are facts in the agent's form; tests/cases/test_growth.py has real ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmem.agent.levels import HINT, is_growing, rises
from rlmem.cli import run as cli
from rlmem.process.sampler import TreePeak
from rlmem.runner.child import Outcome
from rlmem.trace import fitted
from rlmem.trace.dryrun import DryRun
from rlmem.trace.growth import filling, find_leak
from rlmem.trace.target import RunnableTarget

MB = 10**6


def reading(megabytes: int) -> dict[str, Any]:
    return {"tree": megabytes * MB, "rss": megabytes * MB, "peak": megabytes * MB, "others": []}


def levels(each: int, *, containers: tuple[dict[str, Any], ...] = (), end: int = 10**9) -> dict[str, Any]:
    """Forty updates that leave so many bytes each, seen at four looks."""
    looks = [
        {"rounds": rounds, "steps": 100 * rounds, "arrays": 0, "progress": [["update", rounds, end]]}
        for rounds in (1, 14, 27, 40)
    ]
    points = [[rounds, 100 * rounds, 300 * MB + each * rounds] for rounds in range(1, 41)]
    return {"per": "update", "points": points, "looks": looks, "containers": list(containers)}


def container(name: str, each: int, grown: int = 39, **more: Any) -> dict[str, Any]:
    row = {"name": name, "kind": "list", "length": grown, "grown": grown, "bytes_each": each, "file": "train.py"}
    return {**row, "graph": False, "plain": False, "capacity": None, "shortened": False, **more}


def loop(**more: Any) -> dict[str, Any]:
    return {
        "met": "loop",
        "stop": None,
        "notes": [],
        "versions": {"torch": "2.13.0", "numpy": "2.4"},
        "wall_s": 9.0,
        "phases": {name: reading(size) for name, size in (("import", 200), ("build", 250), ("update", 400))},
        "arrays": [],
        "containers": [],
        "loop": {"cycles": 40, "updates": 40, "env_steps": 4000},
        **more,
    }


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A command on a script whose dry runs have these facts, the last of them again: its exit code and what it printed."""
    script = tmp_path / "train.py"
    script.write_text("losses = []\n")

    def run(facts: dict[str, Any] | list[dict[str, Any]], command: str, *options: str) -> tuple[int, str]:
        left = facts if isinstance(facts, list) else [facts]

        def dry_run(target: RunnableTarget, **_: Any) -> DryRun:
            outcome = Outcome(status="ok", returncode=0, wall_s=9.0, peak=TreePeak())
            return DryRun(target=target, facts=left.pop(0) if len(left) > 1 else left[0], outcome=outcome)

        monkeypatch.setattr(fitted, "dry_run", dry_run)
        code = cli([command, str(script), *options])
        return code, capsys.readouterr().out

    run.script = script  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_a_loop_that_grows_is_said_to_in_every_format(planned: Any, form: str) -> None:
    facts = loop(levels=levels(5 * MB, containers=(container("losses", 600, graph=True),)))
    code, out = planned(facts, "plan", "--ram", "8GB", "--format", form)
    assert code == 5
    text = " ".join(out.split())
    assert (
        "grows 5.00 MB (3.85–6.50) an update (losses): no peak can be said; at this rate 8.00 GB are full after" in text
    )
    if form == "json":
        document = json.loads(out)
        assert document["verdict"] == "grows"
        assert document["growth"]["bytes_each"] == 5 * MB


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_too_few_updates_to_tell_a_leak_stand_beside_the_verdict(planned: Any, form: str) -> None:
    seen = levels(0)
    short = {**seen, "looks": seen["looks"][:2], "points": seen["points"][:2]}
    warning = "too few updates were seen to tell whether the loop leaks"
    for facts, missing in ((loop(levels=seen), False), (loop(levels=short), True), (loop(), True)):
        code, out = planned(facts, "plan", "--ram", "8GB", "--format", form)
        assert (code, warning in " ".join(out.split())) == (0, missing)
    assert warning not in planned(loop(ended=True), "plan", "--ram", "8GB", "--format", form)[1]


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_vram_that_nobody_predicts_is_unknown_in_every_format(planned: Any, form: str) -> None:
    code, out = planned(loop(), "plan", "--ram", "8GB", "--vram", "8GB", "--format", form)
    assert code == 4
    assert "VRAM is not known" in out
    if form == "json":
        assert json.loads(out)["verdict"] == "unknown"
        assert json.loads(out)["unknown"][0]["limit_bytes"] == 8 * 10**9


def test_vram_is_not_asked_of_a_script_without_a_library_for_gpus(planned: Any) -> None:
    assert planned(loop(versions={"numpy": "2.4"}), "plan", "--ram", "8GB", "--vram", "8GB")[0] == 0
    assert planned(loop(gpu_unused=True), "plan", "--ram", "8GB", "--vram", "8GB")[0] == 0
    assert planned(loop(), "plan", "--ram", "8GB")[0] == 0


def test_a_page_says_it_too(planned: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert planned(loop(levels=levels(5 * MB)), "plan", "--ram", "8GB", "--html", str(page))[0] == 5
    assert "no peak can be said" in page.read_text()
    assert planned(loop(), "plan", "--ram", "8GB", "--vram", "8GB", "--html", str(page))[0] == 4
    assert "VRAM is not known" in page.read_text()


def test_nodes_do_not_hold_what_grows_and_say_what_is_unknown(planned: Any) -> None:
    code, out = planned(loop(levels=levels(5 * MB)), "plan", "--nodes", "2x(64GB)")
    assert (code, "no peak can be said" in " ".join(out.split())) == (5, True)
    code, out = planned(loop(), "plan", "--nodes", "2x(64GB,16cpu,1xA100-80GB)")
    assert (code, "VRAM is not known" in out) == (4, True)


def test_fit_says_that_no_setting_helps(planned: Any) -> None:
    code, out = planned(loop(levels=levels(5 * MB)), "fit", "--ram", "8GB")
    assert (code, "no setting makes a leak fit" in out) == (5, True)
    code, out = planned(loop(), "fit", "--ram", "8GB", "--vram", "8GB")
    assert (code, "whether it fits is unknown" in out) == (4, True)


def buffer(script: Path, rows: int) -> dict[str, Any]:
    row = {"address": 1, "nbytes": rows * 20_000, "shape": [rows, 20_000], "dtype": "uint8", "made_by": "numpy.zeros"}
    return {**row, "where": f"{script}:3", "whole": False, "resident": 0, "written": None}


def test_fit_offers_no_smaller_buffer_to_a_loop_that_grows_with_it_too(planned: Any) -> None:
    planned.script.write_text("import numpy as np\nROWS = 1_000_000\nkept = np.zeros((ROWS, 20_000), np.uint8)\n")
    whole, half = (buffer(planned.script, rows) for rows in (1_000_000, 300_000))
    code, out = planned([loop(arrays=[whole]), loop(arrays=[half])], "fit", "--ram", "8GB", "--json")
    document = json.loads(out)
    assert (code, document["status"]) == (0, "fits")
    assert "ROWS: 1_000_000 becomes " in document["steps"][0]["how"]
    for first in ({}, {"levels": levels(5 * MB)}):
        runs = [loop(arrays=[whole], **first), loop(arrays=[half], levels=levels(5 * MB, end=200))]
        code, out = planned(runs, "fit", "--ram", "8GB", "--json")
        document = json.loads(out)
        assert (code, document["status"], document["steps"], document["machines"]) == (5, "grows", [], {})
        assert document["write"]["text"] is None


def test_a_run_that_does_not_fit_before_it_grows_does_not_fit(planned: Any) -> None:
    code, out = planned(loop(levels=levels(5 * MB)), "plan", "--ram", "100MB", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "does-not-fit")


def test_what_settles_is_no_rise() -> None:
    settling = [(rounds, 0, round(300 * MB + 40 * MB * (1 - 0.9**rounds))) for rounds in range(60)]
    noisy = [(rounds, 0, 300 * MB + (rounds * 7919) % 11 * MB) for rounds in range(60)]
    saw = [(rounds, 0, 300 * MB + rounds % 10 * 5 * MB) for rounds in range(60)]
    step = [(rounds, 0, 300 * MB + (20 * MB if rounds > 30 else 0)) for rounds in range(60)]
    assert [rises(points) for points in (settling, noisy, saw, step)] == [None] * 4


def test_what_rises_to_the_end_does_so_at_a_rate() -> None:
    straight = [(rounds, 0, 300 * MB + rounds * MB) for rounds in range(60)]
    stairs = [(rounds, 0, 300 * MB + rounds // 4 * 4 * MB) for rounds in range(60)]
    long = [(rounds, 0, 300 * MB + rounds * 60 * MB) for rounds in range(1, 4)]
    for points, rate in ((straight, MB), (stairs, MB), (long, 60 * MB)):
        found = rises(points)
        assert found is not None
        assert found[0] == pytest.approx(rate, rel=0.15)


def test_what_fills_is_taken_out() -> None:
    filling = container("memory", 5 * MB, capacity=1000)
    assert find_leak(loop(levels=levels(5 * MB, containers=(filling,)))) is None
    assert (
        find_leak(loop(levels=levels(5 * MB, containers=({**filling, "capacity": None, "shortened": True},)))) is None
    )
    seen = levels(5 * MB)
    for look in seen["looks"]:
        look["arrays"] = look["rounds"] * 5 * MB
    assert find_leak(loop(levels=seen)) is None


def test_small_objects_count_by_what_they_come_to() -> None:
    """40 × 400 B are in no level; over ten million updates they are 4 GB."""
    small = container("memory", 400)
    assert find_leak(loop(levels=levels(0, containers=(small,), end=10_000_000))) is not None
    assert find_leak(loop(levels=levels(0, containers=(small,), end=10_000))) is None
    statistics = {**small, "plain": True}
    assert find_leak(loop(levels=levels(0, containers=(statistics,), end=10_000_000))) is None


KEPT = """import torch
losses = []
for step in range(1000):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


def test_what_lint_says_stands_in_the_plan_with_its_line(planned: Any) -> None:
    planned.script.write_text(KEPT)
    _, out = planned(loop(), "plan", "--ram", "8GB")
    assert out.count("MEM601") == 1
    assert "MEM601  line 8: losses keeps loss" in out
    planned.script.write_text(KEPT.replace("losses", "kept") + KEPT + KEPT.replace("losses", "more"))
    _, out = planned(loop(), "plan", "--ram", "8GB")
    assert "also found by lint: MEM601 line 24" in out
    planned.script.write_text(KEPT)
    assert "line 8: losses keeps loss" in planned(loop(), "plan", "--ram", "8GB", "--full")[1]
    (finding,) = json.loads(planned(loop(), "plan", "--ram", "8GB", "--json")[1])["findings"]
    assert (finding["code"], finding["line"], finding["location"]) == ("MEM601", 8, "train.py:8")


def test_a_plan_does_not_repeat_what_it_has_silenced(planned: Any) -> None:
    planned.script.write_text(KEPT.replace("losses.append(loss)", "losses.append(loss)  # rlmem: ignore[MEM601] short"))
    code, out = planned(loop(), "plan", "--ram", "8GB", "--json")
    assert (code, json.loads(out)["findings"]) == (0, [])


def test_a_list_that_was_seen_to_keep_graphs_is_named_with_the_line_that_adds_to_it(planned: Any) -> None:
    planned.script.write_text("losses = []\nfor step in range(9):\n    losses.append(net(x).mean())\n")
    facts = loop(levels=levels(5 * MB, containers=(container("losses", 600, graph=True),)))
    _, out = planned(facts, "plan", "--ram", "8GB")
    assert "MEM601  train.py:3: losses keeps tensors with the graphs that computed them" in out
    assert "lint" not in out
    plain = loop(levels=levels(5 * MB, containers=(container("losses", 5 * MB),)))
    _, out = planned(plain, "plan", "--ram", "8GB")
    assert "losses grows at train.py:3: losses.append(net(x).mean())" in out


def test_other_commands_say_that_vram_is_unknown(planned: Any) -> None:
    code, out = planned(loop(), "plan", "--ram", "8GB", "--vram", "8GB", "--full")
    assert (code, out.startswith("VRAM is not known")) == (4, True)
    _, out = planned(loop(), "compare", str(planned.script), "--ram", "8GB", "--vram", "8GB")
    assert out.count("VRAM is not known") == 2
    _, out = planned(loop(), "compare", str(planned.script), "--ram", "8GB", "--vram", "8GB", "--json")
    assert {json.loads(out)[side]["verdict"] for side in ("left", "right")} == {"unknown"}
    code, _ = planned(loop(), "capacity", "--vary", "buffer_size", "--vram", "8GB")
    assert code == 3, "a loop of its own cannot be planned changed"


def test_statistics_are_a_row_where_they_come_to_something() -> None:
    losses = container("losses", 32, grown=39, plain=True)
    facts = loop(levels=levels(0, containers=(losses,), end=1_000_000))
    assert find_leak(facts) is None
    ((row, length),) = filling(facts)
    assert (row["name"], length) == ("losses", pytest.approx(1_000_000, rel=0.01))
    assert filling(loop(levels=levels(0, containers=(losses,), end=10_000))) == ()


def test_what_is_the_leak_is_no_row_beside_it() -> None:
    small = container("memory", 400)
    facts = loop(levels=levels(0, containers=(small,), end=10_000_000))
    leak = find_leak(facts)
    assert leak is not None
    assert filling(facts, leak) == ()


def test_a_small_steady_rise_is_worth_a_longer_look() -> None:
    small = [(rounds, 0, 200 * MB + rounds * 25_000) for rounds in range(60)]
    assert rises(small) is None
    assert rises(small, HINT) is not None


def test_containers_grow_when_they_did_in_both_halves_of_the_looks() -> None:
    assert is_growing((0, 5, 5, 9))
    assert not is_growing((0, 5, 5, 5))
    assert not is_growing((5, 5, 5, 9))
    assert not is_growing((0, 9))
