"""A Stable-Baselines3 model in plain data: spaces, sizes, arrays, networks, settings."""

from . import lazy, proc
from .stores import describe_store, is_compact

#: Settings that decide memory, by attribute name.
SETTINGS = (
    "n_envs",
    "n_steps",
    "batch_size",
    "n_epochs",
    "buffer_size",
    "gradient_steps",
    "learning_starts",
    "optimize_memory_usage",
    "tau",
    "use_sde",
    "n_quantiles",
    "n_delta",
    "sub_sampling_factor",
    "policy_delay",
)
#: Arguments that name the class of a buffer.
STORES = ("replay_buffer_class", "rollout_buffer_class")
#: Wrappers that stack frames, and the attribute that says how many.
STACKERS = {"VecFrameStack": "stacked_obs.n_stack", "FrameStackObservation": "stack_size", "FrameStack": "num_stack"}
#: Wrappers that leave a stack a stack.
NEUTRAL = (
    "VecTransposeImage",
    "VecMonitor",
    "VecNormalize",
    "VecCheckNan",
    "VecVideoRecorder",
    "Monitor",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "TimeLimit",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "ClipReward",
    "ClipRewardEnv",
    "TransformReward",
    "NormalizeReward",
    "ClipAction",
    "RescaleAction",
)
#: Arrays smaller than this in a buffer are scalars and positions.
LEAST = 64


def describe_request(model, bound):
    """What a constructor was given, before it built anything."""
    env, policy = bound.get("env"), bound.get("policy")
    facts = {
        "algorithm": type(model).__name__,
        "package": type(model).__module__.split(".")[0],
        "policy": policy if isinstance(policy, str) else getattr(policy, "__name__", str(policy)),
        "policy_kwargs": plain(bound.get("policy_kwargs") or {}),
        "device": str(bound.get("device", "auto")),
        "given": {name: bound[name] for name in SETTINGS if isinstance(bound.get(name), (bool, int))},
        "stores": [bound[name].__name__ for name in STORES if isinstance(bound.get(name), type)],
    }
    spec = env if not isinstance(env, str) else None
    if spec is not None and hasattr(spec, "observation_space"):
        facts["observation"] = space(spec.observation_space)
        facts["action"] = space(spec.action_space)
        facts["n_envs"] = getattr(spec, "num_envs", 1)
        facts["env"] = chain(spec)
        facts["stacks"] = stacks(spec)
    return facts


def describe_model(model, asked, device):
    """Everything about a built model that a plan wants to know; ``device`` is where its learner is meant to be."""
    settings = {}
    for name in SETTINGS:
        value = getattr(model, name, None)
        if isinstance(value, (bool, int, float)):
            settings[name] = value
        elif hasattr(value, "__index__"):
            settings[name] = int(value)
    frequency = getattr(model, "train_freq", None)
    if hasattr(frequency, "frequency"):
        settings["train_freq"] = [frequency.frequency, getattr(frequency.unit, "value", str(frequency.unit))]
    callback = asked.get("callback")
    buffers = {}
    for name in ("replay_buffer", "rollout_buffer"):
        buffer = getattr(model, name, None)
        if buffer is not None:
            buffers[name] = {"class": type(buffer).__name__, "arrays": arrays_of(buffer)}
            if is_compact(buffer):
                buffers[name]["store"] = describe_store(buffer)
    return {
        "algorithm": type(model).__name__,
        "bases": [cls.__name__ for cls in type(model).__mro__],
        "package": type(model).__module__.split(".")[0],
        "observation": space(model.observation_space),
        "action": space(model.action_space),
        "settings": settings,
        "policy": type(model.policy).__name__,
        "policy_kwargs": plain(getattr(model, "policy_kwargs", None) or {}),
        "networks": networks(model),
        "optimizers": sorted({type(item).__name__ for item in optimizers(model)}),
        "buffers": buffers,
        "env": chain(getattr(model, "env", None)),
        "stacks": stacks(getattr(model, "env", None)),
        "device": str(getattr(model, "device", "cpu")),
        "learner_device": device,
        "total_timesteps": asked.get("total_timesteps"),
        "callbacks": callbacks(callback),
    }


def space(item):
    """A Gymnasium space in the words of a run file; an unknown kind says its name."""
    kind = type(item).__name__
    if kind == "Box":
        low, high = item.low, item.high
        out = {"type": "box", "shape": [int(side) for side in item.shape], "dtype": str(item.dtype)}
        if str(item.dtype) == "uint8" or (low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all()):
            bounds = [float(low.min()), float(high.max())] if low.size else [0.0, 0.0]
            if all(abs(bound) < 1e30 for bound in bounds):
                out["low"], out["high"] = bounds
        return out
    if kind == "Discrete":
        return {"type": "discrete", "n": int(item.n)}
    if kind == "MultiDiscrete":
        return {"type": "multidiscrete", "nvec": [int(n) for n in item.nvec.flatten()]}
    if kind == "MultiBinary":
        shape = item.shape if len(item.shape) != 1 else None
        return {"type": "multibinary", "n": [int(n) for n in shape] if shape else int(item.shape[0])}
    if kind == "Dict":
        return {"type": "dict", "spaces": {key: space(sub) for key, sub in item.spaces.items()}}
    if kind == "Tuple":
        return {"type": "tuple", "spaces": [space(sub) for sub in item.spaces]}
    return {"type": kind.lower()}


