"""The first screen of a plan: verdict, owners, changes and commands, and nothing that a newcomer has to skip."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from rlmem import Planner, load, make_budget
from rlmem.cli import run
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.report.first_screen import PlanArguments, first_screen
from rlmem.report.view import View
from rlmem.sources.preset import PRESETS
from rlmem.sources.target import parse_target
from unit.report.widths import check_view, drawn


def document(name: str = "pidog-sac", ram: str = "12GB", vram: str | None = None) -> PlanDocument:
    return plan_document(Planner(make_budget(ram=ram, vram=vram)).plan(load(name)))


def screen(found: PlanDocument, target: str = "pidog-sac", **more: Any) -> str:
    view = first_screen(found, PlanArguments(target=parse_target(target), **more))
    check_view(view)
    return drawn(view, 80)


def commands(view: View) -> dict[str, list[str]]:
    table = next(section for section in view.sections if section.title == "Next").tables[0]
    return {label: shlex.split(command) for label, command in table.rows}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("ram", ["4GB", "64GB"])
def test_it_is_one_screen(name: str, ram: str) -> None:
    vram = "16GB" if name == "pyboy-ppo" else None
    lines = screen(document(name, ram, vram), name).splitlines()
    assert len(lines) <= (28 if vram is None else 35)
    assert lines[0].startswith("RAM peaks at") or lines[0].startswith("will not work")


def test_it_says_what_holds_most_and_what_saves_most() -> None:
    text = screen(document())
    assert "replay.next_observations[image]  7.89 GiB  48 %  replay buffer" in text
    assert "MEM101" in text
    assert "[saves 7.79 GiB]" in text
    assert "[saves 54.8 MiB]" not in text  # of 16.4 GiB
    assert "buffer_size at most 260,000 fits (now 400,000)" in text
    assert "checkpoint" not in text  # no phases


def test_the_rows_of_a_device_add_up_to_the_peak() -> None:
    view = first_screen(document("pyboy-ppo", "64GB", "16GB"), PlanArguments(target=parse_target("pyboy-ppo")))
    ram, vram = view.sections[0].tables
    assert (ram.title, vram.title) == ("RAM", "VRAM")
    for table in (ram, vram):
        assert len(table.rows) == 4
        assert 98 <= sum(int(row[2].removesuffix(" %")) for row in table.rows) <= 102


@pytest.mark.parametrize(
    ("verdict", "target", "label", "command"),
    [
        ("does-not-fit", "pidog-sac", "make it fit", "rlmem fit pidog-sac"),
        ("tight", "train.py", "make it fit", "rlmem fit train.py"),
        ("grows", "train.py", "find what keeps memory", "rlmem lint train.py"),
        ("unknown", "train.py", "measure it", "rlmem measure train.py"),
        ("fits", "train.py", "run it, guarded", "rlmem run -- python train.py"),
    ],
)
def test_the_next_command_follows_from_the_verdict(verdict: str, target: str, label: str, command: str) -> None:
    findings = tuple(replace(finding, line=3) for finding in document().findings)
    view = first_screen(
        replace(document(), verdict=verdict, findings=findings), PlanArguments(target=parse_target(target))
    )
    assert commands(view)[label] == command.split()


def test_commands_are_for_the_same_run() -> None:
    asked = PlanArguments(
        target=parse_target("my train.py", ("--env", "Hopper v5"), python="/envs/my train/bin/python"),
        options=("--ram", "12GB", "--set", "buffer_size=1"),
        ram="12GB",
    )
    given = commands(first_screen(replace(document(), verdict="tight"), asked))["make it fit"]
    assert given == [
        "rlmem",
        "fit",
        "my train.py",
        "--ram",
        "12GB",
        "--set",
        "buffer_size=1",
        "--",
        "--env",
        "Hopper v5",
    ]
    given = commands(first_screen(replace(document(), verdict="fits"), asked))["run it, guarded"]
    assert given == [
        "rlmem", "run", "--max-ram", "12GB", "--", "/envs/my train/bin/python", "my train.py", "--env", "Hopper v5",
    ]  # fmt: skip


def test_full_is_all_of_it_and_other_formats_always_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "pidog-sac", "--ram", "30GB"]) == 0
    brief = capsys.readouterr().out
    assert run(["plan", "pidog-sac", "--ram", "30GB", "--full"]) == 0
    full = capsys.readouterr().out
    assert brief.splitlines()[0] == full.splitlines()[0]
    assert "checkpoint" in full
    assert "checkpoint" not in brief
    assert "MEM402" in full
    assert "rlmem plan pidog-sac --ram 30GB --full" in brief
    assert run(["plan", "pidog-sac", "--ram", "30GB", "--format", "markdown"]) == 0
    assert "checkpoint" in capsys.readouterr().out
