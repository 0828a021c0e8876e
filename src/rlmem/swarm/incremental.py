"""The encoder while the stream grows: every step computes five new positions a layer and the borders of one window."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from rlmem.swarm.sequence import MOVE, Weights, inner, layer_rows, lengths
from rlmem.swarm.settings import HISTORY, SAMPLE, SUBSTEPS

#: Positions of the three layers that a window of 300 samples fills.
FILLED = lengths(HISTORY)


class GrowingStream:
    """The streams of some agents through a rollout, and what the encoder's layers say of them so far."""

    def __init__(self, agents: int, steps: int, weights: Weights | None, device: torch.device) -> None:
        samples = HISTORY + SUBSTEPS * steps
        self.samples = torch.zeros(agents, samples, SAMPLE, device=device)
        self.weights = weights
        if weights is not None:
            counts = lengths(samples)
            self.one, self.two, self.three = (
                torch.zeros(agents, count, width, dtype=weights.dtype, device=device)
                for count, width in zip(counts, (16, 32, 64), strict=True)
            )

    def window(self, step: int) -> Tensor:
        """The windows at a step, ``[n, 300, 6]`` (a view)."""
        return self.samples[:, SUBSTEPS * step : SUBSTEPS * step + HISTORY]

    def new(self, step: int) -> Tensor:
        """Where a step's samples go, ``[n, 10, 6]`` (a view)."""
        low = HISTORY + SUBSTEPS * step
        return self.samples[:, low : low + SUBSTEPS]

    def start(self) -> None:
        """The layers over the windows of the first step, which are in ``samples``."""
        w = self.weights
        assert w is not None
        flat = self.samples[:, :HISTORY].transpose(1, 2).unsqueeze(2)
        one = conv2d(flat, w.conv1, w.bias1, stride=(1, 2)).relu_().to(w.dtype)
        two = conv2d(one, w.conv2, w.bias2).relu_()
        three = conv2d(two, w.conv3, w.bias3, dilation=(1, 2)).relu_()
        for kept, layer, count in zip((self.one, self.two, self.three), (one, two, three), FILLED, strict=True):
            kept[:, :count] = layer_rows(layer)

    def codes(self, step: int) -> Tensor:
        """Codes of the windows at a step, ``[n, 20]``; steps are asked for in order."""
        w, at = self.weights, MOVE * step
        assert w is not None
        if step:
            self._grow(w, at)
        codes = torch.addmm(w.code_bias, inner(self.three[:, at:], 1), w.code)
        codes.addmm_(self._left(w, step, at), w.code_left)
        codes.addmm_(self._right(w, step, at), w.code_right)
        return codes.tanh_()

    def _grow(self, w: Weights, at: int) -> None:
        """Five positions more of every layer; what they read lies side by side, so nothing is copied together."""
        low = at + FILLED[0] - MOVE
        new = torch.addmm(w.bias1.repeat(MOVE), _side_by_side(self.samples, 2 * low, 13), w.five1)
        _relu(new, self.one, low)
        low = at + FILLED[1] - MOVE
        _relu(torch.addmm(w.bias2.repeat(MOVE), _side_by_side(self.one, low, 9), w.five2), self.two, low)
        low = at + FILLED[2] - MOVE
        _relu(torch.addmm(w.bias3.repeat(MOVE), _side_by_side(self.two, low, 13), w.five3), self.three, low)

    def _left(self, w: Weights, step: int, at: int) -> Tensor:
        """The first of the 25 positions: samples 0-2, conv1 at 0-4, conv2 at 0-3."""
        read = _side_by_side(self.samples, SUBSTEPS * step, 3)
        one = torch.addmm(w.bias1, read, w.left1).relu_().to(w.dtype)
        two = torch.addmm(w.bias2_twice, _side_by_side(self.one, at, 4), w.left2[16:])
        two = two.addmm_(one, w.left2[:16]).relu_()
        three = torch.addmm(w.bias3, _side_by_side(self.two, at + 1, 3), w.left3_wide)
        return three.addmm_(two, w.left3[:64]).relu_()

    def _right(self, w: Weights, step: int, at: int) -> Tensor:
        """The last of the 25 positions: samples 296-299, conv1 at 146-149, conv2 at 71-74."""
        read = _side_by_side(self.samples, SUBSTEPS * step + HISTORY - 4, 4)
        one = torch.addmm(w.bias1, read, w.right1).relu_().to(w.dtype)
        two = torch.addmm(w.bias2, _side_by_side(self.one, at + 145, 3), w.right2[:48])
        two = two.addmm_(one, w.right2[48:]).relu_()
        three = torch.addmm(w.bias3, _side_by_side(self.two, at + 139, 5), w.right3_wide)
        return three.addmm_(two, w.right3[96:]).relu_()


def _side_by_side(rows: Tensor, low: int, count: int) -> Tensor:
    """``count`` positions of every agent as one row, ``[n, count·c]`` (a view)."""
    return rows[:, low : low + count].flatten(1)


def _relu(values: Tensor, rows: Tensor, low: int) -> None:
    place = rows[:, low : low + MOVE]
    place.copy_(values.relu_().view(place.shape))
