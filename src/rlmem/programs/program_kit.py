"""What the programs share: phases and their peaks, the case in and the answer out, layers, spaces, environments.

Stand-alone: programs import it from their own folder, and it loads ``rlmem/agent/proc.py`` by path.
"""

import importlib
import importlib.util
import json
import os
import platform
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EPISODE = 100


def load_by_path(name, path):
    """A module from a file, without a package around it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


proc = load_by_path("rlmem_proc", os.path.join(os.path.dirname(HERE), "agent", "proc.py"))


# ---------------------------------------------------------------- phases
class Phases:
    """Peaks by phase: ``with phases("update"): …``. A phase that is entered again keeps its highest peak.

    ``hwm`` is this process's largest resident size within the phase, ``tree`` that of the whole tree, each shared page
    once. The file named by ``RLMEM_STATUS`` always holds the phase being run and the peaks of those before it, so that a
    killed process has said where it was.
    """

    def __init__(self):
        self.rows = {}
        self.path = os.environ.get("RLMEM_STATUS")
        self.name = None
        self.extra = {}

    def __call__(self, name):
        self.name = name
        return self

    def __enter__(self):
        self.publish()
        proc.reset_peak()
        self.before, self.start = proc.rss(), time.perf_counter()
        return self

    def __exit__(self, kind, value, trace):
        hwm = proc.peak()
        parts = proc.rollup() or {"Rss": proc.rss()}
        rss = parts["Rss"]
        pids = proc.tree(os.getpid())
        seconds = time.perf_counter() - self.start
        row = {
            "rss_before": self.before,
            "rss": rss,
            "hwm": max(hwm, rss),  # VmHWM is counted approximately, Rss exactly
            "tree": proc.tree_bytes(pids) + max(hwm - rss, 0),
            "seconds": round(seconds, 3),
        }
        if len(pids) > 1:
            row["children"] = [child(pid) for pid in pids[1:] if proc.rollup(pid)]
        old = self.rows.get(self.name)
        if old:
            row.update(
                hwm=max(row["hwm"], old["hwm"]),
                tree=max(row["tree"], old["tree"]),
                seconds=round(seconds + old["seconds"], 3),
                rss_before=old["rss_before"],
            )
        self.rows[self.name] = row
        if kind is None:
            self.publish(done=True)

    def publish(self, done=False):
        """Say where we are; whole or not at all."""
        if not self.path:
            return
        temporary = "%s.%d" % (self.path, os.getpid())
        with open(temporary, "w") as file:
            body = {"phase": self.name, "done": done, "peaks": {k: v["tree"] for k, v in self.rows.items()}}
            json.dump(dict(body, **self.extra), file)
        os.replace(temporary, self.path)


def child(pid):
    """A process of the tree, in words and bytes."""
    parts, text = proc.rollup(pid) or {}, proc.command(pid)
    role = "tracker" if "resource_tracker" in text else "forkserver" if "forkserver" in text else "worker"
    # Workers of a forkserver carry its command line; only their parent tells them apart.
    if role == "forkserver" and "forkserver" in proc.command(proc.parent(pid) or 0):
        role = "worker"
    return {
        "role": role,
        "rss": parts.get("Rss", 0),
        "pss": parts.get("Pss", 0),
        "uss": parts.get("Private_Clean", 0) + parts.get("Private_Dirty", 0),
    }


# ---------------------------------------------------------------- case in, answer out
def main(run, defaults=None):
    """Run a case from ``argv[1]`` or standard input; the answer goes to ``argv[2]`` or standard output."""
    # Only our JSON may reach standard output, whatever libraries or workers print.
    out = os.dup(1)
    os.dup2(2, 1)
    code = 0
    try:
        if len(sys.argv) > 1:
            with open(sys.argv[1]) as file:
                case = json.load(file)
        else:
            case = json.loads(sys.stdin.read() or "{}")
        if defaults is not None:
            unknown = sorted(set(case) - set(defaults))
            if unknown:
                raise ValueError("unknown keys: %s" % ", ".join(unknown))
            case = dict(defaults, **case)
        answer = run(case)
    except Exception as error:
        import traceback

        traceback.print_exc()
        answer, code = {"error": "%s: %s" % (type(error).__name__, error)}, 1
    protocol = load_by_path("rlmem_protocol", os.path.join(os.path.dirname(HERE), "agent", "__init__.py"))
    answer = dict(answer, protocol=protocol.PROTOCOL)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            json.dump(answer, file)
    else:
        with os.fdopen(out, "w") as file:
            json.dump(answer, file)
            file.write("\n")
    return code


def versions():
    """Versions of the interpreter and of the packages that matter and were imported."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "torch", "gymnasium", "stable_baselines3", "sb3_contrib", "elegantrl", "mujoco"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", None) or installed(name))
    return found


