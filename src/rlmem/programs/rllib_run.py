"""An RLlib configuration in its own interpreter: what it says of itself, or a run of it for real.

Stand-alone: runs by path where Ray is installed. The case is ``{"mode": "describe" | "measure", "target": "file.py:name", …}``;
``describe`` starts no Ray.
"""

import gc
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program_kit as kit

DEFAULTS = {
    "mode": "describe",
    "target": "",
    "folder": "",
    "iterations": 3,
    "most_iterations": 2000,
    "seconds": 240,
    "changes": {},
    "cpus": None,
    "store_bytes": None,
}


# ---------------------------------------------------------------- the configuration
def find_config(target, changes):
    """The object a target names: ``file.py:name`` or ``module:name``, called if it is a function."""
    place, _, name = target.rpartition(":")
    sys.path.insert(0, os.getcwd())
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        module = kit.load_by_path("rlmem_rllib_target", place)
        sys.modules["rlmem_rllib_target"] = module
        # Other processes have no module of this name: what it defines travels whole, as it would from a user's __main__.
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise ValueError("%s has no %r" % (place, name))
    config = getattr(module, name)
    if callable(config) and not hasattr(config, "algo_class"):
        config = config()
    if not hasattr(config, "algo_class"):
        raise ValueError("%s is a %s, not an RLlib AlgorithmConfig" % (target, type(config).__name__))
    if not getattr(config, "enable_env_runner_and_connector_v2", False):
        raise ValueError(
            "%s uses RLlib's old API stack; rlmem plans the new one (api_stack of the configuration)" % target
        )
    config = config.copy(copy_frozen=False)
    for key, value in changes.items():
        if key == "buffer_size":
            config.replay_buffer_config = dict(config.replay_buffer_config, capacity=value)
            continue
        if not hasattr(config, key):
            raise ValueError("an RLlib configuration has no %r" % key)
        setattr(config, key, value)
    return config


# ---------------------------------------------------------------- describe
def describe(case):
    """Everything a plan needs, from the configuration's own objects; nothing is trained and no Ray is started."""
    config = find_config(case["target"], case["changes"])
    import numpy as np
    import torch  # noqa: F401

    status = kit.proc.status() or {}
    facts = {
        "algorithm": config.algo_class.__name__,
        "versions": kit_versions(),
        "env": str(config.env if isinstance(config.env, str) else getattr(config.env, "__name__", config.env)),
        "config": {name: plain(getattr(config, name, None)) for name in FIELDS},
        "fragment": plain(config.get_rollout_fragment_length(worker_index=min(1, config.num_env_runners))),
        "is_multi_agent": bool(config.is_multi_agent),
        "imported_bytes": status.get("RssAnon", 0),
        "file_bytes": status.get("RssFile", 0),
    }
    if facts["is_multi_agent"]:
        raise ValueError("a multi-agent configuration; rlmem plans single-agent ones so far")
    pages = Pages()
    env = make_env(config)
    first = pages.step()
    other = make_env(config)
    facts["env_bytes"] = pages.step()
    facts["env_once_bytes"] = max(0, first - facts["env_bytes"])
    facts["info_bytes"] = info_bytes(other, np)
    other.close()
    facts["observation"] = space(env.observation_space, np)
    facts["action"] = space(env.action_space, np)
    facts["episode_length"] = plain(getattr(getattr(env, "spec", None), "max_episode_steps", None))
    facts["episode_steps"] = episode_steps(env)
    facts["env_packages"] = env_packages()
    facts["network"] = networks(config, env, pages, np)
    facts["file_bytes"] = max(facts["file_bytes"], (kit.proc.status() or {}).get("RssFile", 0))
    env.close()
    return facts


