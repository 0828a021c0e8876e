"""The README and the pages under docs/: links lead somewhere, commands exist, every page is listed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from rlmem.cli import app as rlmem
from rlmem.cli.swarm import app as swarm

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def commands(text: str) -> list[list[str]]:
    """Every command line of ours in a page: in blocks and between backticks, without comments and without what is run."""
    ours = r"((?:python -m rlmem\.swarm|rlmem) [a-z][^`\n]*)"
    blocks = re.findall(r"^```.*?^```", text, re.M | re.S)
    lines = [line for block in blocks for line in re.findall(rf"^(?:\$ )?{ours}", block, re.M)]
    lines += re.findall(rf"`{ours}`", text)
    return [shlex.split(re.sub(r" -- .*| \|.*", "", line).replace("…", "X"), comments=True) for line in lines]


def options(group: click.Group, name: str) -> set[str]:
    """What a command takes; an error when there is no such command."""
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"no command {name}"
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts, "--help")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{name_of(page)} links to {target}"
        assert not anchor or anchor in anchors(there), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        group, rest = (rlmem, words[1:]) if words[0] == "rlmem" else (swarm, words[3:])
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert given <= options(group, rest[0]), f"{name_of(page)}: {shlex.join(words)}"


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    table = index.split("## Every page")[1]
    missing = [page.name for page in DOCS.glob("*.md") if f"]({page.name})" not in table and page.name != "README.md"]
    assert not missing


def test_the_index_and_the_page_of_commands_name_every_command() -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    missing = [name for name in rlmem.list_commands(click.Context(rlmem)) if f"rlmem {name}" not in text]
    assert not missing


def test_the_readme_is_short() -> None:
    assert 80 <= len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
