"""What other stacks would hold of a rollout's observations."""

from __future__ import annotations

import json

import pytest

from rlmem.cli import run
from rlmem.frameworks.stacks import STACKS, materialised
from rlmem.sources import load


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_one_copy_is_every_window_whole() -> None:
    assert materialised(load("drone-swarm", ("agents=1000",))).value == 100 * 1000 * 1804 * 4


def test_the_table_says_where_it_was_read() -> None:
    assert {stack.name for stack in STACKS} >= {"rsl_rl", "rl_games", "Brax", "PufferLib 1", "skrl", "Sample Factory"}
    for stack in STACKS:
        assert stack.factor >= 1
        assert len(stack.commit) == 7
        assert stack.source.endswith(".py")
        assert stack.why


def test_a_document_has_every_stack_and_the_run_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "drone-swarm", "--set", "agents=1M", "--stacks", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "rlmem.stacks/1")
    whole = document["observations_bytes"]
    sizes = {row["name"]: row["nbytes"] / whole for row in document["stacks"]}
    assert (sizes["rsl_rl"], sizes["rl_games"], sizes["Brax"], sizes["PufferLib 1"]) == (1, 2, 2, 2)
    runs = {row["name"]: row for row in document["runs"]}
    assert runs["as described"]["factor"] == pytest.approx(2, rel=0.01)  # its stack holds the actions, too
    assert runs["storage=stream"]["nbytes"] == 5_940 * 10**6


def test_the_text_says_that_nothing_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "drone-swarm", "--set", "storage=stream", "--stacks")
    assert code == 0
    assert "not measured" in out
    assert "≥ 2×" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pidog-sac", "--stacks"), "keeps no rollout: sac is off-policy"),
        (("drone-swarm", "--stacks", "--why", "rollout"), "contradict"),
        (("train.py", "--stacks"), "--stacks is for described runs"),
    ],
)
def test_what_has_no_such_table_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = call(capsys, "plan", *arguments)
    assert code == 2
    assert message in err
