"""Network layers as sizes: a small text form, shape inference, parameters, and what autograd keeps.

A layer is written the way people say it: ``conv2d 32 k8 s4``, ``conv1d 16 k5 s2 p2``, ``linear 512``, ``relu``,
``lstm 256``. Shapes are per sample, channels first, without the batch.

>>> nature = parse_layers(["conv2d 32 k8 s4", "relu", "conv2d 64 k4 s2", "relu", "conv2d 64 k3 s1", "relu",
...                        "flatten", "linear 512", "relu"])
>>> chain = infer(nature, (4, 84, 84))
>>> chain.out_shape, chain.parameters
((512,), 1684128)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from rlmem.errors import SpecError, did_you_mean

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a kind of layer behaves: its options, output shape, parameters, and what it saves for backward.

    ``saves_input`` and ``saves_output`` follow torch's autograd: a linear or convolution keeps its input (for the
    weight gradient), an activation keeps its output, a view keeps nothing. ``extra_floats`` are further saved values
    per sample (gates of an LSTM, indices of a pooling layer).
    """

    takes_width: bool = False
    options: str = ""
    rank: int | None = None
    saves_input: bool = False
    saves_output: bool = False
    is_view: bool = False


KINDS: dict[str, Kind] = {
    "linear": Kind(takes_width=True, saves_input=True),
    "conv1d": Kind(takes_width=True, options="ksp", rank=2, saves_input=True),
    "conv2d": Kind(takes_width=True, options="ksp", rank=3, saves_input=True),
    "convt1d": Kind(takes_width=True, options="kspo", rank=2, saves_input=True),
    "convt2d": Kind(takes_width=True, options="kspo", rank=3, saves_input=True),
    "maxpool2d": Kind(options="ksp", rank=3, saves_input=True),
    "avgpool2d": Kind(options="ksp", rank=3, saves_input=True),
    "lstm": Kind(takes_width=True, saves_input=True, saves_output=True),
    "gru": Kind(takes_width=True, saves_input=True, saves_output=True),
    "layernorm": Kind(saves_input=True),
    "batchnorm": Kind(saves_input=True),
    "batchrenorm": Kind(saves_input=True),
    "dropout": Kind(saves_output=True),
    "relu": Kind(saves_output=True),
    "tanh": Kind(saves_output=True),
    "sigmoid": Kind(saves_output=True),
    "elu": Kind(saves_output=True),
    "leakyrelu": Kind(saves_input=True),
    "gelu": Kind(saves_input=True),
    "silu": Kind(saves_input=True),
    "flatten": Kind(is_view=True),
    "unflatten": Kind(takes_width=True, is_view=True),
    "identity": Kind(is_view=True),
}
ACTIVATIONS = ("relu", "tanh", "sigmoid", "elu", "leakyrelu", "gelu", "silu", "identity")
_OPTION_NAMES = {"k": "kernel", "s": "stride", "p": "padding", "o": "output padding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One parsed layer."""

    kind: str
    width: int = 0
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A layer placed in a chain: its shapes, parameters and saved values, per sample."""

    layer: Layer
    label: str
    in_shape: Shape
    out_shape: Shape
    parameters: int
    extra_floats: int = 0

    @property
    def kind(self) -> Kind:
        """The behaviour of this layer."""
        return KINDS[self.layer.kind]

    @property
    def in_floats(self) -> int:
        """Values in one input sample."""
        return prod(self.in_shape)

    @property
    def out_floats(self) -> int:
        """Values in one output sample."""
        return prod(self.out_shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Layers applied one after the other."""

    in_shape: Shape
    ops: tuple[Op, ...]

    @property
    def out_shape(self) -> Shape:
        """Shape of one output sample."""
        return self.ops[-1].out_shape if self.ops else self.in_shape

    @property
    def out_floats(self) -> int:
        """Values in one output sample."""
        return prod(self.out_shape)

    @property
    def parameters(self) -> int:
        """Trainable values."""
        return sum(op.parameters for op in self.ops)

    @property
    def largest_parameter(self) -> int:
        """Values in the largest layer: what a one-at-a-time optimizer needs temporaries for."""
        return max((op.parameters for op in self.ops), default=0)


def parse_layer(text: object, path: str = "layer") -> Layer:
    """One layer from its text, cached: plans parse the same words again and again."""
    if not isinstance(text, str) or not text.split():
        raise SpecError(path, f"expected a layer such as 'linear 64', 'conv2d 32 k8 s4' or 'relu', got {text!r}")
    return _parse(text, path)


@lru_cache(maxsize=4096)
def _parse(text: str, path: str) -> Layer:
    kind, *words = text.lower().split()
    if kind not in KINDS:
        raise SpecError(path, f"unknown layer {kind!r}{did_you_mean(kind, KINDS)}; known: {', '.join(KINDS)}")
    rules = KINDS[kind]
    width = 0
    if rules.takes_width:
        if not words or re.fullmatch(r"[1-9][0-9]{0,9}", words[0]) is None:
            raise SpecError(path, f"{text!r}: {kind} needs a positive width first, such as '{kind} 64'")
        width = int(words.pop(0))
    values = {"k": 1, "s": 1, "p": 0, "o": 0}
    for word in words:
        match = re.fullmatch(r"([kspo])([0-9]{1,9})", word)
        if match is None or match[1] not in rules.options:
            allowed = ", ".join(f"{o}N ({_OPTION_NAMES[o]})" for o in rules.options) or "no options"
            raise SpecError(path, f"{text!r}: {word!r} is not an option of {kind}; it takes {allowed}")
        values[match[1]] = int(match[2])
    if values["k"] < 1 or values["s"] < 1:
        raise SpecError(path, f"{text!r}: kernel and stride must be at least 1")
    return Layer(
        kind=kind,
        width=width,
        kernel=values["k"],
        stride=values["s"],
        padding=values["p"],
        output_padding=values["o"],
        text=text,
    )


def parse_layers(texts: object, path: str = "layers") -> tuple[Layer, ...]:
    """A list of layers."""
    if not isinstance(texts, (list, tuple)):
        raise SpecError(path, f"expected a list of layers such as ['linear 64', 'relu'], got {texts!r}")
    return tuple(parse_layer(text, f"{path}[{i}]") for i, text in enumerate(texts))


def infer(layers: Sequence[Layer], in_shape: Shape, path: str = "layers") -> Chain:
    """Place layers on an input shape: every output shape, parameter count and saved value follows."""
    ops: list[Op] = []
    shape = in_shape
    last = "input"
    for index, layer in enumerate(layers):
        last = layer.text if layer.width else last
        where = f"{path}[{index}]"
        rank = KINDS[layer.kind].rank
        if rank is not None and len(shape) != rank:
            raise SpecError(where, f"{layer.text!r} needs an input with {rank} dimensions, got {list(shape)}")
        out = _OUT_SHAPES.get(layer.kind, _same)(layer, shape, where)
        if min(out, default=1) < 1:
            raise SpecError(where, f"{layer.text!r} on {list(shape)} leaves nothing: {list(out)}")
        ops.append(
            Op(
                layer=layer,
                label=layer.text if layer.width else f"{last} {layer.kind}",
                in_shape=shape,
                out_shape=out,
                parameters=_PARAMETERS.get(layer.kind, _none)(layer, shape),
                extra_floats=_EXTRA.get(layer.kind, _none)(layer, shape),
            )
        )
        shape = out
    return Chain(in_shape=in_shape, ops=tuple(ops))


def _same(layer: Layer, shape: Shape, where: str) -> Shape:
    return shape


def _linear_shape(layer: Layer, shape: Shape, where: str) -> Shape:
    return (*shape[:-1], layer.width)


def _conv_shape(layer: Layer, shape: Shape, where: str) -> Shape:
    sides = ((side + 2 * layer.padding - layer.kernel) // layer.stride + 1 for side in shape[1:])
    return (layer.width or shape[0], *sides)


def _convt_shape(layer: Layer, shape: Shape, where: str) -> Shape:
    grow = layer.kernel - 2 * layer.padding + layer.output_padding
    return (layer.width, *((side - 1) * layer.stride + grow for side in shape[1:]))


def _flat_shape(layer: Layer, shape: Shape, where: str) -> Shape:
    return (prod(shape),)


def _unflat_shape(layer: Layer, shape: Shape, where: str) -> Shape:
    if len(shape) != 1 or shape[0] % layer.width:
        raise SpecError(where, f"{layer.text!r}: cannot split {list(shape)} into {layer.width} channels")
    return (layer.width, shape[0] // layer.width)


_OUT_SHAPES: dict[str, Callable[[Layer, Shape, str], Shape]] = {
    "linear": _linear_shape,
    "lstm": _linear_shape,
    "gru": _linear_shape,
    "conv1d": _conv_shape,
    "conv2d": _conv_shape,
    "maxpool2d": _conv_shape,
    "avgpool2d": _conv_shape,
    "convt1d": _convt_shape,
    "convt2d": _convt_shape,
    "flatten": _flat_shape,
    "unflatten": _unflat_shape,
}


def _none(layer: Layer, shape: Shape) -> int:
    return 0


def _linear_parameters(layer: Layer, shape: Shape) -> int:
    return shape[-1] * layer.width + layer.width


def _conv_parameters(layer: Layer, shape: Shape) -> int:
    return shape[0] * layer.width * int(layer.kernel ** (len(shape) - 1)) + layer.width


def _recurrent_parameters(gates: int) -> Callable[[Layer, Shape], int]:
    def count(layer: Layer, shape: Shape) -> int:
        return int(gates * layer.width * (shape[-1] + layer.width + 2))

    return count


_PARAMETERS: dict[str, Callable[[Layer, Shape], int]] = {
    "linear": _linear_parameters,
    "conv1d": _conv_parameters,
    "conv2d": _conv_parameters,
    "convt1d": _conv_parameters,
    "convt2d": _conv_parameters,
    "lstm": _recurrent_parameters(4),
    "gru": _recurrent_parameters(3),
    "layernorm": lambda layer, shape: 2 * shape[-1],
    "batchnorm": lambda layer, shape: 2 * shape[0],
    "batchrenorm": lambda layer, shape: 2 * shape[0],
}
_EXTRA: dict[str, Callable[[Layer, Shape], int]] = {
    # torch keeps the four activated gates, the cell state and its tanh for every step of an LSTM; three gates and
    # the hidden-side product for a GRU.
    "lstm": lambda layer, shape: 6 * layer.width,
    "gru": lambda layer, shape: 5 * layer.width,
    # int64 indices: two float32 per output value.
    "maxpool2d": lambda layer, shape: 2 * prod(_conv_shape(layer, shape, "")),
    "layernorm": lambda layer, shape: 2,
    # Batch renormalisation is written in Python: every intermediate of its formula is kept.
    "batchrenorm": lambda layer, shape: 4 * prod(shape),
}
