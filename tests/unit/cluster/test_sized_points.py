"""What points of a sweep ask a cluster for: memory by their plans, a GPU where they use one. The cluster here is a list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlmem.core.points import PointLimits, PredictedPeak
from rlmem.ray import sweeps
from rlmem.ray.reserving import BESIDE_BYTES, Need, Node, NoRoomError, reserve
from rlmem.ray.sweeps import DRY_RUN, FOR_DRY_RUN, measuring, traced
from rlmem.ray.tasks import environment, request
from rlmem.ray.works import Place
from rlmem.runner.sweep import Job
from rlmem.sources.target import parse_target
from rlmem.trace.points import Foreseen, uses_gpu
from rlmem.units import GIB, MIB

PREDICTED = PredictedPeak(low=1 * GIB, expected=2 * GIB, high=3 * GIB)


def steps(
    *answers: Foreseen, sets: tuple[str, ...] = (), device: str | None = None, has_gpu: bool = True
) -> list[tuple[str, int]]:
    """The steps of a point, with the GPUs each asks for; ``answers`` are what its dry runs say."""
    values = {} if device is None else {"device": device}
    step = traced(parse_target("train.py", sets=sets), values, PointLimits(), Place(folder="/"), has_gpu=has_gpu)
    found = [(type(step.work).__name__, step.need.gpus)]
    for answer in answers:
        assert step.then is not None
        step = step.then(answer)
        found.append((type(step.work).__name__, step.need.gpus))
    assert step.then is None
    return found


YES, NO, UNKNOWN = (Foreseen(predicted=PREDICTED, uses_gpu=each) for each in (True, False, None))


def test_a_point_asks_for_a_gpu_when_its_dry_run_says_that_it_uses_one() -> None:
    assert steps(YES) == [("DryRunWork", 0), ("TracedWork", 1)]
    assert steps(NO) == [("DryRunWork", 0), ("TracedWork", 0)]


def test_a_loop_that_may_look_for_a_gpu_is_tried_once_more_with_one() -> None:
    assert steps(UNKNOWN, YES) == [("DryRunWork", 0), ("DryRunWork", 1), ("TracedWork", 1)]
    assert steps(UNKNOWN, UNKNOWN) == [("DryRunWork", 0), ("DryRunWork", 1), ("TracedWork", 0)]
    assert steps(UNKNOWN, sets=("device=cpu",)) == [("DryRunWork", 0), ("TracedWork", 0)]


def test_where_no_node_has_a_gpu_none_is_asked_for_unless_one_is_named() -> None:
    assert steps(YES, has_gpu=False) == steps(UNKNOWN, has_gpu=False) == [("DryRunWork", 0), ("TracedWork", 0)]
    assert steps(NO, sets=("device=cuda",), has_gpu=False)[-1] == ("TracedWork", 1)
    assert steps(NO, device="cuda", has_gpu=False)[-1] == ("TracedWork", 1)  # --vary device=…


def test_a_dry_run_is_told_whether_there_are_gpus_unless_a_device_is_named() -> None:
    def sets(*asked: str, **values: str) -> tuple[str, ...]:
        target = parse_target("train.py", sets=asked)
        work: Any = traced(target, values, PointLimits(), Place(folder="/"), has_gpu=True).work
        return tuple(work.target.sets)

    assert sets("batch_size=64") == ("batch_size=64", "device=cuda")
    assert sets("batch_size=64", device="cpu") == ("batch_size=64",)
    assert sets("device=cpu") == ("device=cpu",)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"model": {"device": "cpu", "learner_device": "cuda"}}, True),
        ({"model": {"device": "cpu", "learner_device": "cpu"}, "wanted_device": "cuda"}, True),
        ({"model": {"device": "cpu", "learner_device": "cpu"}, "versions": {"torch": "2"}}, False),
        ({"vram": {"allocated": 1}, "versions": {"torch": "2"}}, True),  # a loop of its own that was seen to use one
        ({"versions": {"torch": "2"}}, None),
        ({"versions": {"numpy": "2"}}, False),
        ({"versions": {}, "stop": {"kind": "failed"}}, None),  # it may have failed for want of one
    ],
)
def test_what_a_dry_run_says_of_gpus(facts: dict[str, Any], said: bool | None) -> None:
    assert uses_gpu(facts) is said


def test_a_task_without_a_gpu_sees_none_and_one_with_a_gpu_sees_what_ray_gave_it() -> None:
    worker = {"CUDA_VISIBLE_DEVICES": "3", "RAY_JOB_ID": "1", "HOME": "/x"}
    assert environment(worker, request(None, {})["environment"])["CUDA_VISIBLE_DEVICES"] == ""
    assert environment(worker, request(None, {}, gpus=1)["environment"])["CUDA_VISIBLE_DEVICES"] == "3"


def test_points_of_a_described_run_ask_for_a_gpu_by_their_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, int]] = []

    class Caught:
        def run(self, items: Any) -> Any:
            asked.extend((key, step.need.gpus) for key, step in items)
            yield from ()

    monkeypatch.setattr(sweeps, "dispatch", lambda *_: Caught())
    sweep: Any = SimpleNamespace(target=parse_target("pidog-sac"), limits=PointLimits())
    jobs = [Job(values={"device": device}, repeat=nth) for device in ("cpu", "cuda") for nth in (0, 1)]
    assert list(measuring(None, sweep, None, print)(jobs)) == []
    assert asked == [(job.key, int(job.values["device"] == "cuda")) for job in jobs]


# -- memory --------------------------------------------------------------------------------------------------------------


def node(nbytes: int) -> Node:
    return Node(id="n", name="small (abc123)", cpus=1, memory_bytes=nbytes)


def test_a_dry_run_takes_what_a_small_node_has() -> None:
    need = Need.of(DRY_RUN, cap_bytes=None, why=FOR_DRY_RUN)
    assert reserve(need, [node(1496 * MIB)]).memory_bytes == 1496 * MIB
    assert reserve(need, [node(4 * GIB)]).memory_bytes == 1400 * MIB + BESIDE_BYTES


def test_what_fits_no_node_is_told_with_all_that_it_needs_and_what_for() -> None:
    with pytest.raises(NoRoomError) as told:
        reserve(Need.of(DRY_RUN, cap_bytes=None, why=FOR_DRY_RUN), [node(700 * MIB)])
    assert str(told.value) == (
        "not started: needs 760 MiB (600 MiB for the dry run, 160 MiB for Ray's worker beside it), and the largest node, "
        "small (abc123), has 700 MiB for Ray; a smaller --cap runs it until there"
    )
    with pytest.raises(
        NoRoomError, match=r"needs 2.16 GiB \(2.00 GiB by the plan, 160 MiB for Ray's worker beside it\)"
    ):
        reserve(Need.of(PREDICTED, cap_bytes=None), [node(GIB)])


def test_a_point_whose_plan_is_not_known_is_measured() -> None:
    assert steps(Foreseen(uses_gpu=False)) == [("DryRunWork", 0), ("TracedWork", 0)]
