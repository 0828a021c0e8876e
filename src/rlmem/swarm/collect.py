"""A rollout with the stream stored once: a chunk of agents flies its whole episode, then the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rlmem.errors import AnalysisError
from rlmem.swarm.incremental import GrowingStream
from rlmem.swarm.kept import KeptStream
from rlmem.swarm.network import Networks, log_prob
from rlmem.swarm.physics import Drones
from rlmem.swarm.sequence import Weights
from rlmem.swarm.settings import ACTIONS, HISTORY, SIGMA, SUBSTEPS, Settings

#: Agents collected at once, in chunks of the update: collection holds less for an agent, and a GPU wants many.
COLLECTED = 16
CUDA_COLLECTED = 4
Tell = Callable[[str, int, int], None]


class NotFinite(AnalysisError):  # noqa: N818 - a state of affairs, as in math.isfinite
    """The environment or the policy gave a number that is none."""


def chunks(low: int, high: int, size: int) -> Iterator[slice]:
    """Agents from ``low`` to ``high`` in pieces."""
    return (slice(start, min(start + size, high)) for start in range(low, high, size))


def collected(settings: Settings) -> int:
    """Agents that fly together."""
    factor = CUDA_COLLECTED if settings.device.startswith("cuda") else COLLECTED
    return min(settings.agents, settings.chunk * factor)


class Flight:
    """One episode of a chunk of agents, in tensors of its own that every chunk uses again.

    On a GPU the whole episode is captured as a graph once and replayed from then on.
    """

    def __init__(self, settings: Settings, nets: Networks, rounded: Callable[[Tensor], Tensor], size: int) -> None:
        device = torch.device(settings.device)
        self.steps, self.nets, self.rounded, self.size = settings.steps, nets, rounded, size
        weights = Weights(nets.encoder, getattr(torch, settings.compute)) if settings.encoding == "sequence" else None
        self.growing = GrowingStream(size, settings.steps, weights, device)
        self.drones = Drones(size, device)
        self.targets = torch.zeros(size, 4, device=device)
        self.actions = torch.zeros(settings.steps, size, ACTIONS, device=device)
        self.log_probs, self.rewards, self.values = (torch.zeros(settings.steps, size, device=device) for _ in range(3))
        self.accelerations = torch.zeros(size, SUBSTEPS, 3, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def refresh(self) -> None:
        """The parameters have changed."""
        if self.growing.weights is not None:
            self.growing.weights.refresh(self.nets.encoder)

    def fly(self) -> None:
        """From the windows in ``growing`` and the noise in ``actions`` to everything else."""
        if self.actions.device.type != "cuda":
            self._fly()
            return
        if self.graph is None:
            self._fly()  # once by itself: kernels are compiled and libraries loaded outside the capture
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            kept = [(t, t.clone()) for t in (self.actions, self.drones.state)]
            with torch.cuda.graph(self.graph):
                self._fly()
            for tensor, value in kept:
                tensor.copy_(value)
            return
        self.graph.replay()

    def _fly(self) -> None:
        growing = self.growing
        if growing.weights is not None:
            growing.start()
        for step in range(self.steps):
            if growing.weights is not None:
                codes = growing.codes(step).float()
            else:
                codes = self.nets.encoder(growing.window(step))
            means, self.values[step] = self.nets.policy(codes, self.targets)
            actions = self.actions[step].mul_(SIGMA).add_(means)
            self.log_probs[step] = log_prob(actions, means)
            self.rewards[step] = self.drones.step(actions, slice(0, self.size), self.accelerations)
            new = growing.new(step)
            new[..., :3] = self.rounded(self.accelerations)
            new[..., 3:] = self.rounded(actions[:, 1:])[:, None]


def collect_stream(settings: Settings, flight: Flight, drones: Drones, kept: KeptStream, tell: Tell) -> None:
    """Fill the rollout; ``kept.actions`` holds the noise, and in the end the actions."""
    with torch.no_grad():
        flight.refresh()
        for rows in chunks(0, settings.agents, flight.size):
            tell("collect", rows.start, settings.agents)
            _chunk(flight, drones, kept, rows)
            check_finite(kept.rewards, kept.log_probs, rows)


def _chunk(flight: Flight, drones: Drones, kept: KeptStream, rows: slice) -> None:
    """A chunk's episode; a last chunk that is smaller flies with agents of the chunk before in the places left."""
    n = rows.stop - rows.start
    local = flight.drones
    local.state[:, :n] = drones.state[:, rows]
    local.pick[:n] = drones.pick[rows]
    flight.targets[:n] = drones.targets(rows)
    flight.actions[:, :n] = kept.actions[rows].transpose(0, 1)
    flight.growing.samples[:n, :HISTORY] = kept.before(rows)
    flight.fly()
    drones.state[:, rows] = local.state[:, :n]
    kept.actions[rows] = flight.actions[:, :n].transpose(0, 1)
    kept.put(rows, flight.growing.samples[:n, HISTORY:])
    for name in ("log_probs", "rewards", "values"):
        getattr(kept, name)[rows] = getattr(flight, name)[:, :n].t()


def check_finite(rewards: Tensor, log_probs: Tensor, rows: slice) -> None:
    """Stop at the first agent and step with a number that is none."""
    for name, values in (("reward", rewards[rows]), ("log-probability", log_probs[rows])):
        # A sum is not finite if any part is not, and needs no tensor of its own.
        if bool(torch.isfinite(values.sum())):
            continue
        bad = (~torch.isfinite(values)).nonzero()
        if len(bad):
            step = int(bad[:, 1].min())
            agent = int(bad[bad[:, 1] == step][0, 0])
            number = values[agent, step].item()
            raise NotFinite(f"agent {rows.start + agent:,}, step {step}: the {name} is {number}")
