"""What is asked of lint: the table ``[tool.rlmem]`` of the nearest pyproject.toml, and what the command line says instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from rlmem.budget import make_budget, read_size
from rlmem.core.findings import SEVERITIES
from rlmem.core.plan import Budget
from rlmem.errors import UsageError, did_you_mean
from rlmem.lint.catalogue import ALL, codes
from rlmem.lint.globs import matches

#: In the standard library from 3.11.
_TOML = "tomllib" if sys.version_info >= (3, 11) else "tomli"
FILE = "pyproject.toml"
#: Key of the table to what it takes.
KEYS = {
    "select": "a list of rules",
    "ignore": "a list of rules",
    "exclude": "a list of patterns",
    "per-file-ignores": "a table of patterns and lists of rules",
    "severity": f"one of {', '.join(SEVERITIES)}",
    "ram": "a size, such as '16GB'",
    "baseline": "the name of a file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to look for, where not to, and against which machine; paths and patterns count from ``root``."""

    root: Path
    enabled: frozenset[str]
    exclude: tuple[str, ...] = ()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()
    severity: str = "warning"
    ram: str | None = None
    baseline: Path | None = None

    def enabled_for(self, path: str) -> frozenset[str]:
        """The rules that hold for a file, whose path counts from ``root``."""
        off = {code for pattern, some in self.per_file if matches(path, [pattern]) for code in some}
        return self.enabled - off

    def shows(self, severity: str) -> bool:
        """Whether findings of a severity are shown."""
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.severity)

    def budget(self) -> Budget:
        """What runs are planned against: the size that was named, so that the answer is the same on every machine."""
        return make_budget(ram=self.ram) if self.ram else Budget(name="any machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says; ``None`` and empty leave it to the file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: str | None = None
    ram: str | None = None
    baseline: Path | None = None


def settings_for(named: Iterable[Path], asked: Asked) -> Settings:
    """The settings of the nearest pyproject.toml that has some, changed by the command line."""
    start = _common(named)
    file, table = _nearest(start)
    root = file.parent if file else Path.cwd()
    made = _from_table(table, str(file), root) if file else Settings(root=root, enabled=codes([ALL], ""))
    if asked.select:  # whoever asks for a rule by name wants it, whatever the file leaves out
        made = replace(made, enabled=codes(asked.select, "--select"))
    if asked.ignore:
        made = replace(made, enabled=made.enabled - codes(asked.ignore, "--ignore"))
    if asked.ram is not None:
        read_size(asked.ram, "--ram")
    return replace(
        made,
        severity=asked.severity or made.severity,
        ram=asked.ram or made.ram,
        baseline=asked.baseline or made.baseline,
    )


def _common(named: Iterable[Path]) -> Path:
    """The innermost folder that all paths are in."""
    whole = [os.path.abspath(path) for path in named] or [os.getcwd()]
    try:
        shared = Path(os.path.commonpath(whole))
    except ValueError:  # on two drives
        return Path.cwd()
    return shared if shared.is_dir() else shared.parent


def _nearest(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """The first file with a ``[tool.rlmem]`` table, going up, and that table."""
    for place in (folder, *folder.parents):
        file = place / FILE
        try:
            document = import_module(_TOML).loads(file.read_bytes().decode("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}: not TOML: {error}") from None
        tool = document.get("tool")
        table = tool.get("rlmem") if isinstance(tool, Mapping) else None
        if table is not None:
            return file, _flat(table, str(file))
    return None, {}


def _flat(table: Any, file: str) -> Mapping[str, Any]:
    """Keys of ``[tool.rlmem]`` and of ``[tool.rlmem.lint]`` as one; a key may stand in one of them."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{file}: tool.rlmem: expected a table")
    lint = table.get("lint", {})
    if not isinstance(lint, Mapping):
        raise UsageError(f"{file}: tool.rlmem.lint: expected a table")
    outer = {key: value for key, value in table.items() if key != "lint"}
    for key in (*outer, *lint):
        if key not in KEYS:
            where = "tool.rlmem.lint" if key in lint else "tool.rlmem"
            raise UsageError(f"{file}: {where}.{key}: unknown key{did_you_mean(key, KEYS)}; known: {', '.join(KEYS)}")
        if key in outer and key in lint:
            raise UsageError(f"{file}: {key} stands in tool.rlmem and in tool.rlmem.lint; keep one of them")
    return {**outer, **lint}


def _from_table(table: Mapping[str, Any], file: str, root: Path) -> Settings:
    def wrong(key: str) -> UsageError:
        return UsageError(f"{file}: {key}: expected {KEYS[key]}")

    def words(key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
            raise wrong(key)
        return tuple(value)

    for key in ("severity", "ram", "baseline"):
        if not isinstance(table.get(key, ""), str):
            raise wrong(key)
    if table.get("severity", "warning") not in SEVERITIES:
        raise wrong("severity")
    if "ram" in table:
        read_size(table["ram"], f"{file}: ram")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise wrong("per-file-ignores")
    chosen = codes(words("select", table.get("select", [ALL])), f"{file}: select")
    return Settings(
        root=root,
        enabled=chosen - codes(words("ignore", table.get("ignore", [])), f"{file}: ignore"),
        exclude=words("exclude", table.get("exclude", [])),
        per_file=tuple(
            (pattern, codes(words("per-file-ignores", some), f"{file}: per-file-ignores.{pattern!r}"))
            for pattern, some in per_file.items()
        ),
        severity=table.get("severity", "warning"),
        ram=table.get("ram"),
        baseline=root / table["baseline"] if "baseline" in table else None,
    )
