"""What a sampled configuration will need, for the tools that sample them: Ray Tune (``rlmem.ray``) and ``rlmem.optuna``.

A *plan of trials* says how a configuration becomes a run that can be planned:

- the name of a preset or the path of a run file, or a ``RunSpec``: the configuration's values are set on it, each under the
  field of the same name (``{"n_envs": 8, "network": {"net_arch": [64, 64]}}`` sets ``n_envs`` and ``network.net_arch``).
  ``fields`` renames a key (``{"envs": "n_envs"}``) or leaves it out (``{"n_steps": None}``); other keys, such as a learning
  rate, say nothing about memory and are passed over;
- ``rllib:my_config.py:config``, an algorithm's own configuration, which is described once; a sampled configuration has RLlib's
  names (``num_env_runners``, ``train_batch_size_per_learner``);
- a function of the configuration that gives a ``RunSpec``, a ``Plan``, a mapping of fields, or bytes (``2_000_000_000``,
  ``"2GB"``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from rlmem.core.fields import FIELDS, find_field
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, RlmemError, SpecError, UsageError
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.sources import read_description
from rlmem.sources.target import parse_target
from rlmem.trace.rllib import CHANGES, describe_config
from rlmem.units import format_size, parse_size

#: Of what a trial may need at most, so much more is asked for: what a plan does not know of an environment.
MARGIN = 0.10

#: A run to plan, or a number of bytes, for one configuration.
Answer = RunSpec | Plan | Mapping[str, Any] | int | float | str
#: How a configuration becomes a run.
TrialPlan = str | RunSpec | Callable[[Any], Answer]

_NAMES = frozenset(row.path for row in FIELDS)
#: What an algorithm's configuration has under other names than an attribute of its own.
_RLLIB_NAMES = {
    "replay_buffer_config.capacity": "buffer_size",
    "buffer_size": "buffer_size",
    "num_gpus_per_learner": "rllib.learner_gpus",
    "num_gpus_per_env_runner": "rllib.runner_gpus",
}
#: Names of what is reported, the same in Tune's metrics and in Optuna's user attributes.
PREDICTED, REQUESTED, MEASURED = "rlmem/predicted_bytes", "rlmem/requested_bytes", "rlmem/measured_peak_bytes"
PREDICTED_VRAM, MEASURED_VRAM = "rlmem/predicted_vram_bytes", "rlmem/measured_vram_peak_bytes"
PRUNED, REASON = "rlmem/pruned", "rlmem/reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one trial will need: all of its processes together, at their largest moment."""

    expected_bytes: int
    high_bytes: int
    vram_bytes: int = 0
    expected_vram_bytes: int | None = None
    #: The plan behind it; ``None`` when a function answered in bytes.
    plan: Plan | None = None

    def with_margin(self, margin: float) -> int:
        """What to ask for, or to keep free: the upper bound and a margin."""
        return self.high_bytes + ceil(self.high_bytes * margin)


