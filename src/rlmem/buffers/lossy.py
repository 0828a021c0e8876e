"""Smaller numbers, on request only: what comes back is near what went in, not equal to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rlmem.errors import UsageError, did_you_mean

Array = npt.NDArray[Any]
KINDS = ("float16", "uint8")
FLOAT16, UINT8 = np.dtype(np.float16), np.dtype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Half precision: 11 significant bits, largest value 65,504."""

    given: np.dtype[Any]
    stored: np.dtype[Any] = FLOAT16
    changes: str = "rounded to 11 significant bits (relative error up to 0.05 %); values beyond ±65,504 become infinite"

    def encode(self, values: Array) -> Array:
        """To store."""
        with np.errstate(over="ignore"):
            return values.astype(np.float16)

    def decode(self, values: Array) -> Array:
        """To hand back."""
        return values.astype(self.given)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """256 even steps between bounds."""

    given: np.dtype[Any]
    low: Array
    high: Array
    stored: np.dtype[Any] = UINT8

    @property
    def changes(self) -> str:
        """What is lost."""
        widest = float(np.max(self.high - self.low)) / 510
        return f"rounded to 256 steps between the space's bounds (error up to {widest:.3g}); values outside are clipped"

    def encode(self, values: Array) -> Array:
        """To store."""
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return np.rint(np.nan_to_num(share) * 255).astype(np.uint8)

    def decode(self, values: Array) -> Array:
        """To hand back."""
        return (self.low + values * ((self.high - self.low) / 255)).astype(self.given)


Lossy = Half | Steps


def for_keys(
    keys: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    asked: Mapping[str, str] | str | None,
    bounds: Mapping[str, tuple[Array, Array]],
) -> dict[str, Lossy]:
    """What was asked for, by key; anything that cannot be is refused now."""
    if asked is None:
        return {}
    if isinstance(asked, str):
        asked = {key: asked for key, (_, dtype) in keys.items() if dtype.kind == "f"}
        if not asked:
            raise UsageError("lossy= is for floating-point observations, and there are none")
    made: dict[str, Lossy] = {}
    for key, kind in asked.items():
        if key not in keys:
            raise UsageError(f"lossy: there is no key {key!r} in the observation{did_you_mean(key, keys)}")
        if kind not in KINDS:
            raise UsageError(f"lossy={kind!r} is not one of {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}")
        dtype = keys[key][1]
        if dtype.kind != "f":
            raise UsageError(
                f"lossy={kind!r} is for floating-point observations; {key or 'the observation'} is {dtype}"
            )
        if kind == "float16":
            made[key] = Half(given=dtype)
            continue
        low, high = bounds.get(key, (np.array(-np.inf), np.array(np.inf)))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
            raise UsageError(f"lossy='uint8' needs finite bounds; {key or 'the observation'} has none")
        made[key] = Steps(given=dtype, low=low.astype(np.float64), high=high.astype(np.float64))
    return made


def for_space(
    space: Any, keys: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], asked: Mapping[str, str] | str | None
) -> dict[str, Lossy]:
    """The same, with the bounds of a Gymnasium space."""
    leaves = {key: space[key] if key else space for key in keys}
    bounds = {
        key: (np.asarray(leaf.low), np.asarray(leaf.high)) for key, leaf in leaves.items() if hasattr(leaf, "low")
    }
    return for_keys(keys, asked, bounds)
