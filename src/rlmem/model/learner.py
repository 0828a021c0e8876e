"""Networks in memory: parameters, targets, gradients, optimizer state, and what a step of the optimizer needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlmem.core.layers import Chain
from rlmem.core.quantity import Quantity
from rlmem.model.tape import Block, Tape

#: Copies of every parameter an optimizer keeps between steps.
STATE_COPIES = {"sgd": 0, "sgd-momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2}
#: Temporaries during a step, in copies of the *largest* parameter when torch steps one tensor at a time (CPU), or of
#: *all* parameters when it steps them together (the foreach default on CUDA).
STEP_COPIES = {"sgd": 1, "sgd-momentum": 1, "rmsprop": 2, "adam": 2, "adamw": 2}
VALUE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
PARAMETERS, TARGETS, STATE, STEP = "learner.parameters", "learner.targets", "learner.optimizer", "learner.step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Named chains that are trained, or copied, together, plus loose parameters (a log standard deviation)."""

    name: str
    chains: Mapping[str, Chain]
    loose: int = 0
    trained: bool = True

    @property
    def parameters(self) -> int:
        """All values."""
        return sum(chain.parameters for chain in self.chains.values()) + self.loose

    @property
    def largest_parameter(self) -> int:
        """Values in the largest layer."""
        return max((chain.largest_parameter for chain in self.chains.values()), default=self.loose)


class Learner:
    """Holds the networks' blocks on the tape."""

    def __init__(self, tape: Tape, *, device: str, optimizer: str, optimizer_origin: str) -> None:
        self.tape, self.device, self.optimizer, self.origin = tape, device, optimizer, optimizer_origin
        self._states: dict[str, Block] = {}
        self._trained = 0
        self._gradients: dict[str, list[Block]] = {}

    def build(self, *networks: Network) -> None:
        """Parameters of every network, targets apart from trained ones."""
        for network in networks:
            component = PARAMETERS if network.trained else TARGETS
            self._trained += network.parameters if network.trained else 0
            self.tape.alloc(component, _count(network) * 4, device=self.device, basis="exact")

    def half_weights(self, precision: str) -> list[Block]:
        """Autocast keeps a 16-bit copy of the weights for the length of an update; float32 needs none."""
        if precision == "float32":
            return []
        weights = Quantity.of(self._trained, "trained parameters", "layer shapes") * VALUE_BYTES[precision]
        return [self.tape.alloc("learner.half-weights", weights, device=self.device)]

    def zero_grad(self, network: Network) -> None:
        """``zero_grad(set_to_none=True)``: the gradients of the last step are released before backward."""
        self.tape.free(*self._gradients.pop(network.name, []))

    def keep_gradients(self, network: Network, blocks: list[Block]) -> None:
        """Gradients stay until the next ``zero_grad``."""
        self._gradients.setdefault(network.name, []).extend(blocks)

    def step(self, network: Network) -> None:
        """An optimizer step: its state appears at the first one, its temporaries at every one."""
        copies = STATE_COPIES[self.optimizer]
        if copies and network.name not in self._states:
            state = copies * (_count(network) * 4)
            state = state.named(f"{self.optimizer} state of {network.name}", f"{copies} copies, {self.origin}")
            self._states[network.name] = self.tape.alloc(STATE, state, device=self.device, basis="exact")
        touched = network.largest_parameter if self.device == "ram" else network.parameters
        temporaries = STEP_COPIES[self.optimizer] * touched * 4
        name = f"{self.optimizer} step temporaries"
        self.tape.free(self.tape.alloc(STEP, Quantity.of(temporaries, name, "layer shapes"), device=self.device))


def _count(network: Network) -> Quantity:
    parts = (
        f"{name} [{' · '.join(op.layer.text for op in chain.ops)}] {chain.parameters:,}"
        for name, chain in network.chains.items()
        if chain.parameters
    )
    loose = f" + {network.loose:,} loose values" if network.loose else ""
    return Quantity.of(network.parameters, f"{network.name} parameters", "; ".join(parts) + loose)
