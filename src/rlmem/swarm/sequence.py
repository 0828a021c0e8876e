"""The encoder over a stream: what consecutive windows share is computed once.

A window moves by ten samples a step, so the first convolution (stride 2) moves by five of its outputs. The second and
third have strides that do not divide the move; they are computed at every position of the first one's grid, the third
with dilation 2, and each window picks every sixth. Inside a window these are the very numbers the encoder computes. At its
two ends the encoder sees padding where the stream goes on: there, the first and the last of the 25 positions are computed
for every window by itself. With ``p`` counting outputs of the first convolution:

    conv3[i] of window t is at p = 5 t + 6 i for i = 1 … 23; i = 0 and i = 24 see padding.

Memory and work per window fall from 552 thousand multiply-adds to 121 thousand; the numbers agree to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from rlmem.swarm.network import CHANNELS, POSITIONS, Encoder
from rlmem.swarm.settings import HISTORY, LATENT, SAMPLE, SUBSTEPS

#: How far a window moves on the first convolution's grid, and how far apart the third's outputs lie on it.
MOVE, APART = SUBSTEPS // 2, 6
INNER = POSITIONS - 2
_C1, _C2, _C3 = 16, 32, CHANNELS
#: First grid position of each layer over a stream, and of the blocks of five that hold what the borders read.
_FIRST1, _FIRST2, _FIRST3 = 1, 3, 5
_LEFT1, _RIGHT1 = 1 - _FIRST1, 144 - _FIRST1
_LEFT2, _RIGHT2 = 4 - _FIRST2, 142 - _FIRST2
_INNER3 = 6 - _FIRST3


def lengths(samples: int) -> tuple[int, int, int]:
    """Positions of the three layers over a stream of samples."""
    first = (samples - 5) // 2 + 1
    return first, first - 4, first - 12


class Weights:
    """The encoder's parameters in the shapes that a stream needs, and gradients of those shapes back to its own."""

    def __init__(self, encoder: Encoder, dtype: torch.dtype) -> None:
        # The first layer reads the stream as it is: 16-bit samples would lose bits in bfloat16.
        self.dtype = dtype
        w1, self.bias1 = encoder.conv1.weight.detach(), encoder.conv1.bias.detach()
        w2, w3 = (layer.weight.detach().to(dtype) for layer in (encoder.conv2, encoder.conv3))
        self.bias2, self.bias3 = (layer.bias.detach().to(dtype) for layer in (encoder.conv2, encoder.conv3))
        last = torch.channels_last
        self.conv1, self.conv2, self.conv3 = (w.unsqueeze(2).contiguous(memory_format=last) for w in (w1, w2, w3))
        taps1, taps2, taps3 = w1.permute(2, 1, 0), w2.permute(2, 1, 0), w3.permute(2, 1, 0)
        # What five outputs in a row read, as one matrix each: for a stream that grows by five positions a step.
        self.five1, self.five2, self.five3 = _five(taps1, 2, 1), _five(taps2, 1, 1), _five(taps3, 1, 2)
        # The left border: samples 0-2; then conv1 at 0-4; then conv2 at 0-3.
        self.left1 = taps1[2:].reshape(-1, _C1)
        wide = w2.new_zeros(5, _C1, 2, _C2)
        wide[:3, :, 0], wide[:, :, 1] = taps2[2:], taps2
        self.left2 = wide.reshape(5 * _C1, 2 * _C2)
        self.bias2_twice = self.bias2.repeat(2)
        self.left3 = taps3[1:].reshape(-1, _C3)
        # The right border: samples 296-299; conv1 at 146-149; conv2 at 71-74.
        self.right1, self.right2, self.right3 = (taps[:4].reshape(-1, taps.shape[2]) for taps in (taps1, taps2, taps3))
        # The same of conv2 in one piece, with zeros where every second position is read.
        self.left3_wide = _every_second(self.left3[2 * _C2 :], 2)
        self.right3_wide = _every_second(self.right3[: 3 * _C2], 3)
        code = encoder.code.weight.detach().to(dtype).view(LATENT, _C3, POSITIONS)
        self.code_left, self.code_right = code[:, :, 0].t(), code[:, :, -1].t()
        self.code = code[:, :, 1:-1].permute(2, 1, 0).reshape(INNER * _C3, LATENT)
        self.code_bias = encoder.code.bias.detach().to(dtype)

    def refresh(self, encoder: Encoder) -> None:
        """The same tensors with the present parameters of the encoder they were made of (some are those parameters)."""
        new = Weights(encoder, self.dtype)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                value.copy_(getattr(new, name))


