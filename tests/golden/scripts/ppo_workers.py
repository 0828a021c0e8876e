"""PPO of Stable-Baselines3 with environments in processes of their own."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

if __name__ == "__main__":
    envs = make_vec_env("CartPole-v1", n_envs=8, vec_env_cls=SubprocVecEnv)
    PPO("MlpPolicy", envs, n_steps=1024, batch_size=64).learn(1_000_000)
