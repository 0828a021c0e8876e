"""The functions behind the table: a run in, changes of it out, or ``None`` where a remedy does not apply.

What a rule knows already is asked of the rule: its finding carries the changes. Knobs are turned with
:func:`rlmem.capacity.largest`, and a value that is found is rounded as the rules round theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from rlmem.capacity import largest
from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.spaces import DictSpace
from rlmem.core.subject import CHANGED, Subject
from rlmem.errors import SpecError
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.frameworks.stream import is_stream
from rlmem.remedies.base import Change, Goal
from rlmem.rules import find_rule, once
from rlmem.rules.knobs import rounded_down
from rlmem.rules.materialised_history import OWN_LOOPS, WINDOWS
from rlmem.units import MIB, format_count

Finder = Callable[[Subject, Goal], Change | None]
#: A knob is not turned below this share of what it was: that would be another run.
LEAST_SHARE = 1 / 1000
#: A spill budget is rounded down to this.
SPILL_STEP = 64 * MIB
_ONCE = ("materialised-history", "materialised-stack", "duplicate-next-obs")


def findings_of(subject: Subject, name: str) -> tuple[Finding, ...]:
    """What one rule says about a run as it stands."""
    rule, _ = find_rule(name)
    return tuple(rule.on_plan(rule, subject)) if rule.on_plan else ()


def of_rule(name: str, *, location: str | None = None, when: Callable[[Subject], bool] | None = None) -> Finder:
    """A rule's own remedy: the changes of its first finding that has some."""

    def find(subject: Subject, goal: Goal) -> Change | None:
        if when is not None and not when(subject):
            return None
        for finding in findings_of(subject, name):
            if finding.changes and location in (None, finding.location):
                return Change(values=dict(finding.changes), how=finding.remedy or finding.title)
        return None

    return find


def compact_store(subject: Subject, goal: Goal) -> Change | None:
    """rlmem's own buffer in place of the framework's, as the rules about stored observations ask for it."""
    swap = once.swap_for(subject)
    if swap is None:
        return None
    values = _once(subject) or dict(once.CHANGES)
    window = subject.spec.window
    alone = f"; the window's {window.extra} other values need a key of their own" if window and window.extra else ""
    return Change(values=values, how=f"{swap.sentence}{alone}")


def once_by_hand(subject: Subject, goal: Goal) -> Change | None:
    """The same in a loop of one's own, which has to be changed by hand: nothing else of the run changes with it.

    A description may say that its stream takes fewer bits, or how it is encoded, and a stream goes through the network in chunks
    where nothing is said about batches: none of this is a part of this step.
    """
    spec, values = subject.spec, _once(subject) if once.swap_for(subject) is None else None
    if not values:
        return None
    if spec.text("framework.name") not in OWN_LOOPS or spec.window is None:
        return Change(values=values, how="store every frame once and put stacks together per minibatch")
    if spec.text("framework.name") == "swarm":
        if "batch_size" not in subject.asked:
            values["batch_size"] = spec.get("batch_size")
        if subject.asked.get("rollout.dtype", spec.window.dtype) != spec.window.dtype:
            values["rollout.dtype"] = spec.window.dtype
        if subject.asked.get("network.encoding", "window") != "window":
            values["network.encoding"] = "window"
    return Change(values=values, how=WINDOWS.sentence)


def half_stream(subject: Subject, goal: Goal) -> Change | None:
    """Two bytes a value of a stream that is kept in four."""
    spec = subject.spec
    window = spec.window
    if (
        window is None
        or spec.text("framework.name") != "swarm"
        or not is_stream(spec)
        or spec.flag("rollout.resimulated")
    ):
        return None
    if spec.get("rollout.dtype", window.dtype) != "float32":
        return None
    return Change(
        values={"rollout.dtype": "float16"},
        how='WindowRollout(…, dtype="float16"), or dtype="int16" with the scale of the samples; never bfloat16',
    )


def _once(subject: Subject) -> dict[str, object] | None:
    found = (dict(finding.changes) for name in _ONCE for finding in findings_of(subject, name) if finding.changes)
    return next(found, None)


def codec(subject: Subject, goal: Goal) -> Change | None:
    """A codec chosen from the data; only where a sample of it was seen, because a saving has to be known."""
    spec = subject.spec
    if not is_compact(spec) or spec.get("codec", "none") != "none" or not subject.asked.get("coded_bytes"):
        return None
    return Change(values={"codec": "auto"}, how=f'{_options(subject)}={{"codec": "auto"}}')


def _options(subject: Subject) -> str:
    return "replay_buffer_kwargs" if "buffer_size" in subject.spec else "rollout_buffer_kwargs"


def spill(subject: Subject, goal: Goal) -> Change | None:
    """The oldest experience of a compact replay buffer on disk: as much in RAM as fits."""
    spec = subject.spec
    if not is_compact(spec) or "buffer_size" not in spec or "spill_budget" in spec or not goal.is_over(subject.plan):
        return None
    held = subject.plan.ledger.only(device="ram", phase="collect", component="replay.observations").entries
    stored = sum(entry.amount.high for entry in held)
    if stored < SPILL_STEP:
        return None
    start = subject.asked.having({"spill_budget": stored}, CHANGED)
    value = largest(start, "spill_budget", subject.plan_of, expected=goal.expected, device="ram").value
    if value is None or value < SPILL_STEP:
        return None
    budget = value // SPILL_STEP * SPILL_STEP
    size = f"{budget // MIB}MiB"
    return Change(
        values={"spill_budget": budget},
        how=f'replay_buffer_kwargs={{"budget": "{size}", "spill": "…a folder on a disk…"}}',
    )


