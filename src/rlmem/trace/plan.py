"""A plan from a dry run: its ledger, judged like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlmem.agent.protocol import Facts, LoopFacts
from rlmem.core.ledger import Leak, Ledger, Peak
from rlmem.core.plan import Budget, Plan
from rlmem.core.quantity import Quantity
from rlmem.core.schedule import reached
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.errors import AnalysisError, RlmemError, UsageError
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.trace import sizing
from rlmem.trace.describe import describe, wants_gpu
from rlmem.trace.dryrun import DryRun
from rlmem.trace.extend import extend, stretch
from rlmem.trace.gpu import move_to_gpu
from rlmem.trace.growth import find_leak, updates_missing
from rlmem.trace.ledger import TracedLedger, file_name, is_partly_written, is_untouched
from rlmem.trace.refused import refused_arguments, said_at_exit
from rlmem.units import MIB, format_size

#: Why VRAM is unknown, and what could use it.
_NO_VRAM = "VRAM of a loop of its own is not predicted; 'rlmem measure' reads it on a machine with the GPU"
#: A script that has imported one of these and ended has done what it is for.
_LIBRARIES = {"numpy", "torch", "jax", "tensorflow", "cupy"}
#: A child process of this size does some of the work.
_LARGE = 64 * MIB
_GPU_LIBRARIES = {"torch", "jax", "tensorflow", "cupy"}

#: Arrays that are named for not being written; more would bury the rest.
MOST_UNTOUCHED = 3


def plan_dry_run(run: DryRun, budget: Budget, form: ClosedForm | None = None) -> Subject:
    """Return what a dry run met, planned against a budget, without findings.

    It falls back to the closed form when the run stopped early but said what it was.

    Args:
        run: the dry run.
        budget: what there is.
        form: plans of descriptions, with the constants of the run's interpreter; shipped ones by default.

    Raises:
        UsageError: the target refused its arguments.
        AnalysisError: the run stopped before anything was known.
    """
    source = DryRunSource(run, form or ClosedForm())
    plan = source.plan(source.asked, budget)
    versions = run.facts.get("versions") or {}
    return Subject(
        asked=source.asked,
        plan=plan,
        source=source,
        is_changeable=source.is_changeable,
        target=run.target,
        versions={name: str(version) for name, version in versions.items()},
    )


class DryRunSource:
    """Makes plans from a dry run. A changed run is its closed form plus what the dry run saw beyond its own closed form."""

    def __init__(self, run: DryRun, form: ClosedForm) -> None:
        self.run, self.form = run, form
        #: The run as it was met, to be changed.
        self.asked = describe(run)
        self.is_changeable = self._closed(Budget(name="")) is not None
        self._plans: dict[Budget, Plan] = {}

    def plan(self, asked: RunSpec, budget: Budget) -> Plan:
        """Return the plan of the run as it was met, or changed."""
        before = self._as_met(budget)
        if asked.key == self.asked.key:
            return before
        after, closed = self.form.plan(asked, budget), self.form.plan(self.asked, budget)
        if before.method != "dry run":
            return after
        shift = {peak.device: peak.expected_bytes - _expected(closed, peak.device) for peak in before.tops}
        return replace(after, peaks=tuple(_moved(peak, shift.get(peak.device, 0)) for peak in after.peaks))

    def _as_met(self, budget: Budget) -> Plan:
        if budget not in self._plans:
            self._plans[budget] = self._plan(budget)
        return self._plans[budget]

    def _plan(self, budget: Budget) -> Plan:
        run = self.run
        closed = self._closed(budget)
        if run.met == "learn" and "update" in run.facts["phases"]:
            return self._learn(budget, closed)
        if _is_measured(run):
            return self._own_loop(budget, closed)
        if closed is not None:
            return replace(closed, method="closed form", notes=(_stopped(run), *closed.notes))
        if refused := refused_arguments(run):
            raise UsageError(refused)
        raise AnalysisError(f"{run.target.text}: {_stopped(run)}")

    def _closed(self, budget: Budget) -> Plan | None:
        """The closed form of what was met; ``None`` when the description is not enough for one."""
        try:
            return self.form.plan(self.asked, budget)
        except RlmemError:
            return None

    def _learn(self, budget: Budget, closed: Plan | None) -> Plan:
        """A model of a framework's: its ledger, extended to the sizes that the dry run did not reach."""
        run, spec = self.run, self.asked
        growth, notes = extend(run.facts, spec, lambda other: self.form.plan(other, budget), closed)
        notes = (*_learn_notes(run, spec), *notes, *sizing.notes(run.facts, spec))
        ledger = TracedLedger(run.facts, growth, written=_written(spec), stretch=stretch(run.facts)).ledger()
        unknown: dict[str, str] = {}
        if wants_gpu(run.facts):
            ledger, more = _with_gpu(ledger, run, self.form.constants)
            notes = (*notes, *more)
            if budget.vram_bytes and "vram" not in ledger.devices:
                unknown["vram"] = more[0]
        return _judged(ledger, budget, closed.spec if closed else spec, notes, unknown)

    def _own_loop(self, budget: Budget, closed: Plan | None) -> Plan:
        """A script with a loop of its own: its ledger, and whether it grows."""
        run = self.run
        leak = find_leak(run.facts, budget.ram_bytes)
        ledger = TracedLedger(run.facts, leak=leak, limit_bytes=budget.ram_bytes).ledger()
        unknown = {"vram": _NO_VRAM} if budget.vram_bytes and _may_use_gpu(run.facts) else {}
        plan = _judged(ledger, budget, closed.spec if closed else self.asked, _loop_notes(run), unknown)
        if leak is not None:
            peaks = tuple(replace(peak, leak=leak) if _grows(peak) else peak for peak in plan.peaks)
            return replace(plan, peaks=peaks, notes=(*_leak_notes(leak), *plan.notes))
        if run.met != "end" and run.facts.get("loop") and (missing := updates_missing(run.facts)):
            return replace(plan, cautions=(missing,))
        return plan


