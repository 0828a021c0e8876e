"""Stable-Baselines3 and sb3-contrib."""

from __future__ import annotations

from rlmem.core.spec import RunSpec
from rlmem.frameworks.base import Adapter
from rlmem.frameworks.sb3.compact import notes, swap
from rlmem.frameworks.sb3.defaults import ALGORITHMS, ON_POLICY, is_on_policy, resolve
from rlmem.frameworks.sb3.off_policy import OffPolicy
from rlmem.frameworks.sb3.on_policy import OnPolicy
from rlmem.frameworks.sb3.refusals import refusals
from rlmem.model.constants import Constants
from rlmem.model.rehearsal import Rehearsal


def rehearsal(spec: RunSpec, constants: Constants) -> Rehearsal:
    """The rehearsal for the run's algorithm."""
    return OnPolicy(spec, constants) if is_on_policy(spec) else OffPolicy(spec, constants)


ADAPTER = Adapter(
    name="sb3",
    algorithms=tuple(ALGORITHMS),
    on_policy=ON_POLICY,
    resolve=resolve,
    rehearsal=rehearsal,
    refusals=refusals,
    swap=swap,
    notes=notes,
)
