"""Optuna without Ray: trials that cannot fit are pruned before they begin, the others carry their peak.

>>> from rlmem.optuna import memory_aware  # doctest: +SKIP
>>> study.optimize(memory_aware(objective, plan="run.yaml", space=space, budget="16GB"), n_trials=50)  # doctest: +SKIP
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from rlmem.agent import proc
from rlmem.budget import free_here, read_size
from rlmem.core.plan import Budget
from rlmem.errors import AnalysisError, UsageError
from rlmem.runner.own import INTERVAL_SECONDS, OwnPeak
from rlmem.trials import (
    MARGIN,
    MEASURED,
    MEASURED_VRAM,
    PREDICTED,
    PREDICTED_VRAM,
    PRUNED,
    REASON,
    Prediction,
    Predictor,
    TrialPlan,
    check_margin,
    needs,
    shown,
)
from rlmem.units import format_size

_LOG = logging.getLogger("rlmem")
#: What the process held when the objective began: trials of one process inherit what earlier ones did not give back.
BEFORE = "rlmem/before_bytes"

#: What is sampled: a function that asks a trial for values, or distributions by name.
Space = Callable[[Any], Mapping[str, Any]] | Mapping[str, Any]


def memory_aware(
    objective: Callable[[Any], Any],
    plan: TrialPlan | None = None,
    *,
    space: Space | None = None,
    fields: Mapping[str, str | None] | None = None,
    budget: str | int | Budget | None = None,
    margin: float = MARGIN,
    interval_s: float = INTERVAL_SECONDS,
) -> Callable[[Any], Any]:
    """An objective for ``study.optimize`` that is not called when its trial cannot fit, and measured when it is.

    An objective samples as it goes, so what decides memory has to be sampled before it. A value that is asked for again under
    the same name is the same value: the objective stays as it is.

    :param objective: as Optuna takes it.
    :param plan: how the sampled values become a run that can be planned: a preset, a run file, a ``RunSpec`` (with ``space``), or a
        function of the trial that samples and gives a ``RunSpec``, a ``Plan``, fields or bytes. Without one, trials are only
        measured.
    :param space: what is sampled before the objective: ``{"n_envs": IntDistribution(1, 64)}``, or a function of the trial that
        gives the values by name. A function as ``plan`` is then called with these values.
    :param fields: other names of the run's fields, such as ``{"envs": "n_envs"}``.
    :param budget: what a trial may use: a size of RAM such as ``"16GB"``, or a ``Budget``; by default what this process may.
    :param margin: the upper bound of a plan must leave so much free.
    :param interval_s: seconds between two looks at the memory.
    """
    try:
        import optuna
    except ImportError:
        raise AnalysisError("Optuna is not installed here: pip install optuna") from None
    if not callable(objective):
        raise UsageError(f"{objective!r} is not an objective; give a function of the trial")
    check_margin(margin)
    predictor = None if plan is None else Predictor(plan, fields)
    if plan is not None and not callable(plan) and space is None:
        raise UsageError(
            "space= is missing: say what is sampled before the objective begins, or give plan= a function of the trial"
        )
    if plan is None and (space or fields or budget):
        raise UsageError("space=, fields= and budget= go with plan=: without a plan, trials are only measured")
    limits = _limits(budget)

    @wraps(objective)
    def begin(trial: Any) -> Any:
        if predictor is not None:
            config = trial if space is None else _sampled(trial, space)
            prediction = predictor(config)
            _note(trial, PREDICTED, prediction.expected_bytes)
            _note(trial, PREDICTED_VRAM, prediction.expected_vram_bytes)
            problem = _too_large(prediction, limits(), margin)
            trial.set_user_attr(PRUNED, problem is not None)
            if problem is not None:
                trial.set_user_attr(REASON, problem)
                _LOG.warning("trial %d with %s not started: %s", trial.number, shown(trial.params), problem)
                raise optuna.TrialPruned(problem)
        with OwnPeak(interval_s=interval_s) as peak:
            _note(trial, BEFORE, peak.peak_bytes())
            try:
                return objective(trial)
            finally:
                _note(trial, MEASURED, peak.peak_bytes(full=True))
                _note(trial, MEASURED_VRAM, peak.vram_peak_bytes)

    return begin


def _limits(budget: str | int | Budget | None) -> Callable[[], Budget]:
    """What a trial may use; of this machine it is asked anew for every trial."""
    if budget is None:
        # The interpreter and what it has imported are in a trial's plan; what trials leave behind is not.
        own = (proc.rollup() or {}).get("Pss", 0)
        return lambda: free_here(own_bytes=own)
    if isinstance(budget, Budget):
        return lambda: budget
    text = budget if isinstance(budget, str) else f"{budget}B"
    given = Budget(name=text, ram_bytes=read_size(text, "budget"), ram_source=f"budget={text}")
    return lambda: given


def _too_large(prediction: Prediction, budget: Budget, margin: float) -> str | None:
    if budget.ram_bytes is not None and prediction.with_margin(margin) > budget.ram_bytes:
        return f"{needs(prediction, margin)}; {budget.name} has {format_size(budget.ram_bytes)} of RAM"
    wanted = round(prediction.vram_bytes * (1 + margin))
    if budget.vram_bytes is not None and wanted > budget.vram_bytes:
        return f"needs {format_size(wanted)} of VRAM; {budget.name} has {format_size(budget.vram_bytes)}"
    return None


def _sampled(trial: Any, space: Space) -> Mapping[str, Any]:
    if not isinstance(space, Mapping):
        config = space(trial)
        if not isinstance(config, Mapping):
            raise UsageError(f"space= gave a {type(config).__name__}; give the sampled values by name")
        return config
    return {name: _suggested(trial, name, each) for name, each in space.items()}


def _suggested(trial: Any, name: str, distribution: Any) -> Any:
    """Ask for a value in the words of the trial, so that the objective can ask in the same."""
    kind = type(distribution).__name__
    if kind == "CategoricalDistribution":
        return trial.suggest_categorical(name, distribution.choices)
    if kind in {"IntDistribution", "FloatDistribution"}:
        ask = trial.suggest_int if kind == "IntDistribution" else trial.suggest_float
        return ask(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    raise UsageError(f"space[{name!r}] is a {kind}; give one of Optuna's distributions")


def _note(trial: Any, name: str, value: int | None) -> None:
    if value is not None:
        trial.set_user_attr(name, value)
