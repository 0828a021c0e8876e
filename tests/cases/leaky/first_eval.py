"""No leak: steady training; after a while the first evaluation builds its environment and a large temporary."""

import time

import numpy as np


class Run:
    def __init__(self):
        self.weights = np.ones(2_000_000, np.float32)
        self.eval_env = None

    def evaluate(self):
        if self.eval_env is None:
            self.eval_env = [np.ones(200_000, np.float32) for _ in range(12)]
        frames = np.ones((40, 1_000_000), np.uint8)
        time.sleep(0.5)
        return frames.mean()


run = Run()
print("ready", flush=True)
begin, evaluations = time.time(), 0
while True:
    run.weights *= 0.999
    if time.time() - begin > 4 * (evaluations + 1):
        run.evaluate()
        evaluations += 1
    time.sleep(0.01)
