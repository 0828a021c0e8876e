"""A described run of Stable-Baselines3 or sb3-contrib, for real, and what it cost.

Stand-alone (numpy, torch, gymnasium, SB3); reads /proc, so Linux only. Case keys, all but the first three optional:

    algorithm     ppo a2c dqn sac td3 ddpg qrdqn tqc recurrent_ppo maskable_ppo trpo crossq
    observation   {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}, … {"type": "dict", "spaces": {…}}
    action        the same
    frame_stack   n for VecFrameStack;  vec_normalize  wrap in VecNormalize
    n_envs        default 1;  vec_env  "dummy" | "subproc";  start_method  for subproc (default: SB3's own)
    env_bytes, imports, episode, info    what an environment holds, imports, its episodes' length, further info keys
    eval          {"n_envs", "vec_env"}: evaluation environments built beside the training ones
    evaluate      and stepped
    policy        default from the observation space
    extractor     {"branches": {key: ops}, "fusion": ops or null}: feature layers of one's own ("" is the key of a Box)
    model_kwargs  constructor arguments; strings name classes where SB3 wants classes
    compact       rlmem's compact buffers in place of SB3's: {"budget": bytes in RAM or null}
    her           HerReplayBuffer (a Dict with observation, achieved_goal and desired_goal)
    fill_replay   write every page of every replay array, as a full buffer has; a compact one is filled by collecting
    rows          of each environment that the run comes to (default: all)
    collect_steps off-policy: steps of all environments to collect (default 128)
    updates       on-policy: train() calls (default 2); off-policy: gradient steps (default 8)
    checkpoint    default true;  save_replay  default true (off-policy)
    resume        load_replay_buffer beside the live one, or .load() for on-policy
    threads       bring the process to that many threads;  device  cpu | cuda
    sb3_path      folder put first on sys.path (an unpacked SB3 version)
"""

import atexit
import os
import shutil
import sys
import tempfile

import program_kit as kit

CONTRIB = {
    "qrdqn": "QRDQN",
    "tqc": "TQC",
    "recurrent_ppo": "RecurrentPPO",
    "maskable_ppo": "MaskablePPO",
    "trpo": "TRPO",
    "crossq": "CrossQ",
}
ON_POLICY = ("ppo", "a2c", "trpo", "maskable_ppo", "recurrent_ppo")
CORE = {"ppo": "PPO", "a2c": "A2C", "dqn": "DQN", "sac": "SAC", "td3": "TD3", "ddpg": "DDPG"}


# ---------------------------------------------------------------- the model
def monitored(thunk):
    """As ``make_vec_env`` does."""

    def make():
        from stable_baselines3.common.monitor import Monitor

        return Monitor(thunk())

    return make


def vector_env(case, n_envs, how):
    """The vectorised environments with their wrappers."""
    from stable_baselines3.common import vec_env

    thunks = [monitored(kit.make_env(case)) for _ in range(n_envs)]
    if how == "subproc":
        env = vec_env.SubprocVecEnv(thunks, start_method=case.get("start_method"))
    else:
        env = vec_env.DummyVecEnv(thunks)
    if int(case.get("frame_stack") or 1) > 1:
        env = vec_env.VecFrameStack(env, int(case["frame_stack"]))
    return vec_env.VecNormalize(env) if case.get("vec_normalize") else env


def convert(kwargs):
    """Names to classes, lists to tuples, where SB3 insists."""
    import torch
    from stable_baselines3.common import torch_layers

    out = dict(kwargs)
    if isinstance(out.get("train_freq"), list):
        out["train_freq"] = tuple(out["train_freq"])
    inner = dict(out.get("policy_kwargs") or {})
    places = {"activation_fn": torch.nn, "optimizer_class": torch.optim, "features_extractor_class": torch_layers}
    for name, module in places.items():
        if isinstance(inner.get(name), str):
            inner[name] = getattr(module, inner[name])
    if inner:
        out["policy_kwargs"] = inner
    return out


