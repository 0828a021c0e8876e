"""PPO for discrete actions: one file, its own loop, rollouts in preallocated torch tensors."""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--total-timesteps", type=int, default=500_000)
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--num-steps", type=int, default=128)
parser.add_argument("--num-minibatches", type=int, default=4)
parser.add_argument("--update-epochs", type=int, default=4)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.2)
parser.add_argument("--ent-coef", type=float, default=0.01)
parser.add_argument("--vf-coef", type=float, default=0.5)
parser.add_argument("--max-grad-norm", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


def orthogonal(layer, gain=2**0.5):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, inputs, actions, hidden):
        super().__init__()
        self.critic = nn.Sequential(
            orthogonal(nn.Linear(inputs, hidden)), nn.Tanh(), orthogonal(nn.Linear(hidden, hidden)), nn.Tanh(),
            orthogonal(nn.Linear(hidden, 1), 1.0),
        )  # fmt: skip
        self.actor = nn.Sequential(
            orthogonal(nn.Linear(inputs, hidden)), nn.Tanh(), orthogonal(nn.Linear(hidden, hidden)), nn.Tanh(),
            orthogonal(nn.Linear(hidden, actions), 0.01),
        )  # fmt: skip

    def act(self, obs, action=None):
        policy = Categorical(logits=self.actor(obs))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(obs).squeeze(-1)


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for _ in range(args.num_envs)])
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
    shape = envs.single_observation_space.shape
    agent = Agent(int(np.prod(shape)), int(envs.single_action_space.n), args.hidden).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    window = (args.num_steps, args.num_envs)
    obs = torch.zeros((*window, *shape), device=device)
    actions = torch.zeros(window, dtype=torch.long, device=device)
    logprobs, rewards, dones, values = (torch.zeros(window, device=device) for _ in range(4))
    batch_size = args.num_steps * args.num_envs
    minibatch = batch_size // args.num_minibatches

    start, returns_seen = time.time(), []
    next_obs, _ = envs.reset(seed=args.seed)
    next_obs = torch.as_tensor(next_obs, dtype=torch.float32, device=device)
    next_done = torch.zeros(args.num_envs, device=device)
    for iteration in range(max(1, args.total_timesteps // batch_size)):
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.act(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value
            stepped, reward, terminated, truncated, info = envs.step(action.cpu().numpy())
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32, device=device)
            next_obs = torch.as_tensor(stepped, dtype=torch.float32, device=device)
            next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32, device=device)
            if "episode" in info:
                returns_seen += info["episode"]["r"][info["_episode"]].tolist()

        with torch.no_grad():
            following, advantages, running = agent.critic(next_obs).squeeze(-1), torch.zeros_like(rewards), 0.0
            alive = 1.0 - next_done
            for t in reversed(range(args.num_steps)):
                delta = rewards[t] + args.gamma * following * alive - values[t]
                running = delta + args.gamma * args.gae_lambda * alive * running
                advantages[t] = running
                following, alive = values[t], 1.0 - dones[t]
            returns = advantages + values

        flat_obs, flat_actions = obs.reshape(-1, *shape), actions.reshape(-1)
        flat_logprobs, flat_advantages = logprobs.reshape(-1), advantages.reshape(-1)
        flat_returns = returns.reshape(-1)
        for _ in range(args.update_epochs):
            order = torch.randperm(batch_size, device=device)
            for picked in order.split(minibatch):
                _, logprob, entropy, value = agent.act(flat_obs[picked], flat_actions[picked])
                ratio = (logprob - flat_logprobs[picked]).exp()
                advantage = flat_advantages[picked]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = 0.5 * (value - flat_returns[picked]).pow(2).mean()
                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        speed = int((iteration + 1) * batch_size / (time.time() - start))
        mean = np.mean(returns_seen[-20:]) if returns_seen else float("nan")
        print(f"iteration {iteration + 1}: loss {loss.item():.3f}, return {mean:.1f}, {speed} steps/s", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