def rounds_nothing(subject: Subject) -> bool:
    """Whether float64 observations reach the network as the same float32 numbers when they are cast before storage.

    SB3 casts a batch with ``.float()`` right after sampling, which rounds as a cast in the environment does. Statistics of
    VecNormalize and rewards that HER computes anew are taken in float64 before that, and would differ.
    """
    spec = subject.spec
    exact = spec.text("framework.name") == "sb3" and spec.get("precision", "float32") == "float32"
    return exact and not spec.flag("vec_normalize") and spec.get("replay.kind") != "her"


def rounds(subject: Subject) -> bool:
    """The opposite of :func:`rounds_nothing`."""
    return not rounds_nothing(subject)


def unused_keys(subject: Subject, goal: Goal) -> Change | None:
    """A key that the network never reads leaves the observation space; one that it reads and never changes stays."""
    space = subject.asked.get("observation")
    unused = subject.spec.get("unused_keys", ()) if isinstance(space, DictSpace) else ()
    for finding in findings_of(subject, "unused-key"):
        if finding.changes and any(finding.location == f"observation.{key}" for key in unused):
            return Change(values=dict(finding.changes), how=finding.remedy or finding.title)
    return None


def micro_batches(subject: Subject, goal: Goal) -> Change | None:
    """Even parts of a batch, gradients added up before the step: the largest parts that fit; on-policy loops of one's own."""
    spec, plan = subject.spec, schedule(subject.spec)
    if plan is None or spec.text("framework.name") not in OWN_LOOPS or not goal.is_over(subject.plan):
        return None
    found = largest(subject.asked, "batch_size", subject.plan_of, expected=goal.expected, device=goal.device)
    if found.value is not None and found.value < plan.batch:
        parts = -(-plan.batch // found.value)
        value = -(-plan.batch // parts)
    else:
        values = [dict(f.changes)["batch_size"] for f in findings_of(subject, "full-batch-update") if f.changes]
        if not values:
            return None
        value = values[0]
    if is_stream(spec) and spec.get("network.encoding") == "sequence":  # chunks of agents with all their steps
        steps = spec.count("n_steps")
        value = max(value // steps, 1) * steps
    parts = -(-plan.batch // value)
    return Change(
        values={"batch_size": value},
        how=f"backward() on {parts} parts of {format_count(value)} samples, each loss divided by {parts}, then one step()",
    )


def bfloat16(subject: Subject, goal: Goal) -> Change | None:
    """Activations in half the bytes, on a GPU."""
    spec = subject.spec
    if spec.get("device") != "cuda" or spec.get("precision", "float32") != "float32":
        return None
    return Change(
        values={"precision": "bfloat16"},
        how='with torch.autocast("cuda", dtype=torch.bfloat16): around forward pass and loss (in SB3: a train() of your own)',
    )


def in_process(subject: Subject, goal: Goal) -> Change | None:
    """Environments in the learner's own process instead of one process each."""
    spec = subject.spec
    if spec.get("vec_env") != "subproc":
        return None
    values = {"vec_env": "dummy"}
    if spec.get("eval.vec_env") == "subproc":
        values["eval.vec_env"] = "dummy"
    return Change(values=values, how="DummyVecEnv in place of SubprocVecEnv (SyncVectorEnv in place of AsyncVectorEnv)")


def knob(path: str) -> Finder:
    """The largest value of a count that fits, rounded down to two figures."""

    def find(subject: Subject, goal: Goal) -> Change | None:
        now = subject.spec.get(path)
        if not isinstance(now, int) or now <= 1 or not goal.is_over(subject.plan):
            return None
        try:
            found = largest(subject.asked, path, subject.plan_of, expected=goal.expected, device=goal.device)
        except SpecError:
            return None
        if found.value is None or found.value >= now or found.value < now * LEAST_SHARE:
            return None
        value = _even(subject, path, rounded_down(found.value))
        return Change(values={path: value}, how=f"{path}={value}")

    return find


#: Of values near another one.
MOST_TRIED = 100_000


def lowest(now: int) -> int:
    """The lowest value of a knob that is still the same kind of run."""
    return max(1, round(now * LEAST_SHARE))


def _even(subject: Subject, path: str, value: int) -> int:
    """A rollout in whole minibatches, where it was so before and a value near enough does it."""
    plan = schedule(subject.spec)
    if plan is None or plan.remainder or plan.with_replacement or path not in ("n_steps", "batch_size"):
        return value
    if path == "batch_size":
        divisors = (size for size in _near(value) if plan.samples % size == 0)
        return next(divisors, value)
    step = plan.samples // subject.spec.count("n_steps")  # samples a step of all environments
    fitting = (steps for steps in _near(value) if steps * step % plan.batch == 0)
    return next(fitting, value)


def _near(value: int) -> range:
    """Values a little smaller, by a fifth at most, and no more of them than can be tried at once."""
    return range(value, max(value * 4 // 5, value - MOST_TRIED), -1)
