"""Neither: it waits for an answer that never comes."""

import threading

import numpy as np

data = np.ones(4_000_000)
print("ready", flush=True)
threading.Event().wait()
