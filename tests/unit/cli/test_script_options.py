"""Arguments of a script that are in the wrong place, or that the script itself refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from rlmem.cli import COMMANDS, LazyGroup
from rlmem.cli import run as cli
from rlmem.cli.common import in_typed_unit

SCRIPT = """
import argparse
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--steps", type=int, required=True)
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plan train.py --steps 5", "plan train.py -- --steps 5"),
        ("plan train.py --steps 5 --ram 16GB", "plan train.py --ram 16GB -- --steps 5"),
        ("plan train.py --steps=5 -v --json", "plan train.py --json -- --steps=5 -v"),
        ("plan --ram 8GB train.py --env A B -- --lr 1", "plan --ram 8GB train.py -- --env A B --lr 1"),
        ("fit zoo:sac/Pendulum-v1 --n-timesteps 5", "fit zoo:sac/Pendulum-v1 -- --n-timesteps 5"),
        ("measure train.py --buffer 1e6 --repeat 2", "measure train.py --repeat 2 -- --buffer 1e6"),
    ],
)
def test_an_option_of_the_script_is_suggested_after_two_dashes(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(typed.split()) == 2
    said = capsys.readouterr().err.strip()
    assert said.endswith(f"arguments of a script come after '--': rlmem {meant}")
    assert "mean" not in said  # none of rlmem's own options is suggested


@pytest.mark.parametrize("typed", ["plan pidog-sac --stps 5", "presets --steps 5"])
def test_without_a_script_the_nearest_option_is_suggested(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(typed.split()) == 2
    assert "No such option" in capsys.readouterr().err


def test_a_script_that_refuses_its_arguments_says_why_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert cli(["plan", str(path), "--python", sys.executable]) == 2
    said = capsys.readouterr().err
    assert "train.py refuses its arguments (none were given)" in said
    assert "usage: train.py [-h] --steps STEPS" in said
    assert "error: the following arguments are required: --steps" in said
    assert f"come after '--': {path} -- ARGUMENTS" in said
    assert cli(["plan", str(path), "--python", sys.executable, "--", "--stps", "4"]) == 2
    said = capsys.readouterr().err
    assert "refuses its arguments (--stps 4)" in said
    assert "ARGUMENTS" not in said


@pytest.mark.parametrize(("line", "told"), [("sys.exit('no GPU here')", "no GPU here"), ("sys.exit(2)", "exit code 2")])
def test_an_exit_of_the_scripts_own_is_not_about_arguments(
    line: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"import sys\n{line}\n")
    assert cli(["plan", str(path), "--python", sys.executable]) == 3
    said = capsys.readouterr().err
    assert "refuses" not in said
    assert told in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys\nprint('usage: train.py ENV', file=sys.stderr)\nsys.exit(1)\n", "it said: usage: train.py ENV"),
        ("import sys\nenv = sys.argv[1]\n", "IndexError: list index out of range"),
    ],
)
def test_a_script_that_looks_for_arguments_gets_the_hint(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    assert cli(["plan", str(path), "--python", sys.executable]) == 3
    said = capsys.readouterr().err
    assert told in said
    assert f"arguments of a script come after '--': {path} -- ARGUMENTS" in said


def test_a_name_that_nothing_takes_ends_a_sweep_before_it_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("--steps", "--buffer-size").replace("required=True", "default=1"))
    for name, meant in (("bufer_size", "buffer_size"), ("n_envz", "n_envs")):
        assert cli(["measure", str(path), "--python", sys.executable, "--vary", f"{name}=1000,2000"]) == 2
        said = capsys.readouterr().err
        assert f"nothing in the script takes {name}" in said
        assert f"did you mean '{meant}'?" in said
        assert "2000" not in said


def test_every_option_that_takes_a_size_sets_the_unit_of_the_answer() -> None:
    group = LazyGroup()
    options = [
        (name, option)
        for name in COMMANDS
        for option in getattr(group.get_command(click.Context(group), name), "params", ())
        if isinstance(option, click.Option) and str(option.metavar).startswith("SIZE")
    ]
    assert len(options) > 12
    assert [(name, option.name) for name, option in options if option.callback is not in_typed_unit] == []


def test_a_size_limits_a_command_and_is_told_in_its_unit(capfd: pytest.CaptureFixture[str]) -> None:
    held = "import time; held = bytearray(150_000_000); time.sleep(2)"
    assert cli(["run", "--max-ram", "2GB", "--no-record", "--", sys.executable, "-c", held]) == 0
    said = capfd.readouterr().err
    assert "of the 2.00 GB of --max-ram" in said
    assert "iB" not in said
    assert cli(["run", "--max-rom", "2GB", "--", sys.executable, "-c", held]) == 2
    assert "no option --max-rom (did you mean '--max-ram'?)" in capfd.readouterr().err
