"""Ground truth for Stable-Baselines3: run one case for real and report what it cost.

Reads ONE JSON case from stdin, prints ONE JSON object to stdout.  Meant to be
run in a fresh process; imports neither rlmem nor anything outside
numpy/gymnasium/torch/SB3/sb3-contrib.  Linux only (reads /proc).

Case keys (all but algorithm/observation/action optional)
    algorithm     ppo a2c dqn sac td3 ddpg qrdqn tqc recurrent_ppo maskable_ppo trpo crossq
    observation   {"type":"box","shape":[84,84,3],"dtype":"uint8"[,"low","high"]},
    action        {"type":"discrete","n":6}, {"type":"multidiscrete","nvec":[3,4]},
                  {"type":"multibinary","n":8}, {"type":"dict","spaces":{...}}
    frame_stack   n for VecFrameStack (0/1: none)
    n_envs        default 1
    vec_env       "dummy" | "subproc"
    start_method  for subproc (default: SB3's own)
    monitor       wrap each env in Monitor, as make_vec_env does (default true)
    policy        default from the observation space
    model_kwargs  constructor arguments; strings name classes where SB3 wants classes
    her           use HerReplayBuffer (Dict space with observation/achieved_goal/desired_goal)
    fill_replay   fill every replay array to capacity after build
    collect_steps off-policy: env.step calls to collect (default 128)
    updates       on-policy: train() calls (default 2); off-policy: gradient steps (default 8)
    checkpoint    default true;  save_replay default true (off-policy)
    resume        default false: load_replay_buffer beside the live one / .load() for on-policy
    info          extra keys the env puts in its info dict, {"name": value}
    sb3_path      directory put first on sys.path (an unpacked SB3 version)
"""

import json
import os
import sys

CONTRIB = {
    "qrdqn": "QRDQN",
    "tqc": "TQC",
    "recurrent_ppo": "RecurrentPPO",
    "maskable_ppo": "MaskablePPO",
    "trpo": "TRPO",
    "crossq": "CrossQ",
}
CORE = {"ppo": "PPO", "a2c": "A2C", "dqn": "DQN", "sac": "SAC", "td3": "TD3", "ddpg": "DDPG"}
EPISODE = 100


# ---------------------------------------------------------------- /proc readings
def smaps(pid="self"):
    """smaps_rollup in bytes."""
    out = {}
    with open(f"/proc/{pid}/smaps_rollup") as fh:
        next(fh)
        for line in fh:
            key, value = line.split(":")
            out[key] = int(value.split()[0]) * 1024
    return out


def reading(pid="self"):
    m = smaps(pid)
    return {
        "rss": m["Rss"],
        "pss": m["Pss"],
        "uss": m["Private_Clean"] + m["Private_Dirty"],
        "anonymous": m["Anonymous"],
    }


def reset_hwm():
    with open("/proc/self/clear_refs", "w") as fh:
        fh.write("5")