class Predictor:
    """Configuration to prediction, by one plan of trials."""

    def __init__(self, plan: TrialPlan, fields: Mapping[str, str | None] | None = None) -> None:
        self.fields = dict(fields or {})
        for path in self.fields.values():
            if path is not None:
                find_field(path)
        #: Names in a configuration, and the fields they set.
        self._names: Mapping[str, str] = {name: name for name in _NAMES}
        self._base: RunSpec | None = plan if isinstance(plan, RunSpec) else None
        if isinstance(plan, str):
            target = parse_target(plan, python=sys.executable)
            self._base = self._described(target) if target.kind == "rllib" else read_description(target)
        if self._base is None and not callable(plan):
            raise UsageError(
                f"plan={plan!r}: name a preset or a run file, or give a RunSpec or a function of the configuration"
            )
        if self.fields and self._base is None:
            raise UsageError("fields= goes with a preset, a run file or a RunSpec; a function names the fields itself")
        self._plan = plan
        self._constants: Constants | None = None

    def _described(self, target: Target) -> RunSpec:
        """A configuration of RLlib; it has other names, and all of its settings are in every trial's configuration."""
        self._names = {**{attribute: field for field, attribute in CHANGES.items()}, **_RLLIB_NAMES}
        return describe_config(target)[0]

    def __call__(self, config: Any) -> Prediction:
        """The prediction for one configuration; an error in one line when there is none."""
        try:
            return self._predict(config)
        except RlmemError as error:
            raise AnalysisError(f"no plan for {shown(config)}: {error}") from None
        except Exception as error:  # the user's function: whatever it raises
            name = getattr(self._plan, "__name__", "the plan")
            raise AnalysisError(
                f"no plan for {shown(config)}: {name} raised {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error

    def _predict(self, config: Any) -> Prediction:
        answer: Any = self._base if self._base is not None else self._plan(config)  # type: ignore[operator]
        if isinstance(answer, bool) or answer is None:
            raise UsageError(f"the plan answered {answer!r}; give a RunSpec, a Plan, fields or bytes")
        if isinstance(answer, (int, float, str)):
            nbytes = parse_size(answer)
            return Prediction(expected_bytes=nbytes, high_bytes=nbytes)
        if isinstance(answer, Plan):
            return _of(answer)
        if isinstance(answer, Mapping):
            answer = RunSpec().having(dict(_flat(answer)), "the trial's configuration")
        if not isinstance(answer, RunSpec):
            raise UsageError(f"the plan answered a {type(answer).__name__}; give a RunSpec, a Plan, fields or bytes")
        if self._base is not None:
            answer = answer.having(self._changes(config), "the trial's configuration")
        if self._constants is None:
            self._constants = read_calibration()
        return _of(ClosedForm(self._constants).plan(answer, Budget(name="trial")))

    def _changes(self, config: Any) -> dict[str, Any]:
        if not isinstance(config, Mapping):
            raise UsageError(f"a configuration is a mapping, not a {type(config).__name__}")
        changes = {}
        for key, value in _flat(config):
            name = key.removeprefix("_")  # RLlib keeps _train_batch_size_per_learner behind a property
            path = self.fields.get(key, self._names.get(name))
            if path is None or value is None or value == "auto":
                continue
            changes[path] = _plain(value)
            try:
                RunSpec().having({path: changes[path]}, "")
            except SpecError as error:
                raise error.located(f"configuration {key!r}") from None
        if "rllib.learner_gpus" in changes:
            changes["device"] = "cuda" if changes["rllib.learner_gpus"] else "cpu"
        return changes

    def __getstate__(self) -> dict[str, Any]:
        """Plain data: constants are read anew where they are needed, and a spec's own mappings do not travel."""
        base = None if self._base is None else (dict(self._base.values), dict(self._base.origins))
        return {
            "fields": self.fields,
            "_names": dict(self._names),
            "_base": base,
            "_plan": None if base else self._plan,
            "_constants": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Back from plain data."""
        base = state["_base"]
        self.__dict__.update(state, _base=None if base is None else RunSpec(*base))


def _of(plan: Plan) -> Prediction:
    ram, vram = plan.top("ram"), plan.top("vram")
    if ram is None:
        raise AnalysisError("the plan says nothing about RAM")
    return Prediction(
        expected_bytes=ram.expected_bytes,
        high_bytes=ram.high_bytes,
        vram_bytes=vram.high_bytes if vram else 0,
        expected_vram_bytes=vram.expected_bytes if vram else None,
        plan=plan,
    )


def _flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted path; what is a field as a whole (a space) stays whole."""
    for key, value in config.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping) and path not in _NAMES:
            yield from _flat(value, f"{path}.")
        else:
            yield path, value


def _plain(value: Any) -> Any:
    """A sampled number as Python's own; numpy's answer to ``item``, and whole floats of a sampler are counts."""
    if hasattr(value, "item") and not getattr(value, "shape", None):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(config: Any, most: int = 160) -> str:
    """A configuration in a line: ``{n_envs: 8, batch_size: 64}``."""
    if not isinstance(config, Mapping):
        return repr(config)[:most]
    parts = ", ".join(f"{key}: {value!r}" for key, value in _flat(config))
    return f"{{{parts if len(parts) <= most else parts[:most] + '…'}}}"


def percent(margin: float) -> str:
    """``10 %``."""
    return f"{margin * 100:.3g} %"


def check_margin(margin: float) -> float:
    """A margin is a share: 0.1, not 10."""
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 <= margin <= 1:
        raise UsageError(f"margin={margin!r}: give a share from 0 to 1, such as 0.1 for 10 %")
    return float(margin)


def needs(prediction: Prediction, margin: float) -> str:
    """``needs 2.81 GiB (at most 2.55 GiB and 10 %)``."""
    asked = format_size(prediction.with_margin(margin))
    return f"needs {asked} (at most {format_size(prediction.high_bytes)}, and {percent(margin)})"
