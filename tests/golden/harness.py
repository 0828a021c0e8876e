"""Golden outputs: what rlmem printed when the files in ``data`` were written, and a way to compare it with what it prints now.

A case is a name and a function that returns its content. The suffix of the name says how it is compared: ``.json`` as data,
everything else as text. ``make golden`` writes all files again; ``git diff`` then shows what changed for users.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from golden.machine import steady_machine
from rlmem.cli import run
from rlmem.version import __version__

DATA = Path(__file__).parent / "data"
#: The lines of a difference that a failed test shows.
MOST_LINES = 60


@dataclass(frozen=True)
class Case:
    """One file under ``data``, and what makes its content: text, or plain data for ``.json``."""

    name: str
    make: Callable[[], Any]

    @property
    def path(self) -> Path:
        """Where the content is kept."""
        return DATA / self.name

    def text(self) -> str:
        """The content as it is written to the file."""
        made = self.make()
        if self.name.endswith(".json"):
            made = json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True)
        return made if made.endswith("\n") else f"{made}\n"


def difference(case: Case) -> str:
    """A unified diff from the kept content to the present one; empty when they are equal."""
    kept = case.path.read_text(encoding="utf-8") if case.path.exists() else ""
    now = case.text()
    if case.name.endswith(".json"):
        kept = json.dumps(json.loads(kept or "null"), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    lines = difflib.unified_diff(kept.splitlines(), now.splitlines(), "kept", "now", lineterm="", n=1)
    shown = list(lines)
    return "\n".join([*shown[:MOST_LINES], *(["…"] if len(shown) > MOST_LINES else [])])


@contextlib.contextmanager
def quiet_environment(folder: Path, *, gpu: bool = False, **more: str) -> Iterator[None]:
    """Run in ``folder`` with nothing of the user's, no calibration, no stored run, no colour, 80 columns, on a machine of its own."""
    own = {
        "RLMEM_CACHE_DIR": str(folder / ".rlmem-cache"),
        "RLMEM_DATA_DIR": str(folder / ".rlmem-data"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "TZ": "UTC",
        **more,
    }
    before = Path.cwd()
    with mock.patch.dict(os.environ, own), steady_machine(gpu=gpu):
        os.environ.pop("FORCE_COLOR", None)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def call(words: list[str], program: Callable[[list[str]], int] = run) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of ``rlmem WORDS``, or of another ``program``, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    told = mock.patch.object(sys, "argv", ["rlmem", *words])  # reports show the command they were made by
    with told, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = program(words)
    texts = []
    for stream in (out, err):
        stream.flush()
        buffer = stream.buffer
        assert isinstance(buffer, io.BytesIO)
        texts.append(buffer.getvalue().decode("utf-8"))
    return code, texts[0], texts[1]


#: The words that ask for a format, by the suffix of a case's name.
FORMATS = {"md": ("--format", "markdown"), "json": ("--json",), "html": ("--html", "page.html")}
Around = Callable[[], contextlib.AbstractContextManager[Any]]


def write_files(files: Mapping[str, str | bytes]) -> None:
    """Write files below the current folder."""
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        if content[:2] in ("#!", b"#!"):
            Path(name).chmod(0o755)


@contextlib.contextmanager
def own_folder(files: Mapping[str, str | bytes] | None = None, *, gpu: bool = False) -> Iterator[str]:
    """A scratch folder with ``files``, as the current one in a quiet environment."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder, quiet_environment(Path(folder), gpu=gpu):
        write_files(files or {})
        yield folder


def command_case(
    name: str,
    words: Sequence[str],
    files: Mapping[str, str | bytes] | None = None,
    *,
    gpu: bool = False,
    around: Around = contextlib.nullcontext,
) -> Case:
    """A case that runs ``rlmem WORDS`` in a folder of its own that holds ``files``.

    The suffix of ``name`` chooses the format: ``.txt`` as it is, ``.md`` and ``.json`` add ``--format``, ``.html`` adds
    ``--html`` and keeps the page. ``gpu`` gives the machine a GPU; ``around`` is entered for the time of the command.
    """

    def make() -> Any:
        suffix = name.rsplit(".", 1)[-1]
        with own_folder(files, gpu=gpu) as folder, around():
            code, out, err = call(in_format(words, suffix))
            page = Path("page.html")
            if suffix == "html":
                out = lines_of_html(page.read_text(encoding="utf-8")) if page.exists() else out
            out, err = (steady(text, folder) for text in (out, err))
        if suffix == "json":
            return {
                "command": list(words),
                "exit": code,
                "stderr": err,
                "document": json.loads(out) if out.strip() else None,
            }
        return as_text(words, code, out, err)

    return Case(name, make)


def session_case(
    name: str,
    commands: Sequence[Sequence[str]],
    files: Mapping[str, str | bytes] | None = None,
    kept: Sequence[str] = (),
    *,
    around: Around = contextlib.nullcontext,
) -> Case:
    """A case of commands one after the other in one folder, and of the files they leave."""

    def make() -> str:
        with own_folder(files) as folder, around():
            parts = [as_text(words, *call(list(words))) for words in commands]
            for path in kept:
                file = Path(path)
                parts += [f"--- {path}", file.read_text(encoding="utf-8") if file.exists() else "(not there)"]
        return steady("\n".join(parts), folder)

    return Case(name, make)


def in_format(words: Sequence[str], suffix: str) -> list[str]:
    """The command with the option that asks for a format; arguments of a script come last, after ``--``."""
    cut = words.index("--") if "--" in words else len(words)
    return [*words[:cut], *FORMATS.get(suffix, ()), *words[cut:]]


def as_text(words: Sequence[str], code: int, out: str, err: str) -> str:
    """A command, what it printed, and its exit code."""
    parts = [f"$ rlmem {' '.join(words)}", out.rstrip("\n")]
    parts += ["--- standard error", err.rstrip("\n")] if err else []
    return "\n".join([*parts, f"--- exit code {code}"])


def steady(text: str, folder: str = "") -> str:
    """Text without what differs from one call to the next: the version, the scratch folder, what a child process took."""
    if folder:
        text = text.replace(os.path.realpath(folder), "FOLDER").replace(folder, "FOLDER")
    text = re.sub(r"calibration-[0-9a-f]{16}", "calibration-PYTHON", text)
    text = re.sub(r"after [\d.]+ s, peak [\d.]+ \w+", "after SECONDS s, peak SIZE", text)
    return text.replace(__version__, "VERSION")


def lines_of_html(text: str) -> str:
    """A page with one element to a line, so that a difference can be read; without style and scripts."""
    text = re.sub(r"(<(style|script)\b[^>]*>).*?(</\2>)", r"\1…\3", text, flags=re.S)
    return re.sub(r">\s*<", ">\n<", text)
