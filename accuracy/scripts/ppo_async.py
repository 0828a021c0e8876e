"""PPO with one worker process an environment (AsyncVectorEnv); rollouts in numpy arrays, one tensor a minibatch."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="LunarLander-v3")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--num-steps", type=int, default=256)
parser.add_argument("--minibatch-size", type=int, default=256)
parser.add_argument("--update-epochs", type=int, default=4)
parser.add_argument("--hidden", type=int, default=128)
parser.add_argument("--context", choices=("fork", "spawn", "forkserver"), default=None)
parser.add_argument("--learning-rate", type=float, default=3e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip-coef", type=float, default=0.2)
parser.add_argument("--ent-coef", type=float, default=0.01)
parser.add_argument("--seed", type=int, default=1)


class Maker:
    """Makes an environment in a worker; a class, so that it can be sent to a spawned one."""

    def __init__(self, env_id):
        self.env_id = env_id

    def __call__(self):
        return gym.make(self.env_id)


class Agent(nn.Module):
    def __init__(self, inputs, actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


def main(args):
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    envs = gym.vector.AsyncVectorEnv([Maker(args.env_id) for _ in range(args.num_envs)], context=args.context)
    shape = envs.single_observation_space.shape
    agent = Agent(int(np.prod(shape)), int(envs.single_action_space.n), args.hidden)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate)

    window, size = (args.num_steps, args.num_envs), args.num_steps * args.num_envs
    obs = np.zeros((*window, *shape), dtype=np.float32)
    actions = np.zeros(window, dtype=np.int64)
    logprobs, rewards, starts, values = (np.zeros(window, dtype=np.float32) for _ in range(4))

    current, _ = envs.reset(seed=args.seed)
    start = np.ones(args.num_envs, dtype=np.float32)
    for iteration in range(max(1, args.total_timesteps // size)):
        for step in range(args.num_steps):
            with torch.no_grad():
                policy, value = agent(torch.as_tensor(current, dtype=torch.float32))
                action = policy.sample()
            obs[step], starts[step], actions[step] = current, start, action.numpy()
            logprobs[step], values[step] = policy.log_prob(action).numpy(), value.numpy()
            current, rewards[step], terminated, truncated, _ = envs.step(actions[step])
            start = (terminated | truncated).astype(np.float32)

        with torch.no_grad():
            following = agent(torch.as_tensor(current, dtype=torch.float32))[1].numpy()
        advantages, running, alive = np.zeros(window, dtype=np.float32), 0.0, 1.0 - start
        for t in reversed(range(args.num_steps)):
            delta = rewards[t] + args.gamma * following * alive - values[t]
            running = delta + args.gamma * args.gae_lambda * alive * running
            advantages[t] = running
            following, alive = values[t], 1.0 - starts[t]
        returns = (advantages + values).reshape(-1)
        normal = ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).reshape(-1)

        for _ in range(args.update_epochs):
            order = rng.permutation(size)
            for begin in range(0, size, args.minibatch_size):
                picked = order[begin : begin + args.minibatch_size]
                policy, value = agent(torch.from_numpy(obs.reshape(size, *shape)[picked]))
                logprob = policy.log_prob(torch.from_numpy(actions.reshape(-1)[picked]))
                ratio = (logprob - torch.from_numpy(logprobs.reshape(-1)[picked])).exp()
                advantage = torch.from_numpy(normal[picked])
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                value_loss = (value - torch.from_numpy(returns[picked])).pow(2).mean()
                loss = -torch.min(ratio * advantage, clipped * advantage).mean() + 0.5 * value_loss
                loss = loss - args.ent_coef * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"iteration {iteration + 1}: loss {loss.item():.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
