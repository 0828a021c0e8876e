"""Stable-Baselines3 PPO on HalfCheetah: rollouts of 2,048 steps in all, batches of 256, ten epochs."""

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=8)
parser.add_argument("--vec", choices=("dummy", "subproc"), default="dummy")
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--rollout", type=int, default=2048)


def main():
    args = parser.parse_args()
    kind = SubprocVecEnv if args.vec == "subproc" else DummyVecEnv
    env = make_vec_env("HalfCheetah-v5", args.envs, seed=1, vec_env_cls=kind)
    model = PPO(
        "MlpPolicy", env, n_steps=args.rollout // args.envs, batch_size=256, n_epochs=10,
        policy_kwargs={"net_arch": [256, 256]}, device="cpu", verbose=1,
    )  # fmt: skip
    model.learn(args.iterations * args.rollout)


if __name__ == "__main__":
    main()
