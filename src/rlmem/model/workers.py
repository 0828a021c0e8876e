"""Environments and the processes they live in."""

from __future__ import annotations

from math import prod
from typing import Any

from rlmem.core.quantity import Quantity, total
from rlmem.core.spaces import DTYPES, nbytes
from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.model.tape import Tape


def env_state(spec: RunSpec) -> Quantity | None:
    """Bytes of the arrays one agent's environment holds; ``None`` when the description names none."""
    arrays: dict[str, Any] = spec.get("env.state", {})
    parts = [_array(spec, name, item) for name, item in arrays.items()]
    return total(parts) if parts else None


def _array(spec: RunSpec, name: str, item: Any) -> Quantity:
    origin = spec.origin("env.state")
    if isinstance(item, int):
        return Quantity.of(item, name, origin)
    if "like" in item:
        return Quantity.of(nbytes(spec.observation), f"{name} (one observation)", origin)
    sides = [spec.count(side) if isinstance(side, str) else side for side in item["shape"]]
    size = prod(sides) * DTYPES[item["dtype"]]
    shape = " × ".join(
        f"{side}={value}" if isinstance(side, str) else str(value)
        for side, value in zip(item["shape"], sides, strict=True)
    )
    return Quantity.of(size, name, f"{shape} × {item['dtype']}, {origin}")


class Envs:
    """Plays the training environments, or the evaluation ones, where they live."""

    def __init__(self, tape: Tape, spec: RunSpec, constants: Constants, *, group: str = "workers") -> None:
        self.tape, self.spec, self.constants, self.group = tape, spec, constants, group
        count, how = ("n_envs", "vec_env") if group == "workers" else ("eval.n_envs", "eval.vec_env")
        self.n_envs = spec.q(count)
        self.kind = str(spec.get(how, "dummy"))

    def build(self, imports: tuple[str, ...]) -> None:
        """The environments themselves, the processes around them and the wrappers' own copies."""
        process = "main"
        if self.kind == "subproc":
            process = self.group
            self._processes(imports, process)
        self._state(process)
        self._copies()

    def _processes(self, imports: tuple[str, ...], process: str) -> None:
        method = str(self.spec.get("env.start_method", "forkserver"))
        if method == "forkserver":
            server = self.constants.quantity("worker.forkserver")
            self.tape.alloc(f"{self.group}.forkserver", server, process=process, basis="measured")
        build = "-cuda" if self.spec.get("device") == "cuda" else ""
        name = "worker.forked" if method == "fork" else f"worker.learner-imports{build}"
        per_worker = self.constants.quantity(name)
        self.tape.alloc(f"{self.group}.interpreter", self.n_envs * per_worker, process=process, basis="measured")
        for package in imports:
            amount = self.n_envs * self.constants.quantity(f"worker-import.{package}")
            if amount.high:
                self.tape.alloc(f"{self.group}.imports", amount, process=process, basis="measured")

    def _state(self, process: str) -> None:
        state = env_state(self.spec)
        agents = self.spec.q("agents")
        if state is not None:
            amount = self.n_envs * agents * state if agents.value > 1 else self.n_envs * state
            self.tape.alloc(f"{self.group}.env-state", amount, process=process, basis="exact")
        if "env.bytes" in self.spec:
            each = Quantity.of(self.spec.get("env.bytes"), "env.bytes", self.spec.origin("env.bytes"))
            amount = (self.n_envs * each).between(0.5, 2.0, "given by hand or measured once")
            self.tape.alloc(f"{self.group}.simulator", amount, process=process, basis="assumed")
        elif self.kind != "batched":
            amount = self.n_envs * self.constants.quantity("env.small")
            self.tape.alloc(f"{self.group}.simulator", amount, process=process, basis="measured")

    def _copies(self) -> None:
        """Observations a vector env and its wrappers keep: the step buffer, the last observation, the frame stack."""
        if self.kind == "batched":
            return
        one = Quantity.of(nbytes(self.spec.observation), "observation bytes", self.spec.origin("observation"))
        copies = 2 + 2 * (self.spec.get("frame_stack", 1) > 1) + 2 * self.spec.flag("vec_normalize")
        self.tape.alloc(f"{self.group}.observation-copies", copies * self.n_envs * one, basis="derived")
        if self.kind != "subproc":
            return
        if self.spec.flag("env.shared_memory"):
            self.tape.alloc(f"{self.group}.shared-memory", self.n_envs * one, basis="exact")
            return
        # A step's observation is pickled in the worker and unpickled here: a copy on each side.
        amount = (2 * self.n_envs * one).between(0, 1, "lives only during a step")
        self.tape.alloc(f"{self.group}.pipes", amount, basis="derived")
