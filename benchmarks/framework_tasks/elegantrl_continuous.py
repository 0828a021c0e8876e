"""ElegantRL PPO on HalfCheetah: rollouts of 2,048 steps in all, batches of 256, as many updates as ten epochs have.

Environments are processes (``--envs``), or workers are, each with an environment and an actor of its own (``--workers``).
"""

import argparse

import gymnasium as gym
import numpy as np
from elegantrl import Config, train_agent, train_agent_multiprocessing
from elegantrl.agents.AgentPPO import AgentPPO

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=8)
parser.add_argument("--workers", type=int, default=0, help="with one environment each, instead of --envs")
parser.add_argument("--threads", type=int, default=8, help="torch's; ElegantRL's own default is 8")
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--rollout", type=int, default=2048)


class HalfCheetah:
    """The interface ElegantRL knows: ``reset`` returns a state, ``step`` four values."""

    def __init__(self):
        self.env = gym.make("HalfCheetah-v5")

    def reset(self):
        return self.env.reset()[0].astype(np.float32)

    def step(self, action):
        state, reward, terminated, truncated, info = self.env.step(action)
        return state.astype(np.float32), reward, terminated or truncated, info


class AgentPPOWorkers(AgentPPO):
    """ElegantRL 0.3.6 with workers wants a log probability for each part of an action; its PPO makes one for the whole."""

    def explore_one_env(self, env, horizon_len, if_random=False):
        states, actions, logprobs, rewards, undones = super().explore_one_env(env, horizon_len, if_random)
        return states, actions, logprobs.unsqueeze(2).expand(-1, -1, self.action_dim).contiguous(), rewards, undones

    def update_net(self, buffer):
        states, actions, logprobs, rewards, undones = buffer
        return super().update_net((states, actions, logprobs[:, :, 0], rewards, undones.float()))


def main():
    options = parser.parse_args()
    one = {"env_name": "HalfCheetah-v5", "state_dim": 17, "action_dim": 6, "if_discrete": False, "max_step": 1000}
    many = {**one, "num_envs": options.envs, "if_build_vec_env": options.envs > 1}
    count = options.workers or options.envs
    if options.workers:
        args = Config(AgentPPOWorkers, HalfCheetah, {**one, "num_envs": 1})
    else:
        args = Config(AgentPPO, HalfCheetah, many)
        args.eval_env_class, args.eval_env_args = HalfCheetah, {**one, "num_envs": 1}
    args.net_dims = (256, 256)
    args.horizon_len = options.rollout // count
    args.batch_size = 256
    args.repeat_times = 10 * count  # counted for one environment, however many there are
    args.num_threads = options.threads
    args.gpu_id = -1
    args.eval_times = 1
    if options.workers:
        args.num_workers = options.workers
        args.break_step = args.horizon_len * options.workers * (options.iterations - 1)
        train_agent_multiprocessing(args)
    else:
        args.break_step = args.horizon_len * (options.iterations - 1)
        train_agent(args)


if __name__ == "__main__":
    main()
