"""Stable-Baselines3 PPO on Pong: stacks of four 84×84 frames, rollouts of 1,024 steps in all, batches of 256, four epochs."""

import argparse

import ale_py
import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

gym.register_envs(ale_py)

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=8)
parser.add_argument("--vec", choices=("dummy", "subproc"), default="dummy")
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--rollout", type=int, default=1024)


def main():
    args = parser.parse_args()
    kind = SubprocVecEnv if args.vec == "subproc" else DummyVecEnv
    settings = {"frameskip": 1, "repeat_action_probability": 0.0}
    env = make_atari_env("ALE/Pong-v5", args.envs, seed=1, vec_env_cls=kind, env_kwargs=settings)
    env = VecFrameStack(env, 4)
    model = PPO(
        "CnnPolicy", env, n_steps=args.rollout // args.envs, batch_size=256, n_epochs=4,
        device="cpu", verbose=1,
    )  # fmt: skip
    model.learn(args.iterations * args.rollout)


if __name__ == "__main__":
    main()