#: Attributes of an AlgorithmConfig that decide its memory.
FIELDS = (
    "num_env_runners",
    "num_envs_per_env_runner",
    "gym_env_vectorize_mode",
    "create_local_env_runner",
    "create_env_on_local_worker",
    "rollout_fragment_length",
    "batch_mode",
    "max_requests_in_flight_per_env_runner",
    "compress_observations",
    "num_cpus_per_env_runner",
    "num_gpus_per_env_runner",
    "train_batch_size",
    "train_batch_size_per_learner",
    "total_train_batch_size",
    "minibatch_size",
    "num_epochs",
    "num_learners",
    "num_gpus_per_learner",
    "num_cpus_per_learner",
    "num_cpus_for_main_process",
    "custom_resources_for_main_process",
    "custom_resources_per_env_runner",
    "custom_resources_per_learner",
    "placement_strategy",
    "num_aggregator_actors_per_learner",
    "max_requests_in_flight_per_aggregator_actor",
    "max_requests_in_flight_per_learner",
    "learner_queue_size",
    "circular_buffer_num_batches",
    "circular_buffer_iterations_per_batch",
    "simple_queue_size",
    "num_gpu_loader_threads",
    "replay_buffer_config",
    "num_steps_sampled_before_learning_starts",
    "n_step",
    "training_intensity",
    "twin_q",
    "evaluation_interval",
    "evaluation_num_env_runners",
    "evaluation_duration",
    "evaluation_parallel_to_training",
    "evaluation_config",
    "num_atoms",
    "dueling",
    "double_q",
    "use_kl_loss",
    "use_critic",
    "lambda_",
)


def plain(value):
    """JSON of a value; what has none is its name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        return value.item()
    return getattr(value, "__name__", type(value).__name__)


def kit_versions():
    from importlib import metadata

    found = {}
    for name in ("ray", "torch", "gymnasium", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def make_env(config):
    """One environment as an EnvRunner makes it, stepped once."""
    import gymnasium as gym
    from ray.rllib.env.env_context import EnvContext
    from ray.tune.registry import ENV_CREATOR, _global_registry

    context = EnvContext(config.env_config or {}, worker_index=1, num_workers=config.num_env_runners)
    if isinstance(config.env, str):
        if _global_registry.contains(ENV_CREATOR, config.env):
            env = _global_registry.get(ENV_CREATOR, config.env)(context)
        else:
            if config.env.startswith("ale_py:") or config.env.startswith("ALE/"):
                import ale_py

                gym.register_envs(ale_py)
            env = gym.make(config.env, **(config.env_config or {}))
    elif config.env is None:
        raise ValueError("the configuration names no environment; call .environment(…) on it")
    else:
        env = config.env(context)
    env.reset()
    env.step(env.action_space.sample())
    return env


def info_bytes(env, np):
    """A step's info as Python objects: episodes keep one for every step, here and wherever they are sent."""
    env.reset(seed=0)
    *_, info = env.step(env.action_space.sample())

    def size(found):
        if isinstance(found, np.ndarray):
            return sys.getsizeof(found) + (found.nbytes if found.base is not None else 0)
        own = sys.getsizeof(found)
        if isinstance(found, dict):
            return own + sum(size(value) for value in found.values())  # keys are the same strings every time
        if isinstance(found, (list, tuple)):
            return own + sum(size(value) for value in found)
        return own

    return size(info)


def episode_steps(env, seconds=1.5, most=3000):
    """The longest episode of a few under random actions; None when none ended within the time."""
    import time

    longest, steps, begin = None, 0, time.monotonic()
    env.reset(seed=0)
    for _ in range(most):
        steps += 1
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            longest, steps = max(longest or 0, steps), 0
            env.reset()
        if time.monotonic() - begin > seconds:
            break
    return longest


def env_packages():
    """Packages of environments that this process has imported by now."""
    known = {
        "ale_py": "ale_py",
        "mujoco": "mujoco",
        "Box2D": "Box2D",
        "cv2": "cv2",
        "pygame": "pygame",
        "pyboy": "pyboy",
    }
    return sorted(name for module, name in known.items() if module in sys.modules)


def space(found, np):
    """A space as a run file writes it."""
    kind = type(found).__name__
    if kind == "Box":
        return {"type": "box", "shape": [int(side) for side in found.shape], "dtype": str(found.dtype)}
    if kind == "Discrete":
        return {"type": "discrete", "n": int(found.n)}
    if kind == "MultiDiscrete":
        return {"type": "multidiscrete", "nvec": [int(n) for n in np.ravel(found.nvec)]}
    if kind == "MultiBinary":
        return {"type": "multibinary", "shape": [int(n) for n in np.ravel(found.n)]}
    if kind == "Dict":
        return {"type": "dict", "spaces": {str(key): space(sub, np) for key, sub in found.spaces.items()}}
    if kind == "Tuple":
        return {"type": "tuple", "spaces": [space(sub, np) for sub in found.spaces]}
    raise ValueError("cannot size a space of kind %s" % kind)


