"""The command line as a process of its own: what is imported, pipes, encodings, full disks."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[3] / "src"
RLMEM = (sys.executable, "-m", "rlmem")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), **more}


def call(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RLMEM, *arguments], capture_output=True, text=True, env=environment(**more), timeout=60, check=False
    )


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )
    return done.stdout


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """A pipeline whose own exit status is printed last, after its reader's output."""
    words = command.replace("rlmem", shlex.join(RLMEM), 1)
    return subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, env=environment(), timeout=60, check=False
    )


def test_importing_rlmem_loads_nothing_heavy_and_starts_no_thread() -> None:
    code = """
import sys, threading, multiprocessing
method = multiprocessing.get_start_method(allow_none=True)
hooks = (sys.excepthook, sys.displayhook, len(sys.meta_path))
import rlmem
dir(rlmem)
heavy = {"torch", "numpy", "rich", "yaml", "click", "psutil", "pynvml"} & set(sys.modules)
print(sorted(heavy), threading.active_count(), multiprocessing.get_start_method(allow_none=True) == method,
      hooks == (sys.excepthook, sys.displayhook, len(sys.meta_path)))
"""
    assert python(code) == "[] 1 True True\n"


def test_every_public_name_can_be_had_without_torch_or_numpy() -> None:
    code = "import sys, rlmem\nfor name in rlmem.__all__: getattr(rlmem, name)\nprint({'torch', 'numpy'} & set(sys.modules))"
    assert python(code) == "set()\n"


def test_help_needs_neither_rich_nor_yaml() -> None:
    code = """
import sys
from rlmem.cli import run
run(["--help"])
print(sorted({"rich", "yaml", "psutil", "rlmem.planner", "rlmem.cli.plan"} & set(sys.modules)))
"""
    assert python(code).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["plan", "pidog-sac", "--ram", "30GB"], 0),
        (["plan", "pidog-sac", "--ram", "2GB"], 1),
        (["plan", "pidog-sacc"], 2),
    ],
)
def test_the_process_exits_with_the_code_of_its_answer(arguments: list[str], code: int) -> None:
    done = call(*arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert bool(done.stdout) is (code != 2)


@pytest.mark.parametrize("more", ["", "--json"])
def test_a_reader_that_leaves_early_is_no_error(more: str) -> None:
    done = shell(f"rlmem plan pidog-sac --ram 30GB {more} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_reader_that_never_came_is_no_error() -> None:
    done = shell("rlmem plan pyboy-ppo --ram 30GB --vram 16GB --json | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_full_disk_is_one_line_and_exit_code_three() -> None:
    done = shell("rlmem plan pidog-sac --ram 30GB > /dev/full; echo $?")
    assert (done.stdout, done.stderr) == ("3\n", "rlmem: cannot write the output: No space left on device\n")


def test_a_terminal_without_unicode_still_gets_its_plan() -> None:
    done = call("plan", "pidog-sac", "--ram", "30GB", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "84?84?3" in done.stdout.splitlines()[1]


def test_a_file_name_that_is_not_text_does_no_harm(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.yaml"
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("extends: pidog-sac-vector\nbatch_size: 32\n")
    except OSError:
        pytest.skip("this file system keeps names as text")
    for extra in ([], ["--json"], ["-o", str(tmp_path / "plan.json")]):
        done = subprocess.run(
            [*RLMEM, "plan", path, "--ram", "30GB", *extra],
            capture_output=True,
            env=environment(),
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


def test_output_to_a_pipe_has_no_colours_even_in_a_colourful_shell() -> None:
    done = call("plan", "pidog-sac", "--ram", "30GB", TERM="xterm-256color")
    assert "\x1b" not in done.stdout