def described_extractor(description):
    """A features extractor with the layers of the description."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    branches, fusion = description["branches"], description.get("fusion") or []

    class Described(BaseFeaturesExtractor):
        def __init__(self, observation_space):
            last = fusion or None
            width = last[-1]["out"][-1] if last else sum(width_of(ops) for ops in branches.values())
            super().__init__(observation_space, width)
            self.names = list(branches)
            self.branches = torch.nn.ModuleList([kit.chain(ops) for ops in branches.values()])
            self.fusion = kit.chain(fusion)

        def forward(self, observations):
            given = observations if isinstance(observations, dict) else {"": observations}
            parts = [branch(given[name]) for name, branch in zip(self.names, self.branches)]
            parts = [part.reshape(len(part), -1) for part in parts]
            return self.fusion(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))

    return Described


def width_of(ops):
    """Values that leave a branch."""
    width = 1
    for side in ops[-1]["out"]:
        width *= side
    return width


def default_policy(space, recurrent):
    """What SB3's documentation would say."""
    from gymnasium import spaces
    from stable_baselines3.common.preprocessing import is_image_space

    if isinstance(space, spaces.Dict):
        name = "MultiInputPolicy"
    else:
        name = "CnnPolicy" if is_image_space(space) else "MlpPolicy"
    return name.replace("Policy", "LstmPolicy") if recurrent else name


def build(algorithm, case, env):
    """The model."""
    kwargs = convert(case.get("model_kwargs") or {})
    kwargs["device"] = kit.choose_device(case.get("device"))
    if case.get("her"):
        from stable_baselines3 import HerReplayBuffer

        kwargs["replay_buffer_class"] = HerReplayBuffer
    compact = case.get("compact")
    if compact is not None and case["algorithm"] != "recurrent_ppo":
        kwargs.update(compact_arguments(case, kwargs))
    if case.get("extractor"):
        inner = dict(kwargs.get("policy_kwargs") or {})
        inner["features_extractor_class"] = described_extractor(case["extractor"])
        kwargs["policy_kwargs"] = inner
    policy = case.get("policy") or default_policy(env.observation_space, case["algorithm"] == "recurrent_ppo")
    model = algorithm(policy, env, **kwargs)
    if compact is not None and case["algorithm"] == "recurrent_ppo":
        from rlmem.sb3 import CompactRecurrentRolloutBuffer

        model.rollout_buffer = CompactRecurrentRolloutBuffer.like(model.rollout_buffer)
    return model


