"""Forward and backward passes on the tape: which tensors live when, op by op, as torch's autograd keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from rlmem.core.layers import Chain, Op
from rlmem.core.quantity import Quantity
from rlmem.model.tape import Block, Tape

ACTIVATIONS, BACKWARD, GRADIENTS = "learner.activations", "learner.backward", "learner.gradients"
SCRATCH = "learner.conv-scratch"
_CONVOLUTIONS, _TRANSPOSED = ("conv1d", "conv2d"), ("convt1d", "convt2d")
#: oneDNN's blocked layouts hold channels in groups of this many.
CHANNEL_BLOCK = 8


@dataclass(slots=True)
class Pass:
    """One chain's forward pass: the tensor after each op, and which of them the graph keeps."""

    chain: Chain
    batch: Quantity
    tensors: list[Block | None] = field(default_factory=list)
    extras: list[Block | None] = field(default_factory=list)
    source: Block | None = None


class Autograd:
    """Plays passes for one learner: one device, one width of a value."""

    def __init__(self, tape: Tape, *, device: str, value_bytes: int, component: str = ACTIVATIONS) -> None:
        self.tape, self.device, self.value_bytes, self.component = tape, device, value_bytes, component

    def tensor(self, component: str, batch: Quantity, floats: int, name: str) -> Block:
        """``batch × floats × bytes`` on the learner's device."""
        amount = batch * Quantity.of(floats, f"{name} values", "layer shapes") * self.value_bytes
        return self.tape.alloc(component, amount, device=self.device)

    def forward(self, chain: Chain, batch: Quantity, *, grad: bool, source: Block | None = None) -> Pass:
        """Run a chain; ``source`` is an input tensor that only this pass keeps alive (a normalised image)."""
        run = Pass(chain=chain, batch=batch, source=source)
        current = source
        for index, op in enumerate(chain.ops):
            if op.kind.is_view:
                run.tensors.append(current)
                run.extras.append(None)
                continue
            out = self.tensor(self.component, batch, op.out_floats, op.label)
            self._scratch(op, batch, forward_scratch(op, self.device), "forward")
            extra = None
            if grad and op.extra_floats:
                extra = self.tensor(self.component, batch, op.extra_floats, f"{op.label} saved")
            run.tensors.append(out)
            run.extras.append(extra)
            if current is not None and not (grad and _kept(chain, index - 1)):
                self.tape.free(current)
                _forget(run, current)
            current = out
        return run

    def backward(self, run: Pass, *, input_grad: bool = False, weights: bool = True) -> list[Block]:
        """Release a pass from its end: gradient in, gradient out, saved tensors given back op by op.

        Returns the parameter gradients it created. ``weights=False`` for a network that is only passed through.
        """
        ops = run.chain.ops
        created: list[Block] = []
        if not ops:
            self.drop(run)
            return created
        grad = self.tensor(BACKWARD, run.batch, ops[-1].out_floats, "output gradient")
        first = next((i for i, op in enumerate(ops) if op.parameters), 0)
        for index in range(len(ops) - 1, -1, -1):
            op = ops[index]
            if op.kind.is_view:
                continue
            if weights and op.parameters:
                created.append(self.gradient(op))
            flows = index > first or input_grad
            if flows:
                below = self.tensor(BACKWARD, run.batch, op.in_floats, f"gradient into {op.label}")
                self._scratch(op, run.batch, backward_scratch(op, self.device, flows=True), "backward")
                self.tape.free(grad)
                grad = below
            else:
                self._scratch(op, run.batch, backward_scratch(op, self.device, flows=False), "backward")
            self._release(run, index)
            if not flows:
                break
        self.tape.free(grad)
        self.drop(run)
        return created

    def _scratch(self, op: Op, batch: Quantity, floats: int, when: str) -> None:
        """Copies in another layout that a convolution makes for the length of one op."""
        if floats:
            library = "oneDNN's blocked copies" if self.device == "ram" else "cuDNN's channels-last copies"
            values = Quantity.of(floats, f"{op.label} {when} scratch values", library)
            amount = (batch * values * self.value_bytes).between(0, 1.25, "layouts differ between processors")
            self.tape.free(self.tape.alloc(SCRATCH, amount, device=self.device))

    def gradient(self, op: Op) -> Block:
        """The gradient of one layer's parameters (always kept in float32 here)."""
        amount = Quantity.of(op.parameters, f"{op.label} parameters", "layer shapes") * 4
        return self.tape.alloc(GRADIENTS, amount, device=self.device)

    def drop(self, run: Pass) -> None:
        """Give back whatever a pass still holds."""
        held = {block: None for block in (*run.tensors, *run.extras, run.source) if block is not None}
        self.tape.free(*held)
        run.tensors = [None] * len(run.tensors)
        run.extras = [None] * len(run.extras)
        run.source = None

    def _release(self, run: Pass, index: int) -> None:
        """After an op's backward its output and extras go; its input goes when nothing below keeps it."""
        for block in (run.tensors[index], run.extras[index]):
            if block is not None:
                self.tape.free(block)
                _forget(run, block)


