"""The swarm as it was assessed, and the first rungs up from it: whole windows are stored at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from rlmem.swarm.collect import Tell, check_finite, chunks
from rlmem.swarm.learn import WINDOW, Losses, Targets, ppo
from rlmem.swarm.network import Networks, log_prob, split
from rlmem.swarm.physics import Drones
from rlmem.swarm.settings import ACTIONS, EPISODE, HISTORY, SAMPLE, SIGMA, SUBSTEPS, TARGETS, Settings

_NEW = SUBSTEPS * SAMPLE


class KeptWindows:
    """Observations in a list or in one tensor, and the environment's own window and track of positions."""

    def __init__(self, settings: Settings, drones: Drones, device: torch.device) -> None:
        agents, steps = settings.agents, settings.steps
        self.settings, self.drones = settings, drones
        self.observations = torch.zeros(agents, WINDOW + TARGETS, device=device)
        self.positions = torch.zeros(agents, EPISODE, 3, device=device)
        self.listed: list[Tensor] = []
        self.array = None
        if settings.ladder.store == "array":
            self.array = torch.zeros(steps, agents, WINDOW + TARGETS, device=device)
        self.actions = torch.zeros(agents, steps, ACTIONS, device=device)
        self.log_probs, self.rewards, self.values = (torch.zeros(agents, steps, device=device) for _ in range(3))
        self.graphs: list[Tensor] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the rollout itself, without the environment's arrays and without graphs."""
        kept = (self.actions, self.log_probs, self.rewards, self.values, *self.listed)
        return sum(t.numel() * t.element_size() for t in (*kept, *(() if self.array is None else (self.array,))))

    def begin(self) -> None:
        """The next rollout: the environment was reset."""
        if self.settings.history == "reset":
            self.observations[:, :WINDOW] = 0
        self.positions.zero_()
        self.observations[:, WINDOW:] = self.drones.targets(slice(None))
        self.listed, self.graphs = [], []

    def finish(self) -> None:
        """The update is over: lists and graphs go."""
        self.listed, self.graphs = [], []

    def shift(self, step: int, accelerations: Tensor, rates: Tensor) -> None:
        """Ten samples in at the end, as many out at the front."""
        window = self.observations[:, :WINDOW]
        window[:, :-_NEW] = window[:, _NEW:].clone()
        new = window[:, -_NEW:].unflatten(1, (SUBSTEPS, SAMPLE))
        new[..., :3] = accelerations
        new[..., 3:] = rates[:, None]
        self.positions[:, step % EPISODE] = self.drones.pos.t()


def collect_windows(nets: Networks, kept: KeptWindows, tell: Tell) -> None:
    """One step of all agents after the other."""
    settings = kept.settings
    scratch = torch.empty(settings.agents, SUBSTEPS, 3, device=kept.actions.device)
    for step in range(settings.steps):
        tell("collect", step, settings.steps)
        now = kept.observations
        if kept.array is None:
            kept.listed.append(now.clone())
        else:
            kept.array[step] = now
        with torch.set_grad_enabled(settings.ladder.keeps_graph):
            # With gradients on, a graph refers to what it saw: the clone, as the environment's own window moves on.
            seen = kept.listed[-1] if settings.ladder.keeps_graph else now
            windows, targets = split(seen)
            means, values = nets.policy(nets.encoder(windows), targets)
            actions = kept.actions[:, step].mul_(SIGMA).add_(means.detach())
            logs = log_prob(actions.clone(), means)
        if settings.ladder.keeps_graph:
            kept.graphs += [logs, values]
        kept.log_probs[:, step], kept.values[:, step] = logs.detach(), values.detach()
        kept.rewards[:, step] = kept.drones.step(actions, slice(None), scratch)
        kept.shift(step, scratch, actions[:, 1:])
    check_finite(kept.rewards, kept.log_probs, slice(0, settings.agents))


def update_windows(nets: Networks, kept: KeptWindows, aims: Targets, generator: torch.Generator, tell: Tell) -> Losses:
    """All samples in one batch, or a chunk of agents at a time."""
    settings = kept.settings
    losses = Losses.zero(kept.actions.device)
    observations = torch.stack(kept.listed) if kept.array is None else kept.array
    bounds = [settings.agents * k // settings.minibatches for k in range(settings.minibatches + 1)]
    for _ in range(settings.epochs):
        for number in torch.randperm(settings.minibatches, generator=generator).tolist():
            low, high = bounds[number], bounds[number + 1]
            size = high - low if settings.ladder.whole_batch else settings.chunk
            nets.zero_grad()
            for rows in chunks(low, high, size):
                tell("update", rows.start, settings.agents)
                _learn(nets, kept, aims, losses, observations[:, rows], rows, (high - low) * settings.steps)
            nets.step()
    return losses


def _learn(
    nets: Networks, kept: KeptWindows, aims: Targets, losses: Losses, seen: Tensor, rows: slice, samples: int
) -> None:
    """The gradients of some agents with all their steps, in the order of steps."""
    seen = seen.flatten(0, 1)
    windows, targets = split(seen)
    codes = nets.encoder(windows)
    rebuilt = nets.decoder(codes)
    means, values = nets.policy(codes, targets)
    by_step = (kept.actions, kept.log_probs, aims.returns, aims.advantages)
    actions, before, returns, advantages = (part[rows].transpose(0, 1).flatten(0, 1) for part in by_step)
    policy, value = ppo(means, values, actions, before, returns, advantages)
    autoencoder = (rebuilt - windows).square().sum() / (samples * HISTORY * SAMPLE)
    loss = (policy + 0.5 * value) / samples + autoencoder
    loss.backward()
    losses.policy += policy.detach() / samples
    losses.value += value.detach() / samples
    losses.autoencoder += autoencoder.detach()
