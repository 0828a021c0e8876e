"""Who may import whom: an explicit list for every package, imports inside of functions counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "rlmem"
#: What each package and module of the first level imports of the others, from the ground up. There are no circles, and no
#: edge that nobody uses; a new one is a decision.
ALLOWED = {
    # runs in other interpreters: it imports nothing of rlmem
    "agent": (),
    "version": (),
    "errors": (),
    "units": ("errors",),
    # nouns: no input or output
    "core": ("errors", "units"),
    "documents": ("core", "errors", "units", "version"),
    # arithmetic, stores, and reading of scripts and descriptions
    "model": ("core", "units"),
    "frameworks": ("core", "errors", "model"),
    "buffers": ("errors", "units"),
    "scripts": ("core", "errors"),
    "sources": ("core", "errors", "scripts", "units"),
    "capacity": ("core", "errors", "units"),
    # the machine and its processes
    "process": ("agent", "core", "errors", "model", "scripts", "units"),
    "preload": ("agent",),
    "snapshots": ("agent", "core", "process", "units"),
    "budget": ("core", "errors", "process", "units"),
    "watch": ("agent", "core", "errors", "process", "units"),
    "runner": ("agent", "core", "documents", "errors", "process", "units", "version", "watch"),
    # what is made of a plan
    "rules": ("capacity", "core", "errors", "frameworks", "model", "scripts", "sources", "units"),
    "planner": ("core", "frameworks", "model", "rules"),
    "remedies": ("budget", "capacity", "core", "errors", "frameworks", "rules", "scripts", "units"),
    "cluster": ("core", "errors", "frameworks", "model", "units"),
    "lint": (
        "budget",
        "core",
        "documents",
        "errors",
        "planner",
        "process",
        "rules",
        "scripts",
        "sources",
        "units",
    ),
    # runs that are started to see what they need
    "swarm": ("agent", "buffers", "core", "documents", "errors", "frameworks", "planner", "sources", "units"),
    "programs": (
        "agent",
        "core",
        "documents",
        "errors",
        "frameworks",
        "model",
        "process",
        "runner",
        "sb3",
        "sources",
        "swarm",
        "units",
        "version",
    ),
    "trace": (
        "agent",
        "budget",
        "capacity",
        "core",
        "errors",
        "frameworks",
        "lint",
        "model",
        "planner",
        "process",
        "programs",
        "remedies",
        "rules",
        "runner",
        "scripts",
        "sources",
        "units",
    ),
    # for users' programs
    "guards": ("agent", "core", "errors", "runner", "units", "watch"),
    "sb3": ("agent", "buffers", "core", "errors", "guards", "runner", "units", "watch"),
    "torchrl": ("buffers", "errors"),
    "trials": ("core", "errors", "model", "planner", "process", "sources", "trace", "units"),
    "optuna": ("agent", "budget", "core", "errors", "runner", "trials", "units"),
    "ray": (
        "agent",
        "budget",
        "cluster",
        "core",
        "errors",
        "frameworks",
        "model",
        "planner",
        "preload",
        "process",
        "programs",
        "runner",
        "sources",
        "trace",
        "trials",
        "units",
        "version",
    ),
    # use cases: a request in, a document out
    "app": (
        "agent",
        "budget",
        "capacity",
        "cluster",
        "core",
        "documents",
        "errors",
        "frameworks",
        "lint",
        "model",
        "planner",
        "process",
        "programs",
        "ray",
        "remedies",
        "rules",
        "runner",
        "scripts",
        "sources",
        "swarm",
        "trace",
        "units",
        "version",
        "watch",
    ),
    # views of nouns and documents: no planner, no store, no rule, nothing of /proc
    "report": ("core", "documents", "errors", "units", "version"),
    "serve": (
        "agent",
        "app",
        "budget",
        "core",
        "documents",
        "errors",
        "process",
        "report",
        "runner",
        "sources",
        "units",
        "version",
        "watch",
    ),
    "cli": (
        "agent",
        "app",
        "budget",
        "core",
        "documents",
        "errors",
        "process",
        "programs",
        "ray",
        "report",
        "rules",
        "runner",
        "serve",
        "sources",
        "swarm",
        "units",
        "version",
    ),
    # doors: ``python -m rlmem``, ``python -m rlmem.swarm``
    "__main__": ("cli",),
}
#: The package's own front: a table of names, loaded on first use, and the version.
FRONT = "__init__"
MODULES = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.py"))
#: What runs in the training environment may import what is there, inside functions.
ABROAD = {module for module in MODULES if module.split("/")[0] in {"agent", "programs"}}
#: The stores, and what binds them to a framework: nobody imports these unasked.
STORES = {module for module in MODULES if module.split("/")[0] == "buffers"}
BINDINGS = {module for module in MODULES if module.split("/")[0] in {"sb3", "torchrl"}}
#: A run of our own, in torch.
SWARM = {module for module in MODULES if module.split("/")[0] == "swarm"}
RAY = {module for module in MODULES if module.split("/")[0] == "ray"}
SERVER = {module for module in MODULES if module.split("/")[0] == "serve"}
DOCUMENTS = {module for module in MODULES if module.split("/")[0] == "documents"}
#: Heavy packages, and the only modules that may import them.
EDGES = {
    "torch": {"process/probe_runtime", "buffers/window"} | ABROAD | BINDINGS | SWARM,
    "numpy": ABROAD | STORES | BINDINGS | SWARM,
    "numba": STORES | BINDINGS,
    "rich": {"report/layout", "report/terminal", "report/progress", "report/dashboard"},
    "textual": {"report/dashboard"},
    "msgspec": DOCUMENTS,
    "yaml": {"sources/config", "scripts/data", "scripts/settings_files"},
    "pynvml": {"process/gpus", "process/probe_runtime"},
    "fastapi": SERVER,
    "uvicorn": SERVER,
    "gymnasium": ABROAD | BINDINGS,
    "ray": ABROAD | RAY,
    "optuna": {"optuna"},
    "stable_baselines3": ABROAD | BINDINGS,
}


@cache
def imports(module: str) -> tuple[str, ...]:
    """Every module named in an import statement, at the top or inside a function."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[str]:
    tree = ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert "rlmem" not in {alias.name for alias in node.names}, f"{module}: name what is imported of rlmem"
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.count("/") if module.startswith("agent/") else 0
            assert node.level <= above, f"{module}: relative import"
            base = node.module or ""
            yield base
            if base == "rlmem":
                yield from (f"rlmem.{alias.name}" for alias in node.names)


