"""Observations are stored as float64.

Gymnasium's MuJoCo spaces are float64 and SB3 keeps the space's dtype in its buffers, while the network computes in
float32: half of the stored bytes are never used.

Use instead: a wrapper that casts observations and the space to float32 (Gymnasium's ``DtypeObservation``), or in an
environment of your own ``dtype=np.float32``.

In a script it is found where an off-policy model of SB3 trains on an environment whose observations are known to be
float64: Gymnasium's MuJoCo, or a class in the same file::

    model = SAC("MlpPolicy", "Humanoid-v5", buffer_size=1_000_000)      # 5.2 GiB, half of it for nothing

Below 64 MiB it is information only; rows that the run never writes do not count.

Fix: unsafe; ``dtype=np.float64`` of a Box becomes ``np.float32``. SB3 casts what the environment returns when it stores
it; the environment should return float32 itself.

Reference: thu-ml/tianshou#184; Humanoid-v5 at 1M transitions 5.25 → 2.66 GiB.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.spaces import Box, DictSpace, Space, describe_space
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import WORTH_BYTES, Replay, env_class, replays, severity, space_of
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when casting would really save something."""
    declared = subject.asked.get("observation")
    if declared is None or not any(leaf.dtype == "float64" for leaf in subject.spec.observation_leaves):
        return
    changes = {"observation": describe_space(_as_float32(declared))}
    saves = subject.saving(changes)
    if saves > 0:
        yield rule.finding(
            "float64 observations are stored, and the network uses float32",
            saves_bytes=saves or None,
            location="observation",
            remedy="cast observations to float32 in a wrapper",
            changes=changes,
        )


def _as_float32(space: Space) -> Space:
    if isinstance(space, Box) and space.dtype == "float64":
        return replace(space, dtype="float32")
    if isinstance(space, DictSpace):
        return DictSpace(spaces=tuple((key, _as_float32(sub)) for key, sub in space.spaces))
    return space


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Off-policy models whose environment is known to observe float64."""
    for store in replays(script):
        size = store.seen.nbytes
        if store.seen.dtype != "float64" or size is None or store.filled is None or store.twice is None:
            continue
        waste = store.filled * store.copies * size // 2
        if waste < WORTH_BYTES:
            continue
        dtype = _declared(script, store)
        yield rule.finding(
            f"{store.owner} keeps float64 observations, and its network reads float32",
            severity=severity(waste),
            place=script.place(dtype if dtype is not None else store.call),
            costs_bytes=waste,
            remedy="dtype=np.float32 in the Box, and return float32"
            if dtype is not None
            else "wrap the environment in gymnasium.wrappers.DtypeObservation(env, np.float32)",
            fix=_fix(script, dtype),
        )


def _declared(script: Script, store: Replay) -> ast.expr | None:
    """The ``dtype=np.float64`` of the environment's class, when it is in this file."""
    environment = environment_of(script, store.model.env) if store.model and store.model.env is not None else None
    node = env_class(script, environment) if environment else None
    space = space_of(script, node) if node else None
    return script.argument(space, "dtype", 3) if isinstance(space, ast.Call) else None


def _fix(script: Script, dtype: ast.expr | None) -> Fix | None:
    if not isinstance(dtype, ast.Attribute) or dtype.attr != "float64":
        return None
    edit = script.edit(dtype, f"{script.segment(dtype.value)}.float32")
    return Fix(title="declare float32", edits=(edit,), safety="unsafe")
