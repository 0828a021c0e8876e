"""TD3: twin critics, delayed policy updates, smoothed targets; the replay buffer is a set of torch tensors."""

import argparse
import copy

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
parser.add_argument("--policy-noise", type=float, default=0.2)
parser.add_argument("--noise-clip", type=float, default=0.5)
parser.add_argument("--exploration-noise", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--device", default="cpu")


def mlp(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class TensorReplay:
    """Tensors of fixed size on one device; filled row by row."""

    def __init__(self, size, inputs, actions, device):
        self.states = torch.zeros(size, inputs, device=device)
        self.following = torch.zeros(size, inputs, device=device)
        self.actions = torch.zeros(size, actions, device=device)
        self.rewards = torch.zeros(size, device=device)
        self.ends = torch.zeros(size, device=device)
        self.size, self.count = size, 0

    def add(self, state, action, reward, following, end):
        at = self.count % self.size
        self.states[at] = torch.as_tensor(state, dtype=torch.float32)
        self.following[at] = torch.as_tensor(following, dtype=torch.float32)
        self.actions[at] = torch.as_tensor(action, dtype=torch.float32)
        self.rewards[at], self.ends[at] = float(reward), float(end)
        self.count += 1

    def sample(self, count):
        picked = torch.randint(0, min(self.count, self.size), (count,), device=self.states.device)
        return tuple(x[picked] for x in (self.states, self.actions, self.rewards, self.following, self.ends))


def main(args):
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    env = gym.make(args.env_id)
    inputs, actions = int(np.prod(env.observation_space.shape)), int(np.prod(env.action_space.shape))
    limit = torch.as_tensor(env.action_space.high, dtype=torch.float32, device=device)
    actor = nn.Sequential(mlp(inputs, args.hidden, actions), nn.Tanh()).to(device)
    critics = nn.ModuleList([mlp(inputs + actions, args.hidden, 1) for _ in range(2)]).to(device)
    actor_target, critics_target = copy.deepcopy(actor), copy.deepcopy(critics)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.learning_rate)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=args.learning_rate)
    replay = TensorReplay(args.buffer_size, inputs, actions, device)

    state, _ = env.reset(seed=args.seed)
    critic_loss = None
    for step in range(args.total_timesteps):
        if step < args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                mean = actor(torch.as_tensor(state, dtype=torch.float32, device=device)) * limit
                action = mean + torch.randn_like(mean) * args.exploration_noise * limit
            action = action.clamp(-limit, limit).cpu().numpy()
        following, reward, terminated, truncated, _ = env.step(action)
        replay.add(state, action, reward, following, terminated)
        state = following
        if terminated or truncated:
            state, _ = env.reset()
        if step <= args.learning_starts:
            continue

        states, taken, rewards, nexts, ends = replay.sample(args.batch_size)
        with torch.no_grad():
            noise = (torch.randn_like(taken) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip) * limit
            smoothed = (actor_target(nexts) * limit + noise).clamp(-limit, limit)
            joined = torch.cat([nexts, smoothed], 1)
            least = torch.min(*(critic(joined) for critic in critics_target)).squeeze(-1)
            goal = rewards + (1 - ends) * args.gamma * least
        joined = torch.cat([states, taken], 1)
        critic_loss = sum(functional.mse_loss(critic(joined).squeeze(-1), goal) for critic in critics)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        if step % args.policy_frequency == 0:
            actor_loss = -critics[0](torch.cat([states, actor(states) * limit], 1)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for target, online in ((actor_target, actor), (critics_target, critics)):
                    for kept, new in zip(target.parameters(), online.parameters()):
                        kept.mul_(1 - args.tau).add_(new, alpha=args.tau)
        if step % 10_000 == 0:
            print(f"step {step}: critic loss {critic_loss.item():.4f}", flush=True)
    print(f"done: critic loss {critic_loss.item() if critic_loss is not None else float('nan'):.4f}", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
