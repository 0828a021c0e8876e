"""Remedies: changes that make a run smaller, one row each, from those that change nothing to those that change learning.

What a remedy saves is never written here: it is ``plan(before) − plan(after)``.
"""

from __future__ import annotations

from rlmem.remedies import finders
from rlmem.remedies.base import Remedy
from rlmem.remedies.finders import knob, of_rule

_BENCH = "measured: samples 1.85 to 2.28 times as fast as SB3's own buffer, adds 1.07 to 1.09 times (docs/buffers.md)"
_CODED = (
    "estimate: sampling took 1 to 4 times as long as SB3's (docs/buffers.md) and is a part of an update, whose other work "
    "stays"
)
_SAME = "estimate: the same work"
_DISK = "unknown: it depends on the disk, and on how often old experience is drawn"
_ENV = "unknown: it depends on what a step of the environment costs"
_BATCH = "unknown: fewer samples a step, and more steps over a rollout"

_LOSSLESS = (
    Remedy(
        name="compact-store",
        kind="lossless",
        title="keep every observation, frame and window once",
        costs="batches come out bit for bit the same; the process imports numba (counted in the plan)",
        find=finders.compact_store,
        slowdown=1.0,
        basis=_BENCH,
    ),
    Remedy(
        name="stream-store",
        kind="lossless",
        title="keep the stream once and cut windows out of it",
        costs="the loop is the program's own, so that rlmem.buffers.WindowRollout takes its place by hand; the same numbers "
        "come out",
        find=finders.once_by_hand,
        slowdown=1.05,
        basis="estimate: one gather a minibatch",
    ),
    Remedy(
        name="codec",
        kind="lossless",
        title="compress what is stored, with a codec chosen from the data",
        costs="sampling takes longer; data that compresses worse later on takes more room than planned",
        find=finders.codec,
        slowdown=1.2,
        basis=_CODED,
    ),
    Remedy(
        name="preallocated-rollout",
        kind="lossless",
        title="allocate the rollout once and write rows into it",
        costs="nothing: the same numbers in one array",
        find=of_rule("list-then-stack"),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="collection-without-graph",
        kind="lossless",
        title="collect without gradients",
        costs="nothing: no gradient of the collection is ever asked for",
        find=of_rule("graph-in-collection"),
        slowdown=1.0,
        basis="estimate: a little faster, as no graph is recorded",
    ),
    Remedy(
        name="no-detached-evaluation",
        kind="lossless",
        title="remove the evaluation environment that nothing uses",
        costs="nothing: the callback was never passed to learn(), so no evaluation is lost",
        find=of_rule("detached-eval-callback"),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="no-unused-keys",
        kind="lossless",
        title="remove observation keys that the network never reads",
        costs="the observation space changes, so that saved models and buffers of the old one no longer load",
        find=finders.unused_keys,
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="load-into-new",
        kind="lossless",
        title="load a saved replay buffer before the new one has been written to",
        costs="nothing: the same buffer is loaded",
        find=of_rule("load-beside-live-buffer"),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="newer-release",
        kind="lossless",
        title="a release that stores observations as the space says",
        costs="the framework is upgraded: read its changelog",
        find=of_rule("float-image", location="framework.version"),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="float32-observations",
        kind="lossless",
        title="cast float64 observations to float32 before they are stored",
        costs="the network gets the same float32 numbers: they were cast after sampling until now",
        find=of_rule("float64-observations", when=finders.rounds_nothing),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="spill",
        kind="lossless",
        title="keep the oldest experience in a file on disk",
        costs="batches read from the disk, which has to hold what leaves RAM",
        find=finders.spill,
        slowdown=None,
        basis=_DISK,
    ),
)

