"""What ``rlmem lint`` finds: tables of findings over scripts that are kept here, and its formats over a small folder.

A row of a table says where, what, how much, and how safe the fix is; so a rule that moves by one line is seen.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from golden.harness import Case, call, command_case, quiet_environment, steady
from rlmem.core.findings import SEVERITIES
from rlmem.lint.fixing import fix_text
from rlmem.lint.linter import FileReport, Linter
from rlmem.lint.reading import Text, decode
from rlmem.lint.settings import Asked, settings_for

ROOT = Path(__file__).parents[2]
PAGES = tuple(sorted((ROOT / "tests" / "lint").glob("MEM*.md")))
#: Folders of scripts, whose neighbours are read as lint reads them.
FOLDERS = ("accuracy/scripts", "docs/examples", "benchmarks/framework_tasks", "tests/first_hour")
SAFETIES = (("safe",), ("safe", "unsafe"))

_FENCE = re.compile(r"^```(\w*)[ \t]*(.*?)[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.*)$", re.M)


def _linter(folder: Path) -> Linter:
    """A linter that shows every severity, for a machine of 16 GB."""
    settings = settings_for([folder], Asked(severity=SEVERITIES[-1], ram="16GB"))
    return Linter(settings, settings.budget())


def _rows(report: FileReport) -> Iterator[str]:
    """The findings of one file, a line each."""
    for item in report.shown:
        finding = item.finding
        place = finding.place
        columns = (
            f"{place.line}:{place.column}-{place.end_line}:{place.end_column}" if place else "-",
            finding.code,
            finding.severity,
            f"fix={finding.fix.safety}" if finding.fix else "-",
            "-" if finding.saves_bytes is None else f"saves={finding.saves_bytes}",
            "-" if finding.costs_bytes is None else f"costs={finding.costs_bytes}/{finding.costs_per or 'all'}",
            finding.title,
        )
        yield "  ".join(columns)
        if finding.remedy:
            yield f"    remedy: {finding.remedy}"
    if report.silenced:
        yield f"silenced: {report.silenced}"
    if report.problem:
        yield f"problem: {report.problem}"


def _fixes(linter: Linter, report: FileReport, text: Text) -> Iterator[str]:
    """What the fixes make of one file, as patches: the safe ones alone, and all where that is another patch."""
    before = ""
    for safeties in SAFETIES:
        fixing = fix_text(linter, report, text, safeties)
        patch = fixing.diff()
        if patch and patch != before:
            yield f"patch of fixes that are {' or '.join(safeties)}:"
            yield from (f"    {line}".rstrip() for line in patch.splitlines())
        yield from (f"problem: {problem}" for problem in fixing.problems)
        before = patch


def _table(linter: Linter, path: Path) -> Iterator[str]:
    """The findings of a file, and its fixes."""
    text = decode(path.read_bytes(), notebook=False)
    report = linter.lint(path, text)
    yield from _rows(report)
    if any(item.finding.fix for item in report.shown):
        yield from _fixes(linter, report, text)


def _blocks(page: str) -> Iterator[tuple[int, str, str, Mapping[str, str]]]:
    """Line, name and text of each Python block of a page, with the named files under the same heading."""
    fences = list(_FENCE.finditer(page))
    headings = [
        match.start()
        for match in _HEADING.finditer(page)
        if not any(fence.start() <= match.start() < fence.end() for fence in fences)
    ]
    for start, end in zip([0, *headings], [*headings, len(page)], strict=True):
        section = [fence for fence in fences if start <= fence.start() < end]
        beside = {fence[2].removeprefix("file="): fence[3] for fence in section if fence[2].startswith("file=")}
        for fence in section:
            if fence[1] == "py":
                name = fence[2].removeprefix("file=") if fence[2].startswith("file=") else "train.py"
                yield page.count("\n", 0, fence.start()) + 1, name, fence[3], beside


def _page(page: Path) -> str:
    """The table of a page of a rule; a block is a script with its neighbours on disk."""
    lines: list[str] = []
    for line, name, text, beside in _blocks(page.read_text(encoding="utf-8")):
        with tempfile.TemporaryDirectory(prefix="golden-") as folder, quiet_environment(Path(folder)):
            for path, content in {**beside, name: text}.items():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(content, encoding="utf-8")
            lines += [f"## {page.name}:{line} {name}", *_table(_linter(Path()), Path(name)), ""]
    return "\n".join(lines)


def _scripts(folder: str) -> str:
    """The table of the scripts of a folder of this repository."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch, quiet_environment(Path(scratch)):
        # Copies, so that no setting and no other file of the repository has a say.
        for path in sorted((ROOT / folder).glob("*.py")):
            Path(path.name).write_bytes(path.read_bytes())
        linter = _linter(Path())
        for path in sorted(Path().glob("*.py")):
            lines += [f"## {path}", *_table(linter, path), ""]
    return "\n".join(lines)