def compact_arguments(case, kwargs):
    """rlmem's buffer, and its options; what spills goes to a folder that does not outlive the program."""
    import rlmem.sb3

    if "buffer_size" not in kwargs and case["algorithm"] in ON_POLICY:
        return {"rollout_buffer_class": rlmem.sb3.CompactRolloutBuffer}
    options = dict(kwargs.get("replay_buffer_kwargs") or {})
    if case["compact"].get("budget"):
        folder = tempfile.mkdtemp(prefix="sb3_run_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        options.update(budget=case["compact"]["budget"], spill=folder)
    kind = "CompactHerReplayBuffer" if case.get("her") else "CompactReplayBuffer"
    return {"replay_buffer_class": getattr(rlmem.sb3, kind), "replay_buffer_kwargs": options}


# ---------------------------------------------------------------- buffers
def buffer_arrays(buffer):
    """Every numpy array a buffer holds, Dict entries by key."""
    import numpy as np

    found = {}
    for name, value in vars(buffer).items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif isinstance(value, dict):
            found.update({f"{name}[{key}]": one for key, one in value.items() if isinstance(one, np.ndarray)})
    return found


def describe_buffer(buffer):
    """Arrays by name and size."""
    arrays = buffer_arrays(buffer)
    return {
        "class": type(buffer).__name__,
        "total": sum(a.nbytes for a in arrays.values()),
        "nbytes": {k: int(a.nbytes) for k, a in arrays.items()},
        "shape": {k: list(a.shape) for k, a in arrays.items()},
        "dtype": {k: str(a.dtype) for k, a in arrays.items()},
    }


def fill_replay(buffer, extra, rows):
    """Make every page of the first rows of every array resident, and leave a state that samples validly."""
    import numpy as np

    size = rows
    starts = (np.arange(size) // kit.EPISODE) * kit.EPISODE
    for name, whole in buffer_arrays(buffer).items():
        array = whole[:rows]
        if array.dtype == object:
            if not getattr(buffer, "copy_info_dict", False):
                continue  # add() leaves the empty dicts of the constructor in place
            for i in range(array.shape[0]):
                for j in range(array.shape[1]):  # what DummyVecEnv hands over: a fresh dict per step
                    array[i, j] = dict(extra, **{"TimeLimit.truncated": False})
        elif name in ("dones", "timeouts", "rewards"):
            array.fill(0)  # writes every page: np.zeros had left them unmapped
        elif name == "ep_start":
            array[...] = starts[:, None]
        elif name == "ep_length":
            array[...] = np.minimum(kit.EPISODE, size - starts)[:, None]
        elif name.startswith("_"):
            continue
        elif name == "actions" and array.dtype.kind in "iu":
            array.fill(0)
        else:
            array.fill(1 if array.dtype.kind in "iub" else 0.5)
    buffer.full = rows == buffer.buffer_size
    buffer.pos = 0 if buffer.full else rows


# ---------------------------------------------------------------- sizes
def optimizers(model):
    """Every optimizer reachable from the model."""
    import torch

    owners = [model, model.policy, *model.policy.children()]
    found = [getattr(owner, name, None) for owner in owners for name in ("optimizer", "ent_coef_optimizer")]
    return list({id(one): one for one in found if isinstance(one, torch.optim.Optimizer)}.values())


def components(model, buffer, group):
    """Measured bytes under the names of a plan's components."""
    arrays = describe_buffer(buffer)["nbytes"]
    if hasattr(buffer, "reserved_nbytes"):  # a compact buffer, which says itself what it takes
        arrays["observations"] = int(buffer.nbytes) - sum(arrays.values())
    sizes = {f"{group}.{name}": size for name, size in arrays.items() if not name.startswith("_") and name != "infos"}
    targets = [module for name, module in model.policy.named_children() if "target" in name]
    inside = kit.module_bytes(targets)
    sizes["learner.parameters"] = kit.module_bytes([model.policy]) - inside
    if inside:
        sizes["learner.targets"] = inside
    sizes["learner.gradients"] = kit.gradient_bytes([model.policy])
    sizes["learner.optimizer"] = kit.state_bytes(optimizers(model))
    return dict(sizes, **kit.cuda_peaks())


# ---------------------------------------------------------------- the run
def run(case):
    """All phases of the run."""
    phases = kit.Phases()
    if case.get("sb3_path"):
        sys.path.insert(0, case["sb3_path"])
    name = case["algorithm"].lower()
    with phases("import"):
        import gymnasium  # noqa: F401  # part of what such a process imports
        import stable_baselines3

        algorithm = getattr(stable_baselines3, CORE.get(name, ""), None)
        if name in CONTRIB:
            import sb3_contrib

            algorithm = getattr(sb3_contrib, CONTRIB[name])
        in_workers = case.get("vec_env") == "subproc" and not case.get("eval")
        notes = kit.prepare(dict(case, imports=() if in_workers else case.get("imports")), phases)
    if algorithm is None:
        raise ValueError("unknown algorithm %r" % name)

    with phases("build"):
        env = vector_env(case, int(case.get("n_envs", 1)), case.get("vec_env", "dummy"))
        model = build(algorithm, case, env)
        env = model.get_env()
        aside = case.get("eval") or {}
        eval_env = vector_env(case, aside["n_envs"], aside.get("vec_env", "dummy")) if aside else None
    off_policy = hasattr(model, "replay_buffer")
    buffer = model.replay_buffer if off_policy else model.rollout_buffer
    result = {"case": case, "buffer": describe_buffer(buffer), "notes": notes}
    result["params"] = {"policy": {"count": sum(p.numel() for p in model.policy.parameters())}}

    plain = case.get("compact") is None
    rows = case.get("rows") or getattr(buffer, "buffer_size", 0)
    if off_policy and case.get("fill_replay") and plain:
        with phases("collect"):
            fill_replay(buffer, case.get("info") or {}, rows)
        notes.append("replay filled with observations of the described shape, as far as the run comes")
    total, callback = model._setup_learn(10**9, callback=None)
    callback.on_training_start(locals(), globals())
    if off_policy and case.get("fill_replay") and not plain:
        with phases("collect"):
            collect(model, env, callback, rows, learning_starts=10**12)
        notes.append("replay filled by random actions in environments of the described shape, as far as the run comes")
    learn(model, env, callback, case, phases, total)
    result["components"] = components(model, buffer, "replay" if off_policy else "rollout")
    if case.get("evaluate") and eval_env is not None:
        from stable_baselines3.common.evaluation import evaluate_policy

        with phases("evaluate"):
            evaluate_policy(model, eval_env, n_eval_episodes=1, warn=False)
    if case.get("checkpoint", True):
        result.update(save(algorithm, model, env, case, phases, off_policy, notes))
    result["phases"] = phases.rows
    result["versions"] = kit.versions()
    for one in (env, eval_env):
        if one is not None:
            one.close()
    return result


def learn(model, env, callback, case, phases, total):
    """Collection and update, twice over for rollouts: the second collection has gradients and optimizer state beside it."""
    model._update_current_progress_remaining(model.num_timesteps, total)
    if not hasattr(model, "replay_buffer"):
        for _ in range(int(case.get("updates", 2))):
            with phases("collect"):
                model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
            with phases("update"):
                model.train()
        return
    steps_each = int(case.get("collect_steps", 128))
    updates = int(case.get("updates", 8))
    with phases("collect"):
        collect(model, env, callback, steps_each)
    for steps in [1, 1, updates - 2] if updates > 2 else [1] * updates:
        with phases("update"):
            model.train(gradient_steps=steps, batch_size=model.batch_size)
    with phases("collect"):  # beside gradients and optimizer state now
        collect(model, env, callback, steps_each)


def collect(model, env, callback, steps, learning_starts=0):
    """Steps of all environments into the replay buffer; random ones before ``learning_starts``."""
    from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

    model.collect_rollouts(
        env,
        callback=callback,
        train_freq=TrainFreq(steps, TrainFrequencyUnit.STEP),
        replay_buffer=model.replay_buffer,
        action_noise=model.action_noise,
        learning_starts=learning_starts,
        log_interval=None,
    )


def save(algorithm, model, env, case, phases, off_policy, notes):
    """Checkpoint and resume, in a folder that does not outlive the call."""
    result = {}
    folder = tempfile.mkdtemp(prefix="sb3_run_")
    try:
        with phases("checkpoint"):
            model.save(os.path.join(folder, "model.zip"))
        result["model_file_bytes"] = os.path.getsize(os.path.join(folder, "model.zip"))
        kept = off_policy and case.get("save_replay", True)
        if kept and shutil.disk_usage(folder).free < 1.1 * describe_buffer(model.replay_buffer)["total"]:
            notes.append("the replay buffer was not saved: too little room in %s" % folder)
            kept = False
        if kept:
            with phases("checkpoint"):
                model.save_replay_buffer(os.path.join(folder, "replay.pkl"))
            result["replay_file_bytes"] = os.path.getsize(os.path.join(folder, "replay.pkl"))
        if case.get("resume"):
            live = getattr(model, "replay_buffer", None)  # stays referenced: beside the live one
            with phases("resume"):
                if kept:
                    model.load_replay_buffer(os.path.join(folder, "replay.pkl"))
                else:
                    algorithm.load(os.path.join(folder, "model.zip"), env=env, device="cpu")
            del live
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


if __name__ == "__main__":
    sys.exit(kit.main(run))
