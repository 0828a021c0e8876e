"""The decoder as plain convolutions over 25 blocks: the same function, in a form that matrix units and caches like.

A transposed convolution with stride ``s`` makes ``s`` outputs for every input. Taken together, the outputs that belong to
one of the 25 positions of the code depend on that position and its two neighbours: a convolution with three taps whose
channels are (position within the block, channel). The packed weights hold each weight of the layer where it belongs and
zeros elsewhere, and gradients of the packed weights add up into the layer's own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from rlmem.swarm.network import CHANNELS, POSITIONS, Decoder
from rlmem.swarm.settings import HISTORY, SAMPLE

TAPS = 3


def packing(layer: nn.ConvTranspose1d, inside: int) -> Tensor:
    """Where the packed weights ``[out, in, 3]`` come from in the layer's own, flat; one past the end is zero.

    ``inside`` input positions make a block; its outputs are ``stride`` times as many.
    """
    ins, outs, kernel = layer.weight.shape
    stride, padding = layer.stride[0], int(layer.padding[0])
    block = torch.arange(stride * inside).view(-1, 1, 1, 1, 1)
    out = torch.arange(outs).view(-1, 1, 1, 1)
    place = torch.arange(inside).view(-1, 1, 1)
    channel = torch.arange(ins).view(-1, 1)
    shift = torch.arange(-1, 2)
    tap = block - stride * (inside * shift + place) + padding
    index = (channel * outs + out) * kernel + tap
    index = torch.where((tap >= 0) & (tap < kernel), index, layer.weight.numel())
    return index.view(stride * inside * outs, inside * ins, TAPS)


class PackedDecoder:
    """The decoder with weights packed once for many calls; :meth:`finish` hands their gradients back."""

    def __init__(self, decoder: Decoder, dtype: torch.dtype, indices: list[Tensor]) -> None:
        layers = (decoder.conv3, decoder.conv2, decoder.conv1)
        with torch.enable_grad():
            code = decoder.code.weight.view(CHANNELS, POSITIONS, -1).transpose(0, 1).flatten(0, 1)
            bias = decoder.code.bias.view(CHANNELS, POSITIONS).t().flatten()
            self._made = [code, bias]
            for layer, index in zip(layers, indices, strict=True):
                flat = torch.cat([layer.weight.flatten(), layer.weight.new_zeros(1)])
                self._made += [flat[index].unsqueeze(2), layer.bias.repeat(len(index) // len(layer.bias))]
        self.dtype = dtype
        last = torch.channels_last
        self._leaves = [
            made.detach().to(dtype).contiguous(memory_format=last if made.dim() > 2 else torch.contiguous_format)
            for made in self._made
        ]
        for leaf in self._leaves:
            leaf.requires_grad_()

    @staticmethod
    def indices(decoder: Decoder) -> list[Tensor]:
        """The packings of the three layers, on the decoder's device."""
        device = decoder.code.weight.device
        layers = ((decoder.conv3, 1), (decoder.conv2, 3), (decoder.conv1, 6))
        return [packing(layer, inside).to(device) for layer, inside in layers]

    def __call__(self, codes: Tensor) -> Tensor:
        """Windows ``[n, 300, 6]`` from codes ``[n, 20]``."""
        code, bias, w3, b3, w2, b2, w1, b1 = self._leaves
        hidden = linear(codes.to(self.dtype), code, bias).relu()
        hidden = hidden.view(-1, 1, POSITIONS, CHANNELS).permute(0, 3, 1, 2)
        hidden = conv2d(hidden, w3, b3, padding=(0, 1)).relu()
        hidden = conv2d(hidden, w2, b2, padding=(0, 1)).relu()
        hidden = conv2d(hidden, w1, b1, padding=(0, 1))
        return hidden.permute(0, 2, 3, 1).reshape(-1, HISTORY, SAMPLE)

    def finish(self) -> None:
        """Add the gradients that came together to those of the decoder's parameters."""
        pairs = [
            (made, leaf.grad) for made, leaf in zip(self._made, self._leaves, strict=True) if leaf.grad is not None
        ]
        torch.autograd.backward([made for made, _ in pairs], [grad.to(made.dtype) for made, grad in pairs])
