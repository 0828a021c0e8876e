"""What a dry run met, as a run description: every value read from a live object, and said so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.agent.protocol import DescribedFacts, ModelFacts, StoreFacts
from rlmem.core.spec import RunSpec
from rlmem.errors import RlmemError
from rlmem.frameworks.sb3.compact import ONLY
from rlmem.process.protocol import check_protocol
from rlmem.trace import sizing
from rlmem.trace.dryrun import DryRun
from rlmem.trace.length import is_whole_run

#: Class names of Stable-Baselines3 and sb3-contrib and the algorithms of run files; a subclass is found by its bases.
ALGORITHMS = {
    "PPO": "ppo",
    "A2C": "a2c",
    "DQN": "dqn",
    "SAC": "sac",
    "TD3": "td3",
    "DDPG": "ddpg",
    "QRDQN": "qrdqn",
    "TQC": "tqc",
    "TRPO": "trpo",
    "CrossQ": "crossq",
    "RecurrentPPO": "recurrent_ppo",
    "MaskablePPO": "maskable_ppo",
}
_ON_POLICY = ("ppo", "a2c", "trpo", "recurrent_ppo", "maskable_ppo")
_OPTIMIZERS = {"Adam": "adam", "AdamW": "adamw", "RMSprop": "rmsprop", "RMSpropTFLike": "rmsprop", "SGD": "sgd"}
_SETTINGS = ("n_steps", "batch_size", "n_epochs", "buffer_size", "gradient_steps", "learning_starts")
_POLICY = {
    "net_arch": "network.net_arch",
    "share_features_extractor": "network.share_features_extractor",
    "n_critics": "network.n_critics",
    "n_quantiles": "network.n_quantiles",
    "lstm_hidden_size": "network.lstm_hidden",
    "n_lstm_layers": "network.lstm_layers",
    "enable_critic_lstm": "network.critic_lstm",
    "normalize_images": "normalize_images",
}


def describe(run: DryRun) -> RunSpec:
    """The run description; only a name when no framework was met."""
    spec = from_facts(run.target.name, run.facts if is_whole_run(run.target) else _without_length(run.facts))
    found = sizing.found_in(run.facts)
    if (run.facts.get("sized") or {}).get("auto"):  # the data itself says more than the wrappers
        spec = spec.having({"stacked": None}, "")
    return spec.having(_fitting(found), sizing.origin(run.facts))


def _without_length(facts: DescribedFacts) -> DescribedFacts:
    model = facts.get("model")
    return {**facts, "model": {**model, "total_timesteps": None}} if model else facts


def from_facts(name: str, facts: DescribedFacts) -> RunSpec:
    """The description of the model that was met, in a dry run or in a running process.

    Raises:
        AnalysisError: the facts are of another version of the protocol.
    """
    check_protocol(facts, name)
    spec = RunSpec().having({"name": name}, "the target")
    model = facts.get("model") or facts.get("request")
    if not model:
        workers = _workers(facts)
        return spec.having({"n_envs": workers}, "worker processes that were seen") if workers else spec
    origin = "read from the live model" if "settings" in model else "the constructor's arguments"
    return spec.having(_fitting(_values(model, facts)), origin)


def _workers(facts: DescribedFacts) -> int:
    """Worker processes of a loop of its own, at the last reading."""
    phases = facts.get("phases") or {}
    last = next((phases[name] for name in ("update", "final", "collect") if name in phases), {"others": ()})
    return sum(row["role"] == "worker" for row in last["others"])


def _fitting(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values a description can hold; a space or a setting it has no words for is left out."""
    kept: dict[str, Any] = {}
    for path, value in values.items():
        if value is None:
            continue
        try:
            RunSpec().having({path: value}, "")
        except RlmemError:
            continue
        kept[path] = value
    return kept


