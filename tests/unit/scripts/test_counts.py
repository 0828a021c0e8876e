"""The number behind an array's size is found where it is written, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.core.edits import apply
from rlmem.scripts.counts import Count, Counts, with_argument
from rlmem.scripts.reading import Project, parse_script

BUFFER = """\
import numpy as np

class Rows:
    def __init__(self, slots, shape):
        self.slots = slots
        self.now = np.zeros((slots, *shape), np.uint8)
        self.then = np.zeros([self.slots] + list(shape), np.uint8)
"""
MADE = 6  # the lines in which Rows allocates
SHAPE = (800_000, 3, 64, 64)

#: What a script writes after the class, the text of the number that decides, and the name a reader knows it by.
WAYS = {
    "an argument": ("rb = Rows(800_000, (3, 64, 64))\n", "800_000", "slots"),
    "a constant": ("WHAT = 800_000\nrb = Rows(WHAT, (3, 64, 64))\n", "800_000", "WHAT"),
    "a power": ("WHAT = 800 * 10**3\nrb = Rows(slots=WHAT, shape=(3, 64, 64))\n", "800 * 10**3", "WHAT"),
    "a dict": ('H = {"lr": 1e-3, "keep": 800000}\nrb = Rows(H["keep"], (3, 64, 64))\n', "800000", '"keep"'),
    "a default of get": ('rb = Rows({}.get("keep", 800000), (3, 64, 64))\n', "800000", '"keep"'),
    "argparse": (
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("-m", "--mem", type=int, default=int(8e5))\n'
        "def main(o):\n    rb = Rows(o.mem, (3, 64, 64))\nmain(p.parse_args())\n",
        "int(8e5)",
        "--mem",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    steps: int = 800_001\n    remembered: int = 800_000\n"
        "class Agent:\n    def __init__(self, cfg):\n        self.cfg = cfg\n        self.rb = Rows(cfg.remembered, (3, 64, 64))\n"
        "Agent(Config())\n",
        "800_000",
        "Config.remembered",
    ),
    "click": (
        'import click\n@click.command()\n@click.option("--mem", default=800_000)\ndef main(mem):\n    Rows(mem, (3, 64, 64))\nmain()\n',
        "800_000",
        "--mem",
    ),
    "a function between": (
        "def make(n):\n    return Rows(n, (3, 64, 64))\ndef main(size=800_000):\n    return make(size)\nmain()\n",
        "800_000",
        "size",
    ),
    "a derived class": ("class Mine(Rows):\n    pass\nrb = Mine(800_000, (3, 64, 64))\n", "800_000", "slots"),
    "the smaller of two": (
        "TOTAL_STEPS = 800_000\nWHAT = 800_000\nrb = Rows(min(TOTAL_STEPS, WHAT), (3, 64, 64))\n",
        "800_000",
        "WHAT",
    ),
    "a division": ("WHAT, ENVS = 6_400_000, 8\nrb = Rows(WHAT // ENVS, (3, 64, 64))\n", "6_400_000", "WHAT"),
}


def found(text: str, line: int = MADE, args: tuple[str, ...] = (), **settings: str) -> tuple[Count, ...]:
    script = parse_script(text, "/run/train.py", project=Project({}))
    files = tuple((Path(f"/run/{name}.yaml"), content) for name, content in settings.items())
    return Counts((script,), files, args).of_array("/run/train.py", line, SHAPE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("line", [MADE, MADE + 1])
def test_a_count_is_followed_to_its_literal(way: str, line: int) -> None:
    after, literal, name = WAYS[way]
    text = BUFFER + after
    (count,) = found(text, line)
    assert (count.text, count.name) == (literal, name)
    changed = apply(text, [count.edit(250_000)])
    assert changed != text
    assert ("250_000" if "_" in literal else "250000") in changed


def test_a_number_that_the_command_line_gives_decides() -> None:
    text = BUFFER + WAYS["argparse"][0]
    for args in (("--mem", "800000"), ("-m", "800000"), ("--mem=800000",)):
        (count,) = found(text, args=args)
        assert count.path is None
        assert with_argument(args, count, 5)[-1] in ("5", "--mem=5")


def test_a_number_in_a_settings_file_is_found_by_its_key() -> None:
    text = (
        BUFFER + 'import yaml\ncfg = yaml.safe_load(open("run.yaml"))\nrb = Rows(cfg["replay"]["keep"], (3, 64, 64))\n'
    )
    settings = "steps: 800000\nreplay:\n  keep: 800000  # rows\n"
    (count,) = found(text, run=settings)
    assert (count.name, count.line) == ("replay.keep in run.yaml", 3)
    assert apply(settings, [count.edit(9)]) == "steps: 800000\nreplay:\n  keep: 9  # rows\n"


def test_a_number_in_another_module_is_found_there() -> None:
    files = {"/run/sizes.py": "HISTORY = 800_000\n", "/run/rows.py": BUFFER}
    text = "import sizes\nfrom rows import Rows\nrb = Rows(sizes.HISTORY, (3, 64, 64))\n"
    project = Project(files)
    script = parse_script(text, "/run/train.py", project=project)
    (count,) = Counts(project.all_of(script), (), ()).of_array("/run/rows.py", MADE, SHAPE)
    assert (count.name, count.path) == ("HISTORY", Path("/run/sizes.py"))


def test_a_number_of_another_value_or_written_in_place_is_no_count_to_turn() -> None:
    assert found(BUFFER + "rb = Rows(700_000, (3, 64, 64))\n") == ()
    assert found(BUFFER + "import os\nrb = Rows(int(os.environ['N']), (3, 64, 64))\n") == ()
    (count,) = found("import numpy as np\na = np.zeros((800_000, 3, 64, 64), np.uint8)\n", line=2)
    assert count.inline


@pytest.mark.parametrize(
    "text",
    [
        "from collections import deque\nN = 5000\nmem = deque(maxlen=N)\n",
        "class A:\n    def __init__(self, n=5000):\n        self.n, self.m = n, []\n    def add(self, x):\n"
        "        if len(self.m) < self.n:\n            self.m.append(x)\n",
        "N = 5000\nmem = [None] * N\n",
    ],
)
def test_what_bounds_a_container_is_found(text: str) -> None:
    script = parse_script(text, "/run/train.py", project=Project({}))
    (count,) = Counts((script,), (), ()).of_capacity(5000)
    assert count.text == "5000"
