"""What the SB3 buffers here have in common: a store made from a space, observations in, tensors out.

What is compiled is imported when a buffer is built: numba and LLVM take 50 MiB in a process, and every worker that is
spawned imports the script with the class in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces

from rlmem.buffers import lossy as lossy_codecs
from rlmem.buffers.batch import Batches
from rlmem.errors import UsageError
from rlmem.sb3.views import ObservationView

if TYPE_CHECKING:
    from rlmem.buffers.options import Options

Array = npt.NDArray[Any]
#: The single key of an observation that is not a Dict.
ONLY = ""
#: Observations at least this large are read where they are; asking where that is costs as much as copying a smaller one.
LENT_BYTES = 256 << 10


def _leaf(key: str, space: spaces.Space[Any], shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(space, (spaces.Dict, spaces.Tuple)) or space.dtype is None:
        raise UsageError(
            f"an observation{f' {key!r}' if key else ''} in {type(space).__name__} cannot be stored: flatten the Dict first"
        )
    from rlmem.buffers.options import check_dtype

    return tuple(shape), check_dtype(key, space.dtype)


class Observations:
    """A space's observations in a store, the way SB3 hands them in and wants them back."""

    def __init__(
        self, space: spaces.Space[Any], obs_shape: Any, rows: int, n_envs: int, options: Options, *,
        paired: bool, lossy: Mapping[str, str] | str | None = None, pin: bool = False,
    ) -> None:  # fmt: skip
        from rlmem.buffers.layout import Layout
        from rlmem.buffers.store import Store

        self.is_dict = isinstance(obs_shape, dict)
        if self.is_dict:
            assert isinstance(space, spaces.Dict)
            keys = {key: _leaf(key, space[key], shape) for key, shape in obs_shape.items()}
        else:
            keys = {ONLY: _leaf(ONLY, space, obs_shape)}
        options.check_keys({key: Layout(shape=shape, dtype=dtype) for key, (shape, dtype) in keys.items()})
        self.given = keys
        self.lossy = lossy_codecs.for_space(space, keys, lossy)
        stored = {
            key: (shape, self.lossy[key].stored if key in self.lossy else dtype) for key, (shape, dtype) in keys.items()
        }
        discrete = {key for key in keys if isinstance(space[key] if self.is_dict else space, spaces.Discrete)}
        self._odd = discrete | set(self.lossy)
        self.n_envs = n_envs
        self.store = Store(rows, stored, n_envs, options, paired=paired)
        self.pin = pin
        self.batches = Batches(_pinned if pin else None)

    @cached_property
    def _quick(self) -> bool:
        """Whether observations are copied as they come, all of them."""
        return not self._odd and all(column.last.nbytes < LENT_BYTES for column in self.store.columns.values())

    def add(self, obs: Any, after: Any = None) -> None:
        """Store one step of every env; the lock is the caller's."""
        if self._quick and after is not None:
            # The same as below where nothing is to be done to any key: small observations come a hundred thousand a second.
            if self.is_dict:
                for key, now, then in self.store.staging():
                    now[...] = obs[key]
                    then[...] = after[key]
            else:
                ((_, now, then),) = self.store.staging()
                now[...] = obs
                then[...] = after
            self.store.commit()
            return
        for index, (key, now, then) in enumerate(self.store.staging()):
            first, second = (obs[key], after[key] if after is not None else None) if self.is_dict else (obs, after)
            if key in self._odd:
                first, second = (
                    self._fitted(key, first, now),
                    self._fitted(key, second, then) if second is not None else None,
                )
            # Assigned as SB3 assigns: numpy casts, and refuses what does not fit.
            if second is None:
                now[...] = first
                continue
            if now.nbytes >= LENT_BYTES and _as_it_is(first, now):
                self.store.lend(index, first)
            else:
                now[...] = first
            then[...] = second
        self.store.commit()

    def _fitted(self, key: str, value: Any, place: Array) -> Array:
        """A discrete value of shape (n,) as (n, 1); a lossy one in its stored form."""
        if key in self.lossy:
            return self.lossy[key].encode(np.asarray(value))
        return np.reshape(value, place.shape)

    def gather(
        self, slots: Array, envs: Array, later: Array | None = None, *, following: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Observations and next observations of a batch, in arrays that are used again once nobody holds them."""
        slots, envs = (np.ascontiguousarray(index, np.int64) for index in (slots, envs))
        n = slots.size
        now, after = self._batch("now", n), self._batch("after", n) if following else None
        self.store.gather(slots, envs, now, after, later, meanwhile)
        return self._given_back(now), self._given_back(after) if after is not None else None

    def _batch(self, name: str, n: int) -> dict[str, Array]:
        return {
            key: self.batches.array(f"{name}.{key}", (n, *column.layout.shape), column.layout.dtype)
            for key, column in self.store.columns.items()
        }

    def _given_back(self, batch: dict[str, Array]) -> Any:
        for key, lossy in self.lossy.items():
            batch[key] = lossy.decode(batch[key])
        return batch if self.is_dict else batch[ONLY]

    def view(self, *, following: bool, flat: bool = False) -> Any:
        """Array-like views, for a Dict a dict of them."""
        views = {key: ObservationView(self.store, key, following=following, flat=flat) for key in self.store.columns}
        return views if self.is_dict else views[ONLY]


def _as_it_is(value: Any, place: Array) -> bool:
    """Whether a value has the very bytes that assigning it would give."""
    return (
        isinstance(value, np.ndarray)
        and value.shape == place.shape
        and value.dtype == place.dtype
        and value.flags.c_contiguous
    )


def _pinned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    kind = th.from_numpy(np.empty(0, dtype)).dtype
    return th.empty(shape, dtype=kind, pin_memory=True).numpy()


def tensor(array: Array, device: th.device) -> th.Tensor:
    """An array as a tensor on a device, sharing memory on the CPU."""
    made = th.from_numpy(array)
    return made if device.type == "cpu" else made.to(device)


def tensors(given: Any, device: th.device) -> Any:
    """The same for a Dict of arrays."""
    if isinstance(given, dict):
        return {key: tensor(value, device) for key, value in given.items()}
    return tensor(given, device)


def check_sizes(buffer_size: int, n_envs: int) -> None:
    """Refuse a buffer of nothing."""
    if buffer_size < 1:
        raise UsageError(f"buffer_size={buffer_size} cannot hold anything")
    if n_envs < 1:
        raise UsageError(f"n_envs={n_envs} is not a number of environments")


def make_options(
    codec: Any,
    stack: Any,
    stack_axis: Any,
    budget: Any,
    spill: str | os.PathLike[str] | None,
    speed: float,
    threads: int | None,
) -> Options:
    """The storage options of a constructor, checked."""
    from rlmem.buffers.options import Options

    return Options.checked(
        codec=codec, stack=stack, stack_axis=stack_axis, budget=budget, spill=spill, speed=speed, threads=threads
    )