def _values(model: ModelFacts, facts: DescribedFacts) -> dict[str, Any]:
    settings, policy = model.get("settings") or model.get("given", {}), model.get("policy_kwargs", {})
    bases = model.get("bases", [model["algorithm"]])
    algorithm = next((ALGORITHMS[name] for name in bases if name in ALGORITHMS), None)
    version = facts.get("versions", {}).get("stable_baselines3")
    values: dict[str, Any] = {
        "framework.name": "sb3",
        "framework.version": version,
        "algorithm": algorithm,
        "observation": model.get("observation"),
        "action": model.get("action"),
        "n_envs": facts.get("workers_asked") or settings.get("n_envs") or model.get("n_envs"),
        "device": "cuda" if wants_gpu(facts) else "cpu",
        "total_timesteps": model.get("total_timesteps"),
    }
    values |= {name: settings.get(name) for name in _SETTINGS}
    if values["gradient_steps"] is not None and values["gradient_steps"] < 0:
        values["gradient_steps"] = (settings.get("train_freq") or [1])[0]
    if algorithm == "a2c":
        values["batch_size"] = None
    optimizers = [_OPTIMIZERS[name] for name in model.get("optimizers", ()) if name in _OPTIMIZERS]
    values["optimizer"] = optimizers[0] if optimizers else None
    values |= {path: _plain_arch(policy[name]) for name, path in _POLICY.items() if name in policy}
    replay = model.get("buffers", {}).get("replay_buffer", {})
    if algorithm and algorithm not in _ON_POLICY:
        if not replay and (model.get("given", {}).get("n_steps") or 1) > 1:
            values["replay.kind"] = "n-step"
        values["n_steps"] = None  # SB3 gives every off-policy model one, and it decides nothing about a buffer's size
    values["stacked"] = _stacked(model)
    if any(name.startswith("Compact") for name in model.get("stores", ())):
        values["storage"] = "compact"
    chain = model.get("env", [])
    values["vec_env"] = "subproc" if "SubprocVecEnv" in chain else "dummy"
    values["vec_normalize"] = "VecNormalize" in chain
    if replay:
        values["optimize_memory_usage"] = bool(settings.get("optimize_memory_usage"))
        names = {row["name"] for row in replay["arrays"]}
        values["handle_timeout_termination"] = "timeouts" in names
        kinds = {"HerReplayBuffer": "her", "NStepReplayBuffer": "n-step", "CompactHerReplayBuffer": "her"}
        values["replay.kind"] = kinds.get(replay["class"], "plain")
    stores = [buffer["store"] for buffer in model.get("buffers", {}).values() if "store" in buffer]
    return values | (_compact(stores[0], values.get("replay.kind")) if stores else {})


def _stacked(model: ModelFacts) -> dict[str, int] | None:
    """Frames of the stacks in a model's observations by key, where a wrapper that stacks was met."""
    frames, observation = model.get("stacks", {}).get(""), model.get("observation") or {}
    if not frames:
        return None
    spaces = observation.get("spaces", {ONLY: observation})
    return {key: frames for key, space in spaces.items() if space.get("type") == "box"} or None


def _compact(store: StoreFacts, kind: str | None) -> dict[str, Any]:
    """What of a compact buffer a description has words for; codecs that differ by key become the most saving one."""
    options = store.get("options", {})
    codec = options.get("codec") or "none"
    if isinstance(codec, Mapping):
        codec = next((name for name in ("auto", "zstd", "lz4", "huffman") if name in codec.values()), "none")
    values = {"storage": "compact", "codec": codec, "spill_budget": options.get("budget")}
    if store.get("prioritised_bytes"):
        values["replay.kind"] = "prioritised"
    elif kind == "plain" and store.get("n_steps", 1) > 1:
        values["replay.kind"] = "n-step"
    return values


def _plain_arch(value: Any) -> Any:
    """``[{"pi": …}]`` was how SB3 before 1.8 wrote separate heads."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        return value[0]
    return value


def wants_gpu(facts: DescribedFacts) -> bool:
    """Whether the learner is on a GPU, or was meant to be."""
    model = facts.get("model") or facts.get("request") or {}
    named = str(model.get("learner_device") or model.get("device", ""))
    return facts.get("wanted_device") == "cuda" or named.startswith("cuda")
