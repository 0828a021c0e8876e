"""The networks of the drone swarm: an autoencoder over the IMU window, policy and value on its code and the targets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlmem.swarm.settings import ACTIONS, HISTORY, LATENT, SAMPLE, SIGMA, TARGETS

PARAMETERS = 112_703
#: Positions and channels after the three convolutions.
POSITIONS, CHANNELS = 25, 64
#: −log σ − ½ log 2π
_LOG_SCALE = -torch.log(torch.tensor(SIGMA)).item() - 0.9189385332046727


class Encoder(nn.Module):
    """A window of 300 samples in 20 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(SAMPLE, 16, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(16, 32, 5, stride=2, padding=2)
        self.conv3 = nn.Conv1d(32, CHANNELS, 5, stride=3, padding=1)
        self.code = nn.Linear(CHANNELS * POSITIONS, LATENT)

    def forward(self, windows: Tensor) -> Tensor:
        """Codes of windows ``[n, 300, 6]``, each by itself."""
        hidden = self.conv1(windows.transpose(1, 2)).relu()
        hidden = self.conv3(self.conv2(hidden).relu()).relu()
        return self.code(hidden.flatten(1)).tanh()


class Decoder(nn.Module):
    """The encoder's mirror image."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Linear(LATENT, CHANNELS * POSITIONS)
        self.conv3 = nn.ConvTranspose1d(CHANNELS, 32, 5, stride=3, padding=1)
        self.conv2 = nn.ConvTranspose1d(32, 16, 5, stride=2, padding=2, output_padding=1)
        self.conv1 = nn.ConvTranspose1d(16, SAMPLE, 5, stride=2, padding=2, output_padding=1)

    def forward(self, codes: Tensor) -> Tensor:
        """Windows ``[n, 300, 6]`` (a view) from codes."""
        hidden = self.code(codes).relu().unflatten(1, (CHANNELS, POSITIONS))
        hidden = self.conv2(self.conv3(hidden).relu()).relu()
        return self.conv1(hidden).transpose(1, 2)


class Policy(nn.Module):
    """Means of the four actions, and the value off the same trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(LATENT + TARGETS, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.mean = nn.Linear(128, ACTIONS)
        self.value = nn.Linear(128, 1)

    def forward(self, codes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Means and values."""
        trunk = self.trunk(torch.cat([codes, targets], -1))
        return self.mean(trunk), self.value(trunk).squeeze(-1)


class Networks:
    """All of them, with an optimizer for the autoencoder and one for policy and value."""

    def __init__(self, *, learning_rate: float, seed: int, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder, decoder, policy = Encoder(), Decoder(), Policy()
        self.encoder, self.decoder, self.policy = encoder.to(device), decoder.to(device), policy.to(device)
        self.modules = (self.encoder, self.decoder, self.policy)
        groups = ((self.policy,), (self.encoder, self.decoder))
        self.optimizers = [
            torch.optim.Adam([p for m in group for p in m.parameters()], lr=learning_rate) for group in groups
        ]

    def zero_grad(self) -> None:
        """No gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self) -> None:
        """One step of both optimizers."""
        for optimizer in self.optimizers:
            optimizer.step()


def split(observations: Tensor) -> tuple[Tensor, Tensor]:
    """Windows ``[n, 300, 6]`` and targets of flat observations (views)."""
    width = HISTORY * SAMPLE
    return observations[..., :width].unflatten(-1, (HISTORY, SAMPLE)), observations[..., width:]


def log_prob(actions: Tensor, means: Tensor) -> Tensor:
    """Of a normal distribution with a fixed deviation."""
    return (_LOG_SCALE - (actions - means).square() / (2 * SIGMA**2)).sum(-1)
