"""Small programs, run: where the analyser says a value, it is the one the program had."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlmem.scripts import UNKNOWN, parse_script

TEXT = (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8")
PROGRAMS = dict(block.split("\n", maxsplit=1) for block in TEXT.split("#### ")[1:])
#: Nobody can know these from the text alone, or they are not worth the trouble: a ``__getattribute__``, ``globals()``, another
#: object from ``__enter__``, an environment variable that is set, a default that is changed in place.
BEYOND = {"metaclass/slots", "exec/globals", "attr of with", "env", "param default mutable", "same statement walrus"}
RUN = """
import builtins, contextlib, io, json, sys, os
programs, results = json.load(sys.stdin), {}
for name, text in programs.items():
    seen = {}
    def probe(value):
        seen.setdefault(sys._getframe(1).f_lineno, []).append(repr(value))
        return value
    builtins.probe = probe
    sys.argv = ["m.py"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(text, "m.py", "exec"), {"__name__": "__main__"})
        except BaseException:
            pass
    results[name] = seen
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """What every program handed to ``probe``, by line."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(PROGRAMS), capture_output=True, text=True, check=True,
        cwd=tmp_path_factory.mktemp("programs"), timeout=120,
    )  # fmt: skip
    results: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in BEYOND])
def test_a_value_that_is_said_is_the_one_the_program_has(name: str, seen: dict[str, dict[str, list[str]]]) -> None:
    script = parse_script(PROGRAMS[name], "m.py")
    for call in script.calls:
        if isinstance(call.func, ast.Name) and call.func.id == "probe" and call.args:
            said = script.value(call.args[0])
            if said is not UNKNOWN:
                assert all(value == repr(said) for value in seen[name].get(str(call.lineno), ()))
