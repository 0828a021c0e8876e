"""PPO in one file whose observations are sliding windows over a stream, with ``rlmem.buffers.WindowRollout`` as its rollout.

Every agent watches a wave of its own through a noisy sensor, four samples a step, and says where the wave is now. One
sample says little; the last forty say a lot. An episode ends when the agent has lost its wave, or by chance.

pip install rlmem torch
python docs/examples/window_ppo.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlmem.buffers import WindowRollout

AGENTS, STEPS, ITERATIONS, EPOCHS, MINIBATCH = 256, 64, 30, 4, 2048
HISTORY, NEW = 40, 4  # samples in a window, and samples a step
NOISE, GAMMA, LAMBDA, CLIP, SEED = 0.5, 0.9, 0.95, 0.2, 1


class Waves:
    """One wave an agent; ``step`` returns the samples, the rewards and who ended."""

    def __init__(self, agents: int) -> None:
        self.size, self.speed, self.phase = torch.ones(agents), torch.ones(agents), torch.zeros(agents)
        self.restart(torch.ones(agents, dtype=torch.bool))

    def restart(self, who: Tensor) -> None:
        """A new wave for some."""
        fresh = torch.rand(3, len(who))
        for value, low, high, draw in ((self.size, 0.5, 1.5, fresh[0]), (self.speed, 0.02, 0.1, fresh[1])):
            value[who] = (low + (high - low) * draw)[who]
        self.phase[who] = (6.283 * fresh[2])[who]

    def read(self) -> Tensor:
        """The sensor, ``[agents, 1 value]``."""
        return (self.size * self.phase.sin() + NOISE * torch.randn(len(self.phase)))[:, None]

    def step(self, said: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Judge what was said, then let the waves move on."""
        off = said - self.size * self.phase.sin()
        rewards = (-4 * off.square()).exp()
        samples = []
        for _ in range(NEW):
            self.phase += self.speed
            samples.append(self.read())
        ended = (off.abs() > 3) | (torch.rand(len(off)) < 0.02)
        self.restart(ended)
        samples[-1] = torch.where(ended[:, None], self.read(), samples[-1])  # the first of the new episode
        return torch.stack(samples, 1), rewards, ended


class Agent(nn.Module):
    """Mean and value from a window, and a deviation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean, self.value = nn.Linear(64, 1), nn.Linear(64, 1)
        self.log_deviation = nn.Parameter(torch.tensor(-0.7))

    def forward(self, windows: Tensor) -> tuple[torch.distributions.Normal, Tensor]:
        """What to say, and what it is worth."""
        trunk = self.trunk(windows)
        mean = self.mean(trunk)[:, 0]
        return torch.distributions.Normal(mean, self.log_deviation.exp().expand_as(mean)), self.value(trunk)[:, 0]


def collect(env: Waves, agent: Agent, store: WindowRollout, by_hand: Tensor) -> list[Tensor]:
    """One rollout into the store. ``by_hand`` are windows shifted without it, for the check; returns those of all steps."""
    seen = []
    for _ in range(STEPS):
        window = store.observe()
        seen.append(by_hand)
        with torch.no_grad():
            saying, value = agent(window)
            said = saying.sample()
        samples, rewards, ended = env.step(said)
        store.append(
            samples,
            ended=ended,
            actions=said,
            log_probs=saying.log_prob(said),
            rewards=rewards,
            values=value,
            ends=ended.float(),
        )
        by_hand = torch.cat([by_hand[:, NEW:], samples[..., 0]], 1)
        by_hand = torch.where(ended[:, None], samples[:, -1], by_hand)  # a new episode: its first sample everywhere
    return [*seen, by_hand]


def advantages(store: WindowRollout, agent: Agent) -> Tensor:
    """Generalised advantages; what comes after the last step is read from the window after it."""
    with torch.no_grad():
        after = agent(store.observe())[1]
    values, rewards, ends = (store.field(name) for name in ("values", "rewards", "ends"))
    out, gain = torch.zeros_like(values), torch.zeros(AGENTS)
    for step in reversed(range(STEPS)):
        goes_on = 1 - ends[:, step]
        gain = rewards[:, step] + GAMMA * after * goes_on - values[:, step] + GAMMA * LAMBDA * goes_on * gain
        out[:, step], after = gain, values[:, step]
    return out


def learn(agent: Agent, optimizer: torch.optim.Optimizer, store: WindowRollout) -> None:
    """PPO; every minibatch draws its own pairs, so that nothing of the size of the rollout is shuffled or copied."""
    gains = advantages(store, agent)
    mean, deviation = gains.mean(), gains.std()
    for _ in range(EPOCHS * AGENTS * STEPS // MINIBATCH):
        who, when = torch.randint(AGENTS, (MINIBATCH,)), torch.randint(STEPS, (MINIBATCH,))
        saying, value = agent(store.gather(who, when))  # windows are cut out here, and only these
        ratio = (saying.log_prob(store.field("actions")[who, when]) - store.field("log_probs")[who, when]).exp()
        gain = (gains[who, when] - mean) / (deviation + 1e-8)
        policy = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
        aim = gains[who, when] + store.field("values")[who, when]
        loss = policy + 0.5 * (value - aim).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    """Collect and learn."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    env, agent = Waves(AGENTS), Agent(HISTORY)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    names = ("actions", "log_probs", "rewards", "values", "ends")
    store = WindowRollout(
        AGENTS, STEPS, history=HISTORY, sample=1, new=NEW, on_reset="edge", first=1, fields=dict.fromkeys(names, ())
    )
    first = env.read()
    store.reset(first[:, None])
    seen, rewards = [first.expand(-1, HISTORY)], []
    for iteration in range(ITERATIONS):
        if iteration:
            store.begin()  # the end of the last rollout becomes the history before this one
        seen = collect(env, agent, store, seen[-1])
        everything = store.gather(slice(None), slice(0, STEPS + 1))
        assert torch.equal(everything, torch.stack(seen, 1)), "the store must return what whole windows would have held"
        learn(agent, optimizer, store)
        rewards.append(float(store.field("rewards").mean()))
        if iteration % 10 == 0:
            print(f"iteration {iteration}: mean reward {rewards[-1]:.3f}")
    print(f"mean reward of the first rollout {rewards[0]:.3f}, of the last five {sum(rewards[-5:]) / 5:.3f}")
    print(f"{store.nbytes:,} bytes stored; whole windows would take {store.materialised_nbytes:,}")


if __name__ == "__main__":
    main()
