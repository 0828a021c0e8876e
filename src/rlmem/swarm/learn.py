"""The update: returns, then the losses of policy, value and autoencoder, a chunk of agents at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlmem.swarm.collect import Tell, chunks
from rlmem.swarm.decode import PackedDecoder
from rlmem.swarm.kept import KeptStream
from rlmem.swarm.network import Networks, log_prob
from rlmem.swarm.physics import Drones
from rlmem.swarm.sequence import encode_stream
from rlmem.swarm.settings import CLIP, GAMMA, HISTORY, SAMPLE, SUBSTEPS, Settings

#: Steps whose windows are decoded (and, encoded by themselves, also encoded) at once.
PIECE = 10
WINDOW = HISTORY * SAMPLE


class Rollout(Protocol):
    """What returns are made of."""

    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    values: Tensor


@dataclass(slots=True, kw_only=True)
class Losses:
    """Sums over an iteration, on the device, so that nothing waits for it."""

    policy: Tensor
    value: Tensor
    autoencoder: Tensor

    @classmethod
    def zero(cls, device: torch.device) -> Losses:
        """None yet."""
        return cls(**{name: torch.zeros((), device=device) for name in ("policy", "value", "autoencoder")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What the update aims at, ``[agents, steps]`` each."""

    returns: Tensor
    advantages: Tensor


def prepare(rollout: Rollout, *, in_place: bool) -> Targets:
    """Monte-Carlo returns and normalised advantages; in place, rewards and values become them.

    Returns are discounted means, ``(1 − γ) Σ γᵏ r``: the value head shares its trunk with the policy, and sums a hundred times
    as large would drown it. Advantages are centred step by step: all agents are at the same step, and how much of the
    episode is left is nobody's merit.
    """
    returns = rollout.rewards if in_place else rollout.rewards.clone()
    returns.mul_(1 - GAMMA)
    for step in range(returns.shape[1] - 2, -1, -1):
        returns[:, step].add_(returns[:, step + 1], alpha=GAMMA)
    advantages = (rollout.values if in_place else rollout.values.clone()).neg_().add_(returns)
    # Passes that make no tensor of this size; the deviation as torch.std has it.
    advantages.sub_(advantages.mean(0))
    deviation = (torch.linalg.vector_norm(advantages).square() / max(advantages.numel() - 1, 1)).sqrt()
    advantages.div_(deviation + 1e-8)
    return Targets(returns=returns, advantages=advantages)


