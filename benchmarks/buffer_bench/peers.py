"""Replay buffers of other libraries; each is imported only where it is built."""

# ruff: noqa: D102  # what the methods do is said once, in stores.Store
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from buffer_bench.recording import Layout, Step
from buffer_bench.stores import BATCH, Sampled, Store, plain


class Cpprb(Store):
    """cpprb has no Dict spaces: every key is a column. ``stack_compress`` wants the stack on the last axis."""

    def __init__(
        self, layout: Layout, capacity: int, scratch: Path, *, next_of: bool = False, stack: bool = False
    ) -> None:
        super().__init__(layout, capacity, scratch)
        import cpprb

        self.next_of, self.stack = next_of, stack
        columns: dict[str, dict[str, Any]] = {
            "action": {"shape": layout.action.shape or 1, "dtype": np.dtype(layout.action.dtype)},
            "number": {"dtype": np.float32},
            "terminal": {"dtype": np.bool_},
        }
        for key in layout.units:
            each = layout.observation(key)
            shape = (*each.shape[1:], each.shape[0]) if stack else each.shape
            columns[key] = {"shape": shape, "dtype": np.dtype(each.dtype)}
            if not next_of:
                columns[f"next_{key}"] = columns[key]
        keys = list(layout.units)
        options = ({"next_of": keys} if next_of else {}) | ({"stack_compress": keys} if stack else {})
        self.buffer = cpprb.ReplayBuffer(capacity, columns, **options)

    def prepare(self, steps: Sequence[Step]) -> Any:
        (step,) = steps
        arrays = {"action": step.action, "number": step.number, "terminal": step.terminated}
        for prefix, obs in (("", step.obs), ("next_", step.next_obs)):
            for key, array in (("obs", obs),) if self.layout.plain else obs.items():
                arrays[prefix + key] = np.ascontiguousarray(np.moveaxis(array[0], 0, -1)) if self.stack else array[0]
        return arrays, step.terminated or step.truncated

    def add(self, prepared: Any) -> None:
        arrays, ended = prepared
        self.buffer.add(**arrays)
        if ended:
            self.buffer.on_episode_end()

    def sample(self) -> Any:
        return self.buffer.sample(BATCH)

    def decode(self, batch: Any) -> Sampled:
        def arrays(prefix: str) -> Any:
            found = {key: batch[prefix + key] for key in self.layout.units}
            if self.stack:
                found = {key: np.moveaxis(array, -1, 1) for key, array in found.items()}
            return found["obs"] if self.layout.plain else found

        return Sampled(
            number=batch["number"].ravel().astype(np.int64), obs=arrays(""), next_obs=arrays("next_"),
            action=batch["action"], terminal=batch["terminal"].ravel().astype(bool),
        )  # fmt: skip


class TorchRL(Store):
    """TorchRL takes what a collector gathered: 64 transitions at once."""

    chunk = 64

    def __init__(self, layout: Layout, capacity: int, scratch: Path, *, storage: str) -> None:
        super().__init__(layout, capacity, scratch)
        from torchrl import data

        options = {"scratch_dir": str(scratch)} if storage == "LazyMemmapStorage" else {}
        self.buffer = data.TensorDictReplayBuffer(storage=getattr(data, storage)(capacity, **options), batch_size=BATCH)

    def prepare(self, steps: Sequence[Step]) -> Any:
        import torch
        from tensordict import TensorDict

        def joined(obs: list[Any]) -> Any:
            if self.layout.plain:
                return torch.from_numpy(np.concatenate(obs))
            parts = {key: torch.from_numpy(np.concatenate([each[key] for each in obs])) for key in self.layout.units}
            return TensorDict(parts, batch_size=[len(steps)])

        return TensorDict(
            {
                "obs": joined([step.obs for step in steps]),
                "next_obs": joined([step.next_obs for step in steps]),
                "action": torch.from_numpy(np.concatenate([step.action for step in steps])),
                "number": torch.tensor([float(step.number) for step in steps]),
                "terminal": torch.tensor([step.terminated for step in steps]),
            },
            batch_size=[len(steps)],
        )

    def add(self, prepared: Any) -> None:
        self.buffer.extend(prepared)

    def sample(self) -> Any:
        return self.buffer.sample()

    def decode(self, batch: Any) -> Sampled:
        def arrays(name: str) -> Any:
            return (
                plain(batch[name]) if self.layout.plain else {key: plain(batch[name, key]) for key in self.layout.units}
            )

        return Sampled(
            number=plain(batch["number"]).ravel().astype(np.int64), obs=arrays("obs"), next_obs=arrays("next_obs"),
            action=plain(batch["action"]), terminal=plain(batch["terminal"]).ravel(),
        )  # fmt: skip


class Tianshou(Store):
    """Tianshou; with ``stack`` it is handed stacks, keeps the last frame and rebuilds the stack."""

    def __init__(
        self, layout: Layout, capacity: int, scratch: Path, *, ignore_obs_next: bool = False, stack: bool = False
    ) -> None:
        super().__init__(layout, capacity, scratch)
        from tianshou.data import Batch, ReplayBuffer

        self.batch = Batch
        options = {"stack_num": layout.stack, "save_only_last_obs": True} if stack else {}
        self.buffer = ReplayBuffer(capacity, ignore_obs_next=ignore_obs_next, **options)

    def prepare(self, steps: Sequence[Step]) -> Any:
        (step,) = steps

        def one(obs: Any) -> Any:
            return obs[0] if self.layout.plain else self.batch({key: array[0] for key, array in obs.items()})

        return self.batch(
            obs=one(step.obs), obs_next=one(step.next_obs), act=step.action[0], rew=float(step.number),
            terminated=step.terminated, truncated=step.truncated, info={},
        )  # fmt: skip

    def add(self, prepared: Any) -> None:
        self.buffer.add(prepared)

    def sample(self) -> Any:
        return self.buffer.sample(BATCH)[0]

    def decode(self, batch: Any) -> Sampled:
        def arrays(obs: Any) -> Any:
            return obs if self.layout.plain else {key: obs[key] for key in self.layout.units}

        return Sampled(
            number=np.asarray(batch.rew).astype(np.int64), obs=arrays(batch.obs), next_obs=arrays(batch.obs_next),
            action=batch.act, terminal=np.asarray(batch.terminated),
        )  # fmt: skip
