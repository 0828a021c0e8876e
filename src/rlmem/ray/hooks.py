"""Where Tune's controller is met: a trial that cannot fit ends before it starts, and one killed for memory is told from a crash.

Tune asks a trainable for the resources of a trial when the trial is added, before any placement group or actor is made for
it, and has no word for "none at all". So ``TuneController.add_trial`` is extended by one look at the answer. A trial that was
refused ends there as Tune ends a pending one: its scheduler hears that it is gone, and its search algorithm that it was stopped
without a result (for Optuna it is pruned, which its samplers count among the worst; an error they would pass over). Callbacks
hear nothing, as for them a trial begins with its start.

The memory monitor of Ray kills a trial's process with an ``OutOfMemoryError`` that Tune does not expect while a trial trains: in
Ray 2.60 the whole experiment ends with "Caught unexpected exception". Here it becomes the error of that trial alone.

Checked with Ray 2.60. Nothing is changed until :func:`join` is called, and only in the process that runs the experiment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.error import TuneError
from ray.tune.execution.placement_groups import resource_dict_to_pg_factory
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback

from rlmem.ray.requests import SizedRequest
from rlmem.trials import PRUNED, REASON, shown

_LOG = logging.getLogger("rlmem")
_MARK = "_rlmem_joined"
#: An attribute of trainables that ask for what their plan says.
SIZED = "_rlmem_sized"
#: After so many refusals with nothing in between, a search without an end would only go on refusing.
MOST_REFUSALS = 1000
_COUNT = "_rlmem_refusals"


class KilledForMemoryError(RayActorError):
    """Ray's memory monitor killed the process of a trial."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.error_msg = message

    def __str__(self) -> str:
        """What the monitor said, in a line."""
        return self.error_msg


class NotPlannedError(TuneError):
    """There is no plan for a trial's configuration."""


def join() -> bool:
    """Extend Tune's controller, once; ``False``, with a line of the log, where this Ray has none of the kind."""
    try:
        from ray.air.execution._internal.actor_manager import RayActorManager
        from ray.tune.execution.tune_controller import TuneController

        if hasattr(TuneController, _MARK):
            return True
        failed = {name: getattr(RayActorManager, name) for name in ("_actor_task_failed", "_actor_start_failed")}
        add_trial = TuneController.add_trial
    except (ImportError, AttributeError) as error:
        _warn(str(error))
        return False
    for name, method in failed.items():
        setattr(RayActorManager, name, _told_apart(method))
    TuneController.add_trial = _refusing(add_trial)
    setattr(TuneController, _MARK, True)
    return True


@cache
def _warn(why: str) -> None:
    """Once a process."""
    _LOG.warning(
        "Tune's controller cannot be extended in Ray %s (%s): trials that cannot fit start with next to nothing and end "
        "without calling your code, and one killed by the memory monitor may end the experiment",
        ray.__version__,
        why,
    )


def _refusing(add_trial: Any) -> Any:
    @wraps(add_trial)
    def add(controller: Any, trial: Trial) -> None:
        with _unplanned(trial):
            add_trial(controller, trial)
        request = trial.placement_group_factory
        if trial.status != Trial.PENDING or not isinstance(request, SizedRequest):
            return
        if request.problem is not None:
            _fail(controller, trial, request.problem)
        elif request.refusal is not None:
            _refuse(controller, trial, request)
        refused = request.refusal is not None or request.problem is not None
        count = getattr(controller, _COUNT, 0) + 1 if refused else 0
        setattr(controller, _COUNT, count)
        if count == MOST_REFUSALS:
            _LOG.error("%d trials in a row were not started; no more are sampled: narrow the search space", count)
            controller.search_alg.set_finished()

    return add


@contextmanager
def _unplanned(trial: Trial) -> Iterator[None]:
    """A finished trial of an experiment that was restored is added too; what it would need is of no interest any more."""
    sized = getattr(trial.get_trainable_cls(), SIZED, False)
    if not sized or trial.status not in {Trial.TERMINATED, Trial.ERROR}:
        yield
        return

    def plain() -> None:
        trial.placement_group_factory = resource_dict_to_pg_factory()

    trial.create_placement_group_factory = plain
    try:
        yield
    finally:
        del trial.create_placement_group_factory


def _refuse(controller: Any, trial: Trial, request: SizedRequest) -> None:
    """End a pending trial, with its result on record."""
    _LOG.warning(
        "trial %s with %s not started: %s", trial, shown(trial.evaluated_params or trial.config), request.refusal
    )
    trial.init_local_path()
    result = {**request.metrics, PRUNED: True, REASON: request.refusal}
    _record(controller, trial, result)
    controller.scheduler_alg.on_trial_remove(controller, trial)
    controller.search_alg.on_trial_complete(trial.trial_id)
    controller._schedule_trial_stop(trial)
    controller._live_trials.discard(trial)


def _fail(controller: Any, trial: Trial, problem: str) -> None:
    """A pending trial fails as one would whose process cannot be made."""
    _LOG.error("trial %s not started: %s", trial, problem)
    trial.init_local_path()
    _record(controller, trial, {PRUNED: False, REASON: problem})
    error = NotPlannedError(problem)
    controller._has_errored = True
    trial.handle_error(error)
    controller.scheduler_alg.on_trial_error(controller, trial)
    controller.search_alg.on_trial_complete(trial.trial_id, error=True)
    controller._schedule_trial_stop(trial, exception=error)


def _record(controller: Any, trial: Trial, result: dict[str, Any]) -> None:
    """The one result of a trial that never ran, where Tune's analysis will look for it."""
    whole = {
        **result,
        "done": True,
        "training_iteration": 0,
        "time_total_s": 0.0,
        "time_this_iter_s": 0.0,
        "timestamp": int(time.time()),
        "trial_id": trial.trial_id,
        "config": trial.config,
    }
    trial.update_last_result(whole)
    logger = JsonLoggerCallback()
    logger.log_trial_start(trial)
    logger.log_trial_result(0, trial, whole)
    logger.log_trial_end(trial)
    controller._mark_trial_to_checkpoint(trial)


def _told_apart(failed: Any) -> Any:
    """The memory monitor's error as the death of an actor, which Tune knows what to do with."""

    @wraps(failed)
    def told(manager: Any, *args: Any, **named: Any) -> None:
        error = named.get("exception")  # Tune calls both with names
        if isinstance(error, OutOfMemoryError):
            first = "; ".join(line.strip() for line in str(error).splitlines()[:2])
            named["exception"] = KilledForMemoryError(f"killed by Ray's memory monitor: {first}")
        failed(manager, *args, **named)

    return told
