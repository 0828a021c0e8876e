"""SB3 PPO or A2C with one process an environment (SubprocVecEnv), vectors or stacked frames."""

import argparse

import ale_py
import gymnasium as gym
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

gym.register_envs(ale_py)

parser = argparse.ArgumentParser()
parser.add_argument("--algo", choices=("ppo", "a2c"), default="ppo")
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--num-steps", type=int, default=256)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default=None)


def main():
    args = parser.parse_args()
    workers = {"start_method": args.start_method} if args.start_method else {}
    if args.env_id.startswith("ALE/"):
        env = make_atari_env(
            args.env_id, args.num_envs, seed=1, vec_env_cls=SubprocVecEnv, vec_env_kwargs=workers,
            env_kwargs={"frameskip": 1, "repeat_action_probability": 0.0},
        )  # fmt: skip
        env, policy = VecFrameStack(env, 4), "CnnPolicy"
    else:
        env = make_vec_env(args.env_id, args.num_envs, seed=1, vec_env_cls=SubprocVecEnv, vec_env_kwargs=workers)
        policy = "MlpPolicy"
    if args.algo == "ppo":
        model = PPO(policy, env, n_steps=args.num_steps, batch_size=args.batch_size, verbose=1)
    else:
        model = A2C(policy, env, n_steps=args.num_steps, verbose=1)
    model.learn(args.total_timesteps)


if __name__ == "__main__":
    main()
