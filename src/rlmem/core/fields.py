"""Every knob of a run description, one row each: the table behind parsing, ``--set``, the JSON Schema and the docs."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlmem.core.layers import ACTIVATIONS, parse_layers
from rlmem.core.spaces import DTYPES, describe_space, parse_space
from rlmem.errors import SpecError, UsageError, did_you_mean
from rlmem.units import parse_count, parse_size

SCHEMA = "rlmem.run/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A knob: where it sits, what it takes, what it means."""

    path: str
    kind: str
    doc: str
    choices: tuple[str, ...] = ()
    minimum: int = 1
    #: For counts of things that a plan makes one by one; other numbers it only multiplies.
    maximum: int | None = None


#: Networks and layers beyond any that is trained; a plan of as many takes two seconds.
MOST_NETWORKS, MOST_LAYERS = 256, 256


def _field(
    path: str,
    kind: str,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: int = 1,
    maximum: int | None = None,
) -> Field:
    return Field(path=path, kind=kind, doc=doc, choices=choices, minimum=minimum, maximum=maximum)


FIELDS: tuple[Field, ...] = (
    _field("name", "text", "Short name of the run."),
    _field("about", "text", "What the run is, in a sentence."),
    _field("framework.name", "text", "Who allocates: sb3, cleanrl, elegantrl, rllib or swarm."),
    _field("framework.version", "text", "Version of the framework; storage dtypes depend on it."),
    _field("algorithm", "word", "ppo, a2c, dqn, sac, td3, ddpg, qrdqn, tqc, recurrent_ppo, …"),
    _field("observation", "space", "Observation space of one agent, before frame stacking."),
    _field("action", "space", "Action space of one agent."),
    _field("frame_stack", "count", "Frames stacked along the channel axis."),
    _field("history", "count", "Length of a `window` observation, in samples."),
    _field("unused_keys", "texts", "Observation keys that are stored but never read by the network."),
    _field("agents", "count", "Agents per environment (each adds a row per step)."),
    _field("n_envs", "count", "Environments stepped together."),
    _field("vec_env", "choice", "How the environments run.", choices=("dummy", "subproc", "batched")),
    _field("n_steps", "count", "Rollout length per environment (on-policy)."),
    _field("n_epochs", "count", "Passes over a rollout per update."),
    _field(
        "batch_size", "count", "Samples per gradient step; unset means the whole rollout where a framework allows it."
    ),
    _field("buffer_size", "count", "Transitions a replay buffer holds, as the framework counts them."),
    _field("learning_starts", "count", "Steps before the first update.", minimum=0),
    _field("gradient_steps", "count", "Gradient steps per update phase."),
    _field("total_timesteps", "count", "Length of the run, in environment steps over all environments."),
    _field("episode_length", "count", "Typical episode length, in steps."),
    _field("replay.kind", "choice", "Replay variant.", choices=("plain", "her", "n-step", "prioritised")),
    _field(
        "storage",
        "choice",
        "What a store keeps: what the framework does (plain), or every observation and frame once: rlmem's compact buffers. "
        "frames-once is the older name of compact; stream is compact for a `window` observation.",
        choices=("plain", "compact", "frames-once", "stream"),
    ),
    _field("codec", "choice", "Codec of a compact store.", choices=("none", "auto", "lz4", "zstd", "huffman")),
    _field(
        "stacked", "counts", "Frames of the stacks that observations hold already, by key (`observation` for a Box)."
    ),
    _field("constant_keys", "texts", "Observation keys that never change: a compact store keeps nothing of them."),
    _field(
        "coded_bytes",
        "ranges",
        "Bytes of one stored observation (or frame) under the codec, by key: a number, or low, expected and high.",
    ),
    _field("spill_budget", "size", "Bytes of a compact store that stay in RAM; the rest goes to disk.", minimum=1),
    _field("optimize_memory_usage", "flag", "Store next observations inside the observation array."),
    _field("handle_timeout_termination", "flag", "Keep a timeout flag per transition."),
    _field("rollout.store", "choice", "How a rollout is kept.", choices=("array", "list-then-stack", "list-of-tuples")),
    _field("rollout.keeps_graph", "flag", "Collection runs with gradients on, so every step keeps its graph."),
    _field("rollout.flatten_copy", "flag", "The rollout is flattened into a copy before minibatches are taken."),
    _field(
        "rollout.sampling",
        "choice",
        "How minibatches are drawn from a rollout.",
        choices=("shuffled", "with-replacement"),
    ),
    _field(
        "rollout.dtype",
        "choice",
        "What the samples of a stream are kept in (storage=stream in a loop of your own); unset, what the window has. "
        "16 bits round them.",
        choices=("float32", "float16", "int16"),
    ),
    _field(
        "rollout.derived",
        "count",
        "Values of a window's sample that follow from the actions, so that a stream need not keep them.",
        minimum=0,
    ),
    _field(
        "rollout.extra",
        "choice",
        "What a stream keeps of the values beside a window: those of every step, one of an episode, or none, because the "
        "environment has them.",
        choices=("steps", "episode", "none"),
    ),
    _field(
        "rollout.carries_history",
        "flag",
        "A window goes on over a reset, so that a stream begins with the one before it; otherwise it begins with zeros.",
    ),
    _field(
        "rollout.in_place_returns",
        "flag",
        "Returns are written over rewards and advantages over values, instead of into arrays of their own.",
    ),
    _field(
        "rollout.resimulated",
        "flag",
        "A stream is not kept at all: the environment is run again from the actions, a chunk of agents at a time.",
    ),
    _field("network.extractor", "layers", "Feature layers: a list, or one list per observation key, or a preset name."),
    _field("network.fusion", "layers", "Layers after the features of all keys are concatenated."),
    _field("network.features_dim", "count", "Width of the last extractor layer."),
    _field("network.net_arch", "widths", "Hidden widths: a list, or a mapping with pi and vf (or qf)."),
    _field("network.activation", "choice", "Activation between hidden layers.", choices=ACTIVATIONS),
    _field("network.share_features_extractor", "flag", "Actor and critic use one extractor."),
    _field("network.n_critics", "count", "Number of Q networks.", maximum=MOST_NETWORKS),
    _field("network.n_quantiles", "count", "Quantiles per value (QR-DQN, TQC)."),
    _field("network.lstm_hidden", "count", "Width of the LSTM (recurrent policies)."),
    _field("network.lstm_layers", "count", "Stacked LSTM layers.", maximum=MOST_LAYERS),
    _field("network.critic_lstm", "flag", "The critic has an LSTM of its own."),
    _field("network.modules", "modules", "Named layer lists for a loop of your own: actor, critic, encoder, …"),
    _field(
        "network.encoding",
        "choice",
        "How the windows of a stream reach an encoder: each by itself, or one pass of its convolutions over the stream.",
        choices=("window", "sequence"),
    ),
    _field(
        "network.decoded_steps",
        "count",
        "Steps of a rollout whose windows an autoencoder learns from (storage=stream); unset means all.",
    ),
    _field("normalize_images", "flag", "uint8 images are converted to float and divided by 255 on the learner."),
    _field("vec_normalize", "flag", "Observations are normalised by a vector-env wrapper."),
    _field("optimizer", "choice", "Optimizer.", choices=("adam", "adamw", "rmsprop", "sgd", "sgd-momentum")),
    _field("precision", "choice", "Compute precision of the learner.", choices=("float32", "bfloat16", "float16")),
    _field("device", "choice", "Where the learner runs.", choices=("cpu", "cuda")),
    _field("threads", "count", "Threads of the main process."),
    _field("env.state", "arrays", "Arrays one agent's environment holds: name to shape and dtype, or a size."),
    _field(
        "env.stream_state",
        "arrays",
        "Arrays it holds with storage=stream, where the store has the window; unset, env.state without what is like the observation.",
    ),
    _field("env.bytes", "size", "Further bytes one environment holds (emulator, simulator).", minimum=0),
    _field("env.imports", "texts", "Packages an environment imports."),
    _field("env.shared_memory", "flag", "Workers hand observations over in shared memory instead of pipes."),
    _field("env.start_method", "choice", "How workers start.", choices=("forkserver", "spawn", "fork")),
    _field("eval.n_envs", "count", "Environments of the evaluation callback; 0 or unset for none.", minimum=0),
    _field("eval.vec_env", "choice", "How the evaluation environments run.", choices=("dummy", "subproc", "batched")),
    _field("eval.attached", "flag", "Whether the evaluation callback is really passed to the training loop."),
    _field("checkpoint.save_freq", "count", "Callback calls between checkpoints."),
    _field("checkpoint.save_replay_buffer", "flag", "Checkpoints include the replay buffer."),
    _field(
        "resume.replay_buffer",
        "choice",
        "Whether a saved replay buffer is loaded, and beside what.",
        choices=("none", "into-new", "beside-live"),
    ),
    _field("rllib.num_env_runners", "count", "EnvRunner actors; 0 collects in the driver.", minimum=0),
    _field("rllib.num_learners", "count", "Learner actors; 0 learns in the driver.", minimum=0),
    _field("rllib.num_aggregators", "count", "Aggregator actors in all (IMPALA, APPO).", minimum=0),
    _field("rllib.eval_env_runners", "count", "EnvRunner actors for evaluation.", minimum=0),
    _field(
        "rllib.eval_envs", "count", "Environments of each EnvRunner for evaluation; unset, as many as of the others."
    ),
    _field("rllib.eval_duration", "count", "What one evaluation takes, all its EnvRunners together.", minimum=0),
    _field("rllib.eval_unit", "choice", "What that counts.", choices=("episodes", "timesteps")),
    _field("rllib.eval_in_driver", "flag", "The driver evaluates, where no EnvRunner is there for it."),
    _field("rllib.driver_cpus", "share", "Cores that the driver asks Ray for (num_cpus_for_main_process).", minimum=0),
    _field("rllib.runner_cpus", "share", "Cores that an EnvRunner asks Ray for; unset, one.", minimum=0),
    _field("rllib.learner_cpus", "share", "Cores that a learner asks for; unset, one, or none with a GPU.", minimum=0),
    _field("rllib.runner_gpus", "share", "What an EnvRunner asks Ray for of a GPU.", minimum=0),
    _field(
        "rllib.learner_gpus", "share", "What a learner asks Ray for of a GPU; how much it needs is planned.", minimum=0
    ),
    _field("rllib.driver_resources", "texts", "Custom resources the driver asks Ray for, each as `name=amount`."),
    _field("rllib.runner_resources", "texts", "Custom resources of an EnvRunner, each as `name=amount`."),
    _field("rllib.learner_resources", "texts", "Custom resources of a learner, each as `name=amount`."),
    _field(
        "rllib.placement_strategy",
        "choice",
        "How Ray spreads the bundles; unset, PACK.",
        choices=("pack", "spread", "strict_pack", "strict_spread"),
    ),
    _field("rllib.train_batch", "count", "Samples of one update, per learner (train_batch_size_per_learner)."),
    _field("rllib.fragment", "count", "Steps each environment takes for one request (rollout_fragment_length)."),
    _field("rllib.in_flight", "count", "Requests under way at once, per EnvRunner."),
    _field("rllib.queue", "count", "Batches that wait for a learner (IMPALA, APPO).", minimum=0),
    _field("rllib.old_batches", "count", "Batches that APPO's circular buffer keeps to use again.", minimum=0),
    _field("rllib.complete_episodes", "flag", "EnvRunners hand over whole episodes (batch_mode)."),
    _field("rllib.longest_episode", "count", "The longest an episode can be, where the environment says so."),
    _field("rllib.observation_bytes", "size", "An observation as an episode holds it, after connectors."),
    _field("rllib.seen_bytes", "size", "An observation as the module sees it, frames stacked."),
    _field("rllib.beside_bytes", "size", "What a step of an episode has beside it: action, reward, module outputs."),
    _field("rllib.sequence", "count", "Steps that a recurrent module learns from at a time (max_seq_len)."),
    _field("rllib.untried", "texts", "What failed when the configuration was described."),
    _field("rllib.info_bytes", "size", "A step's info as Python objects.", minimum=0),
    _field("rllib.env_once_bytes", "size", "What the first environment of a process adds beyond every one.", minimum=0),
    _field("rllib.parameters", "count", "Trained values of the module as a learner holds it."),
    _field("rllib.runner_parameters", "count", "Values of the module as an EnvRunner holds it."),
    _field("rllib.target_parameters", "count", "Values of target networks.", minimum=0),
    _field("rllib.saved_bytes", "size", "Bytes a training forward pass keeps for its backward, per sample.", minimum=0),
    _field("rllib.value_bytes", "size", "Bytes a value forward pass keeps, per sample.", minimum=0),
    _field("rllib.imported_bytes", "size", "Own memory of a process that has imported the configuration."),
    _field("rllib.file_bytes", "size", "Pages of libraries such a process maps; a node holds them once.", minimum=0),
    _field(
        "rllib.module_bytes",
        "size",
        "What building a module and a first forward pass add, parameters apart.",
        minimum=0,
    ),
    _field("rllib.optimizer_bytes", "size", "What a first optimizer step adds, its state apart.", minimum=0),
    _field("settings", "settings", "Further settings of the project, by name; rlmem says which have no memory effect."),
)
BY_PATH = {field.path: field for field in FIELDS}
SECTIONS = tuple(dict.fromkeys(field.path.split(".")[0] for field in FIELDS if "." in field.path))


