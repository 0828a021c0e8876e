"""DDPG: a deterministic actor, one critic, Gaussian exploration; a float32 replay buffer."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="Hopper-v5")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--buffer-size", type=int, default=1_000_000)
parser.add_argument("--learning-starts", type=int, default=25_000)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--policy-frequency", type=int, default=2)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--learning-rate", type=float, default=3e-4)
parser.add_argument("--tau", type=float, default=0.005)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--noise", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


class Critic(nn.Module):
    def __init__(self, inputs, actions, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs + actions, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, obs, action):
        return self.layers(torch.cat([obs, action], 1)).squeeze(-1)


class Actor(nn.Module):
    def __init__(self, inputs, space, hidden):
        super().__init__()
        actions = int(np.prod(space.shape))
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, actions)
        )
        self.register_buffer("scale", torch.as_tensor((space.high - space.low) / 2, dtype=torch.float32))
        self.register_buffer("bias", torch.as_tensor((space.high + space.low) / 2, dtype=torch.float32))

    def forward(self, obs):
        return torch.tanh(self.layers(obs)) * self.scale + self.bias


def follow(target, online, tau):
    with torch.no_grad():
        for kept, new in zip(target.parameters(), online.parameters()):
            kept.lerp_(new, tau)


def main(args):
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    space, inputs = env.action_space, int(np.prod(env.observation_space.shape))
    actions = int(np.prod(space.shape))
    actor, actor_target = (Actor(inputs, space, args.hidden).to(device) for _ in range(2))
    critic, critic_target = (Critic(inputs, actions, args.hidden).to(device) for _ in range(2))
    actor_target.load_state_dict(actor.state_dict())
    critic_target.load_state_dict(critic.state_dict())
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.learning_rate)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=args.learning_rate)

    size = args.buffer_size
    observations = np.zeros((size, inputs), dtype=np.float32)
    following = np.zeros((size, inputs), dtype=np.float32)
    taken = np.zeros((size, actions), dtype=np.float32)
    rewards, ends = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32)

    obs, _ = env.reset(seed=args.seed)
    critic_loss = None
    for step in range(args.total_timesteps):
        if step < args.learning_starts:
            action = space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.as_tensor(obs, dtype=torch.float32, device=device)).cpu().numpy()
            action = (action + np.random.normal(0, args.noise, actions) * actor.scale.cpu().numpy()).clip(
                space.low, space.high
            )
        next_obs, reward, terminated, truncated, _ = env.step(action)
        at = step % size
        observations[at], following[at], taken[at] = obs, next_obs, action
        rewards[at], ends[at] = reward, terminated
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if step > args.learning_starts:
            picked = np.random.randint(0, min(step + 1, size), args.batch_size)
            batch = (observations[picked], taken[picked], rewards[picked], following[picked], ends[picked])
            b_obs, b_actions, b_rewards, b_next, b_ends = (torch.as_tensor(part, device=device) for part in batch)
            with torch.no_grad():
                goal = b_rewards + (1 - b_ends) * args.gamma * critic_target(b_next, actor_target(b_next))
            critic_loss = functional.mse_loss(critic(b_obs, b_actions), goal)
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
            if step % args.policy_frequency == 0:
                actor_loss = -critic(b_obs, actor(b_obs)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                follow(actor_target, actor, args.tau)
                follow(critic_target, critic, args.tau)
        if step % 10_000 == 0:
            print(f"step {step}", flush=True)
    print(f"done: critic loss {critic_loss.item() if critic_loss is not None else float('nan'):.4f}", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
