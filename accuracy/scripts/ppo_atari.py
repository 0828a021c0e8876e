"""PPO on Atari frames: four stacked 84×84 frames, stored as float32 (as most single-file scripts do) or as uint8."""

import argparse

import ale_py
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

gym.register_envs(ale_py)

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="ALE/Breakout-v5")
parser.add_argument("--total-timesteps", type=int, default=10_000_000)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--num-steps", type=int, default=128)
parser.add_argument("--num-minibatches", type=int, default=4)
parser.add_argument("--update-epochs", type=int, default=4)
parser.add_argument("--store", choices=("float32", "uint8"), default="float32")
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.1)
parser.add_argument("--ent-coef", type=float, default=0.01)
parser.add_argument("--vf-coef", type=float, default=0.5)
parser.add_argument("--max-grad-norm", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


def make(env_id):
    def thunk():
        env = gym.make(env_id, frameskip=1)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, terminal_on_life_loss=True)
        env = gym.wrappers.ClipReward(env, -1, 1)
        return gym.wrappers.FrameStackObservation(env, 4)

    return thunk


def orthogonal(layer, gain=2**0.5):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.network = nn.Sequential(
            orthogonal(nn.Conv2d(4, 32, 8, stride=4)), nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 4, stride=2)), nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3, stride=1)), nn.ReLU(),
            nn.Flatten(),
            orthogonal(nn.Linear(64 * 7 * 7, 512)), nn.ReLU(),
        )  # fmt: skip
        self.actor = orthogonal(nn.Linear(512, actions), 0.01)
        self.critic = orthogonal(nn.Linear(512, 1), 1.0)

    def value(self, frames):
        return self.critic(self.network(frames / 255.0)).squeeze(-1)

    def act(self, frames, action=None):
        hidden = self.network(frames / 255.0)
        policy = Categorical(logits=self.actor(hidden))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(hidden).squeeze(-1)


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv([make(args.env_id) for _ in range(args.num_envs)])
    shape = envs.single_observation_space.shape
    agent = Agent(int(envs.single_action_space.n)).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    dtype = getattr(torch, args.store)

    window, size = (args.num_steps, args.num_envs), args.num_steps * args.num_envs
    obs = torch.zeros((*window, *shape), dtype=dtype, device=device)
    actions = torch.zeros(window, dtype=torch.long, device=device)
    logprobs, rewards, dones, values = (torch.zeros(window, device=device) for _ in range(4))

    next_obs = torch.as_tensor(envs.reset(seed=args.seed)[0], device=device).to(dtype)
    next_done = torch.zeros(args.num_envs, device=device)
    for iteration in range(max(1, args.total_timesteps // size)):
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.act(next_obs)
            stepped, reward, terminated, truncated, _ = envs.step(actions[step].cpu().numpy())
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32, device=device)
            next_obs = torch.as_tensor(stepped, device=device).to(dtype)
            next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32, device=device)

        with torch.no_grad():
            following, alive, running = agent.value(next_obs), 1.0 - next_done, 0.0
            advantages = torch.zeros_like(rewards)
            for t in reversed(range(args.num_steps)):
                delta = rewards[t] + args.gamma * following * alive - values[t]
                running = delta + args.gamma * args.gae_lambda * alive * running
                advantages[t] = running
                following, alive = values[t], 1.0 - dones[t]
            returns = (advantages + values).reshape(-1)
        frames, flat_actions = obs.reshape(size, *shape), actions.reshape(-1)
        flat_logprobs, flat_advantages = logprobs.reshape(-1), advantages.reshape(-1)

        for _ in range(args.update_epochs):
            for picked in torch.randperm(size, device=device).split(size // args.num_minibatches):
                _, logprob, entropy, value = agent.act(frames[picked], flat_actions[picked])
                ratio = (logprob - flat_logprobs[picked]).exp()
                advantage = flat_advantages[picked]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = 0.5 * (value - returns[picked]).pow(2).mean()
                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        print(f"iteration {iteration + 1}: loss {loss.item():.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
