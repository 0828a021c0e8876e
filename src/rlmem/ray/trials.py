"""Trials of Ray Tune that get the memory they need: ``tune.Tuner(trainable_with_memory(train_fn), …)``.

Each trial is planned from its own sampled configuration, on the driver, when Tune adds it: by a plan that is named, else by a dry run
of the trainable. Its bundles ask Ray for the upper
bound of the plan and a margin, so that no more trials run at a time than fit. One that fits no node never starts. In the trial's
process a thread watches the memory of the process, its children and the actors of the trial's placement group; every result
carries what was predicted and what was measured.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlmem.errors import AnalysisError, UsageError
from rlmem.ray.connecting import need_ray
from rlmem.runner.own import INTERVAL_SECONDS, OwnPeak
from rlmem.trials import MARGIN, MEASURED, MEASURED_VRAM, PRUNED, REASON, Predictor, TrialPlan, check_margin

_LOG = logging.getLogger("rlmem")
#: A peak that grew by less since the last report is not worth another one at the end.
GROWTH = 1.01
#: Actors are made before the first results, so that with these Ray is asked anew who belongs to the trial.
EARLY_REPORTS = 3
#: What the memory monitor says where Tune keeps only the text of an error.
_MONITOR = "killed due to the node running low on memory"
#: What Ray says of an actor whose own code raised while it was made.
_CREATION = "error raised in its creation task"
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: A plan by trying the trainable itself.
DRY_RUN = "dry-run"
OUTCOMES = ("finished", "pruned", "not-planned", "killed-for-memory", "crashed", "failed")


def trainable_with_memory(
    trainable: Any,
    plan: TrialPlan | None = DRY_RUN,
    *,
    fields: Mapping[str, str | None] | None = None,
    nodes: Any = None,
    margin: float = MARGIN,
    interval_s: float = INTERVAL_SECONDS,
) -> Any:
    """A trainable for ``tune.Tuner`` whose trials are sized by their plan and measured.

    :param trainable: a function of the configuration, a subclass of ``tune.Trainable`` (RLlib's algorithms are), or the name of
        a registered one. What ``tune.with_resources`` and ``tune.with_parameters`` give is taken too; wrap it last.
    :param plan: how a configuration becomes a run that can be planned: a preset, a run file, a ``RunSpec``, or a function that
        gives a ``RunSpec``, a ``Plan``, fields or bytes. By default the trainable is tried with each configuration, for a few updates in
        a process of its own; a configuration of which that learns nothing is not sized. With ``None`` trials are only measured.
    :param fields: other names of the run's fields in the configuration, such as ``{"envs": "n_envs"}``.
    :param nodes: where trials may go when that is not the cluster as it is now (one that grows), such as ``"4x(64GB,16cpu)"``.
    :param margin: so much more than the upper bound of its plan is asked for a trial.
    :param interval_s: seconds between two looks at a trial's memory.
    """
    need_ray()
    try:
        from ray.tune import Trainable
        from ray.tune.registry import get_trainable_cls
        from ray.tune.trainable import wrap_function
    except ImportError as error:
        raise AnalysisError(f"Ray Tune cannot be imported: {' '.join(str(error).split())}") from None
    from rlmem.ray import hooks, requests
    from rlmem.ray.trying import Trying

    check_margin(margin)
    if isinstance(interval_s, bool) or not isinstance(interval_s, (int, float)) or not interval_s > 0:
        raise UsageError(f"interval_s={interval_s!r}: give seconds between two looks, such as 1.0")
    base = get_trainable_cls(trainable) if isinstance(trainable, str) else trainable
    if isinstance(base, type):
        if not issubclass(base, Trainable):
            raise UsageError(f"{base.__name__} is no tune.Trainable; give a function, or a class derived from it")
    elif callable(base):
        base = wrap_function(base)
    else:
        raise UsageError(f"{trainable!r} is not a trainable; give a function or a class derived from tune.Trainable")
    hooks.join()
    tried = isinstance(plan, str) and plan == DRY_RUN
    if (plan is None or tried) and fields:
        raise UsageError("fields= goes with plan=: a dry run is given the configuration itself")
    if plan is None:
        if nodes:
            raise UsageError("nodes= goes with a plan: with plan=None, trials are only measured")
        return _watched(base, None, interval_s)
    found = Trying(base if isinstance(trainable, (str, type)) else trainable) if tried else plan
    sizing = requests.Sizing(Predictor(found, fields), nodes=nodes, margin=margin, tried=tried)
    return _watched(base, sizing, interval_s)


def _watched(base: Any, sizing: Any, interval_s: float) -> Any:
    """The class itself: asks for resources on the driver, measures in the trial's process."""
    from ray.tune.result import RESULT_DUPLICATE, TRIAL_INFO
    from ray.tune.trainable import FunctionTrainable

    from rlmem.ray.hooks import SIZED

    class WithMemory(base):
        """A trial that knows what it was predicted to need, and what it needed."""

        _memory: TrialMemory

        def __init_subclass__(cls, **named: Any) -> None:
            super().__init_subclass__(**named)
            if sizing is not None and "default_resource_request" in cls.__dict__:
                raise UsageError(
                    "write trainable_with_memory(tune.with_resources(trainable, …)), not the other way round: its trials would not be sized"
                )

        def __init__(self, config: Any = None, *args: Any, **named: Any) -> None:
            # RLlib's algorithms drop what Tune says of the trial on their way to the base class.
            info = config.get(TRIAL_INFO) if isinstance(config, dict) else None
            self._memory = TrialMemory(getattr(info, "trial_resources", None), interval_s)
            super().__init__(config, *args, **named)

        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> Any:
            """Bundles for this configuration."""
            given = super().default_resource_request(config)
            if sizing is None:
                return given
            from rlmem.ray import hooks

            hooks.join()  # the experiment may run in another process than the one that wrapped the trainable
            return sizing.request(config, given)

        def setup(self, config: dict[str, Any], **parameters: Any) -> None:
            """Begin to watch, then build; a trial that was refused builds nothing."""
            if parameters and issubclass(base, FunctionTrainable):
                raise UsageError(
                    "write trainable_with_memory(tune.with_parameters(function, …)), not the other way round"
                )
            if self._memory.refusal is None:
                self._memory.start()
                super().setup(config, **parameters)

        def step(self) -> dict[str, Any]:
            """The trial's own result, and its memory."""
            memory = self._memory
            if memory.problem is not None:  # only where Tune's controller could not be met
                from rlmem.ray.hooks import NotPlannedError

                raise NotPlannedError(memory.problem)
            if memory.refusal is not None:
                return {**memory.metrics(), PRUNED: True, REASON: memory.refusal, "done": True}
            result = super().step()
            if RESULT_DUPLICATE not in result:
                return memory.noted(result)
            return memory.last() or result  # the function returned; a larger peak since its last report is told

        def reset_config(self, new_config: dict[str, Any]) -> Any:
            """Another trial in the same process."""
            self._memory.begin(self.trial_resources)
            return super().reset_config(new_config)

        def cleanup(self) -> None:
            """End the watch."""
            self._memory.stop()
            if self._memory.refusal is None:
                super().cleanup()

    setattr(WithMemory, SIZED, sizing is not None)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(WithMemory, name, getattr(base, name))
    return WithMemory


class TrialMemory:
    """What was foretold of a trial and what is seen of it; lives in the trial's process."""

    def __init__(self, resources: Any, interval_s: float) -> None:
        self._peak = OwnPeak(interval_s=interval_s, others=self._others)
        self._actors = Actors()
        self.begin(resources)

    def begin(self, resources: Any) -> None:
        """Forget what was; ``resources`` is what the trial asked for, if it was asked for by :mod:`rlmem.ray.requests`."""
        self._foretold = dict(getattr(resources, "metrics", {}))
        self.problem: str | None = getattr(resources, "problem", None)
        #: Why the user's code is not called.
        self.refusal: str | None = getattr(resources, "refusal", None) or self.problem
        self._result: dict[str, Any] | None = None
        self._told = self._reports = 0
        if self._peak.is_watching:
            self._peak.start()

    def start(self) -> None:
        """Begin to watch."""
        self._peak.start()

    def stop(self) -> None:
        """End it."""
        self._peak.stop()

    def metrics(self, *, full: bool = False) -> dict[str, Any]:
        """Predicted and measured; what is not known is not there."""
        found: dict[str, Any] = dict(self._foretold)
        if self.refusal is None:
            self._told = found[MEASURED] = self._peak.peak_bytes(full=full)
            if self._peak.vram_peak_bytes is not None:
                found[MEASURED_VRAM] = self._peak.vram_peak_bytes
            if self._actors.elsewhere:
                found["rlmem/actors_not_measured"] = self._actors.elsewhere
            found[PRUNED] = False
        return found

    def noted(self, result: dict[str, Any]) -> dict[str, Any]:
        """A result with the memory beside it."""
        self._result = dict(result)
        self._reports += 1
        if self._reports <= EARLY_REPORTS:
            self._actors.forget()
        return {**result, **self.metrics()}

    def last(self) -> dict[str, Any] | None:
        """The last result again when the peak grew after it; ``None`` when there is nothing new, or was no result."""
        told = self._told
        if self._result is None or self._peak.peak_bytes(full=True) <= told * GROWTH:
            return None
        from ray.tune.result import SHOULD_CHECKPOINT

        repeated = {key: value for key, value in self._result.items() if key != SHOULD_CHECKPOINT}
        return {**repeated, **self.metrics(), "done": True}

    def _others(self) -> tuple[int, ...]:
        return self._actors.pids()


class Actors:
    """The actors of this trial: those in its placement group. Whoever is on this machine is measured with it."""

    #: Seconds until Ray is asked again, and at most: actors come at the beginning, seldom later.
    FIRST, MOST = 1.0, 16.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next, self._pause = 0.0, self.FIRST
        self._pids: tuple[int, ...] = ()
        self._is_told = False  # that Ray does not say who they are; or it did once, and that is enough
        #: How many are on other machines.
        self.elsewhere = 0

    def pids(self) -> tuple[int, ...]:
        """Processes on this machine."""
        if self._clock() >= self._next:
            try:
                self._ask()
                self._is_told = True
            except Exception as error:  # Ray's tables are its own affair: what they do not say is not measured
                level = logging.DEBUG if self._is_told else logging.WARNING
                self._is_told = True
                _LOG.log(level, "the trial's actors are not known, and not in its measured peak: %s", error)
            self._next = self._clock() + self._pause
            self._pause = min(self._pause * 2, self.MOST)
        return self._pids

    def forget(self) -> None:
        """Ask again at the next look."""
        self._next = 0.0

    def _ask(self) -> None:
        import ray
        from ray.util import get_current_placement_group

        from rlmem.ray.actors import as_tables, read_tables

        group = get_current_placement_group()
        if group is None:
            return
        context = ray.get_runtime_context()
        places = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        here, own = places.get(context.get_node_id()), context.get_actor_id()
        members = [
            actor
            for actor in as_tables(read_tables()).actors
            if actor.group == group.id.hex() and actor.actor_id != own
        ]
        self._pids = tuple(actor.pid for actor in members if places.get(actor.node_id) == here)
        self.elsewhere = len(members) - len(self._pids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a trial ended, in a word of ``OUTCOMES`` and in a line."""

    kind: str
    line: str


def trial_outcome(result: Any) -> Outcome:
    """How a trial of a ``ResultGrid`` ended: killed by Ray's memory monitor, crashed, failed, pruned …"""
    need_ray()
    from ray.exceptions import OutOfMemoryError, RayActorError

    from rlmem.ray.hooks import KilledForMemoryError, NotPlannedError

    metrics, error = result.metrics or {}, result.error
    reason, text = metrics.get(REASON), " ".join(_COLOURS.sub("", str(error)).split())
    if reason is not None:
        return Outcome(kind="pruned" if metrics.get(PRUNED) else "not-planned", line=reason)
    if error is None:
        return Outcome(kind="finished", line="")
    if isinstance(error, (KilledForMemoryError, OutOfMemoryError)) or _MONITOR in text:
        return Outcome(kind="killed-for-memory", line=text[:400])
    if isinstance(error, RayActorError) and _CREATION not in text:
        return Outcome(kind="crashed", line=text[:400])
    # Of a traceback, the last line says what it was.
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    if lines and NotPlannedError.__name__ in lines[-1]:
        return Outcome(kind="not-planned", line=lines[-1].partition(f"{NotPlannedError.__name__}: ")[2])
    return Outcome(kind="failed", line=lines[-1][:400] if lines else type(error).__name__)
