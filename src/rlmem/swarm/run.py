"""A training run: environment, store, networks, and one iteration after the other."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlmem.swarm.collect import Flight, NotFinite, Tell, chunks, collect_stream, collected
from rlmem.swarm.kept import KeptStream
from rlmem.swarm.learn import Losses, Update, prepare
from rlmem.swarm.materialised import KeptWindows, collect_windows, update_windows
from rlmem.swarm.network import Networks
from rlmem.swarm.physics import Drones
from rlmem.swarm.settings import Settings

#: Far apart, so that the numbers of one run's iterations are not those of the next seed.
_SEED_STEP = 1_000_003
#: Agents whose noise is drawn at once; part of what a seed means.
_NOISE = 4096
Watch = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """What one iteration came to."""

    number: int
    #: Mean reward of an agent in a step.
    reward: float
    #: Means over the optimizer steps.
    policy_loss: float
    value_loss: float
    ae_loss: float
    #: By phase: collect, update.
    seconds: dict[str, float]
    stored_bytes: int


class SwarmRun:
    """A swarm in training. All randomness of an iteration comes from the seed and its number."""

    def __init__(self, settings: Settings, watch: Watch | None = None) -> None:
        self.settings = settings
        self.device = torch.device(settings.device)
        self.watch = watch
        if self.device.type == "cuda":
            # TF32 holds 16-bit samples exactly; float32 means float32.
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = settings.compute != "float32"
        self.drones = Drones(settings.agents, self.device)
        self.nets = Networks(learning_rate=settings.learning_rate, seed=settings.seed, device=self.device)
        self.kept: KeptStream | KeptWindows
        if settings.ladder.store == "stream":
            self.kept = KeptStream(settings, self.drones, self.device)
        else:
            self.kept = KeptWindows(settings, self.drones, self.device)
        self.flight: Flight | None = None
        self.iteration = 0
        self._before = self._learner()
        self._carried: Tensor | None = None

    def iterate(self, tell: Tell | None = None) -> Iteration:
        """One iteration: reset, collect, returns, update."""
        tell = tell or (lambda phase, done, total: None)
        seconds: dict[str, float] = {}
        self._before, self._carried = self._learner(), self._windows()
        generator = torch.Generator(self.device).manual_seed(self.settings.seed * _SEED_STEP + self.iteration)
        order = torch.Generator().manual_seed(self.settings.seed * _SEED_STEP + self.iteration)
        with self._timed("collect", seconds):
            self.drones.reset(generator)
            self.kept.begin()
            self._draw_noise(generator)
            if isinstance(self.kept, KeptStream):
                self.flight = self.flight or Flight(
                    self.settings, self.nets, self.kept.rounded, collected(self.settings)
                )
                collect_stream(self.settings, self.flight, self.drones, self.kept, tell)
                if self.flight.graph is None:
                    self.flight = None  # only a captured one is worth its memory during the update
            else:
                collect_windows(self.nets, self.kept, tell)
            stored = self.kept.nbytes
            reward = float(self.kept.rewards.mean())
        with self._timed("update", seconds):
            losses = self._update(order, tell)
        self._check_parameters()
        self.kept.finish()
        self.iteration += 1
        self._before, self._carried = self._learner(), None
        updates = self.settings.epochs * self.settings.minibatches
        return Iteration(
            number=self.iteration,
            reward=reward,
            policy_loss=float(losses.policy) / updates,
            value_loss=float(losses.value) / updates,
            ae_loss=float(losses.autoencoder) / updates,
            seconds=seconds,
            stored_bytes=stored,
        )

    def _draw_noise(self, generator: torch.Generator) -> None:
        """The noise of all actions, where the actions will be: the same however the agents are chunked and stored."""
        for rows in chunks(0, self.settings.agents, _NOISE):
            place = self.kept.actions[rows]
            place.copy_(torch.empty(place.shape, device=self.device).normal_(generator=generator))

    def _update(self, order: torch.Generator, tell: Tell) -> Losses:
        aims = prepare(self.kept, in_place=self.settings.ladder.in_place_returns)
        if isinstance(self.kept, KeptStream):
            return Update(self.settings, self.drones, self.nets, self.kept, aims).run(order, tell)
        return update_windows(self.nets, self.kept, aims, order, tell)

    @contextmanager
    def _timed(self, phase: str, seconds: dict[str, float]) -> Iterator[None]:
        if self.watch is not None:
            self.watch(phase)
        start = time.perf_counter()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        seconds[phase] = time.perf_counter() - start

    def _learner(self) -> dict[str, Any]:
        nets = self.nets
        return copy.deepcopy(
            {
                "iteration": self.iteration,
                "modules": [module.state_dict() for module in nets.modules],
                "optimizers": [optimizer.state_dict() for optimizer in nets.optimizers],
            }
        )

    def _check_parameters(self) -> None:
        for module in self.nets.modules:
            for name, values in module.named_parameters():
                if not bool(torch.isfinite(values.sum())):
                    where = f"{type(module).__name__.lower()}.{name}"
                    raise NotFinite(f"after the update {where} is not finite")

    def _windows(self) -> Tensor | None:
        """The history that whole windows carry over, before an iteration moves it on."""
        if self.settings.history == "carry" and isinstance(self.kept, KeptWindows):
            return self.kept.observations.clone()
        return None

    def state(self) -> dict[str, Any]:
        """The run as of its last whole iteration."""
        carried: Any = self._windows() if self._carried is None else self._carried
        if self.settings.history == "carry" and isinstance(self.kept, KeptStream) and self.kept.store is not None:
            carried = self.kept.store.state_dict()
        return {**self._before, "carried": carried}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.iteration = int(state["iteration"])
        for module, values in zip(self.nets.modules, state["modules"], strict=True):
            module.load_state_dict(values)
        for optimizer, values in zip(self.nets.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(copy.deepcopy(values))  # it would go on in these very tensors
        if state["carried"] is not None:
            if isinstance(self.kept, KeptWindows):
                self.kept.observations.copy_(state["carried"])
            elif self.kept.store is not None:
                self.kept.store.load_state_dict(state["carried"])
        self._before, self._carried = self._learner(), None
