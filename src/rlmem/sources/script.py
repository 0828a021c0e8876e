"""The runs of a script, described without running it: every SB3 model whose environment and settings can be known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rlmem.core.findings import Place
from rlmem.core.spaces import Box, describe_space
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.scripts import UNKNOWN, Name, Script
from rlmem.scripts.training import Environment, Model, models
from rlmem.sources.environments import find_environment
from rlmem.units import ABSURD_COUNT

_ALGORITHMS = {"RecurrentPPO": "recurrent_ppo", "MaskablePPO": "maskable_ppo"}
#: Arguments of a constructor that are fields of a description.
_SETTINGS = (
    "buffer_size",
    "learning_starts",
    "batch_size",
    "n_steps",
    "n_epochs",
    "gradient_steps",
    "optimize_memory_usage",
)
#: Arguments that decide nothing about the size of anything.
_IDLE = frozenset(
    {
        "policy",
        "env",
        "learning_rate",
        "gamma",
        "gae_lambda",
        "clip_range",
        "clip_range_vf",
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
        "use_sde",
        "sde_sample_freq",
        "tau",
        "train_freq",
        "target_update_interval",
        "exploration_fraction",
        "exploration_initial_eps",
        "normalize_advantage",
        "exploration_final_eps",
        "target_entropy",
        "target_kl",
        "action_noise",
        "stats_window_size",
        "tensorboard_log",
        "verbose",
        "seed",
        "device",
        "rms_prop_eps",
        "use_rms_prop",
        "policy_delay",
        "target_policy_noise",
        "target_noise_clip",
        "top_quantiles_to_drop_per_net",
        "_init_setup_model",
        "use_sde_at_warmup",
        "monitor_wrapper",
        "policy_kwargs",
        "replay_buffer_class",
        "replay_buffer_kwargs",
    }
)
_POLICY = {"net_arch": "network.net_arch", "n_critics": "network.n_critics", "n_quantiles": "network.n_quantiles"}
#: Wrappers that leave an observation as it is.
_PLAIN = frozenset(
    {
        "Monitor",
        "VecMonitor",
        "RecordEpisodeStatistics",
        "TimeLimit",
        "OrderEnforcing",
        "PassiveEnvChecker",
        "ClipAction",
        "RescaleAction",
        "ClipReward",
        "NormalizeReward",
        "TransformReward",
        "Autoreset",
        "RecordVideo",
        "VecVideoRecorder",
        "VecTransposeImage",
        "VecCheckNan",
        "TransformAction",
    }
)
#: Options of an environment that change nothing about its observations, and those of SB3's functions around it.
_VIEW_OPTIONS = {"id", "env_id", "render_mode", "max_episode_steps", "disable_env_checker", "autoreset"}
_VECTOR_OPTIONS = {
    "n_envs",
    "seed",
    "vec_env_cls",
    "vec_env_kwargs",
    "monitor_dir",
    "monitor_kwargs",
    "start_index",
    "env_kwargs",
}
_REPLAY = {
    "HerReplayBuffer": "her",
    "NStepReplayBuffer": "n-step",
    "ReplayBuffer": "plain",
    "DictReplayBuffer": "plain",
}
_COMPACT = {"CompactReplayBuffer": "plain", "CompactHerReplayBuffer": "her"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """A run that a script would start: its description, and where in the script each field comes from."""

    spec: RunSpec
    place: Place
    places: Mapping[str, Place]


class _NotKnownError(Exception):
    """Something that decides about memory cannot be read off the script."""


def runs(script: Script) -> tuple[ScriptRun, ...]:
    """The runs that are known well enough to be planned; nothing is guessed."""
    return tuple(found for model in models(script) if (found := _run(script, model)) is not None)


def _run(script: Script, model: Model) -> ScriptRun | None:
    environment = model.environment
    if environment is None or script.has_unknown_arguments(model.call):
        return None
    spec, places = RunSpec(), {}
    try:
        for path, value, node in _fields(script, model, environment):
            place = script.place(node)
            spec = spec.having({path: value}, f"{place.path}:{place.line}")
            places[path] = place
    except (_NotKnownError, SpecError):
        return None
    return ScriptRun(spec=spec, place=script.place(model.call), places=places)


def _fields(script: Script, model: Model, environment: Environment) -> Iterator[tuple[str, Any, ast.AST]]:
    """Path, value and the node that says it."""
    call = model.call
    yield "name", f"{model.algorithm} in {script.path}", call
    yield "framework.name", "sb3", call
    yield "algorithm", _ALGORITHMS.get(model.algorithm, model.algorithm.lower()), call
    yield from _environment(script, environment)
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in (*_SETTINGS, *_IDLE):
            raise _NotKnownError
    for name in _SETTINGS:
        given = model.argument(name)
        if given is None or (name == "n_steps" and model.off_policy):
            continue
        value = script.value(given)
        if value is UNKNOWN or (isinstance(value, float) and not isfinite(value)):
            raise _NotKnownError
        if value is not None and not (name == "gradient_steps" and isinstance(value, int) and value < 0):
            yield name, int(value) if isinstance(value, float) else value, given
    yield from _policy(script, model)
    if model.off_policy:
        yield from _replay(script, model)
    # Called again, or in a loop, learn() goes on where it was: the first one does not say how long the run is.
    if len(model.learns) == 1 and script.loop_of(model.learns[0]) is None:
        total = script.argument(model.learns[0], "total_timesteps", 0)
        value = script.value(total)
        if isinstance(value, (int, float)) and 1 <= value < ABSURD_COUNT and total is not None:
            yield "total_timesteps", int(value), total


def _environment(script: Script, environment: Environment) -> Iterator[tuple[str, Any, ast.AST]]:
    spaces = find_environment(environment.id) if environment.id else None
    if spaces is None or environment.n_envs is None:
        raise _NotKnownError
    if any(_with_options(script, call) for call in script.calls_of("make", "make_vec_env", "make_atari_env")):
        raise _NotKnownError  # the table is about environments as they are
    observation, action = spaces
    calls = {name.leaf: call for call in environment.layers if (name := script.called(call)) is not None}
    for wrapper in environment.wrappers:
        if wrapper == "AtariWrapper":
            observation = Box(shape=(84, 84, 1), dtype="uint8", low=0, high=255)
        elif wrapper == "VecFrameStack" and wrapper in calls:
            stack = script.value(script.argument(calls[wrapper], "n_stack", 1))
            if not isinstance(stack, int):
                raise _NotKnownError
            yield "frame_stack", stack, calls[wrapper]
        elif wrapper == "VecNormalize" and wrapper in calls:
            yield "vec_normalize", True, calls[wrapper]
        elif wrapper not in _PLAIN:
            raise _NotKnownError
    yield "observation", describe_space(observation), environment.call
    yield "action", describe_space(action), environment.call
    yield "n_envs", environment.n_envs, environment.call
    yield "vec_env", "subproc" if environment.kind == "subproc" else "dummy", environment.call


def _with_options(script: Script, call: ast.Call) -> bool:
    """Whether an environment is made with options of its own, which may change what it observes."""
    given = script.argument(call, "env_kwargs")
    named = {keyword.arg for keyword in call.keywords}
    known = dict(script.meaning.items(given) or {None: given}) if given is not None else {}
    made = {*named, *known} if script.called(call) and not named & _VECTOR_OPTIONS else set(known)
    return bool(made - _VIEW_OPTIONS - _VECTOR_OPTIONS)


def _policy(script: Script, model: Model) -> Iterator[tuple[str, Any, ast.AST]]:
    if model.policy not in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy", "CnnLstmPolicy"):
        raise _NotKnownError
    given = model.argument("policy_kwargs")
    if given is None:
        return
    known = script.meaning.items(given)
    if known is None:
        raise _NotKnownError
    for name, expr in known:
        value = script.value(expr)
        if name == "activation_fn":
            continue
        if name not in _POLICY or value is UNKNOWN:
            raise _NotKnownError
        yield _POLICY[str(name)], value, expr


def _replay(script: Script, model: Model) -> Iterator[tuple[str, Any, ast.AST]]:
    chosen = model.argument("replay_buffer_class")
    dotted = script.qualified(chosen) if chosen is not None else None
    leaf = Name(dotted).leaf if dotted else None
    if chosen is not None:
        if leaf in _COMPACT:
            yield "storage", "compact", chosen
        elif leaf not in _REPLAY:
            raise _NotKnownError
        yield "replay.kind", {**_REPLAY, **_COMPACT}[str(leaf)], chosen
    elif (steps := model.value("n_steps")) is not None and model.argument("n_steps") is not None:
        if steps is UNKNOWN:
            raise _NotKnownError
        if steps > 1:
            yield "replay.kind", "n-step", model.call
    options = model.argument("replay_buffer_kwargs")
    if options is None:
        return
    values = script.value(options)
    if not isinstance(values, dict):
        raise _NotKnownError
    if "handle_timeout_termination" in values:
        yield "handle_timeout_termination", bool(values["handle_timeout_termination"]), options
    if isinstance(values.get("codec"), str):
        yield "codec", values["codec"], options