class Update:
    """One iteration's gradient steps over a rollout whose samples are stored once."""

    def __init__(self, settings: Settings, drones: Drones, nets: Networks, kept: KeptStream, aims: Targets) -> None:
        self.settings, self.drones, self.nets, self.kept, self.aims = settings, drones, nets, kept, aims
        self.dtype = getattr(torch, settings.compute)
        self.device = kept.actions.device
        self.losses = Losses.zero(self.device)
        # The packed form has three times the work and suits matrix units; a CPU is faster with the layers as they are.
        self.packing = PackedDecoder.indices(nets.decoder) if self.device.type == "cuda" else None
        self.packed: PackedDecoder | None = None

    def run(self, generator: torch.Generator, tell: Tell) -> Losses:
        """All epochs; the minibatches come in another order every time."""
        settings = self.settings
        bounds = [settings.agents * k // settings.minibatches for k in range(settings.minibatches + 1)]
        total = settings.epochs * settings.agents
        done = 0
        for _ in range(settings.epochs):
            for number in torch.randperm(settings.minibatches, generator=generator).tolist():
                low, high = bounds[number], bounds[number + 1]
                learnt = self._learnt_steps(generator)
                self.nets.zero_grad()
                if self.packing is not None:
                    self.packed = PackedDecoder(self.nets.decoder, self.dtype, self.packing)
                for rows in chunks(low, high, settings.chunk):
                    tell("update", done, total)
                    self._chunk(rows, (high - low) * settings.steps, (high - low) * len(learnt), learnt)
                    done += rows.stop - rows.start
                if self.packed is not None:
                    self.packed.finish()
                self.nets.step()
        return self.losses

    def _learnt_steps(self, generator: torch.Generator) -> list[int]:
        """Steps whose windows the autoencoder learns from."""
        steps = self.settings.steps
        count = max(round(self.settings.ae_share * steps), 1)
        if count == steps:
            return list(range(steps))
        return sorted(torch.randperm(steps, generator=generator)[:count].tolist())

    def _chunk(self, rows: slice, samples: int, windows: int, learnt: list[int]) -> None:
        targets = self.drones.targets(rows)
        if self.settings.encoding == "sequence":
            stream = self.kept.stream(rows)
            codes = encode_stream(self.nets.encoder, stream, self.settings.steps, self.dtype)
            leaf = codes.detach().float().requires_grad_()
            self._head(leaf, targets, rows, slice(None), samples)
            self._autoencoder(leaf, stream, learnt, windows)
            codes.backward(leaf.grad.to(codes.dtype))
        else:
            for steps in _pieces(self.settings.steps):
                seen = self.kept.windows(rows, steps)
                codes = self.nets.encoder(seen.flatten(0, 1)).unflatten(0, seen.shape[:2])
                leaf = codes.detach().requires_grad_()
                self._head(leaf, targets, rows, steps, samples)
                picked = [step - steps.start for step in learnt if steps.start <= step < steps.stop]
                if picked:
                    self._decode(leaf, seen[:, picked].flatten(0, 1), picked, windows)
                codes.backward(leaf.grad)

    def _head(self, codes: Tensor, targets: Tensor, rows: slice, steps: slice, samples: int) -> None:
        """Policy and value losses, and their gradients down to the codes."""
        with self._precision():
            means, values = self.nets.policy(codes, targets[:, None].expand(-1, codes.shape[1], -1))
        policy, value = ppo(
            means.float(),
            values.float(),
            self.kept.actions[rows, steps],
            self.kept.log_probs[rows, steps],
            self.aims.returns[rows, steps],
            self.aims.advantages[rows, steps],
        )
        ((policy + 0.5 * value) / samples).backward()
        self.losses.policy += policy.detach() / samples
        self.losses.value += value.detach() / samples

    def _autoencoder(self, codes: Tensor, stream: Tensor, learnt: list[int], windows: int) -> None:
        """Reconstruction losses, some steps at a time."""
        seen = stream.unfold(1, HISTORY, SUBSTEPS)
        for low in range(0, len(learnt), PIECE):
            picked = learnt[low : low + PIECE]
            consecutive = picked[-1] - picked[0] + 1 == len(picked)
            part = seen[:, picked[0] : picked[-1] + 1] if consecutive else seen[:, picked]
            self._decode(codes, part.transpose(2, 3).flatten(0, 1), picked, windows)

    def _decode(self, codes: Tensor, wanted: Tensor, picked: list[int], windows: int) -> None:
        leaf = codes.detach()[:, picked].flatten(0, 1).requires_grad_()
        rebuilt = self.nets.decoder(leaf) if self.packed is None else self.packed(leaf)
        loss = (rebuilt.float() - wanted).square().sum() / (windows * WINDOW)
        loss.backward()
        assert codes.grad is not None and leaf.grad is not None
        codes.grad[:, picked] += leaf.grad.view(len(codes), len(picked), -1)
        self.losses.autoencoder += loss.detach()

    def _precision(self) -> AbstractContextManager[object]:
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)


def ppo(
    means: Tensor, values: Tensor, actions: Tensor, before: Tensor, returns: Tensor, advantages: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums of the clipped policy loss and of the squared value error."""
    ratio = (log_prob(actions, means) - before).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    return -gain.sum(), (values - returns).square().sum()


def _pieces(steps: int) -> Iterator[slice]:
    return (slice(low, min(low + PIECE, steps)) for low in range(0, steps, PIECE))
