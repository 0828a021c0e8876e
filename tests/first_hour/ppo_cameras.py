"""PPO of Stable-Baselines3 on a robot with two cameras, in worker processes; sizes come from a YAML file."""

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np
import yaml
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv


class TwoCameras(gym.Env):
    """A robot that looks at a moving ball with two cameras."""

    def __init__(self, size=84):
        self.size = size
        camera = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.observation_space = spaces.Dict(
            {"front": camera, "wrist": camera, "joints": spaces.Box(-np.inf, np.inf, (14,), np.float32)}
        )
        self.action_space = spaces.Box(-1, 1, (7,), np.float32)

    def _observe(self):
        image = np.full((self.size, self.size, 3), 30, np.uint8)
        x, y = self.ball.astype(int)
        image[y : y + 8, x : x + 8] = (250, 120, 0)
        joints = self.np_random.standard_normal(14).astype(np.float32)
        return {"front": image, "wrist": image[::-1, ::-1].copy(), "joints": joints}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.ball = 0, self.np_random.uniform(0, self.size - 8, 2)
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        self.ball = np.clip(self.ball + 3 * action[:2], 0, self.size - 8)
        reward = -float(np.abs(self.ball - self.size / 2).sum())
        return self._observe(), reward, False, self.t >= 200, {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True, help="YAML file with the sizes")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps to train for")
    args = parser.parse_args()
    cfg = yaml.safe_load(Path(args.config).read_text())

    env = make_vec_env(TwoCameras, n_envs=cfg["workers"], env_kwargs={"size": cfg["camera"]}, vec_env_cls=SubprocVecEnv)
    model = PPO("MultiInputPolicy", env, n_steps=cfg["rollout"], batch_size=cfg["batch"], n_epochs=2, verbose=1)
    model.learn(total_timesteps=args.steps)
    model.save("ppo_cameras")