def arrays_of(holder):
    """Every array an object holds in its attributes, one level of dictionaries and objects deep."""
    rows, seen = [], set()

    def add(name, value):
        if hasattr(value, "__array_interface__") and hasattr(value, "nbytes"):
            address = value.__array_interface__["data"][0]
            if value.nbytes >= LEAST and address not in seen:
                seen.add(address)
                whole = value.nbytes
                held = lazy.resident(address, whole) if whole >= proc.PAGE else whole
                rows.append(
                    {
                        "name": name,
                        "shape": [int(side) for side in value.shape],
                        "dtype": str(value.dtype),
                        "nbytes": int(whole),
                        "resident": int(held),
                        "address": int(address),
                    }
                )
        elif isinstance(value, dict):
            for key, item in value.items():
                if hasattr(item, "__array_interface__"):
                    add("%s[%s]" % (name, key), item)

    for name, value in vars(holder).items():
        add(name, value)
        if type(value).__module__.startswith(("stable_baselines3", "sb3_contrib")) or (
            isinstance(value, tuple) and hasattr(value, "_fields")
        ):
            inner = value._asdict() if hasattr(value, "_asdict") else getattr(value, "__dict__", {})
            for key, item in inner.items():
                add("%s.%s" % (name, key), item)
    return rows


def optimizers(model):
    """Every torch optimizer of a model, the policy's and those beside it."""
    found = []

    def look(holder):
        for value in list(getattr(holder, "__dict__", {}).values()):
            if hasattr(value, "param_groups") and hasattr(value, "state") and value not in found:
                found.append(value)

    look(model)
    policy = getattr(model, "policy", None)
    look(policy)
    for child in getattr(policy, "_modules", {}).values():
        if child is not None:
            look(child)
    return found


def networks(model):
    """Parameters by network (actor, critic, targets …), shared ones once; gradients and optimizer state as they are."""
    policy = getattr(model, "policy", None)
    if policy is None or not hasattr(policy, "named_children"):
        return {}
    seen, rows = set(), {}

    def count(module):
        total = 0
        for tensor in list(module.parameters()) + list(module.buffers()):
            key = tensor.data_ptr()
            if key not in seen:
                seen.add(key)
                total += tensor.numel() * tensor.element_size()
        return total

    for name, child in policy.named_children():
        rows[name] = count(child)
    rest = count(policy)
    if rest:
        rows["policy"] = rest
    return {name: nbytes for name, nbytes in rows.items() if nbytes}


def held(model, chosen):
    """Every tensor a learner keeps between updates: parameters, buffers, gradients, optimizer state."""
    tensors = []
    policy = getattr(model, "policy", None)
    if hasattr(policy, "parameters"):
        tensors += list(policy.parameters()) + list(policy.buffers())
    for optimizer in chosen:
        for group in optimizer.param_groups:
            tensors += group["params"]
        for values in optimizer.state.values():
            tensors += [value for value in values.values() if hasattr(value, "element_size")]
    return tensors + [tensor.grad for tensor in tensors if getattr(tensor, "grad", None) is not None]


def learner_bytes(model):
    """Gradients and optimizer state that exist now."""
    gradients = state = 0
    seen = set()
    for optimizer in optimizers(model):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    gradients += parameter.grad.numel() * parameter.grad.element_size()
        for values in optimizer.state.values():
            for value in values.values():
                if hasattr(value, "element_size"):
                    state += value.numel() * value.element_size()
    return {"gradients": gradients, "optimizer": state}


def chain(env):
    """The vector environment from the outside in."""
    names = []
    while env is not None:
        names.append(type(env).__name__)
        env = getattr(env, "venv", None)
    return names


def stacks(env):
    """Frames in the stack that a wrapper makes of every observation, by key ("" for all); empty where none is known.

    A wrapper around it that is not known may make something else of a stack.
    """
    while env is not None:
        name = type(env).__name__
        frames = _frames(env)
        if frames is not None:
            return {"": frames}
        if name == "DummyVecEnv" and getattr(env, "envs", None):
            env = env.envs[0]
        elif name in NEUTRAL:
            env = getattr(env, "venv", None) or getattr(env, "env", None)
        else:
            return {}
    return {}


def _frames(env):
    """The depth of a stack, of wrappers of Stable-Baselines3 and Gymnasium and what is derived from them."""
    for cls in type(env).__mro__:
        if cls.__name__ in STACKERS and cls.__module__.split(".")[0] in ("stable_baselines3", "gymnasium", "gym"):
            holder, _, name = STACKERS[cls.__name__].rpartition(".")
            frames = getattr(getattr(env, holder, None) if holder else env, name, None)
            return int(frames) if isinstance(frames, int) and frames > 1 else None
    return None


def callbacks(callback):
    """Names of the callbacks given to ``learn``."""
    if callback is None:
        return []
    if isinstance(callback, (list, tuple)):
        return [name for item in callback for name in callbacks(item)]
    inner = getattr(callback, "callbacks", None)
    return callbacks(inner) if isinstance(inner, list) else [type(callback).__name__]


def plain(value):
    """Settings as JSON; classes and functions by name."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__name__", None) or str(value)