def find_field(path: str, *, where: str | None = None) -> Field:
    """The row for a path, or an error that suggests the nearest one."""
    if path in BY_PATH:
        return BY_PATH[path]
    if path in SECTIONS:
        inside = ", ".join(f.path for f in FIELDS if f.path.startswith(f"{path}."))
        raise SpecError(path, f"is a section; set one of {inside}", where=where)
    # "version" alone should find framework.version, not the similar-looking precision.
    tail = [known for known in BY_PATH if known.split(".")[-1] == path.rsplit(".", maxsplit=1)[-1]]
    hint = f" (did you mean {tail[0]!r}?)" if tail else did_you_mean(path, BY_PATH)
    raise SpecError(path, f"unknown key{hint}; 'rlmem schema run' lists all", where=where)


def read_value(field: Field, value: Any) -> Any:
    """A checked value for a field: counts and sizes may be text with units, everything else must match."""
    try:
        return _READERS[field.kind](field, value)
    except SpecError:
        raise
    except UsageError as error:
        raise SpecError(field.path, str(error)) from None


def _read_text(field: Field, value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)  # version: 2.7 arrives as a number
    if not isinstance(value, str) or not value.strip():
        raise SpecError(field.path, f"expected text, got {value!r}")
    text = " ".join(value.split())
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise SpecError(field.path, f"contains control characters: {text!r}")
    return text


