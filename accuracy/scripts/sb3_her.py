"""SB3 with hindsight on Dict observations: a point that has to reach a goal (an environment of the script's own), or parking."""

import argparse

import gymnasium as gym
import highway_env
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DDPG, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.env_util import make_vec_env


class PointReach(gym.Env):
    """A point with inertia among noisy sensors; the reward is 0 at the goal and -1 elsewhere."""

    def __init__(self, dimensions=3, sensors=16):
        real = {"low": -np.inf, "high": np.inf, "dtype": np.float64}
        self.observation_space = spaces.Dict(
            {
                "observation": spaces.Box(shape=(2 * dimensions + sensors,), **real),
                "achieved_goal": spaces.Box(shape=(dimensions,), **real),
                "desired_goal": spaces.Box(shape=(dimensions,), **real),
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (dimensions,), np.float32)
        self.dimensions, self.sensors = dimensions, sensors

    def _seen(self):
        noise = self.np_random.normal(0, 0.01, self.sensors)
        observation = np.concatenate([self.place, self.speed, noise])
        return {"observation": observation, "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, self.dimensions))
        self.speed = np.zeros(self.dimensions)
        return self._seen(), {}

    def step(self, action):
        self.speed = 0.8 * self.speed + 0.05 * np.asarray(action, dtype=np.float64)
        self.place = np.clip(self.place + self.speed, -2, 2)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._seen(), reward, False, False, {"is_success": reward == 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.1).astype(np.float32)


gym.register("PointReach-v0", entry_point=PointReach, max_episode_steps=50)
gym.register_envs(highway_env)

parser = argparse.ArgumentParser()
parser.add_argument("--algo", choices=("sac", "td3", "ddpg"), default="sac")
parser.add_argument("--env-id", default="PointReach-v0")
parser.add_argument("--total-timesteps", type=int, default=1_000_000)
parser.add_argument("--num-envs", type=int, default=1)
parser.add_argument("--buffer-size", type=int, default=1_000_000)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--learning-starts", type=int, default=1_000)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--no-her", action="store_true", help="a plain Dict replay buffer")


def main():
    args = parser.parse_args()
    env = make_vec_env(args.env_id, n_envs=args.num_envs)
    hindsight = {
        "replay_buffer_class": HerReplayBuffer,
        "replay_buffer_kwargs": {"n_sampled_goal": 4, "goal_selection_strategy": "future"},
    }
    model = {"sac": SAC, "td3": TD3, "ddpg": DDPG}[args.algo](
        "MultiInputPolicy",
        env,
        buffer_size=args.buffer_size,
        batch_size=args.batch_size,
        learning_starts=args.learning_starts,
        learning_rate=1e-3,
        gamma=0.95,
        policy_kwargs={"net_arch": [args.hidden] * 3},
        verbose=1,
        **({} if args.no_her else hindsight),
    )
    model.learn(args.total_timesteps)


if __name__ == "__main__":
    main()