def _forget(run: Pass, block: Block) -> None:
    run.tensors = [None if kept is block else kept for kept in run.tensors]
    run.extras = [None if kept is block else kept for kept in run.extras]
    if run.source is block:
        run.source = None


def _kept(chain: Chain, index: int) -> bool:
    """Whether autograd keeps the tensor after op ``index`` (the chain's input is index -1)."""
    ops = chain.ops
    if index >= 0 and ops[index].kind.saves_output:
        return True
    if index >= 0 and ops[index].kind.is_view:
        return _kept(chain, index - 1) or _next_saves_input(chain, index)
    return _next_saves_input(chain, index)


def _next_saves_input(chain: Chain, index: int) -> bool:
    for op in chain.ops[index + 1 :]:
        if not op.kind.is_view:
            return op.kind.saves_input
    return False


def _blocked(shape: tuple[int, ...]) -> int:
    """Values of an image or sequence in oneDNN's layout: channels padded to a multiple of eight."""
    channels = -(-shape[0] // CHANNEL_BLOCK) * CHANNEL_BLOCK
    return channels * prod(shape[1:])


def forward_scratch(op: Op, device: str) -> int:
    """Values per sample a convolution needs beyond its output while it runs.

    On the CPU (from oneDNN's own log and VmHWM, AVX2) the source is copied into blocked layout unless it has few
    channels, and the result is blocked before it is plain. On a GPU (fitted to torch's peak on an H200) input and output
    are copied to channels-last.
    """
    if op.layer.kind not in (*_CONVOLUTIONS, *_TRANSPOSED):
        return 0
    if device == "vram":
        return op.in_floats + op.out_floats
    if op.layer.kind in _TRANSPOSED:
        return 2 * op.out_floats
    target = _blocked(op.out_shape)
    source = _blocked(op.in_shape) if op.in_shape[0] >= CHANNEL_BLOCK else 0
    return max(source + target - op.out_floats, target)


def backward_scratch(op: Op, device: str, *, flows: bool) -> int:
    """Values per sample its backward needs beyond the gradients: source and output gradient in the other layout."""
    if op.layer.kind not in (*_CONVOLUTIONS, *_TRANSPOSED):
        return 0
    if device == "vram":
        return op.in_floats + op.out_floats + (op.in_floats if flows else 0)
    target = _blocked(op.out_shape)
    return _blocked(op.in_shape) + (max(op.in_floats, target) if flows else target)


def saved_floats(chain: Chain) -> int:
    """Values per sample the graph keeps of a chain, its input included where the first layer needs it."""
    total = sum(chain.ops[0].in_floats for _ in (0,) if chain.ops and _kept(chain, -1))
    for index, op in enumerate(chain.ops):
        if not op.kind.is_view and _kept(chain, index):
            total += op.out_floats
        total += op.extra_floats
    return total