def _five(taps: Tensor, stride: int, dilation: int) -> Tensor:
    """``[rows read · in, 5 · out]`` of a convolution with five taps."""
    count, ins, outs = taps.shape
    read = stride * (MOVE - 1) + dilation * (count - 1) + 1
    wide = taps.new_zeros(read, ins, MOVE, outs)
    for place in range(MOVE):
        wide[place * stride : place * stride + dilation * (count - 1) + 1 : dilation, :, place] = taps
    return wide.reshape(read * ins, MOVE * outs)


def _every_second(rows: Tensor, count: int) -> Tensor:
    wide = rows.new_zeros(2 * count - 1, _C2, _C3)
    wide[::2] = rows.view(count, _C2, _C3)
    return wide.reshape(-1, _C3)


class EncodeStream(torch.autograd.Function):
    """Codes ``[n, steps, 20]`` of all windows over streams ``[n, 300 + 10 (steps − 1), 6]``."""

    @staticmethod
    def forward(ctx: Any, stream: Tensor, steps: int, weights: Weights, *parameters: Tensor) -> Tensor:
        """One pass over the stream, then the borders of every window."""
        w, n = weights, len(stream)
        flat = stream.transpose(1, 2).unsqueeze(2)
        one = conv2d(flat, w.conv1, w.bias1, stride=(1, 2)).relu_().to(w.dtype)
        two = conv2d(one, w.conv2, w.bias2).relu_()
        three = conv2d(two, w.conv3, w.bias3, dilation=(1, 2)).relu_()
        at1, at2, at3 = (layer_rows(t) for t in (one, two, three))
        left1, left2, left3 = _left_end(w, stream, at1, at2, steps)
        right1, right2, right3 = _right_end(w, stream, at1, at2, steps)
        codes = torch.addmm(w.code_bias, inner(at3, steps), w.code).view(n, steps, LATENT)
        codes += left3 @ w.code_left
        codes += right3 @ w.code_right
        codes = codes.tanh_()
        ctx.save_for_backward(stream, one, two, three, left1, left2, left3, right1, right2, right3, codes)
        ctx.weights, ctx.steps = w, steps
        return codes

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Gradients of the parameters; the stream has none."""
        return None, None, None, *_Back(ctx.weights, ctx.steps, _Seen(*ctx.saved_tensors)).run(grad)


class _Seen(NamedTuple):
    """What a pass over the stream keeps: the layers, the two ends of every window, the codes."""

    stream: Tensor
    one: Tensor
    two: Tensor
    three: Tensor
    left1: Tensor
    left2: Tensor
    left3: Tensor
    right1: Tensor
    right2: Tensor
    right3: Tensor
    codes: Tensor


class _Back:
    """The way back, layer by layer: through the shared layer, then through the ends, which give what they read its share."""

    def __init__(self, weights: Weights, steps: int, seen: _Seen) -> None:
        self.w, self.steps, self.seen = weights, steps, seen
        self.shape = (len(seen.stream), steps)
        layers = ((weights.conv1, weights.bias1), (weights.conv2, weights.bias2), (weights.conv3, weights.bias3))
        self.taps = [weight.new_zeros(5, weight.shape[1], weight.shape[0]) for weight, _ in layers]
        self.biases = [torch.zeros_like(bias) for _, bias in layers]

    def run(self, grad: Tensor) -> list[Tensor]:
        """Gradients in the order of the encoder's parameters."""
        seen, w = self.seen, self.w
        g = grad * (1 - seen.codes.square())
        flat = g.view(-1, LATENT)
        code = g.new_empty(POSITIONS, _C3, LATENT)
        code[1:-1] = (inner(layer_rows(seen.three), self.steps).t() @ flat).view(INNER, _C3, LATENT)
        code[0], code[-1] = seen.left3.view(-1, _C3).t() @ flat, seen.right3.view(-1, _C3).t() @ flat
        grad3 = _spread(flat @ w.code.t(), seen.three, self.steps).mul_(seen.three > 0)
        grad2 = _through(grad3, seen.two, w.conv3, self.taps[2], self.biases[2], dilation=2)
        del grad3
        left, right = self._left3(g, grad2), self._right3(g, grad2)
        grad1 = _through(grad2.mul_(seen.two > 0), seen.one, w.conv2, self.taps[1], self.biases[1])
        del grad2
        left, right = self._left2(left, grad1), self._right2(right, grad1)
        self._first(grad1.mul_(seen.one > 0).to(seen.stream.dtype), left, right)
        out = [part for tap, bias in zip(self.taps, self.biases, strict=True) for part in (tap.permute(2, 1, 0), bias)]
        out += [code.permute(2, 1, 0).reshape(LATENT, -1), flat.sum(0)]
        return [part.float() if part.dtype is torch.bfloat16 else part for part in out]

    def _left3(self, g: Tensor, grad2: Tensor) -> Tensor:
        g = (g @ self.w.code_left.t()).mul_(self.seen.left3 > 0)
        shared = _block(layer_rows(self.seen.two), _LEFT2, self.steps)
        read = torch.cat([self.seen.left2, shared[:, :, 0], shared[:, :, 2]], 2).view(-1, 4 * _C2)
        self.taps[2][1:] += (read.t() @ g.view(-1, _C3)).view(4, _C2, _C3)
        self.biases[2] += g.sum((0, 1))
        back = (g @ self.w.left3.t()).view(*self.shape, 4, _C2)
        share = _block(layer_rows(grad2), _LEFT2, self.steps)
        share[:, :, 0] += back[:, :, 2]
        share[:, :, 2] += back[:, :, 3]
        return back[:, :, :2].flatten(2).mul(self.seen.left2 > 0)

    def _right3(self, g: Tensor, grad2: Tensor) -> Tensor:
        g = (g @ self.w.code_right.t()).mul_(self.seen.right3 > 0)
        shared = _block(layer_rows(self.seen.two), _RIGHT2, self.steps)
        read = torch.cat([shared[:, :, 0], shared[:, :, 2], shared[:, :, 4], self.seen.right2], 2).view(-1, 4 * _C2)
        self.taps[2][:4] += (read.t() @ g.view(-1, _C3)).view(4, _C2, _C3)
        self.biases[2] += g.sum((0, 1))
        back = (g @ self.w.right3.t()).view(*self.shape, 4, _C2)
        share = _block(layer_rows(grad2), _RIGHT2, self.steps)
        for place in range(3):
            share[:, :, 2 * place] += back[:, :, place]
        return back[:, :, 3].mul(self.seen.right2 > 0)

    def _left2(self, g: Tensor, grad1: Tensor) -> Tensor:
        shared = _block(layer_rows(self.seen.one), _LEFT1, self.steps)[:, :, :4].flatten(2)
        read = torch.cat([self.seen.left1, shared], 2).view(-1, 5 * _C1)
        both = (read.t() @ g.view(-1, 2 * _C2)).view(5, _C1, 2, _C2)
        self.taps[1] += both[:, :, 1]
        self.taps[1][2:] += both[:3, :, 0]
        self.biases[1] += g.sum((0, 1)).view(2, _C2).sum(0)
        back = (g @ self.w.left2.t()).view(*self.shape, 5, _C1)
        _block(layer_rows(grad1), _LEFT1, self.steps)[:, :, :4] += back[:, :, 1:]
        return back[:, :, 0].mul(self.seen.left1 > 0).to(self.seen.stream.dtype)

    def _right2(self, g: Tensor, grad1: Tensor) -> Tensor:
        shared = _block(layer_rows(self.seen.one), _RIGHT1, self.steps)[:, :, 2:].flatten(2)
        read = torch.cat([shared, self.seen.right1], 2).view(-1, 4 * _C1)
        self.taps[1][:4] += (read.t() @ g.reshape(-1, _C2)).view(4, _C1, _C2)
        self.biases[1] += g.sum((0, 1))
        back = (g @ self.w.right2.t()).view(*self.shape, 4, _C1)
        _block(layer_rows(grad1), _RIGHT1, self.steps)[:, :, 2:] += back[:, :, :3]
        return back[:, :, 3].mul(self.seen.right1 > 0).to(self.seen.stream.dtype)

    def _first(self, grad1: Tensor, left: Tensor, right: Tensor) -> None:
        stream, taps, bias = self.seen.stream, self.taps[0], self.biases[0]
        _through(grad1, stream.transpose(1, 2).unsqueeze(2), self.w.conv1, taps, bias, stride=2, inward=False)
        for g, start, count, places in ((left, 0, 3, slice(2, 5)), (right, HISTORY - 4, 4, slice(0, 4))):
            read = _ends(stream, self.steps, start, count).reshape(-1, count * SAMPLE)
            taps[places] += (read.t() @ g.reshape(-1, _C1)).view(count, SAMPLE, _C1)
            bias += g.sum((0, 1))