def _read_word(field: Field, value: Any) -> str:
    """A name in lower case, dashes as underscores: ``Recurrent-PPO`` is ``recurrent_ppo``."""
    return _read_text(field, value).lower().replace("-", "_")


def _read_choice(field: Field, value: Any) -> str:
    text = str(value).strip().lower()
    if text not in field.choices:
        hint = did_you_mean(text, field.choices)
        raise SpecError(field.path, f"{value!r} is not one of {', '.join(field.choices)}{hint}")
    return text


def _read_count(field: Field, value: Any) -> int:
    count = parse_count(value)
    if count < field.minimum:
        raise SpecError(field.path, f"expected at least {field.minimum}, got {count:,}")
    if field.maximum is not None and count > field.maximum:
        raise SpecError(field.path, f"expected at most {field.maximum:,}, got {count:,}")
    return count


def _read_size(field: Field, value: Any) -> int:
    return parse_size(value, minimum=field.minimum)


def _read_share(field: Field, value: Any) -> float:
    """A plain number that need not be whole."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < field.minimum:
        raise SpecError(field.path, f"expected a number such as 0.5, at least {field.minimum}, got {value!r}")
    return number


def _read_flag(field: Field, value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    text = str(value).strip().lower()
    if text not in words:
        raise SpecError(field.path, f"expected true or false, got {value!r}")
    return words[text]


def _read_space(field: Field, value: Any) -> Any:
    return parse_space(value, field.path)


def _read_texts(field: Field, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part for part in value.replace(",", " ").split() if part]
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise SpecError(field.path, f"expected a list of names, got {value!r}")
    return tuple(value)


def _read_layers(field: Field, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(k): _layers(v, f"{field.path}.{k}") for k, v in value.items()}
    return _layers(value, field.path)


def _layers(value: Any, path: str) -> tuple[str, ...]:
    _refuse_many(value, path)
    return tuple(layer.text for layer in parse_layers(value, path))


def _refuse_many(items: Any, path: str) -> None:
    if isinstance(items, (list, tuple)) and len(items) > MOST_LAYERS:
        raise SpecError(path, f"expected at most {MOST_LAYERS:,} layers, got {len(items):,}")


def _read_modules(field: Field, value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        raise SpecError(field.path, f"expected a mapping from names to layer lists, got {value!r}")
    return {str(k): _layers(v, f"{field.path}.{k}") for k, v in value.items()}


def _read_widths(field: Field, value: Any) -> Any:
    def widths(items: Any, path: str) -> tuple[int, ...]:
        if not isinstance(items, (list, tuple)):
            raise SpecError(path, f"expected a list of widths such as [64, 64], got {items!r}")
        _refuse_many(items, path)
        return tuple(_read_count(Field(path=f"{path}[{i}]", kind="count", doc=""), w) for i, w in enumerate(items))

    if isinstance(value, str):
        value = [part for part in value.strip("[] ").replace(",", " ").split() if part]
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("pi", "vf", "qf"):
                raise SpecError(f"{field.path}.{key}", "unknown head; known: pi, vf, qf")
        return {str(key): widths(items, f"{field.path}.{key}") for key, items in value.items()}
    return widths(value, field.path)


def _read_arrays(field: Field, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise SpecError(field.path, f"expected a mapping from names to shapes or sizes, got {value!r}")
    out: dict[str, Any] = {}
    for name, item in value.items():
        path = f"{field.path}.{name}"
        if not isinstance(item, Mapping):
            out[str(name)] = parse_size(item, minimum=0)
            continue
        unknown = set(item) - {"shape", "dtype", "like"}
        if unknown:
            raise SpecError(f"{path}.{min(map(str, unknown))}", "unknown field; an array takes shape, dtype or like")
        if item.get("like", "observation") != "observation":
            raise SpecError(f"{path}.like", f"only 'observation' can be named here, got {item['like']!r}")
        shape = item.get("shape", [])
        if not isinstance(shape, (list, tuple)) or ("like" not in item and not shape):
            raise SpecError(f"{path}.shape", f"expected a list such as [history, 6], got {shape!r}")
        for i, side in enumerate(shape):
            named = isinstance(side, str) and side in BY_PATH and BY_PATH[side].kind == "count"
            if not named and (isinstance(side, bool) or not isinstance(side, int) or side < 1):
                raise SpecError(
                    f"{path}.shape[{i}]", f"expected a positive number or the name of a count, got {side!r}"
                )
        dtype = item.get("dtype", "float32")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise SpecError(f"{path}.dtype", f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
        out[str(name)] = {"like": "observation"} if "like" in item else {"shape": tuple(shape), "dtype": dtype}
    return out


def _read_counts(field: Field, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise SpecError(field.path, f"expected a mapping from names to counts, got {value!r}")
    return {
        str(key): _read_count(Field(path=f"{field.path}.{key}", kind="count", doc=""), n) for key, n in value.items()
    }


def _read_ranges(field: Field, value: Any) -> Any:
    """Three ascending sizes by name; a single one is all three."""
    if not isinstance(value, Mapping):
        raise SpecError(field.path, f"expected a mapping from names to bytes, got {value!r}")
    out: dict[str, tuple[int, ...]] = {}
    for key, item in value.items():
        sizes = item if isinstance(item, (list, tuple)) else [item] * 3
        read = tuple(parse_size(size, minimum=0) for size in sizes)
        if len(read) != 3 or list(read) != sorted(read):
            raise SpecError(f"{field.path}.{key}", f"expected bytes, or low, expected and high bytes, got {item!r}")
        out[str(key)] = read
    return out


def _read_settings(field: Field, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise SpecError(field.path, f"expected a mapping from names to values, got {value!r}")
    return {str(key): _plain_setting(item) for key, item in value.items()}


def _plain_setting(value: Any) -> Any:
    """What JSON can hold; YAML's dates, sets and infinities become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain_setting(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_setting(item) for item in value]
    plain = value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)