_WASTE = """\
import gymnasium as gym
import numpy as np

seen = []
env = gym.make("CartPole-v1")
obs, _ = env.reset()
for step in range(1_000_000):
    obs, reward, done, cut, info = env.step(env.action_space.sample())
    seen.append(obs)
    if done or cut:
        obs, _ = env.reset()
"""
_BUFFER = """\
from collections import deque

import numpy as np
import torch
from stable_baselines3 import DQN, SAC

model = DQN("CnnPolicy", "ALE/Pong-v5", buffer_size=1_000_000)
model.learn(1_000_000)
states = np.zeros((100_000, 84, 84, 4), dtype=np.float32)
losses = []
for step in range(1_000_000):
    loss = torch.nn.functional.mse_loss(model.policy(step), torch.ones(3))
    loss.backward()
    losses.append(loss)
player = SAC.load("player.zip")
player.predict(states[0])
"""
_SILENT = """\
from stable_baselines3 import DQN

model = DQN("CnnPolicy", "ALE/Pong-v5", buffer_size=1_000_000)  # rlmem: ignore reason: the machine is large
other = DQN("CnnPolicy", "ALE/Pong-v5", buffer_size=1_000_000)  # rlmem: ignore[MEM106] as in the paper
third = DQN("CnnPolicy", "ALE/Pong-v5", buffer_size=1_000_000)  # rlmem: ignore[MEM999]
"""
_FILES = {
    "waste.py": _WASTE,
    "agents/buffer.py": _BUFFER,
    "silent.py": _SILENT,
    "broken.py": "import gymnasium as gym\nenv = gym.make(\n",
    "old.py": 'import gym\nprint "reward", 1\n',
    "plain.py": "print(1)\n",
}
_WHOLE = {name: text for name, text in _FILES.items() if name not in ("broken.py", "old.py")}
_SETTINGS = '[tool.rlmem]\nignore = ["MEM204"]\nexclude = ["agents"]\nseverity = "info"\nram = "8GB"\n'


def _asked(name: str, words: Sequence[str], files: Mapping[str, str] = _FILES) -> Case:
    return command_case(f"lint/command/{name}", ["lint", *words], files)


def _session(name: str, commands: Sequence[Sequence[str]], files: Mapping[str, str], kept: Sequence[str] = ()) -> Case:
    """A case of commands one after the other in one folder, and of the files they leave."""

    def make() -> str:
        lines: list[str] = []
        with tempfile.TemporaryDirectory(prefix="golden-") as folder, quiet_environment(Path(folder)):
            for path, text in files.items():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(text.encode("latin-1"))
            for words in commands:
                code, out, err = call(["lint", *words])
                lines += [f"$ rlmem lint {' '.join(words)}", out.rstrip("\n"), "--- standard error", err.rstrip("\n")]
                lines += [f"--- exit code {code}"]
            for path in kept:
                file = Path(path)
                lines += [f"--- {path}", file.read_text(encoding="utf-8") if file.exists() else "(not there)"]
            return steady("\n".join(lines), folder)

    return Case(f"lint/command/{name}", make)


