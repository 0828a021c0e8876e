"""Categorical DQN (C51): a distribution over 51 returns an action, several environments at once."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--total-timesteps", type=int, default=500_000)
parser.add_argument("--num-envs", type=int, default=1)
parser.add_argument("--buffer-size", type=int, default=10_000)
parser.add_argument("--learning-starts", type=int, default=10_000)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--train-frequency", type=int, default=10)
parser.add_argument("--target-frequency", type=int, default=500)
parser.add_argument("--atoms", type=int, default=101)
parser.add_argument("--v-min", type=float, default=-100.0)
parser.add_argument("--v-max", type=float, default=100.0)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--end-epsilon", type=float, default=0.05)
parser.add_argument("--exploration-fraction", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


class Network(nn.Module):
    def __init__(self, inputs, actions, atoms, low, high):
        super().__init__()
        self.register_buffer("support", torch.linspace(low, high, atoms))
        self.actions, self.atoms = actions, atoms
        self.layers = nn.Sequential(
            nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, actions * atoms)
        )

    def forward(self, obs):
        return self.layers(obs).view(-1, self.actions, self.atoms).softmax(-1)

    def greedy(self, obs):
        masses = self(obs)
        best = (masses * self.support).sum(-1).argmax(1)
        return best, masses[torch.arange(len(obs)), best]


def project(network, rewards, dones, gamma, masses):
    """The target distribution, put back on the fixed support."""
    support, last = network.support, network.atoms - 1
    low, high = support[0], support[-1]
    moved = (rewards + gamma * support * (1 - dones)).clamp(low, high)
    place = ((moved - low) / (high - low) * last).clamp(0, last)
    lower, upper = place.floor(), place.ceil()
    share_lower = (upper + (lower == upper).float() - place) * masses
    share_upper = (place - lower) * masses
    found = torch.zeros_like(masses)
    found.scatter_add_(1, lower.long(), share_lower)
    found.scatter_add_(1, upper.long(), share_upper)
    return found


def main(args):
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make(args.env_id) for _ in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    shape, actions = envs.single_observation_space.shape, int(envs.single_action_space.n)
    sizes = (int(np.prod(shape)), actions, args.atoms, args.v_min, args.v_max)
    online, target = Network(*sizes).to(device), Network(*sizes).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=args.learning_rate, eps=0.01 / args.batch_size)

    rows = args.buffer_size // args.num_envs
    memory = {
        "obs": np.zeros((rows, args.num_envs, *shape), np.float32),
        "next": np.zeros((rows, args.num_envs, *shape), np.float32),
        "action": np.zeros((rows, args.num_envs), np.int64),
        "reward": np.zeros((rows, args.num_envs), np.float32),
        "done": np.zeros((rows, args.num_envs), np.float32),
    }
    obs, _ = envs.reset(seed=args.seed)
    loss = None
    for written, step in enumerate(range(0, args.total_timesteps, args.num_envs)):
        fraction = min(1.0, step / (args.exploration_fraction * args.total_timesteps))
        if rng.random() < 1.0 + fraction * (args.end_epsilon - 1.0):
            action = rng.integers(0, actions, args.num_envs)
        else:
            with torch.no_grad():
                action = online.greedy(torch.as_tensor(obs, dtype=torch.float32, device=device))[0].cpu().numpy()
        stepped, reward, terminated, truncated, info = envs.step(action)
        following = stepped.copy()
        for index in np.flatnonzero(terminated | truncated):
            following[index] = info["final_obs"][index]
        row = written % rows
        for key, value in zip(memory, (obs, following, action, reward, terminated)):
            memory[key][row] = value
        obs = stepped

        if step > args.learning_starts and written % args.train_frequency == 0:
            at, env = (
                rng.integers(0, min(written + 1, rows), args.batch_size),
                rng.integers(0, args.num_envs, args.batch_size),
            )
            batch = {key: torch.as_tensor(value[at, env], device=device) for key, value in memory.items()}
            with torch.no_grad():
                _, masses = target.greedy(batch["next"])
                wanted = project(target, batch["reward"][:, None], batch["done"][:, None], args.gamma, masses)
            chosen = online(batch["obs"])[torch.arange(args.batch_size), batch["action"]]
            loss = -(wanted * chosen.clamp(1e-5, 1 - 1e-5).log()).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % args.target_frequency < args.num_envs:
            target.load_state_dict(online.state_dict())
    print(f"done: loss {loss.item() if loss is not None else float('nan'):.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
