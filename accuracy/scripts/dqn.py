"""DQN with a replay buffer of its own in preallocated numpy arrays."""

import argparse
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--total-timesteps", type=int, default=500_000)
parser.add_argument("--buffer-size", type=int, default=10_000)
parser.add_argument("--learning-starts", type=int, default=10_000)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--train-frequency", type=int, default=10)
parser.add_argument("--target-frequency", type=int, default=500)
parser.add_argument("--hidden", type=int, default=120)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--end-epsilon", type=float, default=0.05)
parser.add_argument("--exploration-fraction", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


class Replay:
    """A ring of transitions, one array a field."""

    def __init__(self, size, shape):
        self.obs = np.zeros((size, *shape), dtype=np.float32)
        self.next_obs = np.zeros((size, *shape), dtype=np.float32)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.dones = np.zeros(size, dtype=np.float32)
        self.size, self.at, self.full = size, 0, False

    def add(self, obs, action, reward, next_obs, done):
        self.obs[self.at], self.next_obs[self.at] = obs, next_obs
        self.actions[self.at], self.rewards[self.at], self.dones[self.at] = action, reward, done
        self.at = (self.at + 1) % self.size
        self.full |= self.at == 0

    def sample(self, count, device):
        picked = np.random.randint(0, self.size if self.full else self.at, count)
        fields = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.as_tensor(field[picked], device=device) for field in fields]


def network(inputs, hidden, actions):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 84), nn.ReLU(), nn.Linear(84, actions))


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    shape = env.observation_space.shape
    sizes = (int(np.prod(shape)), args.hidden, int(env.action_space.n))
    online, target = network(*sizes).to(device), network(*sizes).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=args.learning_rate)
    replay = Replay(args.buffer_size, shape)

    obs, _ = env.reset(seed=args.seed)
    loss = None
    for step in range(args.total_timesteps):
        fraction = min(1.0, step / (args.exploration_fraction * args.total_timesteps))
        if random.random() < 1.0 + fraction * (args.end_epsilon - 1.0):
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = int(online(torch.as_tensor(obs, dtype=torch.float32, device=device)).argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if step >= args.learning_starts and step % args.train_frequency == 0:
            b_obs, b_actions, b_rewards, b_next, b_dones = replay.sample(args.batch_size, device)
            with torch.no_grad():
                goal = b_rewards + args.gamma * target(b_next).max(1).values * (1.0 - b_dones)
            chosen = online(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
            loss = functional.mse_loss(chosen, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step >= args.learning_starts and step % args.target_frequency == 0:
            target.load_state_dict(online.state_dict())
        if step % 5000 == 0 and loss is not None:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    print(f"done: loss {loss.item() if loss is not None else float('nan'):.4f}", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
