"""Arrays of a replay buffer are float64 because nobody said otherwise.

``np.zeros((capacity, dim))`` makes float64. Networks compute in float32, so half of every stored row is never used::

    self.state = np.zeros((1_000_000, 376))            # 2.8 GiB, 1.4 GiB of it for nothing

Use instead: ``np.zeros((capacity, dim), dtype=np.float32)``. The batch then needs no conversion either.

It is found for stores of 16 MiB and more, attributes or entries of a dict, and for 100,000 rows and more where their
width is not known; it is information only where less than 64 MiB can be saved. Rows that the run never writes do not
count.

Fix: unsafe; it adds ``dtype=np.float32`` to all arrays of the store. Numbers beyond seven digits (large indices, clock
times) lose their last ones.

Reference: thu-ml/tianshou#184 (8.05 GiB of float64); sfujim/TD3 utils.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Edit, Fix
from rlmem.core.findings import Finding
from rlmem.rules.arrays import ArrayCall, arrays
from rlmem.rules.base import Rule
from rlmem.rules.lengths import run_steps
from rlmem.rules.observed import WORTH_BYTES, severity
from rlmem.rules.shapes import is_image
from rlmem.scripts import Script

MANY_ROWS = 100_000
#: From here on it matters however narrow a row is: states, next states, actions, rewards and ends.
SURELY_MANY_ROWS = 500_000


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """One finding a class (or function): its float64 stores together, at the first that has more than a number a row."""
    groups: dict[ast.AST | None, list[ArrayCall]] = {}
    for array in arrays(script):
        if array.library == "numpy" and array.dtype == "float64" and array.is_store and not is_image(array.row_shape):
            groups.setdefault(array.owner or script.function_of(array.call), []).append(array)
    for stores in groups.values():
        steps = run_steps(script)
        sizes = [array.filled_bytes(steps) for array in stores]
        total = sum(size or 0 for size in sizes)
        wide = max((min(a.rows, steps or a.rows) for a in stores if a.nbytes is None and a.rows), default=0)
        if total < WORTH_BYTES and wide < MANY_ROWS:
            continue
        first = next((array for array in stores if len(array.dims) > 1), stores[0])
        names = list(dict.fromkeys(array.name for array in stores))
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        yield rule.finding(
            f"{listed} {'is' if len(names) == 1 else 'are'} float64, twice what a network reads",
            severity="warning" if wide >= SURELY_MANY_ROWS else severity(total // 2),
            place=script.place(first.call),
            costs_bytes=total // 2 if None not in sizes else None,
            remedy="dtype=np.float32",
            fix=_fix(script, stores),
        )


def _fix(script: Script, stores: list[ArrayCall]) -> Fix | None:
    edits: list[Edit] = []
    for array in stores:
        func = array.call.func
        if array.dtype_given:
            continue
        dtype = f"{script.segment(func.value)}.float32" if isinstance(func, ast.Attribute) else '"float32"'
        edits.append(script.add_argument(array.call, f"dtype={dtype}"))
    return Fix(title="store float32", edits=tuple(edits), safety="unsafe") if edits else None