def installed(name):
    """A version from a package's metadata."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"


def prepare(case, phases):
    """What every program does after its imports: import what the environment does, start threads, tell versions."""
    phases.extra["versions"] = versions()
    missing = import_all(case.get("imports") or ())
    idle_threads(case.get("threads"))
    return ["%s is not installed here and was left out" % name for name in missing]


def import_all(names):
    """Import packages; the names of those that are not there."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # a package that fails to import is as good as none
            missing.append(name)
    return missing


def idle_threads(count):
    """Bring this process to ``count`` threads."""
    here = len(os.listdir("/proc/self/task"))
    for _ in range(max((count or 0) - here, 0)):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def choose_device(name):
    """The learner's device; CUDA must be there if it is asked for."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("the description says device: cuda, and torch sees no GPU here; set device=cpu")
    return name or "cpu"


def cuda_peaks():
    """Torch's own peaks on the GPU, as components."""
    torch = sys.modules["torch"]
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    return {
        "cuda.allocated": torch.cuda.max_memory_allocated(),
        "cuda.reserved": torch.cuda.max_memory_reserved(),
    }


# ---------------------------------------------------------------- networks
def chain(ops):
    """torch modules for described layers; each op has its kind, its shapes without the batch, and its options."""
    import torch.nn as nn

    plain = {"relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid", "elu": "ELU", "leakyrelu": "LeakyReLU",
             "gelu": "GELU", "silu": "SiLU", "identity": "Identity", "dropout": "Dropout", "flatten": "Flatten"}  # fmt: skip
    pools = {"maxpool2d": nn.MaxPool2d, "avgpool2d": nn.AvgPool2d}
    convs = {"conv1d": nn.Conv1d, "conv2d": nn.Conv2d, "convt1d": nn.ConvTranspose1d, "convt2d": nn.ConvTranspose2d}
    built = []
    for op in ops:
        kind, before, after = op["kind"], op["in"], op["out"]
        if kind in plain:
            built.append(getattr(nn, plain[kind])())
        elif kind == "linear":
            built.append(nn.Linear(before[-1], after[-1]))
        elif kind in convs:
            more = {"output_padding": op["o"]} if kind.startswith("convt") else {}
            built.append(convs[kind](before[0], after[0], op["k"], op["s"], op["p"], **more))
        elif kind in pools:
            built.append(pools[kind](op["k"], op["s"], op["p"]))
        elif kind == "unflatten":
            built.append(nn.Unflatten(1, tuple(after)))
        elif kind == "layernorm":
            built.append(nn.LayerNorm(before[-1]))
        elif kind == "batchnorm":
            built.append((nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[len(before) - 1](before[0]))
        elif kind in ("lstm", "gru"):
            built.append(recurrent(kind, before[-1], after[-1]))
        else:
            raise ValueError("no torch module for a layer of kind %r" % kind)
    return nn.Sequential(*built)


def recurrent(kind, before, after):
    """An LSTM or GRU over sequences of one step."""
    import torch.nn as nn

    class OneStep(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = (nn.LSTM if kind == "lstm" else nn.GRU)(before, after)

        def forward(self, values):
            return self.cell(values.unsqueeze(0))[0].squeeze(0)

    return OneStep()


def optimizer(name, parameters):
    """The described optimizer."""
    import torch

    kinds = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "sgd": "SGD", "sgd-momentum": "SGD"}
    more = {"momentum": 0.9} if name == "sgd-momentum" else {}
    return getattr(torch.optim, kinds[name])(parameters, lr=1e-4, **more)


def module_bytes(modules):
    """Bytes of parameters, each once."""
    unique = {id(p): p for module in modules for p in module.parameters()}
    return sum(p.numel() * p.element_size() for p in unique.values())


def gradient_bytes(modules):
    """Bytes of gradients that are there now."""
    unique = {id(p): p.grad for module in modules for p in module.parameters() if p.grad is not None}
    return sum(g.numel() * g.element_size() for g in unique.values())


def state_bytes(optimizers):
    """Bytes of optimizer state."""
    return sum(
        value.numel() * value.element_size()
        for one in optimizers
        for state in one.state.values()
        for value in state.values()
        if hasattr(value, "numel")
    )


# ---------------------------------------------------------------- spaces and environments
def make_space(description):
    """A Gymnasium space from its description."""
    import numpy as np
    from gymnasium import spaces

    kind = description["type"].lower()
    if kind == "box":
        dtype = np.dtype(description.get("dtype", "float32"))
        bounds = (-1.0, 1.0)
        if np.issubdtype(dtype, np.integer):
            bounds = (0, min(255, int(np.iinfo(dtype).max)))
        elif dtype == np.bool_:
            bounds = (0, 1)
        low, high = description.get("low", bounds[0]), description.get("high", bounds[1])
        return spaces.Box(low=low, high=high, shape=tuple(description["shape"]), dtype=dtype.type)
    if kind == "discrete":
        return spaces.Discrete(int(description["n"]))
    if kind == "multidiscrete":
        return spaces.MultiDiscrete(np.array(description["nvec"]))
    if kind == "multibinary":
        n = description.get("n", description.get("shape"))
        n = n[0] if isinstance(n, list) and len(n) == 1 else n
        return spaces.MultiBinary(tuple(n) if isinstance(n, list) else int(n))
    if kind == "dict":
        return spaces.Dict({key: make_space(sub) for key, sub in description["spaces"].items()})
    if kind == "tuple":
        return spaces.Tuple([make_space(sub) for sub in description["spaces"]])
    raise ValueError("unknown space type %r" % description["type"])


def make_env(case):
    """A picklable thunk for one environment of the described shapes, holding what the description says it holds."""
    observation, action = case["observation"], case["action"]
    extra, masks = case.get("info") or {}, case.get("algorithm") == "maskable_ppo"
    held, imports, episode = int(case.get("env_bytes") or 0), case.get("imports") or (), int(case.get("episode") or 100)
    space_of, bring = make_space, import_all

    def thunk():
        import gymnasium
        import numpy as np

        bring(imports)

        class Shaped(gymnasium.Env):
            metadata = {"render_modes": []}

            def __init__(self):
                self.observation_space, self.action_space = space_of(observation), space_of(action)
                self.pool = [self.observation_space.sample() for _ in range(2)]
                self.held = np.ones(held, np.uint8)
                self.t = 0
                if masks:
                    space = self.action_space
                    if hasattr(space, "nvec"):
                        size = int(np.sum(space.nvec))
                    elif isinstance(space, gymnasium.spaces.MultiBinary):
                        size = 2 * int(np.prod(space.shape))
                    else:
                        size = int(space.n)
                    self._mask = np.ones(size, dtype=bool)

            def reset(self, *, seed=None, options=None):
                self.t = 0
                return self.pool[0], {}

            def step(self, act):
                self.t += 1
                return self.pool[self.t & 1], 0.5, False, self.t >= episode, dict(extra)

            def compute_reward(self, achieved_goal, desired_goal, info):
                gap = np.abs(np.asarray(achieved_goal) - np.asarray(desired_goal))
                return -gap.reshape(len(gap), -1).sum(axis=1).astype(np.float32)

            if masks:

                def action_masks(self):
                    return self._mask

        return Shaped()

    return thunk
