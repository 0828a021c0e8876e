"""PPO with an LSTM over whole environment sequences; Atari frames one at a time or vectors, states reset at episode starts."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="ALE/Breakout-v5")
parser.add_argument("--total-timesteps", type=int, default=10_000_000)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--num-steps", type=int, default=128)
parser.add_argument("--num-minibatches", type=int, default=4)
parser.add_argument("--update-epochs", type=int, default=4)
parser.add_argument("--lstm", type=int, default=128)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.1)
parser.add_argument("--ent-coef", type=float, default=0.01)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


def make(env_id):
    def thunk():
        if not env_id.startswith("ALE/"):
            return gym.make(env_id)
        import ale_py

        gym.register_envs(ale_py)
        env = gym.wrappers.AtariPreprocessing(gym.make(env_id, frameskip=1), terminal_on_life_loss=True)
        return gym.wrappers.FrameStackObservation(gym.wrappers.ClipReward(env, -1, 1), 1)

    return thunk


class Agent(nn.Module):
    def __init__(self, shape, actions, lstm):
        super().__init__()
        if len(shape) == 3:
            self.scale = 255.0
            self.features = nn.Sequential(
                nn.Conv2d(shape[0], 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
                nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(),
            )  # fmt: skip
            width = 512
        else:
            self.scale, width = 1.0, 128
            self.features = nn.Sequential(nn.Linear(int(np.prod(shape)), width), nn.ReLU())
        self.lstm = nn.LSTM(width, lstm)
        self.actor, self.critic = nn.Linear(lstm, actions), nn.Linear(lstm, 1)

    def states(self, obs, state, done):
        """Hidden states of (steps × envs) rows in time order, with the state set to zero where an episode starts."""
        envs = state[0].shape[1]
        hidden = self.features(obs / self.scale).reshape(-1, envs, self.lstm.input_size)
        done, found = done.reshape(-1, envs), []
        for row, ended in zip(hidden, done):
            keep = (1.0 - ended).view(1, -1, 1)
            out, state = self.lstm(row.unsqueeze(0), (keep * state[0], keep * state[1]))
            found.append(out)
        return torch.cat(found).flatten(0, 1), state

    def act(self, obs, state, done, action=None):
        hidden, state = self.states(obs, state, done)
        policy = Categorical(logits=self.actor(hidden))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(hidden).squeeze(-1), state


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv([make(args.env_id) for _ in range(args.num_envs)])
    shape = envs.single_observation_space.shape
    agent = Agent(shape, int(envs.single_action_space.n), args.lstm).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    window, size = (args.num_steps, args.num_envs), args.num_steps * args.num_envs
    obs = torch.zeros((*window, *shape), device=device)
    actions = torch.zeros(window, dtype=torch.long, device=device)
    logprobs, rewards, dones, values = (torch.zeros(window, device=device) for _ in range(4))
    state = tuple(torch.zeros(1, args.num_envs, args.lstm, device=device) for _ in range(2))
    envs_per_batch = args.num_envs // args.num_minibatches

    next_obs = torch.as_tensor(envs.reset(seed=args.seed)[0], dtype=torch.float32, device=device)
    next_done = torch.zeros(args.num_envs, device=device)
    for iteration in range(max(1, args.total_timesteps // size)):
        first = tuple(part.clone() for part in state)
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step], state = agent.act(next_obs, state, next_done)
            stepped, reward, terminated, truncated, _ = envs.step(actions[step].cpu().numpy())
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32, device=device)
            next_obs = torch.as_tensor(stepped, dtype=torch.float32, device=device)
            next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32, device=device)

        with torch.no_grad():
            following = agent.act(next_obs, state, next_done)[3]
            alive, running, advantages = 1.0 - next_done, 0.0, torch.zeros_like(rewards)
            for t in reversed(range(args.num_steps)):
                delta = rewards[t] + args.gamma * following * alive - values[t]
                running = delta + args.gamma * args.gae_lambda * alive * running
                advantages[t] = running
                following, alive = values[t], 1.0 - dones[t]
            returns = advantages + values

        for _ in range(args.update_epochs):
            for picked in torch.randperm(args.num_envs, device=device).split(envs_per_batch):
                rows = (x[:, picked].flatten(0, 1) for x in (obs, dones, actions, logprobs, advantages, returns))
                b_obs, b_dones, b_actions, b_logprobs, b_advantages, b_returns = rows
                begin = (first[0][:, picked], first[1][:, picked])
                _, logprob, entropy, value, _ = agent.act(b_obs, begin, b_dones, b_actions)
                ratio = (logprob - b_logprobs).exp()
                b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                loss = -torch.min(b_advantages * ratio, b_advantages * clipped).mean()
                loss = loss + 0.25 * (value - b_returns).pow(2).mean() - args.ent_coef * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"iteration {iteration + 1}: loss {loss.item():.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
