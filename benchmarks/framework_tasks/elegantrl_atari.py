"""ElegantRL PPO on Pong, with a network and a vectorised environment of our own.

None of ElegantRL's agents has a convolutional network, and its states are flat float32 vectors: the network folds them back
into four 84×84 frames. Its own vectorised environment (one process a game) cannot carry them: all processes write into one
pipe, where messages of more than 4 KiB run into each other. Rollouts of 1,024 steps in all, batches of 256, as many updates
as four epochs have.
"""

import argparse

import ale_py
import gymnasium as gym
import numpy as np
import torch
from elegantrl import Config, train_agent
from elegantrl.agents.AgentPPO import AgentDiscretePPO
from elegantrl.agents.net import ActorBase, CriticBase
from torch import nn

gym.register_envs(ale_py)

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=8)
parser.add_argument("--threads", type=int, default=8, help="torch's; ElegantRL's own default is 8")
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--rollout", type=int, default=1024)

FRAMES = (4, 84, 84)


def make():
    env = gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, terminal_on_life_loss=True)
    return gym.wrappers.FrameStackObservation(env, 4)


class Pong:
    """One game, for the evaluator: ``reset`` returns a flat state, ``step`` four values."""

    def __init__(self):
        self.env = make()

    def reset(self):
        return self.env.reset()[0].reshape(-1).astype(np.float32)

    def step(self, action):
        state, reward, terminated, truncated, info = self.env.step(int(action))
        return state.reshape(-1).astype(np.float32), float(reward), terminated or truncated, info


class Pongs:
    """Several games in this process: tensors in, tensors out."""

    def __init__(self, num_envs):
        self.envs = gym.vector.SyncVectorEnv([make] * num_envs)

    def reset(self):
        return self.tensor(self.envs.reset(seed=1)[0])

    def step(self, action):
        states, rewards, terminated, truncated, _ = self.envs.step(action.squeeze(1).numpy())
        rewards = torch.as_tensor(rewards, dtype=torch.float32)
        return self.tensor(states), rewards, torch.as_tensor(terminated | truncated), {}

    def tensor(self, states):
        return torch.as_tensor(states.reshape(len(states), -1), dtype=torch.float32)


def network(outputs):
    return nn.Sequential(
        nn.Unflatten(1, FRAMES),
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 512), nn.ReLU(),
        nn.Linear(512, outputs),
    )  # fmt: skip


class ConvActor(ActorBase):
    def __init__(self, dims, state_dim, action_dim):
        super().__init__(state_dim=state_dim, action_dim=action_dim)
        self.net = network(action_dim)

    def policy(self, state):
        return torch.distributions.Categorical(logits=self.net(state / 255.0))

    def forward(self, state):  # the evaluator takes the largest itself
        return self.net(state / 255.0)

    def get_action(self, state):
        policy = self.policy(state)
        action = policy.sample()
        return action.unsqueeze(1), policy.log_prob(action)  # a column, as the rollout keeps them

    def get_logprob_entropy(self, state, action):
        policy = self.policy(state)
        return policy.log_prob(action.reshape(-1)), policy.entropy()

    @staticmethod
    def convert_action_for_env(action):
        return action.long()


class ConvCritic(CriticBase):
    def __init__(self, dims, state_dim, action_dim):
        super().__init__(state_dim=state_dim, action_dim=action_dim)
        self.net = network(1)

    def forward(self, state):
        return self.net(state / 255.0).squeeze(1)


class AgentPPOAtari(AgentDiscretePPO):
    act_class, cri_class = ConvActor, ConvCritic


def main():
    options = parser.parse_args()
    one = {"env_name": "Pong", "state_dim": int(np.prod(FRAMES)), "action_dim": 6, "if_discrete": True, "max_step": 200}
    args = Config(AgentPPOAtari, Pongs, {**one, "num_envs": options.envs})
    args.eval_env_class, args.eval_env_args = Pong, {**one, "num_envs": 1}
    args.horizon_len = options.rollout // options.envs
    args.batch_size = 256
    args.repeat_times = 4 * options.envs  # counted for one environment, however many there are
    args.num_threads = options.threads
    args.gpu_id = -1
    args.eval_times = 1
    args.break_step = args.horizon_len * (options.iterations - 1)
    train_agent(args)


if __name__ == "__main__":
    main()
