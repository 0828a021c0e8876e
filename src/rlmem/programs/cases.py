"""A described run as the case of the program that runs it for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from rlmem.core.layers import Chain
from rlmem.core.schedule import reached
from rlmem.core.spaces import Box, DictSpace, Discrete, Space, TupleSpace, Window, describe_space, leaves
from rlmem.core.spec import RunSpec
from rlmem.errors import UsageError
from rlmem.frameworks import find_adapter, resolve
from rlmem.frameworks.cleanrl import place
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.frameworks.sb3.networks import PRESETS, extractor
from rlmem.frameworks.stream import is_stream
from rlmem.frameworks.swarm import chains
from rlmem.model.workers import env_state
from rlmem.swarm.settings import Settings
from rlmem.swarm.spec import swarm_settings

FOLDER = Path(__file__).parent
#: Passes over a rollout and gradient steps that a measurement runs: memory does not depend on more of them. CrossQ and
#: TD3 update their actor only every few steps, and the heap grows over the first dozens; image batches are large enough
#: to be mapped and take long.
ROLLOUT_UPDATES, VECTOR_UPDATES, IMAGE_UPDATES = 2, 32, 6
COLLECT_STEPS = 16
#: Arrays of the swarm program's own environment.
SWARM_STATE = ("observations", "pos_history", "scalars", "imu_history")
_ACTIVATIONS = {
    "relu": "ReLU",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "elu": "ELU",
    "leakyrelu": "LeakyReLU",
    "gelu": "GELU",
    "silu": "SiLU",
    "identity": "Identity",
}
_OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "sgd": "SGD", "sgd-momentum": "SGD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What to run: a program, its input, the packages it cannot do without, and what was left out."""

    program: str
    body: Mapping[str, Any]
    packages: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def path(self) -> Path:
        """The program's file."""
        return FOLDER / self.program


def make_case(spec: RunSpec, updates: int | None = None) -> Case:
    """The case of a described run; :class:`UsageError` when no program can run it as described."""
    name = find_adapter(spec).name
    if name not in PROGRAMS:
        raise UsageError(
            f"{spec.name}: a description of {name} is not run; 'rlmem measure rllib:FILE.py:NAME' runs a configuration"
        )
    resolved = resolve(spec)
    _refuse(spec, "precision", ("float32",), f"rlmem's {name} program computes in float32")
    stores: tuple[str, ...] = ("plain", "compact", "frames-once") if name == "sb3" else ("plain",)
    stores = ("plain", "stream", "compact", "frames-once") if name == "swarm" else stores
    _refuse(spec, "storage", stores, f"rlmem's {name} program stores what the framework stores")
    _refuse(spec, "codec", ("none",), "what a codec saves depends on data that a description does not have")
    make, packages = PROGRAMS[name]
    body, notes = make(spec, resolved)
    if updates is not None:
        on_policy = "n_steps" in resolved and "buffer_size" not in resolved
        key = "updates" if name in ("sb3", "cleanrl") else "iterations"
        body[key] = max(updates, 1) if on_policy or name != "sb3" else max(updates, 2)
    packages = (*packages, "rlmem", "numba") if body.get("compact") else packages
    packages = (*packages, "rlmem") if body.get("settings") else packages
    contrib = ("sb3_contrib",) if name == "sb3" and resolved.text("algorithm") in _contrib() else ()
    return Case(program=f"{name}_run.py", body=body, packages=(*packages, *contrib), notes=tuple(notes))


def _contrib() -> tuple[str, ...]:
    from rlmem.frameworks.sb3.defaults import CONTRIB

    return CONTRIB


def _refuse(spec: RunSpec, path: str, allowed: tuple[str, ...], why: str) -> None:
    value = spec.get(path, allowed[0])
    if value not in allowed:
        raise UsageError(
            f"{path}: {value} can be planned, but not run: {why}; measure a script of yours instead, "
            f"or pass --set {path}={allowed[0]}"
        )


def plain_space(space: Space) -> dict[str, Any]:
    """A space as programs read it: a window is the flat box it looks like."""
    match space:
        case Window():
            (leaf,) = leaves(space, "")
            return {"type": "box", "shape": list(leaf.shape), "dtype": leaf.dtype}
        case DictSpace():
            return {"type": "dict", "spaces": {key: plain_space(sub) for key, sub in space.spaces}}
        case TupleSpace():
            return {"type": "tuple", "spaces": [plain_space(sub) for sub in space.spaces]}
        case _:
            return describe_space(space)