def _judged(ledger: Ledger, budget: Budget, spec: RunSpec, notes: tuple[str, ...], unknown: Mapping[str, str]) -> Plan:
    """Peaks and verdict of a traced ledger; where RAM and VRAM are one pool, it says where each byte was seen."""
    return Plan(
        spec=spec,
        budget=budget,
        ledger=ledger,
        peaks=ledger.peaks(budget.limits),
        method="dry run",
        notes=notes,
        unknown=unknown,
    )


def _moved(peak: Peak, shift: int) -> Peak:
    return replace(
        peak,
        low_bytes=max(0, peak.low_bytes + shift),
        expected_bytes=max(0, peak.expected_bytes + shift),
        high_bytes=max(0, peak.high_bytes + shift),
    )


def _is_measured(run: DryRun) -> bool:
    """Whether a script without a framework's model got far enough that what it held says what it needs."""
    facts = run.facts
    if "model" in facts:
        return False
    if run.stop is not None:  # it failed, but only after full updates
        return run.met == "loop" and run.stop.get("kind") in ("raised", "exited")
    learns = facts.get("learners") or facts.get("pending_bytes") or facts.get("jax_bytes") or _programs(run)
    if run.met == "end":
        return bool("build" in facts["phases"] or learns or _LIBRARIES & set(facts.get("versions", {})))
    return bool("build" in facts["phases"] or (learns and "final" in facts["phases"]))


def _programs(run: DryRun) -> int:
    """How many large programs the target started, such as a script of its own that does the work."""
    return sum(row.role in ("worker", "other") and row.hwm_bytes >= _LARGE for row in run.outcome.peak.processes)


def _grows(peak: Peak) -> bool:
    return peak.device == "ram" and peak.phase in ("collect", "update")