def part_of(module: str) -> str:
    """The package or module of the first level; a door is one by itself."""
    return "__main__" if module.endswith("__main__") else module.split("/", maxsplit=1)[0]


@cache
def edges() -> dict[str, set[str]]:
    """What each part imports of the others."""
    found: dict[str, set[str]] = {part_of(module): set() for module in MODULES if module != FRONT}
    for module in MODULES:
        for name in imports(module) if module != FRONT else ():
            if name.startswith("rlmem."):
                found[part_of(module)].add(name.split(".")[1])
    return {part: others - {part} for part, others in found.items()}


def test_every_part_imports_what_it_may_and_nothing_else() -> None:
    assert set(edges()) == set(ALLOWED)
    new = {part: others - set(ALLOWED[part]) for part, others in edges().items()}
    assert not {part: others for part, others in new.items() if others}, "new imports: is that the right direction?"
    gone = {part: set(others) - edges()[part] for part, others in ALLOWED.items()}
    assert not {part: others for part, others in gone.items() if others}, "nobody imports that any more: take it off"


def test_there_is_no_circle() -> None:
    assert list(TopologicalSorter(ALLOWED).static_order())


def test_the_front_imports_nothing_when_it_is_imported() -> None:
    assert {name for name in imports(FRONT) if name.startswith("rlmem")} == {"rlmem.version"}


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("app/")])
def test_a_use_case_knows_no_command_line_and_no_web_server_and_prints_nothing(module: str) -> None:
    text = (ROOT / f"{module}.py").read_text(encoding="utf-8")
    assert not {"click", "fastapi", "rich", "textual"} & {name.split(".")[0] for name in imports(module)}
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    assert not any(isinstance(name, ast.Name) and name.id == "print" for name in calls)


@pytest.mark.parametrize("package", EDGES)
def test_a_heavy_package_is_imported_in_one_place(package: str) -> None:
    users = {module for module in MODULES if any(name.split(".")[0] == package for name in imports(module))}
    assert users <= EDGES[package]


@pytest.mark.parametrize("module", sorted(ABROAD))
def test_what_runs_abroad_imports_heavy_packages_only_when_asked_to(module: str) -> None:
    top = ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8")).body
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & set(EDGES)


@pytest.mark.parametrize("module", sorted(module for module in MODULES if module.startswith("agent/")))
def test_the_agent_imports_nothing_of_rlmem(module: str) -> None:
    assert not [name for name in imports(module) if name.split(".")[0] == "rlmem"]


def test_nouns_do_no_input_or_output() -> None:
    for module in MODULES:
        if module.split("/")[0] in ("version", "errors", "units", "core", "documents", "model"):
            assert not {"os", "subprocess", "pathlib", "io", "sys"} & set(imports(module)), module
