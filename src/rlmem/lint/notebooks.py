"""Edits to the code of a notebook, written back into its JSON so that nothing else of the file changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rlmem.core.edits import Edit, apply
from rlmem.scripts.source import Cell, Source


class InexactError(Exception):
    """Why a change cannot be written back exactly."""


def with_edits(source: Source, text: str, edits: Sequence[Edit]) -> str:
    """The notebook's file with its cells changed: its indentation, its escapes and everything else stay as they are."""
    document = json.loads(text)
    style = _style(document, text)
    if style is None:
        raise InexactError("this notebook is formatted in a way that cannot be kept")
    for cell, own in _by_cell(source, edits):
        written = document["cells"][cell.index]
        changed = apply(source.text[cell.start : cell.end], own)
        written["source"] = changed.splitlines(keepends=True) if isinstance(written["source"], list) else changed
    options, end = style
    return json.dumps(document, **options) + end


def _style(document: Any, text: str) -> tuple[dict[str, Any], str] | None:
    """How the file was written: the options that give back exactly what is there."""
    end = text[len(text.rstrip()) :]
    for indent in (1, 2, 4, None, 0, "\t"):
        for ascii_only in (False, True):
            for separators in (None, (",", ":"), (", ", ": ")):
                options: dict[str, Any] = {"indent": indent, "ensure_ascii": ascii_only, "separators": separators}
                if json.dumps(document, **options) + end == text:
                    return options, end
    return None


def _by_cell(source: Source, edits: Sequence[Edit]) -> Iterator[tuple[Cell, list[Edit]]]:
    """The edits of each cell, counted from its beginning."""
    cells: dict[int, tuple[Cell, list[Edit]]] = {}
    for edit in edits:
        cell = next((cell for cell in source.cells if _holds(cell, edit)), None)
        if cell is None:
            raise InexactError("a fix reaches over more than one cell")
        # The text of all cells has a line end after each; a cell itself may have none.
        start, end, text = edit.start, edit.end, edit.text
        if start > cell.end:
            start, end, text = cell.end, cell.end, "\n" + text.removesuffix("\n")
        elif end > cell.end:
            end, text = cell.end, text.removesuffix("\n")
        own = replace(edit, start=start - cell.start, end=end - cell.start, text=text)
        cells.setdefault(cell.index, (cell, []))[1].append(own)
    yield from cells.values()


def _holds(cell: Cell, edit: Edit) -> bool:
    """Whether an edit is a cell's; an import behind its last line is, and not the next cell's."""
    if edit.start == edit.end == cell.end + 1:
        return edit.text.startswith(("import ", "from "))
    return cell.start <= edit.start <= cell.end and edit.end <= cell.end + 1
