"""The agent: runs a target with its heavy parts held back, and writes down what it learned."""

import os
import sys
import threading
import time

from . import lazy, mapped, naming, proc, worker
from .arrays import Arrays, dynamo_knows
from .containers import Containers
from .imports import After
from .journal import Journal
from .loop import Loop
from .state import State

#: Seconds more for a target that is about to show what it needs when its time is over.
NEARLY_S = 20.0


def main(path):
    """Run the job described in a JSON file."""
    before = proc.rss()
    import json

    with open(path) as file:
        job = json.load(file)
    state = State(job)
    lazy.raise_limits()
    arrays = Arrays(state)
    containers = Containers(state)
    after = After()
    sys.meta_path.insert(0, after)
    after.add("numpy", arrays.watch_numpy)
    after.add("multiprocessing.util", lambda util: worker.follow(util, job["folder"]))
    after.add("wandb", silence_wandb)
    loop = Loop(state, arrays, containers)
    after.add("torch", lambda torch: (arrays.watch_torch(torch), loop.watch_torch(torch)))
    after.add("torch", lambda _: after.add("torch._dynamo", dynamo_knows))
    for name in ("gymnasium", "gym"):
        after.add(name, loop.watch_gym)

    def sb3(module):
        from .sb3 import SB3

        SB3(state, arrays, loop).watch(module)

    after.add("stable_baselines3.common.base_class", sb3)
    state.closers += [containers.size, lambda: state.facts.update(files=mapped.describe()), lambda: naming.name(state)]
    state.closers += [lambda: versions(state), lambda: vram(state), lambda: compact_stores(state)]
    if job.get("folder"):
        journal = Journal(job["folder"], keep=[job["scratch"]] if job.get("scratch") else ())
        after.add("torch", journal.watch_torch)
        after.add("h5py", journal.watch_h5py)
        journal.start()
    state.overhead_bytes = max(0, proc.rss() - before)
    overtime(state, loop, max(1.0, job["time_s"]))
    state.status("importing")
    run(state, loop)


def overtime(state, loop, seconds):
    """When the job's own time is over, keep what was seen; a rehearsal that has begun comes to its end first."""

    job_s = state.job["time_s"]

    def over():
        if state.rehearsed_until is not None and time.monotonic() < state.rehearsed_until:
            overtime(state, loop, state.rehearsed_until - time.monotonic() + 1.0)
        elif state.left() > 0.5:
            overtime(state, loop, state.left())
        elif (state.building or (loop.updates and not loop.cycles)) and state.elapsed() < job_s + NEARLY_S:
            overtime(state, loop, 1.0)  # a model is being built, or an update has begun: nearly there
        else:
            state.leave("learn" if loop.held else loop.met or "time")

    watch = threading.Timer(seconds, over)
    watch.daemon = True
    watch.start()


def run(state, loop):
    """Run the target to the point where the agent leaves, or to its end."""
    target = state.job["target"]
    from .stops import Stop, describe

    loop.finder.start()
    try:
        if target["kind"] == "factory":
            factory(state, target)
        else:
            state.variables = program(target)  # which hold arrays that are to be read
    except Stop as stop:
        state.leave(loop.met, stop.facts)
    except SystemExit as error:
        if state.forked:
            raise
        code = error.code if isinstance(error.code, int) else (0 if error.code is None else 1)
        stop = None if (loop.env_steps or loop.updates) and not code else describe(error, "exited")
        loop.ended(well=stop is None)
        state.leave(loop.met or "end", stop)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if state.forked:
            raise
        stop = describe(error, "raised")
        loop.ended(well=False)
        state.leave(loop.met, stop)
    loop.ended()
    state.leave(loop.met or "end", None)


def program(target):
    """A script by path, or a module by name, as ``__main__``."""
    import runpy

    if target["kind"] == "script":
        sys.argv = [target["path"], *target["args"]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(target["path"])))
        return runpy.run_path(target["path"], run_name="__main__")
    sys.argv = [target["name"], *target["args"]]
    sys.path.insert(0, os.getcwd())
    return runpy.run_module(target["name"], run_name="__main__", alter_sys=True)


def factory(state, target):
    """``package.module:function``, called without arguments; what it returns is asked to learn."""
    import importlib

    from .stops import Stop

    sys.argv = [target["module"]]
    sys.path.insert(0, os.getcwd())
    made = importlib.import_module(target["module"])
    for part in target["name"].split("."):
        made = getattr(made, part)
    made = made(*target.get("args", ()))
    for item in made if isinstance(made, (tuple, list)) else (made,):
        if hasattr(item, "learn"):
            item.learn(total_timesteps=state.job.get("total_timesteps") or 1_000_000)
            return
    raise Stop(
        kind="no-model",
        message="%s:%s returned %s, which has no learn()" % (target["module"], target["name"], type(made).__name__),
    )


def silence_wandb(wandb):
    """A script may ask for ``mode="online"``, which the environment variable does not overrule."""
    original = wandb.init

    def init(*args, **kwargs):
        kwargs["mode"] = "disabled"
        return original(*args, **kwargs)

    wandb.init = init


def versions(state):
    """Versions of what was imported, read where it was imported from."""
    from importlib import metadata

    names = {
        "numpy": "numpy",
        "torch": "torch",
        "stable_baselines3": "stable-baselines3",
        "sb3_contrib": "sb3-contrib",
        "gymnasium": "gymnasium",
        "gym": "gym",
        "rl_zoo3": "rl_zoo3",
        "ale_py": "ale-py",
        "mujoco": "mujoco",
        "jax": "jax",
        "tensorflow": "tensorflow",
        "cupy": "cupy",
    }
    for module, package in names.items():
        if module in sys.modules:
            version = getattr(sys.modules[module], "__version__", None)
            if version is None:
                try:
                    version = metadata.version(package)
                except metadata.PackageNotFoundError:
                    continue
            state.facts["versions"][module] = str(version)


def compact_stores(state):
    """rlmem's own buffers in a loop of the target's own: they take memory as they fill, and reserve nothing."""
    if "rlmem.sb3" not in sys.modules or "model" in state.facts:
        return
    import gc

    from .stores import describe_store, is_compact

    ours = (item for item in gc.get_objects() if str(type(item).__module__).startswith("rlmem."))
    state.facts["loop_stores"] = [describe_store(item) for item in ours if is_compact(item)]


def vram(state):
    """What torch's allocator and the driver say, when the target used a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    if not torch.cuda.is_initialized():
        state.facts["gpu_unused"] = True
        return
    free, total = torch.cuda.mem_get_info()
    state.facts["vram"] = {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "device": total - free,
    }