def ops(chain: Chain) -> list[dict[str, Any]]:
    """A chain as ``program_kit.chain`` reads it."""
    return [
        {
            "kind": op.layer.kind,
            "in": list(op.in_shape),
            "out": list(op.out_shape),
            "k": op.layer.kernel,
            "s": op.layer.stride,
            "p": op.layer.padding,
            "o": op.layer.output_padding,
        }
        for op in chain.ops
    ]


def _surroundings(spec: RunSpec, resolved: RunSpec) -> dict[str, Any]:
    """What every environment program knows: spaces, counts, and what an environment holds and imports."""
    state = env_state(resolved)
    agents = int(resolved.get("agents", 1))
    return {
        "algorithm": resolved.text("algorithm"),
        "observation": plain_space(spec.having({"frame_stack": None}, "").observation),
        "action": describe_space(spec.need("action")),
        "n_envs": resolved.count("n_envs"),
        "vec_env": resolved.get("vec_env", "dummy"),
        "env_bytes": int(spec.get("env.bytes", 0)) + (state.value * agents if state else 0),
        "imports": list(spec.get("env.imports", ())),
        "episode": int(spec.get("episode_length", 100)),
        "threads": spec.get("threads"),
        "device": resolved.get("device", "cpu"),
    }


def written_rows(resolved: RunSpec) -> int | None:
    """Rows of its replay buffer that a run comes to, one for all environments; ``None`` where it comes to all of them."""
    if "buffer_size" not in resolved:
        return None
    found = reached(resolved, resolved.q("buffer_size"))
    return None if found is None else found.value // resolved.count("n_envs")


# ---------------------------------------------------------------- Stable-Baselines3
def sb3_case(spec: RunSpec) -> dict[str, Any]:
    """The same run for ``sb3_run.py``, without checkpoints."""
    return {**_sb3(spec, resolve(spec))[0], "checkpoint": False}


def _sb3(spec: RunSpec, resolved: RunSpec) -> tuple[dict[str, Any], list[str]]:
    _refuse(spec, "replay.kind", ("plain", "her", "n-step"), "SB3 ships no such buffer")
    notes: list[str] = []
    kwargs = _sb3_arguments(spec, resolved)
    if "n_steps" in resolved and resolved.get("n_epochs", 1) > 1 and resolved.text("algorithm") not in ("a2c", "trpo"):
        kwargs["n_epochs"] = 1
        notes.append("one epoch an update (more need no more memory)")
    image = any(leaf.is_image for leaf in spec.observation_leaves)
    evaluation = {"n_envs": spec.get("eval.n_envs"), "vec_env": spec.get("eval.vec_env", "dummy")}
    body = {
        **_surroundings(spec, resolved),
        "frame_stack": spec.get("frame_stack", 1),
        "vec_normalize": spec.flag("vec_normalize"),
        "start_method": spec.get("env.start_method"),
        "eval": evaluation if spec.get("eval.n_envs", 0) else None,
        "evaluate": bool(resolved.get("eval.attached", True)),
        "her": spec.get("replay.kind") == "her",
        "compact": {"budget": spec.get("spill_budget")} if is_compact(spec) else None,
        "fill_replay": True,
        "rows": written_rows(resolved),
        "checkpoint": True,
        "save_replay": spec.flag("checkpoint.save_replay_buffer") or spec.get("resume.replay_buffer", "none") != "none",
        "resume": spec.get("resume.replay_buffer", "none") != "none",
        "collect_steps": COLLECT_STEPS,
        "updates": ROLLOUT_UPDATES if "n_steps" in resolved else IMAGE_UPDATES if image else VECTOR_UPDATES,
        "model_kwargs": kwargs,
    }
    choice = resolved.get("network.extractor")
    if choice == "flatten" and image:  # SB3 users choose to flatten an image by naming the MLP policy
        body["policy"] = "MlpPolicy"
    if not isinstance(choice, str) or "network.fusion" in spec:
        features = extractor(resolved)
        body["extractor"] = {
            "branches": {leaf.name: ops(chain) for leaf, chain in features.branches},
            "fusion": ops(features.fusion) if features.fusion else None,
        }
    if body["resume"] and spec.get("resume.replay_buffer") == "into-new":
        notes.append("resume was measured beside the live buffer, not into a new model")
    return body, notes


