"""SAC with a tuned entropy coefficient; observations are kept in the environment's own dtype (float64 on MuJoCo)."""

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="Hopper-v5")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--num-envs", type=int, default=1)
parser.add_argument("--buffer-size", type=int, default=1_000_000)
parser.add_argument("--learning-starts", type=int, default=5_000)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--policy-lr", type=float, default=3e-4)
parser.add_argument("--q-lr", type=float, default=1e-3)
parser.add_argument("--policy-frequency", type=int, default=2)
parser.add_argument("--tau", type=float, default=0.005)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


class SoftQ(nn.Module):
    def __init__(self, inputs, actions, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs + actions, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, obs, action):
        return self.layers(torch.cat([obs, action], 1))


class Actor(nn.Module):
    def __init__(self, inputs, space, hidden):
        super().__init__()
        actions = int(np.prod(space.shape))
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mean, self.logstd = nn.Linear(hidden, actions), nn.Linear(hidden, actions)
        self.register_buffer("scale", torch.as_tensor((space.high - space.low) / 2, dtype=torch.float32))
        self.register_buffer("bias", torch.as_tensor((space.high + space.low) / 2, dtype=torch.float32))

    def forward(self, obs):
        hidden = self.body(obs)
        mean, logstd = self.mean(hidden), self.logstd(hidden).tanh()
        policy = Normal(mean, (-5 + 3.5 * (logstd + 1)).exp())  # log standard deviation between -5 and 2
        raw = policy.rsample()
        squashed = raw.tanh()
        logprob = policy.log_prob(raw) - (self.scale * (1 - squashed.pow(2)) + 1e-6).log()
        return squashed * self.scale + self.bias, logprob.sum(1, keepdim=True)


def main(args):
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make(args.env_id) for _ in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    obs_space, space = envs.single_observation_space, envs.single_action_space
    inputs, actions = int(np.prod(obs_space.shape)), int(np.prod(space.shape))
    actor = Actor(inputs, space, args.hidden).to(device)
    first, second = (SoftQ(inputs, actions, args.hidden).to(device) for _ in range(2))
    first_target, second_target = copy.deepcopy(first), copy.deepcopy(second)
    q_optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=args.q_lr)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.policy_lr)
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=args.q_lr)

    rows = max(args.buffer_size // args.num_envs, 1)
    kept_obs = np.zeros((rows, args.num_envs, *obs_space.shape), dtype=obs_space.dtype)
    kept_next = np.zeros_like(kept_obs)
    kept_actions = np.zeros((rows, args.num_envs, actions), dtype=np.float32)
    kept_rewards = np.zeros((rows, args.num_envs), dtype=np.float32)
    kept_ends = np.zeros((rows, args.num_envs), dtype=np.float32)

    obs, _ = envs.reset(seed=args.seed)
    q_loss = None
    for row, step in enumerate(range(0, args.total_timesteps, args.num_envs)):
        if step < args.learning_starts:
            action = np.stack([space.sample() for _ in range(args.num_envs)])
        else:
            with torch.no_grad():
                action = actor(torch.as_tensor(obs, dtype=torch.float32, device=device))[0].cpu().numpy()
        stepped, reward, terminated, truncated, info = envs.step(action)
        following = stepped.copy()
        for index in np.flatnonzero(terminated | truncated):
            following[index] = info["final_obs"][index]
        at = row % rows
        kept_obs[at], kept_next[at], kept_actions[at] = obs, following, action
        kept_rewards[at], kept_ends[at] = reward, terminated
        obs = stepped
        if step <= args.learning_starts:
            continue

        picked = rng.integers(0, min(row + 1, rows), args.batch_size), rng.integers(0, args.num_envs, args.batch_size)
        batch = (kept_obs, kept_next, kept_actions, kept_rewards, kept_ends)
        parts = (torch.as_tensor(part[picked], device=device).float() for part in batch)
        b_obs, b_next, b_actions, b_rewards, b_ends = parts
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_logprob = actor(b_next)
            least = torch.min(first_target(b_next, next_action), second_target(b_next, next_action))
            goal = b_rewards + (1 - b_ends) * args.gamma * (least - alpha * next_logprob).view(-1)
        q_loss = functional.mse_loss(first(b_obs, b_actions).view(-1), goal)
        q_loss = q_loss + functional.mse_loss(second(b_obs, b_actions).view(-1), goal)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        if row % args.policy_frequency == 0:
            for _ in range(args.policy_frequency):  # as many updates as were left out
                new_action, logprob = actor(b_obs)
                value = torch.min(first(b_obs, new_action), second(b_obs, new_action))
                actor_loss = (alpha * logprob - value).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                alpha_loss = -(log_alpha.exp() * (logprob.detach() - actions)).mean()
                alpha_optimizer.zero_grad()
                alpha_loss.backward()
                alpha_optimizer.step()
        with torch.no_grad():
            for target, online in ((first_target, first), (second_target, second)):
                for kept, new in zip(target.parameters(), online.parameters()):
                    kept.lerp_(new, args.tau)
    print(f"done: q loss {q_loss.item() if q_loss is not None else float('nan'):.4f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
