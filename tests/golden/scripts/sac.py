"""SAC of Stable-Baselines3 with its buffer of a million rows: it fits."""

import argparse

from stable_baselines3 import SAC

parser = argparse.ArgumentParser()
parser.add_argument("--buffer-size", type=int, default=1_000_000)
args = parser.parse_args()

model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=args.buffer_size, batch_size=512)
model.learn(2_000_000)
