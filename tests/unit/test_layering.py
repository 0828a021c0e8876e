"""Imports point downward only, lazy ones included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "rlmem"
#: From the ground up; a module may import from its own layer and from those beneath.
LAYERS = (
    ("agent",),  # runs in other interpreters: it imports nothing of rlmem, and everybody may import it
    ("version", "errors", "units"),
    (
        "quantity",
        "spaces",
        "layers",
        "fields",
        "spec",
        "ledger",
        "edits",
        "findings",
        "plan",
        "schedule",
        "run_schema",
        "components",
        "memory_classes",
        "holdings",
        "moments",
        "points",
        "line_fit",
        "core",
    ),
    ("model", "documents"),
    ("buffers", "scripts"),
    ("frameworks", "measure", "sources", "rules", "machines", "budget", "capacity"),
    ("planner", "preload", "snapshots"),
    ("cluster",),
    ("remedies", "lint"),
    (
        "trace",
        "runner",
        "watch",
        "programs",
        "swarm",
        "trials",
        "guards",
        "sb3",
        "torchrl",
        "ray",
        "optuna",
    ),  # the last five are for users' programs
    ("app", "report"),
    ("serve",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
#: A door: ``python -m rlmem.swarm`` is a command line of its own.
HIGHER = {"swarm/__main__": RANK["cli"]}
#: The package's own front door: a table of names, loaded on first use, and the version.
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
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or module.startswith("agent/"), f"{module}: relative import"
            base = node.module or ""
            yield base
            if base == "rlmem":
                yield from (f"rlmem.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_layer_or_beneath(module: str) -> None:
    part = module.split("/", maxsplit=1)[0]
    for name in imports(module):
        if name.startswith("rlmem."):
            below = name.split(".")[1]
            allowed = HIGHER.get(module, RANK["version" if part == FRONT else part])
            assert RANK[below] <= allowed, f"{module} imports {name}"


def test_every_module_has_a_layer() -> None:
    assert {module.split("/")[0] for module in MODULES} - {FRONT} == set(RANK)


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
    for names in LAYERS[1:4]:
        for module in MODULES:
            if module.split("/")[0] in names:
                assert not {"os", "subprocess", "pathlib", "io", "sys"} & set(imports(module)), module
