"""A sample of what a buffer is given: consecutive observations of the real environment, as they would be stored.

How small a codec makes them, and whether they are stacks of frames, only the data can say. The sample is written to the
job's folder when everything else has been measured; a process of its own looks at it (``sizing``).
"""

import os
import time

from .stores import describe_store, is_compact

#: A store decides how to keep its data after 512 transitions or 48 MiB; more of them say better what comes later.
TRANSITIONS, BYTES = 2048, 56 << 20
#: Fewer say nothing.
LEAST = 64
#: Seconds the environments may be stepped for it.
SECONDS = 3.0
#: Stores that will be smaller than this are not worth a look, unless they are compact already.
WORTH = 64 << 20


class Enough(BaseException):
    """The sample is complete; not an ``Exception``, so that handlers of the target let it pass."""


class Recorder:
    """Stands before a buffer's ``add`` and keeps copies of what it is given."""

    def __init__(self, buffer, *, calls=False, most=BYTES, seconds=SECONDS):
        self.buffer, self.original, self.calls = buffer, buffer.add, calls
        self.rows, self.bytes, self.most = [], 0, most
        self.until = time.monotonic() + seconds

    def __enter__(self):
        self.buffer.add = self.add
        return self

    def __exit__(self, kind, *_):
        del self.buffer.add
        return kind is Enough

    def add(self, obs, *args, **kwargs):
        """Keep a copy, then let the buffer have it."""
        full = self.bytes >= self.most or len(self.rows) * self.buffer.n_envs >= TRANSITIONS
        if self.calls:
            if not full:
                self.rows.append(((copied(obs), *args), kwargs))
                self.bytes += size(obs)
        elif full or time.monotonic() > self.until:
            raise Enough
        else:
            after = args[0] if has_next(self.buffer) else None
            self.rows.append((copied(obs), copied(after)))
            self.bytes += size(obs)
        return self.original(obs, *args, **kwargs)


def has_next(buffer):
    """Whether a buffer's rows have next observations: a replay buffer's have."""
    return not hasattr(buffer, "episode_starts")


def copied(obs):
    """Observations as they are now."""
    if isinstance(obs, dict):
        return {key: value.copy() for key, value in obs.items()}
    return obs if obs is None else obs.copy()


def size(obs):
    """Bytes of one step of all environments."""
    return sum(value.nbytes for value in obs.values()) if isinstance(obs, dict) else obs.nbytes


def worth(buffer, rows):
    """Whether a buffer will hold enough for its data to matter."""
    if is_compact(buffer):
        return True
    return sum(row["nbytes"] for row in rows if "observations" in row["name"]) >= WORTH


def steps(buffer):
    """Steps of all environments that make a sample."""
    return -(-TRANSITIONS // buffer.n_envs) + 1


def sample(run, buffer, rows, collect):
    """Let ``collect(steps)`` step the environments, keep what the buffer is given, and write it to the job's folder."""
    state = run.state
    known = run.facts.get("buffers", {})
    name = "replay_buffer" if has_next(buffer) else "rollout_buffer"
    if not state.job.get("folder") or run.fill_replay or not worth(buffer, known.get(name, ())):
        return
    state.rehearsed_until = time.monotonic() + SECONDS + 10.0
    try:
        with Recorder(buffer) as recorder:
            collect(steps(buffer))
        options = describe_store(buffer)["options"] if is_compact(buffer) else {}
        state.facts["sample"] = write(os.path.join(state.job["folder"], "sample"), buffer, rows, recorder.rows, options)
    except Exception as error:  # the plan stands without it
        state.note("no sample of the observations could be taken: %s: %s" % (type(error).__name__, error))


def write(folder, buffer, capacity, rows, options):
    """The sample on disk, one array a key, and what is needed to make sense of it; ``None`` when it is too small."""
    import json

    import numpy

    if len(rows) * buffer.n_envs < LEAST:
        return None
    os.makedirs(folder, exist_ok=True)
    first = rows[0][0]
    keys = list(first) if isinstance(first, dict) else [""]
    body = {"rows": int(capacity), "n_envs": int(buffer.n_envs), "keys": [], "options": options}
    spaces = getattr(buffer.observation_space, "spaces", None)
    shapes = buffer.obs_shape
    for number, key in enumerate(keys):
        space = spaces[key] if key else buffer.observation_space
        shape = [int(side) for side in (shapes[key] if key else shapes)]
        body["keys"].append({"name": key, "shape": shape, "dtype": str(space.dtype)})
        for place, name in enumerate(("now", "after")):
            if rows[0][place] is None:
                continue
            parts = [row[place][key] if key else row[place] for row in rows]
            whole = numpy.stack(parts).astype(space.dtype, copy=False)
            numpy.save(os.path.join(folder, "%s-%d.npy" % (name, number)), whole.reshape(len(rows), -1, *shape))
    body["paired"] = rows[0][1] is not None
    with open(os.path.join(folder, "sample.json"), "w") as file:
        json.dump(body, file)
    return {"transitions": len(rows) * int(buffer.n_envs)}