def _may_use_gpu(facts: Facts) -> bool:
    """Whether the script's libraries could put anything on a GPU."""
    return not facts.get("gpu_unused") and bool(_GPU_LIBRARIES & set(facts.get("versions", {})))


def _leak_notes(leak: Leak) -> tuple[str, ...]:
    seen = f"{format_size(leak.rise_bytes)} were added in the {leak.rounds:,} {leak.per}s that were seen"
    if not leak.left:
        return (seen,)
    need = format_size(round(leak.left * leak.bytes_each))
    return (f"{seen}; its loop goes on for {leak.left:,.0f} more, which would add {need}",)


def _with_gpu(ledger: Ledger, run: DryRun, constants: Constants) -> tuple[Ledger, tuple[str, ...]]:
    settings = run.facts["model"]["settings"]
    batch = settings.get("batch_size") or settings.get("n_steps", 0) * settings.get("n_envs", 1)
    try:
        moved = move_to_gpu(ledger, run.facts, batch, constants)
    except AnalysisError as error:
        return ledger, (f"VRAM is not predicted: {error}",)
    return moved, ("the learner is on a GPU: its update was recorded op by op at two small sizes and replayed",)


def _expected(plan: Plan, device: str) -> int:
    top = plan.top(device)
    return top.expected_bytes if top else 0


def _written(spec: RunSpec) -> float | None:
    """The share of its replay buffer that a run comes to; ``None`` where it is all of it, or its length is not known."""
    if "buffer_size" not in spec:
        return None
    slots = Quantity.of(spec.count("buffer_size"), "buffer_size", spec.origin("buffer_size"))
    part = reached(spec, slots)
    return part.value / slots.value if part is not None else None


def _learn_notes(run: DryRun, spec: RunSpec) -> tuple[str, ...]:
    facts = run.facts
    model, reached = facts["model"], (facts.get("rehearsal") or {}).get("reached", {})
    done = ", ".join(f"{name} {value:,}" for name, value in reached.items() if value)
    notes = [
        f"{run.target.name} ran up to {model['algorithm']}.learn(), then a little of it with real environments and real "
        f"updates ({done}); callbacks, logging and everything after learn() were not run, and files were put back",
    ]
    total, size = model.get("total_timesteps"), model.get("settings", {}).get("buffer_size")
    if total and size and total < size and "total_timesteps" not in spec:
        notes.append(
            f"learn() asks for {total:,} steps and the replay buffer has room for {size:,}: it may be called again, so the "
            "peak shown is that of a full buffer"
        )
    return (*notes, *_mapped_files(run), *facts["notes"])


def _loop_notes(run: DryRun) -> tuple[str, ...]:
    loop = run.facts.get("loop") or LoopFacts(cycles=0, updates=0, env_steps=0)
    name, seconds = run.target.name, f"{run.facts['wall_s']:.0f} s"
    learners = run.facts.get("learners") or {}
    done = [_counted(loop.get("cycles", 0), "full update")] if loop.get("cycles") else []
    if not done and loop.get("updates"):
        done.append(_counted(loop["updates"], "optimizer step"))
    if loop.get("env_steps"):
        done.append(_counted(loop["env_steps"], "environment step"))
    if learners:
        steps, where = sum(learners.values()), _counted(len(learners), "child process")
        done.append(f"{_counted(steps, 'optimizer step')} or more in {where}")
    seen = f" ({', '.join(done)})" if done else ""
    if run.stop is not None:
        first = f"{_stopped(run)}, after {seconds}{seen}: the peak shown is what was seen until then"
    elif run.met == "end" or run.facts.get("ended"):
        first = f"{name} ran to its end in {seconds}{seen}: the peak shown is what it was measured to hold"
        if not seen:
            first += "; no environment step and no optimizer step was seen"
        elif "torch" not in run.facts["versions"] and not learners:
            first += "; updates are seen of torch's optimizers only"
    elif done and (loop.get("cycles") or run.met == "loop"):
        first = f"{name} ran until it had done enough{seen}; what its arrays reserve and do not hold yet is added"
    elif learners:
        first = f"{name} was stopped after {seconds}{seen}: the peak shown is that of all its processes together"
    elif "torch" not in run.facts["versions"]:
        first = (
            f"{name} was stopped after {seconds}{seen}: the peak shown is what was seen and what its arrays reserve; "
            "updates are seen of torch's optimizers only"
        )
    else:
        first = (
            f"{name} was stopped after {seconds} without a full update{seen}: the peak shown is what was seen and what its "
            "arrays reserve, and an update may need more (a smaller learning-starts, or a longer --timeout, lets it come "
            "to one)"
        )
    notes = (*_partly_written(run), *_untouched(run), *_mapped_files(run))
    return (f"{first}; files were put back", *notes, *run.facts["notes"])


