"""Shortens a Stable-Baselines3 run without changing what it holds. Standard library only; nothing of rlmem is in here.

Python imports this file by itself when its folder is on ``PYTHONPATH``. The command is the one a user would type; left
alone it would train for hours to fill a buffer of a million rows. So, with ``ACCURACY_SHORTEN`` set, once ``learn()`` is
called:

- a replay buffer is filled to its capacity with the first transitions the run collected, over and over: row by row into its
  arrays, or by its own ``add()`` where rows depend on each other (hindsight);
- ``learning_starts`` is lowered to 100 steps of each environment at most, so that learning starts after that;
- the run stops by the framework's own "a callback said stop" after 100 gradient steps (off-policy) or two full updates
  (on-policy, ARS); before it does, each evaluation callback is called once, as it would have been later;
- what comes after ``learn()`` (saving the model, for example) runs as it is.

A program without Stable-Baselines3 is left alone and runs to its own end. At exit the main process writes what it did and which
modules were imported, as JSON, to the file that ``ACCURACY_REPORT`` names.
"""

import atexit
import importlib.abc
import importlib.util
import json
import os
import sys

GRADIENT_STEPS, FULL_UPDATES, WARM_UP = 100, 2, 100
#: Transitions that are repeated. Hindsight needs whole episodes, so there it is the first one, or its beginning as one.
KEPT, KEPT_EPISODE = 16, 64
DONE = {"updates": 0, "evaluations": 0, "rows": None, "capacity": None, "total_timesteps": None, "algorithm": None}


def enough(model):
    """Whether the run has shown what it needs."""
    return DONE["updates"] >= (GRADIENT_STEPS if hasattr(model, "replay_buffer") else FULL_UPDATES)


def arm(model, total_timesteps):
    """Called at the start of ``learn()``: replace methods of the classes, as the instance will be pickled."""
    DONE["algorithm"], DONE["total_timesteps"] = type(model).__name__, int(total_timesteps)
    kind = type(model)
    if hasattr(model, "replay_buffer"):
        buffer = model.replay_buffer
        model.learning_starts = min(model.learning_starts, WARM_UP * buffer.n_envs)
        DONE["capacity"] = int(buffer.buffer_size)
        fill(type(buffer), int(buffer.buffer_size))
    if hasattr(model, "collect_rollouts"):
        stop_collecting(kind)
        count_updates(kind)
    else:
        stop_updating(kind)


def fill(kind, rows):
    """The first transitions again and again, until the buffer holds ``rows``."""
    add, kept = kind.add, []
    whole_episodes = any(base.__name__ == "HerReplayBuffer" for base in kind.__mro__)

    def recording(self, obs, next_obs, action, reward, done, infos):
        import copy

        add(self, obs, next_obs, action, reward, done, infos)
        kept.append(copy.deepcopy((obs, next_obs, action, reward, done)) + (infos,))
        ended = whole_episodes and bool(done.any())
        if not ended and len(kept) < (KEPT_EPISODE if whole_episodes else KEPT):
            return
        kind.add = add
        if not whole_episodes:
            repeat_rows(self, rows)
        while self.size() < rows:
            for index, (*transition, done_then, info) in enumerate(kept):
                if self.size() >= rows:
                    break
                over = done_then | True if whole_episodes and index == len(kept) - 1 else done_then
                add(self, *transition, over, info)
        DONE["rows"] = int(self.size())
        kept.clear()

    kind.add = recording


def repeat_rows(buffer, rows):
    """Copy what the buffer holds behind itself, by doubling, until every row is written."""
    arrays = [value for value in vars(buffer).values() if hasattr(value, "shape")]
    arrays += [part for value in vars(buffer).values() if isinstance(value, dict) for part in value.values()]
    for array in arrays:
        if not hasattr(array, "shape") or not array.shape or array.shape[0] != rows:
            continue
        have = buffer.pos
        while have < rows:
            count = min(have, rows - have)
            array[have : have + count] = array[:count]
            have += count
    buffer.pos, buffer.full = 0, True


def count_updates(kind):
    """Gradient steps of off-policy algorithms, calls of on-policy ones."""
    train = kind.train

    def counting(self, *args, **kwargs):
        result = train(self, *args, **kwargs)
        if not hasattr(self, "replay_buffer") or DONE["rows"] is not None:  # what counts comes after filling
            DONE["updates"] += int(kwargs.get("gradient_steps", 1))
        return result

    kind.train = counting


def stop_collecting(kind):
    """End the run where a callback could have ended it."""
    collect = kind.collect_rollouts

    def collecting(self, *args, **kwargs):
        if not enough(self):
            return collect(self, *args, **kwargs)
        evaluate((*args, *kwargs.values()))
        if not hasattr(self, "replay_buffer"):
            return False
        from stable_baselines3.common.type_aliases import RolloutReturn

        return RolloutReturn(0, 0, continue_training=False)

    kind.collect_rollouts = collecting


def stop_updating(kind):
    """ARS has no rollouts: after two updates all steps are over."""
    update = kind._do_one_update

    def updating(self, *args, **kwargs):
        update(self, *args, **kwargs)
        DONE["updates"] += 1
        if enough(self):
            evaluate((*args, *kwargs.values()))
            self.num_timesteps += 10**12

    kind._do_one_update = updating


def evaluate(candidates):
    """Call every evaluation callback once, as if its time had come."""
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback

    waiting = [each for each in candidates if isinstance(each, BaseCallback)]
    while waiting:
        callback = waiting.pop()
        waiting += getattr(callback, "callbacks", [])
        if isinstance(getattr(callback, "callback", None), BaseCallback):
            waiting.append(callback.callback)
        if isinstance(callback, EvalCallback) and callback.eval_freq > 0:
            callback.n_calls = callback.eval_freq - 1
            callback.on_step()
            DONE["evaluations"] += 1


class Finder(importlib.abc.MetaPathFinder):
    """Waits for the one module that is to be changed."""

    NAME = "stable_baselines3.common.base_class"

    def find_spec(self, name, path=None, target=None):
        if name != self.NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            setup = module.BaseAlgorithm._setup_learn

            def setting_up(model, total_timesteps, *args, **kwargs):
                result = setup(model, total_timesteps, *args, **kwargs)
                arm(model, total_timesteps)
                return result

            module.BaseAlgorithm._setup_learn = setting_up

        spec.loader.exec_module = exec_module
        return spec


def write_report(path, pid):
    """Only the main process: workers inherit the variable, and forks this very function."""
    if os.getpid() != pid:
        return
    modules = [name for name in list(sys.modules) if name not in ("__main__", "__mp_main__", "sitecustomize")]
    with open(path, "w") as file:
        json.dump(dict(DONE, modules=modules), file)


if os.environ.get("ACCURACY_REPORT") and "ACCURACY_MAIN" not in os.environ:
    os.environ["ACCURACY_MAIN"] = str(os.getpid())
    if os.environ.get("ACCURACY_SHORTEN"):
        sys.meta_path.insert(0, Finder())
    atexit.register(write_report, os.environ["ACCURACY_REPORT"], os.getpid())
