"""A checkpoint asked for from outside, made by the training thread itself between two steps.

``rlmem run`` asks; the agent's thread only leaves the wish here. Stable-Baselines3 calls ``BaseCallback.on_step`` after
every step of the environments, in the thread that trains: there the wish is taken, as SB3's own ``CheckpointCallback``
saves. A program with a loop of its own takes it in ``rlmem.guard(...).check()``. Files are written in a hidden folder
that gets its name in one step when they are complete.
"""

import functools
import json
import os
import shutil
import struct
import sys
import threading
import time
import weakref

from . import deaths

_NUMBER = struct.Struct("<q")
_STEP, _TOTAL = _NUMBER.size, 2 * _NUMBER.size


class Desk:
    """One wish at a time, and what became of the last one."""

    def __init__(self):
        self.lock = threading.Lock()
        self.wanted = None
        self.state = {"state": "idle"}
        #: What the program itself registered to be done under pressure: called with the folder.
        self.own = None
        self.model = None

    def ask(self, folder):
        """Leave a wish; who takes it is said, or that there is nobody."""
        with self.lock:
            if self.own is None and (self.model is None or self.model() is None):
                return {"state": "nobody", "message": "no Stable-Baselines3 model is learning in this process"}
            if self.wanted is None and self.state["state"] != "saving":
                self.wanted = folder
                self.state = {"state": "asked", "folder": folder}
            return dict(self.state)

    def take(self, work):
        """Do what was asked for, in the thread that trains; errors are told to the one who asked, not raised."""
        with self.lock:
            folder, self.wanted = self.wanted, None
            if folder is None:
                return
            self.state = {"state": "saving", "folder": folder}
        begin = time.monotonic()
        before = phase("checkpoint")
        try:
            told = work(folder)
            self.settle({"state": "saved", "folder": folder}, begin, told)
        except SystemExit:  # a function of the program's own that saved, and leaves
            self.settle({"state": "saved", "folder": folder}, begin)
            raise
        except Exception as error:
            self.settle(
                {"state": "failed", "folder": folder, "message": "%s: %s" % (type(error).__name__, error)}, begin
            )
        finally:
            phase(before)

    def settle(self, state, begin, told=None):
        """Note what became of the wish; in the run's folder too, as the program may end before it is asked."""
        state.update(told if isinstance(told, dict) else {})
        state["seconds"] = time.monotonic() - begin
        with self.lock:
            self.state = state
        deaths.leave("checkpoint", state)


desk = Desk()


def checkpoint(request):
    """The agent's answer: with a folder a new wish, without one how the last wish stands."""
    if request.get("folder"):
        return desk.ask(request["folder"])
    with desk.lock:
        return dict(desk.state)


def install(after):
    """Meet Stable-Baselines3 when the program imports it."""
    after.add("stable_baselines3.common.callbacks", watch_callbacks)


def watch_callbacks(module):
    """Put ourselves around the calls that SB3 makes in its loop; results and random numbers stay as they are."""
    base = module.BaseCallback
    step = base.on_step

    @functools.wraps(step)
    def on_step(self):
        going_on = step(self)
        mark = deaths.mark()  # asked every time: a forked process has its own
        if mark is not None:
            _NUMBER.pack_into(mark, _STEP, self.num_timesteps)
        if desk.wanted is not None and desk.own is None:
            model = self.model
            desk.take(lambda folder: save(model, folder))
        return going_on

    begin = base.on_training_start

    @functools.wraps(begin)
    def on_training_start(self, *args, **kwargs):
        desk.model = weakref.ref(self.model)
        mark = deaths.mark()
        if mark is not None:
            _NUMBER.pack_into(mark, _TOTAL, int(getattr(self.model, "_total_timesteps", -1) or -1))
        return begin(self, *args, **kwargs)

    base.on_step = on_step
    base.on_training_start = on_training_start
    base.on_rollout_start = _entering("collect", base.on_rollout_start)
    base.on_rollout_end = _entering("update", base.on_rollout_end)
    base.on_training_end = _entering("", base.on_training_end)
    if hasattr(module, "evaluate_policy"):
        module.evaluate_policy = _during("evaluate", module.evaluate_policy)


def _entering(name, function):
    @functools.wraps(function)
    def entering(self, *args, **kwargs):
        phase(name)
        return function(self, *args, **kwargs)

    return entering


def _during(name, function):
    @functools.wraps(function)
    def during(*args, **kwargs):
        before = phase(name)
        try:
            return function(*args, **kwargs)
        finally:
            phase(before)

    return during


def phase(name):
    """Note which part of the run begins; the part before it."""
    mark = deaths.mark()
    if mark is None:
        return ""
    before = deaths.PHASES[_NUMBER.unpack_from(mark, 0)[0]]
    _NUMBER.pack_into(mark, 0, deaths.PHASES.index(name))
    return before


def save(model, folder):
    """Save an SB3 model, its replay buffer and its normaliser; the folder they are in, complete or not there.

    SB3 writes a buffer's arrays from where they lie, so that memory does not grow; on disk a buffer takes its whole
    reserved size. Where the disk has no room for that the model is saved without it, and that is said.
    """
    step = int(model.num_timesteps)
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, ".step-%d.part-%d" % (step, os.getpid()))
    shutil.rmtree(part, ignore_errors=True)
    os.mkdir(part)
    told = {"step": step, "algorithm": type(model).__name__, "files": []}
    try:
        model.save(os.path.join(part, "model.zip"))
        normaliser = model.get_vec_normalize_env()
        if normaliser is not None:
            normaliser.save(os.path.join(part, "vec_normalize.pkl"))
        if getattr(model, "replay_buffer", None) is not None:
            wanted, free = _array_bytes(model.replay_buffer), shutil.disk_usage(part).free
            if wanted < free:
                model.save_replay_buffer(os.path.join(part, "replay_buffer.pkl"))
            else:
                told["message"] = "the replay buffer takes %d bytes and the disk has %d: not saved" % (wanted, free)
        told["files"] = sorted(os.listdir(part))
        told["versions"] = {
            name: getattr(sys.modules[name], "__version__", "")
            for name in ("stable_baselines3", "torch", "numpy")
            if name in sys.modules
        }
        with open(os.path.join(part, "checkpoint.json"), "w") as file:
            json.dump(told, file, indent=1)
        told["folder"] = _named(part, os.path.join(folder, "step-%d" % step))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return told


def _named(part, wanted):
    """Give the complete folder its name; one that is taken gets a number behind it."""
    for count in range(1, 1000):
        name = wanted if count == 1 else "%s-%d" % (wanted, count)
        if not os.path.exists(name):
            os.rename(part, name)
            return name
    raise OSError("no free name for %s" % wanted)


def _array_bytes(holder):
    """The arrays of a buffer, those in a dictionary included."""
    total = 0
    for value in vars(holder).values():
        for item in value.values() if isinstance(value, dict) else (value,):
            if type(item).__module__ == "numpy" and hasattr(item, "nbytes"):
                total += int(item.nbytes)
    return total
