"""What a user may ask of a store, checked when it is made rather than an hour later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlmem.buffers import clib
from rlmem.buffers.arena import check_spill
from rlmem.buffers.kernels import MAX_DEPTH
from rlmem.buffers.layout import Layout
from rlmem.errors import UsageError, did_you_mean
from rlmem.units import parse_size

CODECS = ("none", "auto", "lz4", "zstd", "huffman")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to store. Every per-key option takes one value for all keys, or a dict of them."""

    codec: str | Mapping[str, str] = "none"
    stack: int | str | Mapping[str, int | str | None] | None = "auto"
    stack_axis: int | str | Mapping[str, int | str] = "auto"
    budget: int | None = None
    spill: str | None = None
    speed: float = 0.4
    threads: int | None = None

    @classmethod
    def checked(
        cls, *, budget: int | str | None = None, spill: str | os.PathLike[str] | None = None, **given: Any
    ) -> Options:
        """Options from what the user wrote; anything wrong is named now."""
        options = cls(
            budget=None if budget is None else parse_size(budget) if isinstance(budget, str) else int(budget),
            spill=None if spill is None else os.fspath(spill),
            **given,
        )
        if not isinstance(options.codec, (str, Mapping)):
            raise UsageError(f"codec={options.codec!r}: one of {', '.join(CODECS)}, or a dict of them by key")
        for codec in {options.codec} if isinstance(options.codec, str) else set(options.codec.values()):
            if codec not in CODECS:
                raise UsageError(f"codec {codec!r} is not one of {', '.join(CODECS)}{did_you_mean(str(codec), CODECS)}")
            if codec in ("lz4", "zstd"):
                clib.require(codec)
        if options.budget is not None and options.spill is None:
            raise UsageError("budget= needs spill=, a folder on a disk for what does not fit")
        if options.spill is not None:
            check_spill(options.spill)
            if options.budget is None:
                raise UsageError("spill= needs budget=, how much may stay in RAM (for example '8GiB')")
        if not 0 < options.speed <= 1:
            raise UsageError(
                f"speed={options.speed} is not a share of the plain buffer's sampling speed: above 0, at most 1"
            )
        if options.threads is not None and options.threads < 1:
            raise UsageError(f"threads={options.threads} is not a number of threads")
        return options

    def check_keys(self, layouts: Mapping[str, Layout]) -> None:
        """Refuse options for keys that are not there, and stacks a shape cannot hold."""
        for name in ("codec", "stack", "stack_axis"):
            value = getattr(self, name)
            for key in value if isinstance(value, Mapping) else ():
                if key not in layouts:
                    raise UsageError(f"{name}: there is no key {key!r} in the observation{did_you_mean(key, layouts)}")
        for key, layout in layouts.items():
            self.stack_of(key, layout)

    def check_budget(self, least: int) -> None:
        """Refuse a budget under what is being written at any time."""
        if self.budget is not None and self.budget * 7 // 8 < least:
            raise UsageError(
                f"budget={self.budget:,} bytes is under the {least * 8 // 7:,} that blocks being written take"
            )

    def _of(self, name: str, key: str, default: Any) -> Any:
        value = getattr(self, name)
        return value.get(key, default) if isinstance(value, Mapping) else value

    def codec_of(self, key: str) -> str:
        """The codec asked for."""
        return str(self._of("codec", key, "none"))

    def stack_is_settled(self, key: str) -> bool:
        """Whether the user said how many frames are stacked."""
        return self._of("stack", key, "auto") != "auto"

    def stack_of(self, key: str, layout: Layout) -> Layout:
        """The layout with the declared stack."""
        depth = self._of("stack", key, "auto")
        if depth in ("auto", None, 1):
            return layout
        if not isinstance(depth, int) or isinstance(depth, bool) or not 1 < depth < MAX_DEPTH:
            raise UsageError(f"stack={depth!r}: a number of frames from 2 to {MAX_DEPTH - 1}, None, or 'auto'")
        axis = self._of("stack_axis", key, "auto")
        if axis == "auto":
            fits = [
                a for a in dict.fromkeys((0, len(layout.shape) - 1)) if layout.shape and layout.shape[a] % depth == 0
            ]
            if not fits:
                raise UsageError(
                    f"stack={depth}: neither end of the shape {layout.shape}{_named(key)} holds {depth} frames"
                )
            # Images with their channels last: 84×84×4 is four frames along the last axis, not along the rows.
            axis = fits[-1] if len(fits) == 2 and layout.shape[-1] < layout.shape[0] else fits[0]
        if not isinstance(axis, int) or not -len(layout.shape) <= axis < len(layout.shape):
            raise UsageError(
                f"stack_axis={axis!r}: the shape {layout.shape}{_named(key)} has axes 0 to {len(layout.shape) - 1}"
            )
        axis %= len(layout.shape)
        if not layout.shape or layout.shape[axis] % depth:
            raise UsageError(
                f"stack={depth}: axis {axis} of the shape {layout.shape}{_named(key)} does not hold {depth} frames"
            )
        return self.stacked(layout, depth, axis)

    @staticmethod
    def stacked(layout: Layout, depth: int, axis: int) -> Layout:
        """The layout as a stack of frames."""
        return replace(layout, depth=depth, axis=axis)


def check_dtype(key: str, dtype: Any) -> np.dtype[Any]:
    """Refuse what has no fixed bytes."""
    kind = np.dtype(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise UsageError(f"an observation{_named(key)} of dtype {kind} cannot be stored: it has no bytes of its own")
    return kind


def _named(key: str) -> str:
    return f" of {key!r}" if key else ""