def hwm():
    with open("/proc/self/status") as fh:
        for line in fh:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def descendants():
    """Live descendants of this process: (pid, role)."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as fh:
                    parents[int(name)] = int(fh.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found, frontier = [], [os.getpid()]
    while frontier:
        frontier = [p for p, parent in parents.items() if parent in frontier]
        found += frontier
    out = []
    for pid in sorted(found):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as fh:
                cmd = fh.read().decode(errors="replace")
        except OSError:
            continue
        out.append((pid, cmd))
    return out


def children(worker_pids):
    out = []
    for pid, cmd in descendants():
        if pid in worker_pids:
            role = "worker"
        elif "resource_tracker" in cmd:
            role = "resource_tracker"
        elif "forkserver" in cmd:
            role = "forkserver"
        else:
            role = "other"
        try:
            out.append({"role": role, **reading(pid)})
        except OSError:
            pass
    return out


class Phases:
    def __init__(self):
        self.out = {}
        self.worker_pids = set()

    def begin(self):
        reset_hwm()

    def end(self, name):
        peak = hwm()
        row = reading()
        row["hwm"] = max(peak, row["rss"])  # VmHWM is counted approximately, rss exactly
        if self.worker_pids:
            row["children"] = children(self.worker_pids)
        self.out[name] = row
        return row


# ---------------------------------------------------------------- the environment
def make_space(d, is_action=False):
    import numpy as np
    from gymnasium import spaces

    kind = d["type"].lower()
    if kind == "box":
        dtype = np.dtype(d.get("dtype", "float32"))
        if np.issubdtype(dtype, np.integer):
            low = d.get("low", 0)
            high = d.get("high", min(255, int(np.iinfo(dtype).max)))
        elif dtype == np.bool_:
            low, high = d.get("low", 0), d.get("high", 1)
        else:
            low, high = d.get("low", -1.0), d.get("high", 1.0)
        return spaces.Box(low=low, high=high, shape=tuple(d["shape"]), dtype=dtype.type)
    if kind == "discrete":
        return spaces.Discrete(int(d["n"]))
    if kind == "multidiscrete":
        return spaces.MultiDiscrete(np.array(d["nvec"]))
    if kind == "multibinary":
        n = d.get("n", d.get("shape"))
        return spaces.MultiBinary(tuple(n) if isinstance(n, list) else int(n))
    if kind == "dict":
        return spaces.Dict({k: make_space(v) for k, v in d["spaces"].items()})
    raise ValueError(f"unknown space type {d['type']!r}")


def make_env(case):
    """A picklable thunk for one synthetic environment."""
    observation, action = case["observation"], case["action"]
    extra = case.get("info") or {}
    monitor = case.get("monitor", True)
    masks = case["algorithm"] == "maskable_ppo"
    space_of, episode = make_space, EPISODE

    def thunk():
        import gymnasium
        import numpy as np

        class Synthetic(gymnasium.Env):
            metadata = {"render_modes": []}

            def __init__(self):
                self.observation_space = space_of(observation)
                self.action_space = space_of(action, True)
                self.pool = [self.observation_space.sample() for _ in range(2)]
                if masks:
                    space = self.action_space
                    if hasattr(space, "nvec"):
                        size = int(np.sum(space.nvec))
                    elif isinstance(space, gymnasium.spaces.MultiBinary):
                        size = 2 * int(np.prod(space.shape))
                    else:
                        size = int(space.n)
                    self._mask = np.ones(size, dtype=bool)
                self.t = 0

            def reset(self, *, seed=None, options=None):
                self.t = 0
                return self.pool[0], {}

            def step(self, act):
                self.t += 1
                info = {k: v for k, v in extra.items()}
                return self.pool[self.t & 1], 0.5, False, self.t >= episode, info

            def compute_reward(self, achieved_goal, desired_goal, info):
                gap = np.abs(np.asarray(achieved_goal) - np.asarray(desired_goal))
                return -gap.reshape(len(gap), -1).sum(axis=1).astype(np.float32)

            if masks:

                def action_masks(self):
                    return self._mask

        env = Synthetic()
        if monitor:
            from stable_baselines3.common.monitor import Monitor

            env = Monitor(env)
        return env

    return thunk


# ---------------------------------------------------------------- model construction
def convert_kwargs(kwargs):
    """Names to classes, lists to tuples, where SB3 insists."""
    import torch
    from stable_baselines3.common import torch_layers

    out = dict(kwargs)
    if isinstance(out.get("train_freq"), list):
        out["train_freq"] = tuple(out["train_freq"])
    pk = out.get("policy_kwargs")
    if pk:
        pk = dict(pk)
        if isinstance(pk.get("activation_fn"), str):
            pk["activation_fn"] = getattr(torch.nn, pk["activation_fn"])
        if isinstance(pk.get("optimizer_class"), str):
            pk["optimizer_class"] = getattr(torch.optim, pk["optimizer_class"])
        if isinstance(pk.get("features_extractor_class"), str):
            pk["features_extractor_class"] = getattr(torch_layers, pk["features_extractor_class"])
        out["policy_kwargs"] = pk
    return out


def default_policy(observation_space, recurrent):
    from gymnasium import spaces
    from stable_baselines3.common.preprocessing import is_image_space

    if isinstance(observation_space, spaces.Dict):
        name = "MultiInputPolicy"
    elif is_image_space(observation_space):
        name = "CnnPolicy"
    else:
        name = "MlpPolicy"
    if recurrent:
        name = name.replace("Policy", "LstmPolicy")
    return name


def buffer_arrays(buffer):
    import numpy as np

    found = {}
    for name, value in vars(buffer).items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, np.ndarray):
                    found[f"{name}[{key}]"] = inner
    return found


def describe_buffer(buffer):
    arrays = buffer_arrays(buffer)
    return {
        "class": type(buffer).__name__,
        "total": sum(a.nbytes for a in arrays.values()),
        "nbytes": {k: int(a.nbytes) for k, a in arrays.items()},
        "shape": {k: list(a.shape) for k, a in arrays.items()},
        "dtype": {k: str(a.dtype) for k, a in arrays.items()},
    }


def fill_replay(buffer, env, extra):
    """Make every page of every array resident, leaving a state that samples validly."""
    import numpy as np

    size = buffer.buffer_size
    for name, array in buffer_arrays(buffer).items():
        if array.dtype == object:
            if not getattr(buffer, "copy_info_dict", False):
                continue  # add() leaves the empty dicts of the constructor in place
            for i in range(array.shape[0]):
                for j in range(array.shape[1]):
                    # what DummyVecEnv hands over: a fresh dict per step
                    array[i, j] = {**extra, "TimeLimit.truncated": False}
        elif name in ("dones", "timeouts", "rewards"):
            array.fill(0)  # writes every page: np.zeros had left them unmapped
        elif name == "ep_start":
            array[...] = ((np.arange(size) // EPISODE) * EPISODE)[:, None]
        elif name == "ep_length":
            starts = (np.arange(size) // EPISODE) * EPISODE
            array[...] = np.minimum(EPISODE, size - starts)[:, None]
        elif name.startswith("_"):
            pass
        else:
            array.fill(1 if array.dtype.kind in "iub" else 0.5)
            if name == "actions" and array.dtype.kind in "iu":
                array.fill(0)
    buffer.pos = 0
    buffer.full = True


def params(module):
    total = trainable = nbytes = 0
    for p in module.parameters():
        total += p.numel()
        nbytes += p.numel() * p.element_size()
        trainable += p.numel() if p.requires_grad else 0
    buffers = sum(b.numel() * b.element_size() for b in module.buffers())
    return {"count": total, "trainable": trainable, "nbytes": nbytes, "buffer_nbytes": buffers}


def optimizer_bytes(model):
    """State tensors of every optimizer reachable from the model, by owner."""
    import torch

    out, seen = {}, set()
    owners = [("model", model), ("policy", model.policy)]
    owners += [(f"policy.{n}", m) for n, m in model.policy.named_children()]
    for name, owner in owners:
        for attr in ("optimizer", "ent_coef_optimizer"):
            opt = getattr(owner, attr, None)
            if isinstance(opt, torch.optim.Optimizer) and id(opt) not in seen:
                seen.add(id(opt))
                out[f"{name}.{attr}"] = {
                    "class": type(opt).__name__,
                    "nbytes": sum(
                        v.numel() * v.element_size()
                        for s in opt.state.values()
                        for v in s.values()
                        if torch.is_tensor(v)
                    ),
                    "params": sum(p.numel() for g in opt.param_groups for p in g["params"]),
                }
    return out


# ---------------------------------------------------------------- the run
def run(case):
    phases = Phases()
    phases.end("start")
    if case.get("sb3_path"):
        sys.path.insert(0, case["sb3_path"])

    phases.begin()
    import gymnasium
    import numpy as np
    import stable_baselines3
    import torch

    name = case["algorithm"].lower()
    contrib_version = None
    if name in CONTRIB:
        import sb3_contrib

        algo = getattr(sb3_contrib, CONTRIB[name])
        contrib_version = sb3_contrib.__version__
    elif name in CORE:
        algo = getattr(stable_baselines3, CORE[name])
    else:
        raise ValueError(f"unknown algorithm {name!r}")
    phases.end("import")

    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    # ---- build
    phases.begin()
    n_envs = int(case.get("n_envs", 1))
    thunks = [make_env(case) for _ in range(n_envs)]
    if case.get("vec_env", "dummy") == "subproc":
        env = SubprocVecEnv(thunks, start_method=case.get("start_method"))
        phases.worker_pids = {p.pid for p in env.processes}
    else:
        env = DummyVecEnv(thunks)
    if int(case.get("frame_stack") or 1) > 1:
        env = VecFrameStack(env, int(case["frame_stack"]))
    kwargs = convert_kwargs(case.get("model_kwargs") or {})
    kwargs.setdefault("device", "cpu")
    if case.get("her"):
        try:
            from stable_baselines3 import HerReplayBuffer
        except ImportError:
            from stable_baselines3.her import HerReplayBuffer
        kwargs["replay_buffer_class"] = HerReplayBuffer
    policy = case.get("policy") or default_policy(env.observation_space, name == "recurrent_ppo")
    model = algo(policy, env, **kwargs)
    env = model.get_env()
    phases.end("build")

    off_policy = hasattr(model, "replay_buffer")
    buffer = model.replay_buffer if off_policy else model.rollout_buffer
    result = {"case": case, "policy": policy, "buffer": describe_buffer(buffer)}
    result["params"] = {"policy": params(model.policy)}
    for child, module in model.policy.named_children():
        result["params"][f"policy.{child}"] = params(module)

    # ---- fill
    if off_policy and case.get("fill_replay"):
        phases.begin()
        fill_replay(buffer, env, case.get("info") or {})
        phases.end("fill")

    # ---- collect
    phases.begin()
    total, callback = model._setup_learn(10**9, callback=None)
    callback.on_training_start(locals(), globals())

    def collect():
        if not off_policy:
            model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
            return
        from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

        model.collect_rollouts(
            env,
            callback=callback,
            train_freq=TrainFreq(int(case.get("collect_steps", 128)), TrainFrequencyUnit.STEP),
            replay_buffer=model.replay_buffer,
            action_noise=model.action_noise,
            learning_starts=0,
            log_interval=None,
        )

    collect()
    phases.end("collect")
    result["buffer_after_collect"] = describe_buffer(model.replay_buffer if off_policy else model.rollout_buffer)

    # ---- update
    updates = int(case.get("updates", 8 if off_policy else 2))
    model._update_current_progress_remaining(model.num_timesteps, total)
    steps, peak = [], 0

    def timed(kind, action):
        phases.begin()
        before = smaps()["Rss"]
        action()
        row = {"kind": kind, "rss_before": before, "hwm": hwm(), "rss": smaps()["Rss"]}
        row["hwm"] = max(row["hwm"], row["rss"])
        steps.append(row)
        return row["hwm"]

    if off_policy:
        chunks = [1, 1, updates - 2] if updates > 2 else [1] * updates
        for n in chunks:
            peak = max(peak, timed(f"train x{n}", lambda: model.train(gradient_steps=n, batch_size=model.batch_size)))
    else:
        for i in range(updates):
            if i:
                timed("collect", collect)
            peak = max(peak, timed("train", model.train))
    if updates:
        phases.end("update")["hwm"] = peak
    result["update_steps"] = steps
    result["buffer_after_update"] = describe_buffer(model.replay_buffer if off_policy else model.rollout_buffer)
    result["optimizers"] = optimizer_bytes(model)

    # ---- checkpoint, resume
    import shutil
    import tempfile

    folder = None
    try:
        if case.get("checkpoint", True):
            folder = tempfile.mkdtemp(prefix="sb3_run_", dir=case.get("tmp"))
            phases.begin()
            model.save(os.path.join(folder, "model.zip"))
            phases.end("checkpoint_model")
            result["model_file_bytes"] = os.path.getsize(os.path.join(folder, "model.zip"))
            if off_policy and case.get("save_replay", True):
                phases.begin()
                model.save_replay_buffer(os.path.join(folder, "replay.pkl"))
                phases.end("checkpoint_replay")
                result["replay_file_bytes"] = os.path.getsize(os.path.join(folder, "replay.pkl"))
            last = phases.out.get("checkpoint_replay", phases.out["checkpoint_model"])
            phases.out["checkpoint"] = {
                **last,
                "hwm": max(phases.out[k]["hwm"] for k in ("checkpoint_model", "checkpoint_replay") if k in phases.out),
            }
            if case.get("resume"):
                phases.begin()
                if off_policy and case.get("save_replay", True):
                    model.load_replay_buffer(os.path.join(folder, "replay.pkl"))
                    keep = buffer  # the old one stays referenced: beside the live one
                    phases.end("resume")
                    del keep
                else:
                    second = algo.load(os.path.join(folder, "model.zip"), env=env, device="cpu")
                    phases.end("resume")
                    del second
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    result["phases"] = phases.out
    result["versions"] = {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
        "sb3": stable_baselines3.__version__,
        "sb3_contrib": contrib_version,
    }
    result["torch_threads"] = torch.get_num_threads()
    result["cpu_affinity"] = sorted(os.sched_getaffinity(0))
    result["os_threads"] = len(os.listdir("/proc/self/task"))
    env.close()
    return result


def main():
    # only our JSON may reach stdout, whatever libraries or workers print
    out = os.dup(1)
    os.dup2(2, 1)
    code = 0
    try:
        answer = run(json.load(sys.stdin))
    except BaseException as exc:
        import traceback

        traceback.print_exc()
        answer, code = {"error": f"{type(exc).__name__}: {exc}"}, 1
    with os.fdopen(out, "w") as fh:
        json.dump(answer, fh)
        fh.write("\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