class Pages:
    """Anonymous memory of this process, from mark to mark."""

    def __init__(self):
        gc.collect()
        self.last = self.read()

    @staticmethod
    def read():
        return (kit.proc.status() or {}).get("RssAnon", 0)

    def step(self):
        gc.collect()
        before, self.last = self.last, self.read()
        return max(0, self.last - before)


def spaces_of(config, env):
    """The spaces of the environment, and of the module behind the env-to-module connectors (which may stack frames)."""
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

    own = (env.observation_space, env.action_space)
    spaces = {INPUT_ENV_SPACES: own, INPUT_ENV_SINGLE_SPACES: own, DEFAULT_MODULE_ID: own}
    pipeline = config.build_env_to_module_connector(env=None, spaces=spaces)
    seen = getattr(pipeline, "observation_space", None)
    if seen is not None and hasattr(seen, "spaces") and DEFAULT_MODULE_ID in getattr(seen, "spaces", {}):
        seen = seen.spaces[DEFAULT_MODULE_ID]
    return {**spaces, DEFAULT_MODULE_ID: (seen if seen is not None else own[0], own[1])}


def networks(config, env, pages, np):
    """The modules as an EnvRunner and as a Learner hold them, a forward pass and an update of each, and what that adds."""
    import torch
    from ray.rllib.core import DEFAULT_MODULE_ID

    spaces = spaces_of(config, env)
    out = {"module_observation": space(spaces[DEFAULT_MODULE_ID][0], np), "notes": []}
    runner = config.get_multi_rl_module_spec(spaces=spaces, inference_only=True).build()
    out["runner_parameters"] = sum(p.numel() for module in runner.values() for p in module.parameters())
    out["modules"] = len(list(runner.keys()))
    obs = probe_batch(spaces[DEFAULT_MODULE_ID], 2, torch, np)
    for module in runner.values():
        attempt(out, "forward pass", lambda: module.forward_exploration({"obs": obs["obs"]}, t=0))
    out["runner_bytes"] = max(0, pages.step() - 4 * out["runner_parameters"])
    del runner
    gc.collect()
    learner = config.get_multi_rl_module_spec(spaces=spaces, inference_only=False).build()
    own = sum(p.numel() for module in learner.values() for p in module.parameters())
    out["parameters"] = sum(p.numel() for module in learner.values() for p in module.parameters() if p.requires_grad)
    out["largest_parameter"] = max((p.numel() for module in learner.values() for p in module.parameters()), default=0)
    out["layers"] = {name: layers(module) for name, module in learner.items()}
    pages.step()
    for module in learner.values():
        if hasattr(module, "make_target_networks"):
            module.make_target_networks()
    out["target_parameters"] = sum(p.numel() for module in learner.values() for p in module.parameters()) - own
    module = next(iter(learner.values()))
    sizes = [saved(module, spaces[DEFAULT_MODULE_ID], batch, out, torch, np) for batch in (2, 6)]
    if None not in sizes:
        out["saved_bytes"] = (sizes[1][0] - sizes[0][0]) // 4
        out["value_bytes"] = None if sizes[0][1] is None else (sizes[1][1] - sizes[0][1]) // 4
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-9)
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    out["learner_bytes"] = max(0, pages.step() - 4 * out["target_parameters"] - 12 * sum(p.numel() for p in trained))
    return out


def attempt(out, what, call):
    """Something the configuration's own code may refuse; then the plan goes on without it, and says so."""
    try:
        return call()
    except Exception as error:
        note = "%s of the module failed: %s: %s" % (what, type(error).__name__, str(error)[:200])
        if note not in out["notes"]:
            out["notes"].append(note)
        return None


