"""What an RLlib configuration says of itself: its numbers, two environments, its modules, a few steps of an EnvRunner.

Stand-alone: ``rllib_run.py`` imports it from its own folder, where Ray is installed; no Ray is started.
"""

import enum
import gc
import sys

import program_kit as kit


def describe(config):
    """Everything a plan needs, from the configuration's own objects; nothing is trained and no Ray is started."""
    check_valid(config)
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
    facts["evaluation"] = evaluation(config)
    facts["step"] = attempt(facts["network"], "a few steps in an EnvRunner", lambda: sampled_step(config, np))
    facts["file_bytes"] = max(facts["file_bytes"], (kit.proc.status() or {}).get("RssFile", 0))
    env.close()
    return facts


def check_valid(config):
    """What RLlib would refuse when the run starts is refused now, in its words."""
    try:
        config.copy(copy_frozen=False).validate()
    except ValueError as error:
        raise ValueError("RLlib refuses the configuration: %s" % " ".join(str(error).split())) from None


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
    "use_circular_buffer",
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
    "evaluation_duration_unit",
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
    if isinstance(value, enum.Enum):
        return plain(value.value)
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


def sampled_step(config, np):
    """What a step leaves in an episode, by a few steps of a real EnvRunner in this process.

    Connectors may write other observations into episodes than the environment made, and modules have outputs of their own:
    a recurrent one has its state.
    """
    import tree
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = config.copy(copy_frozen=False)
    config.num_envs_per_env_runner, config.gym_env_vectorize_mode = 1, "sync"
    config.num_gpus_per_env_runner = 0
    made = config.env_runner_cls or SingleAgentEnvRunner
    runner = made(config=config, worker_index=1, num_workers=max(1, config.num_env_runners or 0))
    try:
        episode = max(runner.sample(num_timesteps=8, explore=True), key=len)
        episode.to_numpy()
        steps = len(episode)

        def arrays(found):
            return sum(leaf.nbytes for leaf in tree.flatten(found) if leaf.dtype != object)

        outputs = [episode.get_extra_model_outputs(name) for name in episode.extra_model_outputs]
        return {
            "observation_bytes": arrays(episode.get_observations()) // (steps + 1),
            "beside_bytes": (arrays(episode.get_actions()) + arrays(episode.get_rewards()) + arrays(outputs)) // steps,
        }
    finally:
        runner.stop()


def evaluation(config):
    """EnvRunners of the evaluation as they differ from the others; None where nothing is ever evaluated."""
    if not config.evaluation_interval:
        return None
    found = config.get_evaluation_config_object()
    return {
        "num_envs": plain(found.num_envs_per_env_runner),
        "duration": plain(config.evaluation_duration),
        "unit": plain(config.evaluation_duration_unit),
    }


def episode_steps(env, seconds=1.5, most=3000):
    """The longest episode of a few under random actions; None when none ended within the time.

    Time is the processor's: what else runs on the machine must not change a plan.
    """
    import time

    longest, steps, begin = None, 0, time.process_time()
    env.reset(seed=0)
    for _ in range(most):
        steps += 1
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            longest, steps = max(longest or 0, steps), 0
            env.reset()
        if time.process_time() - begin > seconds:
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
    for module in runner.values():
        batch = probe_batch(module, spaces[DEFAULT_MODULE_ID], 2, 1, torch, np)
        batch = {key: batch[key] for key in ("obs", "state_in") if key in batch}
        attempt(out, "a forward pass of the module", lambda: module.forward_exploration(dict(batch), t=0))
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
    steps = sequence(module)
    out["sequence"] = steps if module.is_stateful() else None
    sizes = [saved(module, spaces[DEFAULT_MODULE_ID], batch, steps, out, torch, np) for batch in (2, 6)]
    for name, (small, large) in zip(("saved_bytes", "value_bytes"), zip(*sizes)):
        out[name] = None if small is None or large is None else (large - small) // (4 * steps)
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
        why = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:200])
        if not any(note.endswith(why) for note in out["notes"]):  # mostly one cause, met again
            out["notes"].append("%s failed: %s" % (what, why))
        return None


def sequence(module):
    """Steps that a recurrent module learns from at a time; 1 for any other."""
    return int(module.model_config["max_seq_len"]) if module.is_stateful() else 1


def probe_batch(module, spaces, count, steps, torch, np):
    """A batch of samples of the module's own spaces, as tensors; of a recurrent module, so many sequences of steps."""
    import tree

    observation, action = spaces
    shape = (count, steps) if module.is_stateful() else (count,)

    def tensor(found):
        rows = [found.sample() for _ in range(int(np.prod(shape)))]
        if isinstance(rows[0], dict):
            return {key: stack([row[key] for row in rows]) for key in rows[0]}
        return stack(rows)

    def stack(rows):
        made = torch.from_numpy(np.stack([np.asarray(row) for row in rows]))
        made = made.float() if made.is_floating_point() else made
        return made.reshape(shape + made.shape[1:])

    batch = {
        "obs": tensor(observation),
        "new_obs": tensor(observation),
        "actions": tensor(action),
        "rewards": torch.zeros(shape),
        "terminateds": torch.zeros(shape, dtype=torch.bool),
        "truncateds": torch.zeros(shape, dtype=torch.bool),
    }
    if module.is_stateful():

        def repeated(one):
            return torch.as_tensor(one).float().unsqueeze(0).repeat((count,) + (1,) * len(one.shape))

        batch["state_in"] = tree.map_structure(repeated, module.get_initial_state())
    return batch


def saved(module, spaces, count, steps, out, torch, np):
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

    batch = probe_batch(module, spaces, count, steps, torch, np)
    what = "a training forward pass of the module"
    forward = run(lambda: attempt(out, what, lambda: module.forward_train(dict(batch))))
    value = None
    if hasattr(module, "compute_values"):
        what = "a value forward pass of the module"
        value = run(lambda: attempt(out, what, lambda: module.compute_values(dict(batch))))
    return forward, value


def layers(module):
    """The module's leaf layers in order, for the reader."""
    return [
        "%s %s" % (path, str(layer).split("(")[0].lower())
        for path, layer in module.named_modules()
        if not any(True for _ in layer.children())
    ]
