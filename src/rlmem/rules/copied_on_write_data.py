"""Python lists in forked workers are copied page by page.

A forked worker shares its parent's memory until one of them writes to it. Looking at a Python object writes to it: its
reference count is stored in the object. A ``DataLoader`` whose data set is a list or a dict of many small objects therefore ends
with a copy in every worker, slowly, and it looks like a leak.

In a script, the rule fires for a ``DataLoader`` with workers over a data set of this file that keeps records in a list or dict
(read from JSON, a pickle, or appended one by one). A list of file names is small and only mentioned for information. In a running
program it fires when forked workers have copied much of a parent with large containers.

Example::

    class Transitions(Dataset):
        def __init__(self, path):
            self.rows = json.load(open(path))
        def __getitem__(self, i):
            return self.rows[i]

    loader = DataLoader(Transitions("demo.json"), num_workers=8)

Use instead: numpy arrays or tensors (one object, however long), Arrow, or ``multiprocessing.Manager``; ``gc.freeze()`` before
the fork helps a little.

Fix: none.

Reference: pytorch/pytorch#13246.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, methods, receiver, self_attribute
from rlmem.scripts import Script
from rlmem.units import MIB, format_size

_PATHS = {"glob", "listdir", "rglob", "iterdir", "scandir", "sorted"}
_RECORDS = {"json.load", "json.loads", "pickle.load", "cloudpickle.load", "joblib.load", "dill.load"}
#: Below this a parent has nothing worth copying.
WORTH_BYTES = 256 * MIB


def check_live(rule: Rule, found: TreeExplanation) -> Iterator[Finding]:
    """Forked workers that have copied much of a parent whose memory is in containers."""
    lists = sum(each.resident_bytes for each in found.top.holdings if each.kind == "container" and each.device == "ram")
    copies = [
        process.uss_bytes
        for process in found.processes[1:]
        if process.role == "worker" and process.shared_anonymous_bytes and (process.uss_bytes or 0) > lists // 4
    ]
    copied = sum(min(each or 0, lists) for each in copies)
    if lists < WORTH_BYTES or len(copies) < 2:
        return
    yield rule.finding(
        f"{len(copies)} forked workers have copied up to {format_size(copied)} of a parent with {format_size(lists)} of lists",
        severity="info",
        saves_bytes=copied,
        location="workers",
        remedy="keep the data in numpy arrays or tensors, which forked workers share",
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``DataLoader(…, num_workers=n)`` over lists and dicts."""
    for call in script.calls_of("DataLoader", roots=("torch", "torch_geometric")):
        given = script.argument(call, "num_workers", 5)
        workers = script.value(given) if given is not None else 0
        data = script.argument(call, "dataset", 0)
        if not isinstance(workers, int) or workers < 1 or data is None:
            continue
        kept = _kept(script, data)
        if kept is not None:
            what, small = kept
            yield rule.finding(
                f"{what}: {workers} forked workers copy it page by page as they read it",
                severity="info" if small else "warning",
                place=script.place(call),
                costs_per="worker",
                remedy="keep the records in numpy arrays or tensors, one object each",
            )


def _kept(script: Script, data: ast.expr) -> tuple[str, bool] | None:
    """What a data set keeps its records in, and whether that is only file names; ``None`` for anything else."""
    found = script.definition(data)
    if _is_records(script, found):
        return "the data set is a list of records", False
    name = script.called(found) if isinstance(found, ast.Call) else None
    cls = next((node for node in script.classes if name is not None and node.name == name.dotted), None)
    init = methods(cls).get("__init__") if cls is not None else None
    if cls is None or init is None:
        return None
    for node in ast.walk(init):
        if isinstance(node, ast.Assign) and (attribute := self_attribute(node.targets[0])) is not None:
            if _is_records(script, node.value) and _is_read(cls, attribute):
                return f"{cls.name}.{attribute} is a Python container of records", False
            if _appended(init, attribute) and _is_read(cls, attribute):
                return f"{cls.name}.{attribute} is a Python list that is filled one by one", _names_only(
                    init, attribute
                )
            if isinstance(node.value, ast.Call) and leaf(node.value) in _PATHS and _is_read(cls, attribute):
                return f"{cls.name}.{attribute} is a Python list of names", True
    return None


def _is_records(script: Script, expr: ast.expr) -> bool:
    """What JSON or a pickle gave, or a list of tuples, dicts or lists made one by one."""
    if isinstance(expr, ast.Call):
        return (script.qualified(expr.func) or "") in _RECORDS
    if isinstance(expr, ast.ListComp):
        return isinstance(expr.elt, (ast.Tuple, ast.Dict, ast.List)) or (
            isinstance(expr.elt, ast.Call) and (script.qualified(expr.elt.func) or "") in _RECORDS
        )
    return False


def _is_read(cls: ast.ClassDef, attribute: str) -> bool:
    """Whether the workers read it: in ``__getitem__`` or ``__iter__``."""
    readers = [method for name, method in methods(cls).items() if name in {"__getitem__", "__iter__", "get"}]
    return any(
        isinstance(node, ast.Attribute) and self_attribute(node) == attribute
        for method in readers
        for node in ast.walk(method)
    )


def _appended(init: ast.AST, attribute: str) -> ast.Call | None:
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and leaf(node) == "append" and node.args:
            where = receiver(node)
            if where is not None and self_attribute(where) == attribute:
                return node
    return None


def _names_only(init: ast.AST, attribute: str) -> bool:
    """Whether what is appended is anything but a tuple, a dict or a list: a name, an array."""
    call = _appended(init, attribute)
    return call is None or not isinstance(call.args[0], (ast.Tuple, ast.Dict, ast.List))
