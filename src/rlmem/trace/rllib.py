"""An RLlib configuration as a run: its own interpreter says what it is, and builds its modules once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, cast

from rlmem.agent.protocol import RLlibDescription, RLlibEvaluation
from rlmem.core.fields import BY_PATH
from rlmem.core.spaces import leaves, parse_space
from rlmem.core.spec import RunSpec
from rlmem.core.target import RLLIB, Target
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.interpreters import find_python
from rlmem.programs.launch import Answer, launch, training_python
from rlmem.sources.overrides import parse_set
from rlmem.trace.rllib_truth import PROGRAM
from rlmem.units import parse_count

TIME_SECONDS = 180.0
_NAME = re.compile(r"^[A-Za-z_][\w]*$")
#: Attributes of a configuration that mean what a field of ours means.
SAME = {
    "rllib.num_env_runners": "num_env_runners",
    "rllib.num_learners": "num_learners",
    "n_envs": "num_envs_per_env_runner",
    "rllib.train_batch": "train_batch_size_per_learner",
    "batch_size": "minibatch_size",
    "n_epochs": "num_epochs",
    "rllib.in_flight": "max_requests_in_flight_per_env_runner",
    "rllib.queue": "learner_queue_size",
    "rllib.old_batches": "circular_buffer_num_batches",
}
#: Custom resources of Ray's that they ask for.
RESOURCES = {
    "rllib.driver_resources": "custom_resources_for_main_process",
    "rllib.runner_resources": "custom_resources_per_env_runner",
    "rllib.learner_resources": "custom_resources_per_learner",
}
OFF_POLICY = ("dqn", "sac")
#: What RLlib's processes ask Ray for; "auto" is for Ray to decide.
ASKS = {
    "rllib.driver_cpus": "num_cpus_for_main_process",
    "rllib.runner_cpus": "num_cpus_per_env_runner",
    "rllib.learner_cpus": "num_cpus_per_learner",
    "rllib.runner_gpus": "num_gpus_per_env_runner",
    "rllib.learner_gpus": "num_gpus_per_learner",
}
#: What ``--set`` and ``--vary`` may change, by our name or by RLlib's.
CHANGES = {
    **SAME,
    **ASKS,
    "rllib.eval_env_runners": "evaluation_num_env_runners",
    "rllib.fragment": "rollout_fragment_length",
}


def find_config(target: Target) -> tuple[str, str]:
    """Return ``rllib:file.py:name`` or ``rllib:package.module:name`` as the program takes it, and the interpreter that has Ray."""
    text = target.text
    place, colon, name = text.removeprefix(RLLIB).rpartition(":")
    if not colon or not place or not _NAME.match(name):
        raise UsageError(f"{text}: write it rllib:FILE.py:NAME, such as rllib:my_config.py:config")
    path: Path | None = None
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise UsageError(f"{place}: no such file")
        place = str(path.resolve())
    found, source = find_python(path, path.resolve().parent if path else Path.cwd(), target.python, os.environ)
    try:
        training_python(found, ("ray", "torch", "gymnasium", "tree"))
    except UsageError as error:
        raise AnalysisError(
            f"{text}: {str(error).replace('no tree', 'no dm-tree')} (interpreter: {source}); 'pip install rlmem[rllib]' brings Ray with RLlib, torch comes apart"
        ) from None
    return f"{place}:{name}", found


def describe_config(target: Target) -> tuple[RunSpec, str]:
    """Return the run a configuration describes, with its ``--set`` changes applied, and the interpreter that said so."""
    config, python = find_config(target)
    ours = tuple(
        item for item in target.sets if (name := item.partition("=")[0].strip()) in BY_PATH and name not in CHANGES
    )
    changes = changes_of(tuple(item for item in target.sets if item not in ours))
    answer = launch(PROGRAM, {"target": config, "changes": changes}, python, time_limit_s=TIME_SECONDS)
    if answer.error is not None or answer.outcome.status != "ok":
        raise AnalysisError(f"{target.text}: {_last_words(answer)}")
    spec = spec_of(cast("RLlibDescription", answer.body), name=target.text.removeprefix(RLLIB))
    return spec.having(dict(parse_set(item) for item in ours), "--set"), python


def _last_words(answer: Answer) -> str:
    """Why the configuration could not be read: its own exception, else how the process ended."""
    return answer.error or answer.outcome.describe()


def changes_of(sets: tuple[str, ...]) -> dict[str, Any]:
    """``--set`` as attributes of the configuration: ``num_env_runners=8`` or ``rllib.num_env_runners=8``."""
    import ast

    found: dict[str, Any] = {}
    for text in sets:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--set {text!r}: write it as name=value, such as num_env_runners=8")
        name = CHANGES.get(name.strip(), name.strip())
        try:
            found[name] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[name] = value.strip()
        if name in CHANGES.values() and found[name] is not None and found[name] != "auto":
            found[name] = _count(name, found[name])
    return found


def _count(name: str, value: Any) -> Any:
    """A number, also as 64k; what a configuration has as a count is one."""
    try:
        number = parse_count(value) if isinstance(value, str) else value
    except UsageError:
        number = None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number < (name == SAME["n_envs"]):
        raise UsageError(f"--set {name}={value}: a number, please, such as {name}=4")
    return number


def spec_of(facts: RLlibDescription, *, name: str) -> RunSpec:
    """The facts of a configuration as a run; every value says that the configuration gave it."""
    config, network = facts["config"], facts["network"]
    release = facts["versions"].get("ray", "")
    origin = f"{name}, Ray {release}"
    replay = config.get("replay_buffer_config") or {}
    learners = config["num_learners"] or 0
    step, evaluation = facts.get("step"), facts.get("evaluation")
    off_policy = str(facts["algorithm"]).lower() in OFF_POLICY
    values: dict[str, Any] = {
        "name": name,
        "about": f"RLlib {facts['algorithm']} on {facts['env']}",
        "framework.name": "rllib",
        "framework.version": release,
        "algorithm": str(facts["algorithm"]).lower(),
        "observation": facts["observation"],
        "action": facts["action"],
        "frame_stack": _stacked(facts["observation"], network["module_observation"]),
        **{field: config.get(attribute) for field, attribute in SAME.items()},
        **{field: asked for field, name in ASKS.items() if isinstance(asked := config.get(name), (int, float))},
        **{field: _asked(config.get(name)) for field, name in RESOURCES.items()},
        "rllib.placement_strategy": config.get("placement_strategy"),
        # An on-policy run divides its batch anew when the number of its EnvRunners is changed.
        "rllib.fragment": facts["fragment"] if off_policy or config["rollout_fragment_length"] != "auto" else None,
        "rllib.complete_episodes": config["batch_mode"] == "complete_episodes",
        "rllib.num_aggregators": (config.get("num_aggregator_actors_per_learner") or 0) * max(1, learners),
        # They are started whether or not an interval says that anything is ever evaluated.
        "rllib.eval_env_runners": config.get("evaluation_num_env_runners") or 0,
        "rllib.eval_envs": evaluation["num_envs"] if evaluation else None,
        **_evaluated(evaluation, config),
        "vec_env": "subproc" if "async" in str(config.get("gym_env_vectorize_mode")).lower() else "dummy",
        "rllib.untried": tuple(network["notes"]) or None,
        "episode_length": _typical(facts.get("episode_steps"), facts.get("episode_length")),
        "rllib.longest_episode": facts.get("episode_length"),
        "buffer_size": replay.get("capacity"),
        "device": "cuda" if (config.get("num_gpus_per_learner") or 0) > 0 else "cpu",
        "env.imports": facts["env_packages"],
    }
    if off_policy:  # RLlib's defaults for others, which nobody set
        values["n_epochs"] = None
    if config.get("use_circular_buffer") is False:  # APPO's batches wait in a queue then
        values["rllib.old_batches"], values["rllib.queue"] = 0, config.get("simple_queue_size")
    if replay:
        values["replay.kind"] = "prioritised" if "Prioritized" in str(replay.get("type")) else "plain"
    measured = {
        "rllib.parameters": network["parameters"],
        "rllib.runner_parameters": network["runner_parameters"],
        "rllib.target_parameters": network["target_parameters"],
        "rllib.saved_bytes": network.get("saved_bytes"),
        "rllib.value_bytes": network.get("value_bytes"),
        "rllib.imported_bytes": facts["imported_bytes"],
        "rllib.file_bytes": facts["file_bytes"],
        "rllib.module_bytes": network["runner_bytes"],
        "rllib.optimizer_bytes": network["learner_bytes"],
        "rllib.info_bytes": facts["info_bytes"],
        "rllib.observation_bytes": step["observation_bytes"] if step else None,
        "rllib.beside_bytes": step["beside_bytes"] if step else None,
        "rllib.seen_bytes": sum(leaf.nbytes for leaf in leaves(parse_space(network["module_observation"]), "")),
        "rllib.sequence": network.get("sequence"),
        "rllib.env_once_bytes": facts["env_once_bytes"],
        "env.bytes": facts["env_bytes"],
    }
    spec = RunSpec().having({path: value for path, value in values.items() if value is not None}, origin)
    return spec.having(
        {path: value for path, value in measured.items() if value is not None}, f"{origin}: built there once"
    )


def _evaluated(evaluation: RLlibEvaluation | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """What an evaluation takes; one that goes on for as long as training does has no number."""
    if not evaluation:
        return {"rllib.eval_duration": 0}
    duration: Any = evaluation["duration"]
    unit = evaluation["unit"]
    if not isinstance(duration, int):
        duration, unit = config.get("train_batch_size_per_learner") or config.get("train_batch_size"), "timesteps"
    return {
        "rllib.eval_duration": duration,
        "rllib.eval_unit": unit,
        "rllib.eval_in_driver": not config.get("evaluation_num_env_runners"),
    }


def _asked(resources: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Custom resources as a run file writes them; GPUs and CPUs among them have fields of their own."""
    found = tuple(f"{name}={amount:g}" for name, amount in (resources or {}).items() if name not in {"CPU", "GPU"})
    return found or None


def _typical(seen: int | None, most: int | None) -> int | None:
    """Steps of an episode to plan with: a limit that policies reach, else what random actions reached.

    A limit of tens of thousands (Atari's) is one that nobody meets.
    """
    if most is not None and most <= max(1000, 10 * (seen or 0)):
        return most
    return seen or None


def _stacked(raw: Mapping[str, Any], seen: Mapping[str, Any]) -> int | None:
    """How many frames a connector stacks, from the two observation spaces."""
    if raw["type"] != "box" or seen["type"] != "box":
        return None
    before, after = prod(raw["shape"]), prod(seen["shape"])
    return after // before if before and after > before and after % before == 0 else None