def encode_stream(encoder: Encoder, stream: Tensor, steps: int, dtype: torch.dtype | None = None) -> Tensor:
    """Codes of the windows of consecutive steps, with gradients for the encoder (none for the stream)."""
    layers = (encoder.conv1, encoder.conv2, encoder.conv3, encoder.code)
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    return EncodeStream.apply(stream, steps, Weights(encoder, dtype or stream.dtype), *parameters)


def layer_rows(layer: Tensor) -> Tensor:
    """A layer ``[n, c, 1, p]`` with channels last as ``[n, p, c]`` (a view)."""
    return layer.squeeze(2).transpose(1, 2)


def _block(rows: Tensor, start: int, steps: int) -> Tensor:
    """Five positions for every step, ``[n, steps, 5, c]`` (a view)."""
    return rows[:, start : start + MOVE * steps].unflatten(1, (steps, MOVE))


def _ends(stream: Tensor, steps: int, start: int, count: int) -> Tensor:
    """``count`` samples of every window from its ``start``-th on, ``[n, steps, count·6]``."""
    last = start + SUBSTEPS * (steps - 1) + count
    return stream[:, start:last].unfold(1, count, SUBSTEPS).transpose(2, 3).flatten(2)


def inner(rows: Tensor, steps: int) -> Tensor:
    """The 23 inner positions of every window, ``[n·steps, 23·64]``."""
    n, _, c = rows.shape
    s = rows.stride()
    view = rows.as_strided(
        (n, steps, INNER, c), (s[0], MOVE * s[1], APART * s[1], s[2]), rows.storage_offset() + _INNER3 * s[1]
    )
    return view.reshape(n * steps, INNER * c)


