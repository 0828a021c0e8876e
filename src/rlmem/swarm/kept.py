"""What a rollout keeps of a swarm whose windows are cut out of a stream."""

from __future__ import annotations

import torch
from torch import Tensor

from rlmem.buffers.window import DTYPES, WindowRollout, decode, quantise
from rlmem.swarm.physics import Drones
from rlmem.swarm.settings import ACTIONS, HISTORY, SAMPLE, SUBSTEPS, Settings

#: Values of a sample that are the rates an action commands, and where in the action they are.
GYRO = {3: ("actions", 1), 4: ("actions", 2), 5: ("actions", 3)}
#: Units of 16-bit fixed point: 1/256 m/s² up to ±128.
SCALE = 1 / 256


class KeptStream:
    """Samples once, actions and three numbers a step. Log-probabilities, rewards and values are ``[agents, steps]``."""

    def __init__(self, settings: Settings, drones: Drones, device: torch.device) -> None:
        rung = settings.ladder
        self.resimulated, self.drones = rung.resimulated, drones
        self.steps = settings.steps
        self._shape = {
            "history": HISTORY,
            "sample": SAMPLE,
            "new": SUBSTEPS,
            "derived": GYRO if rung.derived_gyro else None,
            "dtype": settings.imu if rung.half else "float32",
            "scale": SCALE,
            "on_reset": "carry" if settings.history == "carry" else "zeros",
            "whole_episodes": True,
            "final": settings.history == "carry",
            "device": device,
        }
        names = {"actions": (ACTIONS,)}
        scalars: dict[str, tuple[int, ...]] = {"log_probs": (), "rewards": (), "values": ()}
        if rung.resimulated:
            # A store without samples: they are flown again, a chunk at a time.
            self.store: WindowRollout | None = None
            fields = {
                name: torch.zeros(settings.agents, settings.steps, *shape, device=device)
                for name, shape in (names | scalars).items()
            }
        else:
            self.store = WindowRollout(settings.agents, settings.steps, fields=names | scalars, **self._shape)
            fields = {name: self.store.field(name) for name in names | scalars}
        self.actions, self.log_probs = fields["actions"], fields["log_probs"]
        self.rewards, self.values = fields["rewards"], fields["values"]

    @property
    def nbytes(self) -> int:
        """Bytes kept for all agents."""
        if self.store is not None:
            return self.store.nbytes
        kept = (self.actions, self.log_probs, self.rewards, self.values)
        return sum(t.numel() * t.element_size() for t in kept)

    def begin(self) -> None:
        """The next rollout."""
        if self.store is not None:
            self.store.begin()

    def finish(self) -> None:
        """The rollout is whole."""
        if self.store is not None:
            self.store.step = self.steps

    def before(self, rows: slice) -> Tensor:
        """The windows of the first step, ``[n, 300, 6]``."""
        if self.store is None:
            count = len(range(*rows.indices(len(self.actions))))
            return torch.zeros(count, HISTORY, SAMPLE, device=self.actions.device)
        return self.store.stream(rows, slice(0, 1))

    def put(self, rows: slice, samples: Tensor) -> None:
        """Keep an episode's samples ``[n, 10 steps, 6]``, rounded as they are."""
        store = self.store
        if store is None:
            return
        place = store.samples[rows, store.samples.shape[1] - SUBSTEPS * (self.steps - (not store.final)) :]
        samples = samples[:, : place.shape[1]]
        place.copy_(store.quantised(samples[..., :3] if store.derived else samples))

    def rounded(self, values: Tensor) -> Tensor:
        """Values as they will be read."""
        return decode(quantise(values, DTYPES[str(self._shape["dtype"])], SCALE), SCALE)

    def stream(self, rows: slice) -> Tensor:
        """All samples under the windows of the rollout, ``[n, 300 + 10 (steps − 1), 6]``."""
        return self._source(rows).stream(self._local(rows), slice(0, self.steps))

    def windows(self, rows: slice, steps: slice) -> Tensor:
        """Windows, ``[n, k, 300, 6]``."""
        return self._source(rows).gather(self._local(rows), steps).unflatten(2, (HISTORY, SAMPLE))

    def _local(self, rows: slice) -> slice:
        return rows if self.store is not None else slice(None)

    def _source(self, rows: slice) -> WindowRollout:
        if self.store is not None:
            return self.store
        actions = self.actions[rows]
        flown = WindowRollout(len(actions), self.steps, fields={"actions": (ACTIONS,)}, **self._shape)
        flown.fields["actions"] = actions
        accelerations = self.drones.replay(actions, rows)[:, : self.steps - 1].flatten(1, 2)
        flown.samples.copy_(flown.quantised(accelerations))
        return flown
