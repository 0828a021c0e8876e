"""The text of a script or a notebook, and how its offsets, lines and cells belong together."""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Only these end a line of Python; ``str.splitlines`` knows more.
_LINE = re.compile(r"\r\n|\r|\n")
#: Cell magics beneath which the cell is still Python.
_TRANSPARENT = ("%%time", "%%timeit", "%%capture", "%%prun")
#: A line magic that runs the rest of its line, an assignment of what a shell command prints, a question about a name.
_TIMED = re.compile(r"(\s*)%(?:time|timeit|prun|memit)\s+(?!-)")
_ASSIGNED = re.compile(r"\s*[A-Za-z_][\w.]*\s*=\s*[!%]")
_HELP = re.compile(r"^\??\??[\w.]+\?\??$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A code cell: its number among all cells from 1, its index in the file, and where its text stands."""

    number: int
    index: int
    start: int
    end: int


class Source:
    """A text with its line starts. ``code`` has the same length as ``text`` and is what Python parses."""

    def __init__(
        self,
        path: str,
        text: str,
        *,
        code: str | None = None,
        cells: Sequence[Cell] = (),
        skipped: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.path, self.text, self.code, self.cells = path, text, text if code is None else code, tuple(cells)
        #: Cells that are no Python, by number, and what is wrong with each.
        self.skipped = tuple(skipped)
        self.starts = [0, *(match.end() for match in _LINE.finditer(text))]
        self._ascii = text.isascii()
        self._cell_starts = [cell.start for cell in self.cells]

    def offset(self, line: int, column: int) -> int:
        """The character at a line from 1 and a column in UTF-8 bytes, as the parser counts them."""
        start = self.starts[line - 1]
        if self._ascii:
            return start + column
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        written = self.code[start:end]
        return start + (column if written.isascii() else len(written.encode()[:column].decode(errors="ignore")))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def cell_at(self, offset: int) -> Cell | None:
        """The notebook cell that holds a character."""
        found = bisect_right(self._cell_starts, offset) - 1
        return self.cells[found] if found >= 0 and offset <= self.cells[found].end else None

    def line(self, number: int) -> str:
        """One line without its end."""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end].rstrip("\r\n")


def read_notebook(path: str, text: str) -> Source:
    """The code cells of a notebook, one after the other; magics become comments of the same length."""
    notebook: Any = json.loads(text)
    cells = notebook["cells"] if isinstance(notebook, dict) and isinstance(notebook.get("cells"), list) else None
    if cells is None:
        raise ValueError("not a notebook: it has no list of cells")
    kept, original, code, skipped, at = [], [], [], [], 0
    for index, cell in enumerate(cells):
        written = cell_source(cell)
        if written is None:
            continue
        ended = written if written.endswith("\n") else f"{written}\n"
        kept.append(Cell(number=index + 1, index=index, start=at, end=at + len(written)))
        original.append(ended)
        python = _without_magics(ended)
        if (problem := _problem(python)) is not None:
            skipped.append((index + 1, problem))
            python = _blank(ended)
        code.append(python)
        at += len(ended)
    return Source(path, "".join(original), code="".join(code), cells=kept, skipped=skipped)


def _problem(code: str) -> str | None:
    """What keeps a cell from being Python; the others of its notebook may still be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        return f"line {error.lineno} does not parse: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {error}"
    return None


def _blank(text: str) -> str:
    return "".join("\n" if character == "\n" else " " for character in text)


def cell_source(cell: Any) -> str | None:
    """The text of a code cell; ``None`` for any other."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    written = cell.get("source", "")
    return "".join(map(str, written)) if isinstance(written, list) else str(written)


def _without_magics(text: str) -> str:
    """IPython's own lines as ``0#…``: an expression that does nothing, of the same length."""
    first = text.lstrip().split(maxsplit=1)[0] if text.strip() else ""
    if first.startswith("%%") and first not in _TRANSPARENT:
        return _blank(text)
    return "".join(_python_line(line) for line in re.findall(r"[^\n]*\n|[^\n]+", text))


def _python_line(line: str) -> str:
    """A line without IPython's own words, as long as it was."""
    if match := _TIMED.match(line):  # %time model.learn(1000) runs what follows
        return f"{match[1]}0;{' ' * (match.end() - len(match[1]) - 2)}{line[match.end() :]}"
    if match := _ASSIGNED.match(line):  # files = !ls
        return f"{match[0][:-1]}0{'#' * (len(line.rstrip(chr(10))) - match.end())}{_end(line)}"
    bare = line.strip()
    if bare[:1] in ("%", "!", "?") or _HELP.match(bare):
        indent = line[: len(line) - len(line.lstrip())]
        rest = line[len(indent) :].rstrip("\n")
        return f"{indent}0{'#' + rest[2:] if len(rest) > 1 else ''}{_end(line)}"
    return line


def _end(line: str) -> str:
    return "\n" if line.endswith("\n") else ""
