"""Planted findings: calls with certain names, each with a fix of a certain kind, so that tests are about lint itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.lint import linter
from rlmem.lint.check import Said
from rlmem.planner import Planner
from rlmem.rules import CODES
from rlmem.scripts import Script


def planted(script: Script, planner: Planner) -> Said:
    """Stands in for all rules."""
    return Said(findings=tuple(finding for call in script.calls for finding in _planted(script, call)))


def _planted(script: Script, call: ast.Call) -> Iterator[Finding]:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    place = script.place(call)

    def finding(code: str, text: str | None = None, safety: str = "safe", severity: str = "warning") -> Finding:
        edit = None if text is None else script.edit(call, text)
        fix = edit and Fix(title=f"no {name}", edits=(edit,), safety=safety)
        return Finding(code=code, name=CODES[code], severity=severity, title=f"{name} is called", place=place, fix=fix)

    if name == "waste":
        yield finding("MEM101", "thrift()")
    elif name == "risk":
        yield finding("MEM102", "calm()", "unsafe")
    elif name == "broken":
        yield finding("MEM103", "thrift((")
    elif name == "coffee":
        yield finding("MEM103", "'☕'")
    elif name == "twice":
        yield finding("MEM101", "waste()")
        yield finding("MEM102", "thrift() or 1")
    elif name == "endless":
        yield finding("MEM101", "endless( )" if script.segment(call) == "endless()" else "endless()")
    elif name == "lines":
        yield finding("MEM101", "thrift(\n    1,\n)")
    elif name == "plain":
        yield finding("MEM201")
    elif name == "mild":
        yield finding("MEM302", severity="info")
    elif name == "crash":
        raise ZeroDivisionError("a rule stumbles")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A folder one is in, with planted findings; called with names and texts it writes files, and returns the last one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linter, "find", planted)
    monkeypatch.setattr(linter.Linter, "relevant", staticmethod(lambda text: True))
    (tmp_path / "pyproject.toml").write_text("[tool.rlmem]\n")

    def write(**files: str | bytes) -> Path:
        path = tmp_path
        for name, content in files.items():
            path = tmp_path / (name.replace("__", "/") + ("" if "." in name else ".py"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