_READERS = {
    "text": _read_text,
    "word": _read_word,
    "choice": _read_choice,
    "count": _read_count,
    "size": _read_size,
    "share": _read_share,
    "flag": _read_flag,
    "space": _read_space,
    "texts": _read_texts,
    "layers": _read_layers,
    "modules": _read_modules,
    "widths": _read_widths,
    "arrays": _read_arrays,
    "counts": _read_counts,
    "ranges": _read_ranges,
    "settings": _read_settings,
}


def plain_value(field: Field, value: Any) -> Any:
    """Return a value as plain data, for YAML and JSON; a space that is described already stays as it is."""
    if value is None:
        return None
    if field.kind == "space":
        return value if isinstance(value, Mapping) else describe_space(value)
    if isinstance(value, Mapping):
        return {key: list(item) if isinstance(item, tuple) else plain_array(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def plain_array(item: Any) -> Any:
    """An array description with its shape as a list."""
    if isinstance(item, Mapping):
        return {k: list(v) if isinstance(v, tuple) else v for k, v in item.items()}
    return item


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections become dotted paths; the values of fields stay whole."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        if path in SECTIONS and path not in BY_PATH:
            if not isinstance(value, Mapping):
                raise SpecError(path, f"expected a section with fields, got {value!r}")
            flat |= flatten(value, f"{path}.")
            continue
        if path not in BY_PATH and not prefix and not any(f.startswith(f"{path}.") for f in BY_PATH):
            known = [*SECTIONS, *(f for f in BY_PATH if "." not in f), "extends", "schema"]
            hint = did_you_mean(path, known)
            if hint:
                raise SpecError(path, f"unknown key{hint}; 'rlmem schema run' lists all")
        find_field(path)
        flat[path] = value
    return flat


def fields_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Changed fields of a description, the old line above the new one."""
    lines = []
    for path, value in new.items():
        before = old.get(path)
        if before == value:
            continue
        lines += [] if before is None else [f"- {path}: {plain_value(find_field(path), before)}"]
        lines += [f"+ {path}: {plain_value(find_field(path), value)}"]
    return "\n".join(lines)