def probe_batch(spaces, count, torch, np):
    """A batch of samples of the module's own spaces, as tensors."""
    observation, action = spaces

    def tensor(found):
        rows = [found.sample() for _ in range(count)]
        if isinstance(rows[0], dict):
            return {key: stack([row[key] for row in rows]) for key in rows[0]}
        return stack(rows)

    def stack(rows):
        made = torch.from_numpy(np.stack([np.asarray(row) for row in rows]))
        return made.float() if made.is_floating_point() else made

    return {
        "obs": tensor(observation),
        "new_obs": tensor(observation),
        "actions": tensor(action),
        "rewards": torch.zeros(count),
        "terminateds": torch.zeros(count, dtype=torch.bool),
        "truncateds": torch.zeros(count, dtype=torch.bool),
    }


def saved(module, spaces, count, out, torch, np):
    """Bytes autograd keeps for the backward pass of a training forward and of a value forward, parameters not counted."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def run(call):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = call()
        size = sum(kept.values())
        return None if result is None else size

    batch = probe_batch(spaces, count, torch, np)
    forward = run(lambda: attempt(out, "training forward pass", lambda: module.forward_train(dict(batch))))
    value = None
    if hasattr(module, "compute_values"):
        value = run(lambda: attempt(out, "value forward pass", lambda: module.compute_values(dict(batch))))
    return None if forward is None else (forward, value)


def layers(module):
    """The module's leaf layers in order, for the reader."""
    return [
        "%s %s" % (path, str(layer).split("(")[0].lower())
        for path, layer in module.named_modules()
        if not any(True for _ in layer.children())
    ]


# ---------------------------------------------------------------- measure
def check_gpus(config, there):
    """Actors that no node can take would be waited for without end."""
    runners, learners = config.num_env_runners or 0, config.num_learners or 0
    wanted = runners * (config.num_gpus_per_env_runner or 0) + max(1, learners) * (config.num_gpus_per_learner or 0)
    if wanted > there:
        raise ValueError("the configuration asks for %g GPUs, and this machine has %g" % (wanted, there))


def measure(case):
    import time

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    phases = kit.Phases()
    begin = time.monotonic()
    with phases("import"):
        config = find_config(case["target"], case["changes"])
        import ray
    settings = {"include_dashboard": False, "log_to_driver": False, "_temp_dir": case["folder"] or None}
    if case["cpus"]:
        settings["num_cpus"] = case["cpus"]
    if case["store_bytes"]:
        settings["object_store_memory"] = case["store_bytes"]
    with phases("build"):
        ray.init(**settings)
        check_gpus(config, ray.cluster_resources().get("GPU", 0))
        algo = config.build_algo()
    iterations = rows = 0
    capacity = (getattr(config, "replay_buffer_config", None) or {}).get("capacity")
    has_replay = getattr(algo, "local_replay_buffer", None) is not None
    with phases("update"):
        while iterations < case["most_iterations"] and time.monotonic() - begin < case["seconds"]:
            algo.train()
            iterations += 1
            if has_replay:
                rows = algo.local_replay_buffer.get_num_timesteps()
                if rows < 0.995 * capacity:
                    continue
            if iterations >= case["iterations"]:
                break
    roles = {str(os.getpid()): "driver"}

    def note(pids, role):
        roles.update({str(pid): role for pid in pids if pid != os.getpid()})

    note(algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False), "env-runner")
    if getattr(algo, "eval_env_runner_group", None) is not None:
        note(
            algo.eval_env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False),
            "eval-env-runner",
        )
    if not algo.learner_group.is_local:
        note([result.get() for result in algo.learner_group.foreach_learner(lambda learner: os.getpid())], "learner")
    manager = getattr(algo, "_aggregator_actor_manager", None)
    if manager is not None:
        note([result.get() for result in manager.foreach_actor(lambda actor: os.getpid())], "aggregator")
    answer = {
        "phases": phases.rows,
        "roles": roles,
        "titles": {str(pid): kit.proc.command(pid).strip() for pid in kit.proc.tree(os.getpid())},
        "iterations": iterations,
        "rows": rows,
        "capacity": capacity if has_replay else None,
        "versions": kit_versions(),
    }
    algo.stop()
    ray.shutdown()
    return answer


if __name__ == "__main__":
    sys.exit(kit.main(lambda case: (measure if case["mode"] == "measure" else describe)(case), DEFAULTS))
