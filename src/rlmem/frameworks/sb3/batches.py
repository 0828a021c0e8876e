"""A minibatch on its way to the network: gathered on the host, copied to torch, converted to float, normalised."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from rlmem.core.layers import Chain
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import DTYPES, DictSpace, Leaf, TupleSpace
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.frameworks.sb3.networks import Extractor
from rlmem.model.autograd import Autograd, Pass
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.tape import Block


class Features:
    """One pass through an extractor: converted inputs, a pass per branch, the concatenation and the fusion."""

    def __init__(
        self, autograd: Autograd, batch: Quantity, sizes: Extractor, dtypes: Mapping[str, str] | None = None
    ) -> None:
        self.autograd, self.batch, self.sizes = autograd, batch, sizes
        #: Dtypes the batch arrives in, where the store's differ from the space's.
        self.dtypes = dtypes or {}
        self.passes: list[Pass] = []
        self.tail: Pass | None = None

    def forward(self, *, grad: bool, normalise: bool) -> Features:
        """``preprocess_obs`` converts every key first, then the branches run."""
        sources = [self._convert(leaf, normalise=normalise) for leaf, _ in self.sizes.branches]
        for (_, chain), source in zip(self.sizes.branches, sources, strict=True):
            self.passes.append(self.autograd.forward(chain, self.batch, grad=grad, source=source))
        if len(self.passes) > 1 or self.sizes.fusion:
            joined = self.autograd.tensor("learner.activations", self.batch, self.sizes.concat_floats, "concatenated")
            if not grad:
                for run in self.passes:
                    self.autograd.drop(run)
            tail = self.sizes.fusion or Chain(in_shape=(self.sizes.concat_floats,), ops=())
            self.tail = self.autograd.forward(tail, self.batch, grad=grad, source=joined)
        return self

    def _convert(self, leaf: Leaf, *, normalise: bool) -> Block | None:
        """``obs.float() / 255`` makes two float32 tensors at once; a batch of float32 needs no conversion."""
        tape, device = self.autograd.tape, self.autograd.device
        values = Quantity.of(leaf.width, f"{leaf.name or 'observation'} values", "observation space")
        amount = self.batch * values * 4
        converted = None
        if self.dtypes.get(leaf.name, leaf.dtype) != "float32":
            converted = tape.alloc("batch.float", amount, device=device)
        if not (leaf.is_image and normalise):
            return converted
        normalised = tape.alloc("batch.normalised", amount, device=device)
        if converted is not None:
            tape.free(converted)
        return normalised

    def backward(self) -> list[Block]:
        """Release every pass from the end; returns the gradients created."""
        created: list[Block] = []
        if self.tail is not None:
            created += self.autograd.backward(self.tail, input_grad=True)
        for run in reversed(self.passes):
            created += self.autograd.backward(run)
        self.passes, self.tail = [], None
        return created

    def drop(self) -> None:
        """Forget a pass made without gradients."""
        for run in (*self.passes, *((self.tail,) if self.tail else ())):
            self.autograd.drop(run)
        self.passes, self.tail = [], None


def gather(
    rehearsal: Rehearsal, batch: Quantity, *, observations: int, extra_floats: int, dtypes: dict[str, str]
) -> list[Block]:
    """Fancy-index the store on the host, then ``th.tensor`` copies each array to the learner's device.

    A Box batch is gathered whole before it is converted, so both copies live at once; a Dict batch goes key by key.
    """
    if is_compact(rehearsal.spec):
        return _gather_compact(rehearsal, batch, observations=observations, extra_floats=extra_floats)
    tape, spec, device = rehearsal.tape, rehearsal.spec, rehearsal.device
    composite = isinstance(spec.observation, (DictSpace, TupleSpace))
    sampled = [leaf for leaf in spec.observation_leaves for _ in range(observations)]
    rows = [
        (leaf.name or "observation", prod(leaf.shape) * DTYPES[dtypes.get(leaf.name, leaf.dtype)]) for leaf in sampled
    ]
    held: list[Block] = []
    hosts: list[Block] = []
    for leaf, (name, nbytes) in zip((*sampled, None), (*rows, ("other", extra_floats * 4)), strict=True):
        amount = batch * Quantity.of(nbytes, f"{name} bytes", "stored row")
        hosts.append(tape.alloc("batch.host", amount))
        if leaf is not None and not leaf.is_image and spec.flag("vec_normalize"):
            # VecNormalize computes (obs - mean) / std in float64 and casts: two temporaries of eight bytes a value.
            values = Quantity.of(prod(leaf.shape), f"{name} values", spec.origin("vec_normalize"))
            tape.free(tape.alloc("batch.vec-normalise", 2 * batch * values * 8))
        if composite:
            held.append(tape.alloc("batch.device", amount, device=device))
            tape.free(hosts.pop())
    for host in hosts:
        held.append(tape.alloc("batch.device", host.amount, device=device))
    tape.free(*hosts)
    return held


def _gather_compact(rehearsal: Rehearsal, batch: Quantity, *, observations: int, extra_floats: int) -> list[Block]:
    """A compact store fills arrays that it keeps; tensors on a CPU share them, and the last batch holds its own.

    On a GPU, and where VecNormalize makes arrays of its own, they are free again at once.
    """
    tape, spec, device = rehearsal.tape, rehearsal.spec, rehearsal.device
    group = rehearsal.stores[0].group
    row = sum(leaf.nbytes for leaf in spec.observation_leaves) * observations
    whole = batch * Quantity.of(row, "observation bytes", "stored row")
    shared = device == "ram" and not spec.flag("vec_normalize")
    if len(rehearsal.batches) < (2 if rehearsal.previous and shared else 1):
        rehearsal.batches.append(tape.alloc(f"{group}.batches", whole, basis="exact"))
    held = [
        tape.alloc("batch.device", batch * Quantity.of(extra_floats * 4, "other bytes", "stored row"), device=device)
    ]
    if spec.flag("vec_normalize"):
        for leaf in spec.observation_leaves:
            if not leaf.is_image:
                values = observations * batch * Quantity.of(prod(leaf.shape), "values", spec.origin("vec_normalize"))
                tape.free(tape.alloc("batch.vec-normalise", values * 8))
                held.append(tape.alloc("batch.normalised", values * 4, device=device))
    elif device != "ram":
        held.append(tape.alloc("batch.device", whole, device=device))
    return held
