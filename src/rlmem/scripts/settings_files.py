"""Whole numbers in files of settings (YAML, JSON, TOML), with their keys and where they stand in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_TOML = re.compile(r"^[ \t]*([\w.\"-]+)[ \t]*=[ \t]*([0-9][0-9_.eE+]*)[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A whole number: its key, the keys around it, and its place in the text."""

    path: Path
    dotted: str
    value: int
    line: int
    start: int
    end: int
    text: str

    @property
    def key(self) -> str:
        """Its own key."""
        return self.dotted.rsplit(".", maxsplit=1)[-1]


def numbers_in(path: Path, text: str) -> tuple[Setting, ...]:
    """The whole numbers of a file; none where it does not parse."""
    return tuple(_toml(path, text) if path.suffix == ".toml" else _yaml(path, text))


def _toml(path: Path, text: str) -> Iterator[Setting]:
    for found in _TOML.finditer(text):
        value = _whole(found[2])
        if value is not None:
            line = text.count("\n", 0, found.start(2)) + 1
            start, end = found.span(2)
            yield Setting(path=path, dotted=found[1].strip('"'), value=value, line=line, start=start, end=end, text=found[2])  # fmt: skip


def _yaml(path: Path, text: str) -> Iterator[Setting]:
    """JSON is read as YAML, which it is, all but."""
    import yaml  # only runs with such a file need it

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    stack = [(root, "")]
    while stack:
        node, above = stack.pop()
        if not isinstance(node, yaml.MappingNode):
            continue
        for key, item in node.value:
            dotted = f"{above}.{key.value}" if above else str(key.value)
            stack.append((item, dotted))
            value = _whole(item.value) if isinstance(item, yaml.ScalarNode) else None
            if value is not None:
                start, end = item.start_mark.index, item.end_mark.index
                line = item.start_mark.line + 1
                yield Setting(path=path, dotted=dotted, value=value, line=line, start=start, end=end, text=text[start:end])  # fmt: skip


def _whole(text: str) -> int | None:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else None
