"""SAC of Stable-Baselines3 on Humanoid, with its default buffer of a million transitions and an evaluation on the side."""

import gymnasium as gym
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

env = Monitor(gym.make("Humanoid-v5"))
eval_env = Monitor(gym.make("Humanoid-v5"))

model = SAC("MlpPolicy", env, buffer_size=1_000_000, batch_size=256, verbose=1)
model.learn(total_timesteps=3_000_000, callback=EvalCallback(eval_env, eval_freq=10_000))
model.save("sac_humanoid")
