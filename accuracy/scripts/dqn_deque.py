"""DQN with the simplest replay buffer there is: a deque of tuples, whose memory is thousands of small objects."""

import argparse
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="LunarLander-v3")
parser.add_argument("--total-timesteps", type=int, default=200_000)
parser.add_argument("--buffer-size", type=int, default=100_000)
parser.add_argument("--learning-starts", type=int, default=1_000)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--train-frequency", type=int, default=4)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=5e-4)
parser.add_argument("--tau", type=float, default=1e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--epsilon-decay", type=float, default=0.995)
parser.add_argument("--seed", type=int, default=0)


class QNetwork(nn.Module):
    def __init__(self, inputs, hidden, actions):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, actions)

    def forward(self, state):
        return self.out(functional.relu(self.second(functional.relu(self.first(state)))))


class Agent:
    def __init__(self, inputs, actions, args):
        self.args, self.actions = args, actions
        self.memory = deque(maxlen=args.buffer_size)
        self.local = QNetwork(inputs, args.hidden, actions)
        self.target = QNetwork(inputs, args.hidden, actions)
        self.target.load_state_dict(self.local.state_dict())
        self.optimizer = torch.optim.Adam(self.local.parameters(), lr=args.learning_rate)

    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.actions)
        with torch.no_grad():
            return int(self.local(torch.from_numpy(state).float().unsqueeze(0)).argmax())

    def learn(self):
        batch = random.sample(self.memory, self.args.batch_size)
        states, actions, rewards, following, dones = (np.array(column) for column in zip(*batch))
        states, following = torch.from_numpy(states).float(), torch.from_numpy(following).float()
        actions = torch.from_numpy(actions).long().unsqueeze(1)
        rewards, dones = torch.from_numpy(rewards).float(), torch.from_numpy(dones.astype(np.float32))
        with torch.no_grad():
            goal = rewards + self.args.gamma * self.target(following).max(1).values * (1 - dones)
        loss = functional.mse_loss(self.local(states).gather(1, actions).squeeze(1), goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for kept, new in zip(self.target.parameters(), self.local.parameters()):
            kept.data.lerp_(new.data, self.args.tau)


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    env = gym.make(args.env_id)
    agent = Agent(int(np.prod(env.observation_space.shape)), int(env.action_space.n), args)
    scores, score, epsilon = deque(maxlen=100), 0.0, 1.0
    state, _ = env.reset(seed=args.seed)
    for step in range(1, args.total_timesteps + 1):
        action = agent.act(state, epsilon)
        following, reward, terminated, truncated, _ = env.step(action)
        agent.memory.append((state, action, reward, following, terminated))
        score += float(reward)
        state = following
        if step > args.learning_starts and step % args.train_frequency == 0:
            agent.learn()
        if terminated or truncated:
            scores.append(score)
            score, epsilon = 0.0, max(0.01, epsilon * args.epsilon_decay)
            state, _ = env.reset()
        if step % 10_000 == 0:
            print(f"step {step}: mean score {np.mean(scores):.1f}, {len(agent.memory)} kept", flush=True)
    env.close()


if __name__ == "__main__":
    main(parser.parse_args())