def _untouched(run: DryRun) -> tuple[str, ...]:
    """Arrays that may stay as they are: they are counted in full, and take nothing until they are written."""
    return tuple(
        f"nothing was written to {row.get('path') or row['where'].rsplit('/', 1)[-1]} so far: its "
        f"{format_size(row['nbytes'])} are counted, and are needed only if the run writes them"
        for row in run.facts.get("arrays", ())
        if is_untouched(row, run.facts)
    )[:MOST_UNTOUCHED]


def _mapped_files(run: DryRun) -> tuple[str, ...]:
    """That pages of files are no part of the peak."""
    return tuple(
        f"{file_name(row)} is {format_size(row['nbytes'])} of the file {row['file']}: the kernel takes its pages "
        "back when memory is short, so they are not part of the peak"
        for row in run.facts.get("files", ())
        if not row["in_ram"]
    )


def _counted(count: int, word: str) -> str:
    plural = "es" if word.endswith("s") else "s"
    return f"{count:,} {word}{'' if count == 1 else plural}"


def _partly_written(run: DryRun) -> tuple[str, ...]:
    """That the run ends before its arrays are full, with both sizes."""
    rows = [
        row for row in (*run.facts.get("arrays", ()), *run.facts.get("worker_arrays", ())) if is_partly_written(row)
    ]
    if not rows:
        return ()
    now, full = (format_size(sum(row[name] for row in rows)) for name in ("written", "nbytes"))
    if run.facts.get("ended"):
        return (f"it wrote {now} of arrays that have room for {full}: a longer run needs more",)
    return (
        f"its loops make {run.facts['steps']:,} environment steps, which write {now} of arrays that have room for {full}: "
        f"a longer run needs more",
    )


def _stopped(run: DryRun) -> str:
    """What kept the dry run from an update, and where."""
    stop = run.stop
    if stop is None:
        seconds = f"{run.facts.get('wall_s', 0):.0f} s"
        if run.met == "end":
            return f"it ran to its end in {seconds} without training: no learn(), and no environment was stepped"
        what = (
            "inside learn(), before an update was done" if "model" in run.facts else "before a model or a loop was met"
        )
        return f"the dry run's time was over after {seconds}, {what}; --timeout SECONDS gives it more"
    where = f" at {stop['where']}" if stop.get("where") else ""
    line = f" ({stop['line']})" if stop.get("line") else ""
    verb = {"exited": "exited", "syntax": "does not parse"}.get(str(stop.get("kind")), "stopped")
    message = str(stop.get("message", "for an unknown reason"))
    return f"it {verb}{where}{line}: {message}{_hint(run, message)}"


def _hint(run: DryRun, message: str) -> str:
    """What it said itself; or what to do about a package that is missing where the target ran."""
    if "No module named" not in message:
        return said_at_exit(run)
    python = run.target.python
    if run.target.kind == "zoo" and "rl_zoo3" in message:
        return f"; RL Zoo entries are run by rl_zoo3, which {python} does not have ('pip install rl_zoo3' there)"
    return f"; it ran with {python} ({run.target.python_source}), --python PATH names another interpreter"
