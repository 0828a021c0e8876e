"""Leaks: every episode's infos are kept in a list for a plot that is never drawn."""

import time


class Trainer:
    def __init__(self):
        self.episode_infos = []

    def episode(self, number):
        rewards = [float(step + number) for step in range(200)]
        self.episode_infos.append(
            {"episode": {"r": sum(rewards), "l": len(rewards), "t": time.time()}, "rewards": rewards}
        )


trainer = Trainer()
print("ready", flush=True)
number = 0
while True:
    for _ in range(4):
        trainer.episode(number)
        number += 1
    time.sleep(0.01)