def _sb3_arguments(spec: RunSpec, resolved: RunSpec) -> dict[str, Any]:
    """Arguments of the model's constructor: what the description says, and nothing else."""
    known = ("n_steps", "batch_size", "n_epochs", "buffer_size", "gradient_steps", "optimize_memory_usage")
    kwargs = {name: spec.get(name) for name in known if name in spec and name in resolved}
    if resolved.text("algorithm") == "a2c":
        kwargs.pop("batch_size", None)
        kwargs.pop("n_epochs", None)
    if "buffer_size" in resolved:
        kwargs["learning_starts"] = 10
    timeouts = resolved.get("handle_timeout_termination")
    if timeouts is False:
        kwargs["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    if spec.get("replay.kind") == "n-step":
        kwargs["n_steps"] = 3
    policy = _policy_arguments(spec)
    return kwargs | ({"policy_kwargs": policy} if policy else {})


def _policy_arguments(spec: RunSpec) -> dict[str, Any]:
    network = spec.to_dict().get("network", {})
    names = ("net_arch", "share_features_extractor", "n_critics", "n_quantiles")
    policy: dict[str, Any] = {name: network[name] for name in names if name in network}
    renamed = {
        "lstm_hidden": "lstm_hidden_size",
        "lstm_layers": "n_lstm_layers",
        "critic_lstm": "enable_critic_lstm",
    }
    policy |= {ours: network[name] for name, ours in renamed.items() if name in network}
    if "activation" in network:
        policy["activation_fn"] = _ACTIVATIONS[network["activation"]]
    if spec.get("normalize_images") is False:
        policy["normalize_images"] = False
    choice = spec.get("network.extractor", "")
    if "features_dim" in network and (choice in PRESETS or not choice):
        combined = isinstance(spec.observation, (DictSpace, TupleSpace))
        policy["features_extractor_kwargs"] = {
            "cnn_output_dim" if combined else "features_dim": network["features_dim"]
        }
    if "optimizer" in spec:
        policy["optimizer_class"] = _OPTIMIZERS[spec.text("optimizer")]
        if spec.get("optimizer") == "sgd-momentum":
            policy["optimizer_kwargs"] = {"momentum": 0.9}
    return policy


# ---------------------------------------------------------------- the others
def swarm_case(spec: RunSpec) -> dict[str, Any]:
    """The same run for ``swarm_run.py``."""
    return _swarm(spec, resolve(spec))[0]


def settings_case(settings: Settings, iterations: int = 1) -> Case:
    """A run of the drones' own code, on any rung.

    A plan is that of the second iteration and all later ones: what the first update brought in (kernels, optimizer state, the
    heap's holes) is there in the collections after it.
    """
    body = {"settings": asdict(settings), "iterations": iterations}
    return Case(program="swarm_run.py", body=body, packages=("torch", "rlmem"))


def _swarm(spec: RunSpec, resolved: RunSpec) -> tuple[dict[str, Any], list[str]]:
    if is_stream(resolved):
        around = {"threads": spec.get("threads"), "imports": list(spec.get("env.imports", ()))}
        body = {"settings": asdict(swarm_settings(spec)), "iterations": ROLLOUT_UPDATES, **around}
        return body, ["two iterations: the second collection is larger than the first"]
    window = resolved.window
    assert window is not None  # resolve() has refused anything else
    if window.dtype != "float32":
        raise UsageError(f"observation: a window of {window.dtype} can be planned, but not run; use float32")
    _refuse(spec, "rollout.store", ("list-then-stack", "array"), "the swarm program keeps a list or one tensor")
    agents = resolved.count("agents") * resolved.count("n_envs")
    samples, batch = resolved.count("n_steps") * agents, resolved.count("batch_size")
    state = spec.get("env.state", {})
    others = resolved.having({"env.state": {k: v for k, v in state.items() if k not in SWARM_STATE}}, "")
    further = env_state(others)
    body = {
        "agents": agents,
        "steps": resolved.count("n_steps"),
        "history": window.length,
        "sample": window.sample,
        "extra": window.extra,
        "step": window.step,
        "modules": {name: ops(chain) for name, chain in chains(resolved).items()},
        "rollout_grad": resolved.flag("rollout.keeps_graph"),
        "clone_then_stack": resolved.get("rollout.store") == "list-then-stack",
        "batch": batch if batch < samples else None,
        "imu_history": "imu_history" in state,
        "state_bytes": (further.value if further else 0) + int(spec.get("env.bytes", 0)),
        "threads": spec.get("threads"),
        "imports": list(spec.get("env.imports", ())),
        "device": resolved.text("device"),
        "optimizer": resolved.text("optimizer"),
    }
    return body, []


def elegantrl_case(spec: RunSpec) -> dict[str, Any]:
    """The same run for ``elegantrl_run.py``."""
    return _elegantrl(spec, resolve(spec))[0]


def _elegantrl(spec: RunSpec, resolved: RunSpec) -> tuple[dict[str, Any], list[str]]:
    _refuse(spec, "algorithm", ("ppo",), "the elegantrl program runs PPO")
    if resolved.get("network.activation", "relu") != "relu" or isinstance(resolved.get("network.net_arch"), Mapping):
        raise UsageError("network: ElegantRL's own networks are one list of widths with ReLU between them")
    action = leaves(resolved.need("action"), "action")
    discrete = isinstance(resolved.need("action"), Discrete)
    body = {
        "state_dim": sum(leaf.width for leaf in resolved.observation_leaves),
        "action_dim": sum(leaf.width for leaf in action),
        "net_dims": list(resolved.need("network.net_arch")),
        "horizon_len": resolved.count("n_steps"),
        "batch_size": resolved.count("batch_size"),
        "repeat_times": resolved.count("n_epochs"),
        "num_envs": resolved.count("n_envs"),
        "discrete": discrete,
        "store": resolved.text("rollout.store"),
        "threads": spec.get("threads"),
        "imports": list(spec.get("env.imports", ())),
        "device": resolved.text("device"),
    }
    if "episode_length" in spec:
        body["episode_len"] = spec.count("episode_length")
    return body, []


def cleanrl_case(spec: RunSpec) -> dict[str, Any]:
    """The same run for ``cleanrl_run.py``."""
    return _cleanrl(spec, resolve(spec))[0]


def _cleanrl(spec: RunSpec, resolved: RunSpec) -> tuple[dict[str, Any], list[str]]:
    _refuse(spec, "replay.kind", ("plain",), "the cleanrl program has the plain buffer")
    if len(resolved.observation_leaves) > 1:
        raise UsageError("observation: the cleanrl program runs single arrays; measure a script of yours instead")
    (leaf,) = resolved.observation_leaves
    on_policy = "n_steps" in resolved
    body = {
        **_surroundings(spec.having({"frame_stack": None}, ""), resolved),
        # CleanRL stacks frames in the environment, so the stacked observation is what a step returns.
        "observation": {"type": "box", "shape": list(leaf.shape), "dtype": leaf.dtype},
        "agents": resolved.count("agents"),
        "image": leaf.is_image and resolved.flag("normalize_images"),
        "channels_first": leaf.is_channels_first,
        "continuous": isinstance(resolved.need("action"), Box),
        "action_width": sum(part.width for part in leaves(resolved.need("action"), "action")),
        "action_values": sum(prod(part.shape) for part in leaves(resolved.need("action"), "action")),
        "modules": {name: ops(chain) for name, chain in place(resolved).items()},
        "optimizer": resolved.text("optimizer"),
        "batch_size": resolved.count("batch_size"),
        "n_steps": resolved.get("n_steps"),
        "buffer_size": resolved.get("buffer_size"),
        "rows": written_rows(resolved),
        "share_next": resolved.flag("optimize_memory_usage"),
        "updates": ROLLOUT_UPDATES if on_policy else IMAGE_UPDATES if leaf.is_image else VECTOR_UPDATES,
    }
    if spec.get("vec_env") == "subproc":
        raise UsageError("vec_env: the cleanrl program steps its environments in one process; pass --set vec_env=dummy")
    return body, ["one epoch an update (more need no more memory)"] if on_policy else []


Maker = Callable[[RunSpec, RunSpec], tuple[dict[str, Any], list[str]]]
#: Framework to the function that makes its case, and the packages its program imports.
PROGRAMS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "sb3": (_sb3, ("torch", "gymnasium", "stable_baselines3")),
    "swarm": (_swarm, ("torch",)),
    "elegantrl": (_elegantrl, ("torch", "elegantrl")),
    "cleanrl": (_cleanrl, ("torch", "gymnasium")),
}
