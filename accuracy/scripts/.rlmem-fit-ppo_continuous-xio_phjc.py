"""PPO for continuous actions on MuJoCo: normalised observations and rewards, a state-independent log standard deviation."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="HalfCheetah-v5")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--num-envs", type=int, default=1)
parser.add_argument("--num-steps", type=int, default=1024)
parser.add_argument("--num-minibatches", type=int, default=32)
parser.add_argument("--update-epochs", type=int, default=10)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=3e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.2)
parser.add_argument("--vf-coef", type=float, default=0.5)
parser.add_argument("--max-grad-norm", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


def make(env_id, gamma):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.FlattenObservation(env)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = gym.wrappers.ClipAction(env)
        env = gym.wrappers.NormalizeObservation(env)
        space = gym.spaces.Box(-10, 10, env.observation_space.shape, np.float64)
        env = gym.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10), space)
        env = gym.wrappers.NormalizeReward(env, gamma=gamma)
        return gym.wrappers.TransformReward(env, lambda reward: float(np.clip(reward, -10, 10)))

    return thunk


def mlp(inputs, hidden, outputs, gain):
    layers = [nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, gain if layer is layers[-1] else np.sqrt(2))
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Agent(nn.Module):
    def __init__(self, inputs, actions, hidden):
        super().__init__()
        self.critic = mlp(inputs, hidden, 1, 1.0)
        self.mean = mlp(inputs, hidden, actions, 0.01)
        self.logstd = nn.Parameter(torch.zeros(1, actions))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def act(self, obs, action=None):
        mean = self.mean(obs)
        policy = Normal(mean, self.logstd.expand_as(mean).exp())
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action).sum(-1), policy.entropy().sum(-1), self.value(obs)


def advantages_of(rewards, values, dones, next_value, next_done, gamma, lam):
    advantages, running = torch.zeros_like(rewards), 0.0
    following, alive = next_value, 1.0 - next_done
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
        following, alive = values[t], 1.0 - dones[t]
    return advantages


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv([make(args.env_id, args.gamma) for _ in range(args.num_envs)])
    shape, action_shape = envs.single_observation_space.shape, envs.single_action_space.shape
    agent = Agent(int(np.prod(shape)), int(np.prod(action_shape)), args.hidden).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    window, size = (args.num_steps, args.num_envs), args.num_steps * args.num_envs
    obs = torch.zeros((*window, *shape), device=device)
    actions = torch.zeros((*window, *action_shape), device=device)
    logprobs, rewards, dones, values = (torch.zeros(window, device=device) for _ in range(4))
    iterations = max(1, args.total_timesteps // size)

    next_obs = torch.as_tensor(envs.reset(seed=args.seed)[0], dtype=torch.float32, device=device)
    next_done = torch.zeros(args.num_envs, device=device)
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / iterations)
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.act(next_obs)
            stepped, reward, terminated, truncated, _ = envs.step(actions[step].cpu().numpy())
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32, device=device)
            next_obs = torch.as_tensor(stepped, dtype=torch.float32, device=device)
            next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32, device=device)
        with torch.no_grad():
            last = agent.value(next_obs)
            advantages = advantages_of(rewards, values, dones, last, next_done, args.gamma, args.gae_lambda)
        returns = (advantages + values).reshape(-1)
        flat = [x.reshape(size, *x.shape[2:]) for x in (obs, actions, logprobs, advantages, values)]
        flat_obs, flat_actions, flat_logprobs, flat_advantages, flat_values = flat

        indices = np.arange(size)
        for _ in range(args.update_epochs):
            np.random.shuffle(indices)
            for begin in range(0, size, size // args.num_minibatches):
                picked = indices[begin : begin + size // args.num_minibatches]
                _, logprob, _, value = agent.act(flat_obs[picked], flat_actions[picked])
                ratio = (logprob - flat_logprobs[picked]).exp()
                advantage = flat_advantages[picked]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy_loss = torch.max(
                    -advantage * ratio, -advantage * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                ).mean()
                near = flat_values[picked] + (value - flat_values[picked]).clamp(-args.clip_coef, args.clip_coef)
                errors = torch.max((value - returns[picked]) ** 2, (near - returns[picked]) ** 2)
                loss = policy_loss + args.vf_coef * 0.5 * errors.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        print(f"iteration {iteration + 1}/{iterations}: policy {policy_loss.item():.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