_SPEED = (
    Remedy(
        name="one-evaluation-environment",
        kind="speed",
        title="evaluate in one environment",
        costs="an evaluation plays its episodes one after the other",
        find=of_rule("standing-eval-env"),
        slowdown=1.05,
        basis="estimate: evaluation alone is slower",
    ),
    Remedy(
        name="half-precision-stream",
        kind="speed",
        title="keep the samples of a stream in 16 bits",
        costs="samples are rounded to 11 bits of mantissa, for collection and update alike; float16 ends at 65,504",
        find=finders.half_stream,
        slowdown=1.0,
        basis="estimate: half the bytes to move",
    ),
    Remedy(
        name="micro-batches",
        kind="speed",
        title="take the batch in parts and add the gradients up",
        costs="the step sees the same gradient up to the order of its sums; batch normalisation would see smaller batches",
        find=finders.micro_batches,
        slowdown=1.1,
        basis="estimate: more, smaller kernels",
    ),
    Remedy(
        name="bfloat16",
        kind="speed",
        title="compute in bfloat16",
        costs="activations are rounded to 8 bits of mantissa: learning sees a little noise; GPUs without it are slower",
        find=finders.bfloat16,
        slowdown=1.0,
        basis="estimate: as fast or faster on a GPU that has bfloat16",
    ),
    Remedy(
        name="environments-in-process",
        kind="speed",
        title="step all environments in the learner's process",
        costs="environments are stepped one after the other",
        find=finders.in_process,
        slowdown=None,
        basis=_ENV,
    ),
    Remedy(
        name="fewer-threads",
        kind="speed",
        title="no more threads than cores",
        costs="nothing where threads only wait; it saves little",
        find=of_rule("threads-over-cores"),
        slowdown=1.0,
        basis="estimate: threads over the cores only wait",
    ),
)


def _knob(path: str, title: str, costs: str, slowdown: float | None, basis: str) -> Remedy:
    return Remedy(
        name=path.replace("_", "-"),
        kind="learning",
        title=title,
        costs=costs,
        find=knob(path),
        slowdown=slowdown,
        basis=basis,
    )


#: Knobs in the order in which they are preferred where two of them would be turned as far.
_KNOBS = (
    _knob("buffer_size", "a smaller replay buffer", "older experience is forgotten sooner", 1.0, _SAME),
    _knob("n_steps", "shorter rollouts", "fewer samples an update, and returns bootstrap sooner", 1.0, _SAME),
    _knob(
        "batch_size", "smaller batches", "noisier gradients, and more of them where a rollout is cut up", None, _BATCH
    ),
    _knob("n_envs", "fewer environments", "fewer samples a step, less varied ones", None, _ENV),
    _knob("agents", "fewer agents", "fewer samples a step, and another swarm", None, _ENV),
    _knob("history", "a shorter history", "the policy sees less of the past; saved models no longer load", 1.0, _SAME),
    _knob(
        "frame_stack",
        "fewer stacked frames",
        "the policy sees less of the past; saved models no longer load",
        1.0,
        _SAME,
    ),
)

_SWITCHES = (
    Remedy(
        name="uint8-images",
        kind="learning",
        title="declare images as uint8",
        costs="exact where pixels were bytes to begin with; otherwise values are rounded to 256 steps",
        find=of_rule("float-image", location="observation"),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="rounded-observations",
        kind="learning",
        title="store float64 observations as float32",
        costs="values are rounded to 24 bits before they are normalised or rewards are computed from them",
        find=of_rule("float64-observations", when=finders.rounds),
        slowdown=1.0,
        basis=_SAME,
    ),
    Remedy(
        name="shared-extractor",
        kind="learning",
        title="one feature extractor for actor and critic",
        costs="features are trained by one of the two losses only",
        find=of_rule("separate-extractors"),
        slowdown=1.0,
        basis="estimate: a little faster",
    ),
)

#: Remedies that turn a count, and the count.
KNOBS = {remedy.name: remedy.name.replace("-", "_") for remedy in _KNOBS}
#: Every remedy, in the order in which they are applied.
REMEDIES: tuple[Remedy, ...] = (*_LOSSLESS, *_SPEED, *_KNOBS, *_SWITCHES)