def _spread(grad: Tensor, like: Tensor, steps: int) -> Tensor:
    """Gradients of the inner positions added up where windows share them."""
    out = torch.zeros_like(like)
    rows = layer_rows(out)
    grad = grad.view(len(like), steps, INNER, -1)
    for i in range(INNER):
        start = _INNER3 + APART * i
        rows[:, start : start + MOVE * (steps - 1) + 1 : MOVE] += grad[:, :, i]
    return out


def _left_end(w: Weights, stream: Tensor, at1: Tensor, at2: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    one = (_ends(stream, steps, 0, 3) @ w.left1).add_(w.bias1).relu_().to(w.dtype)
    read = torch.cat([one, _block(at1, _LEFT1, steps)[:, :, :4].flatten(2)], 2)
    two = (read @ w.left2).add_(w.bias2_twice).relu_()
    seen = _block(at2, _LEFT2, steps)
    three = (torch.cat([two, seen[:, :, 0], seen[:, :, 2]], 2) @ w.left3).add_(w.bias3).relu_()
    return one, two, three


def _right_end(w: Weights, stream: Tensor, at1: Tensor, at2: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    one = (_ends(stream, steps, 296, 4) @ w.right1).add_(w.bias1).relu_().to(w.dtype)
    two = (torch.cat([_block(at1, _RIGHT1, steps)[:, :, 2:].flatten(2), one], 2) @ w.right2).add_(w.bias2).relu_()
    seen = _block(at2, _RIGHT2, steps)
    three = (torch.cat([seen[:, :, 0], seen[:, :, 2], seen[:, :, 4], two], 2) @ w.right3).add_(w.bias3).relu_()
    return one, two, three


def _through(
    grad: Tensor,
    layer: Tensor,
    weight: Tensor,
    taps: Tensor,
    bias: Tensor,
    *,
    stride: int = 1,
    dilation: int = 1,
    inward: bool = True,
) -> Tensor:
    """Gradients of a convolution: into its weights and bias, and to its input."""
    back, own, offset = torch.ops.aten.convolution_backward(
        grad, layer, weight, [len(bias)], [1, stride], [0, 0], [1, dilation], False, [0, 0], 1, [inward, True, True]
    )
    taps += own.squeeze(2).permute(2, 1, 0)
    bias += offset
    return back


assert HISTORY == 300, "the positions above are those of a window of 300 samples"
