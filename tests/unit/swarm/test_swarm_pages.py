"""The pages on the swarm and on its store say what the code says."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import click

from rlmem.cli.swarm import app as swarm
from rlmem.swarm.settings import HISTORIES, IMUS, RUNGS

ROOT = Path(__file__).parents[3]
#: What is written between marks by a command, and where else their names must be.
MARKS = ("ladder", "curve", "h200", "cpu")


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def options(group: click.Group, name: str) -> set[str]:
    """What a command takes; an error when there is no such command."""
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"no command {name}"
    return {option for parameter in command.params for option in parameter.opts}


def test_options_named_in_the_page_are_those_of_a_training() -> None:
    named = {words.split()[0] for words in re.findall(r"`(--[a-z][^`]*)`", text_of("swarm.md"))}
    assert named - options(swarm, "train") <= {"--set"}


def test_the_page_names_every_rung_and_every_choice() -> None:
    text = text_of("swarm.md")
    for word in (*(rung.name for rung in RUNGS), *HISTORIES, *IMUS):
        assert f"`{word}`" in text or f" {word}`" in text, word


def test_every_mark_is_there_once_and_closed() -> None:
    text = text_of("swarm.md")
    for mark in MARKS:
        assert len(re.findall(rf"^<!-- {mark} -->\n.*?^<!-- end -->$", text, re.M | re.S)) == 1, mark
    assert text.count("<!-- end -->") == len(re.findall(r"^<!-- (?!end).* -->$", text, re.M))


def test_the_generated_tables_of_the_page_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    tables = importlib.import_module("tables")
    assert tables.rewritten(text_of("swarm.md")) == text_of("swarm.md"), "'make docs' writes docs/swarm.md"


def test_the_guide_shows_the_example_as_it_is() -> None:
    assert (ROOT / "docs" / "examples" / "window_ppo.py").exists()
    assert "python docs/examples/window_ppo.py" in text_of("window-rollout.md")