_FORMATS = tuple(
    _asked(f"format-{format_}.txt", [".", "--format", format_, "--ram", "16GB"])
    for format_ in ("text", "json", "github", "sarif", "junit")
)
_COMMANDS = (
    *_FORMATS,
    _asked("statistics.txt", [".", "--statistics"]),
    _asked("select.txt", [".", "--select", "buffers,MEM2", "--severity", "info"]),
    _asked("ignore.txt", [".", "--ignore", "MEM1", "--severity", "error"]),
    _asked("unknown-rule.txt", [".", "--select", "MEM999"]),
    _asked("no-rule.txt", [".", "--select", ","]),
    _asked("diff.txt", [".", "--diff"]),
    _asked("diff-safe.txt", [".", "--diff", "--fix"]),
    _asked("exit-zero.txt", ["waste.py", "agents", "--exit-zero"]),
    _asked("syntax-error.txt", ["broken.py", "old.py"]),
    _asked("missing.txt", ["nowhere.py", "waste.py"]),
    _asked("nothing.txt", ["plain.py"]),
    _asked("empty-folder.txt", ["."], {"notes.txt": "nothing\n"}),
    _asked("settings.txt", ["."], {**_FILES, "pyproject.toml": _SETTINGS}),
    _asked("settings-unknown.txt", ["."], {**_FILES, "pyproject.toml": "[tool.rlmem]\nignores = []\n"}),
    _asked("settings-syntax.txt", ["."], {**_FILES, "pyproject.toml": "[tool.rlmem\n"}),
    _asked("unsafe-without-fix.txt", [".", "--unsafe-fixes"]),
    _asked("diff-as-json.txt", [".", "--diff", "--json"]),
    _asked("statistics-as-json.txt", [".", "--statistics", "--json"]),
    _asked("two-formats.txt", [".", "--json", "--format", "sarif"]),
    _asked("baseline-missing.txt", [".", "--baseline", "known.json"]),
    _asked("baseline-broken.txt", [".", "--baseline", "known.json"], {**_FILES, "known.json": "{}"}),
    _asked("write-baseline-nowhere.txt", [".", "--write-baseline"]),
    _session("fix.txt", [[".", "--fix"], ["."]], _WHOLE, ["agents/buffer.py", "waste.py"]),
    _session("fix-unsafe.txt", [[".", "--fix", "--unsafe-fixes"], ["."]], _WHOLE, ["agents/buffer.py", "waste.py"]),
    _session(
        "baseline.txt",
        [
            ["waste.py", "--baseline", "known.json", "--write-baseline"],
            [".", "--baseline", "known.json"],
            [".", "--baseline", "known.json", "--write-baseline", "--json"],
            [".", "--baseline", "known.json", "--json"],
        ],
        _WHOLE,
        ["known.json"],
    ),
    _session(
        "baseline-stale.txt",
        [[".", "--baseline", "known.json", "--write-baseline"], ["other", "--baseline", "known.json"]],
        {**_WHOLE, "other/one.py": _WASTE},
    ),
    _session(
        "output.txt", [[".", "-o", "found.sarif"], [".", "-o", "found.xml"]], _WHOLE, ["found.sarif", "found.xml"]
    ),
    _session("unreadable.txt", [["."]], {"bytes.py": "import gym\n# caf\xe9\n", "nul.py": "import gym\n\0\n"}),
)

_TABLES: tuple[tuple[str, Callable[[], str]], ...] = (
    *((f"lint/pages/{page.stem}.txt", partial(_page, page)) for page in PAGES),
    *((f"lint/scripts/{folder.replace('/', '-')}.txt", partial(_scripts, folder)) for folder in FOLDERS),
)

CASES: tuple[Case, ...] = (*(Case(name, make) for name, make in _TABLES), *_COMMANDS)
