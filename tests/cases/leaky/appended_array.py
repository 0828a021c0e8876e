"""Leaks: a history kept in one array that is replaced by a longer one each episode."""

import time

import numpy as np


class History:
    def __init__(self):
        self.states = np.zeros((0, 1000))


history = History()
print("ready", flush=True)
while True:
    history.states = np.concatenate([history.states, np.ones((20, 1000))])
    time.sleep(0.1)
