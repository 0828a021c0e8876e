"""DQN on Atari with four stacked frames a transition in a uint8 replay buffer."""

import argparse
import random

import ale_py
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional

gym.register_envs(ale_py)

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="ALE/Breakout-v5")
parser.add_argument("--total-timesteps", type=int, default=10_000_000)
parser.add_argument("--buffer-size", type=int, default=1_000_000)
parser.add_argument("--learning-starts", type=int, default=80_000)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--train-frequency", type=int, default=4)
parser.add_argument("--target-frequency", type=int, default=1000)
parser.add_argument("--share-next", action="store_true", help="keep the next frames in the same array, one row on")
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--end-epsilon", type=float, default=0.01)
parser.add_argument("--exploration-fraction", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


class FrameReplay:
    """A ring of stacked frames. With ``share_next`` row i + 1 is the next observation of row i."""

    def __init__(self, size, shape, share_next):
        self.frames = np.empty((size, *shape), dtype=np.uint8)
        self.next_frames = None if share_next else np.empty((size, *shape), dtype=np.uint8)
        self.actions = np.empty(size, dtype=np.int64)
        self.rewards = np.empty(size, dtype=np.float32)
        self.dones = np.empty(size, dtype=np.float32)
        self.size, self.at, self.full = size, 0, False

    def add(self, obs, action, reward, next_obs, done):
        self.frames[self.at] = obs
        following = (self.at + 1) % self.size
        if self.next_frames is None:
            self.frames[following] = next_obs
        else:
            self.next_frames[self.at] = next_obs
        self.actions[self.at], self.rewards[self.at], self.dones[self.at] = action, reward, done
        self.at = following
        self.full |= following == 0

    def sample(self, count, device):
        picked = np.random.randint(0, self.size if self.full else self.at, count)
        if self.next_frames is None and self.full:  # the row being written has no successor
            picked = np.where(picked == self.at, (picked + 1) % self.size, picked)
        following = self.frames[(picked + 1) % self.size] if self.next_frames is None else self.next_frames[picked]
        fields = (self.frames[picked], self.actions[picked], self.rewards[picked], following, self.dones[picked])
        return [torch.from_numpy(np.ascontiguousarray(field)).to(device) for field in fields]


class Network(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
        )  # fmt: skip

    def forward(self, frames):
        return self.layers(frames.float() / 255.0)


def make(env_id):
    env = gym.wrappers.AtariPreprocessing(gym.make(env_id, frameskip=1), terminal_on_life_loss=True)
    env = gym.wrappers.ClipReward(env, -1, 1)
    return gym.wrappers.FrameStackObservation(env, 4)


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    env = make(args.env_id)
    actions = int(env.action_space.n)
    online, target = Network(actions).to(device), Network(actions).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=args.learning_rate)
    replay = FrameReplay(args.buffer_size, env.observation_space.shape, args.share_next)

    obs, _ = env.reset(seed=args.seed)
    loss = None
    for step in range(args.total_timesteps):
        fraction = min(1.0, step / (args.exploration_fraction * args.total_timesteps))
        if random.random() < 1.0 + fraction * (args.end_epsilon - 1.0):
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(np.asarray(obs)).unsqueeze(0).to(device)).argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if step > args.learning_starts:
            if step % args.train_frequency == 0:
                b_obs, b_actions, b_rewards, b_next, b_dones = replay.sample(args.batch_size, device)
                with torch.no_grad():
                    goal = b_rewards + args.gamma * target(b_next).max(1).values * (1.0 - b_dones)
                chosen = online(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
                loss = functional.mse_loss(chosen, goal)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if step % args.target_frequency == 0:
                target.load_state_dict(online.state_dict())
        if step % 10_000 == 0:
            print(f"step {step}: loss {loss.item() if loss is not None else float('nan'):.5f}", flush=True)
    print(f"done: loss {loss.item() if loss is not None else float('nan'):.5f}", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
