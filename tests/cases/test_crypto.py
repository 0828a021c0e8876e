"""The trading run of docs/why-20-gb.md: ElegantRL's PPO in Optuna trials, planned, explained and judged as a real process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")
pytest.importorskip("elegantrl")
pytest.importorskip("optuna")

from rlmem.core.holdings import Explanation
from rlmem.core.moments import Judgement
from rlmem.process.attach import preload
from rlmem.process.explain import explain_process
from rlmem.sources import load
from rlmem.units import MIB
from rlmem.watch.sampling import Watch
from rlmem.watch.session import Session
from truth import predicted

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from why_20_gb import EXACT, Training

pytestmark = pytest.mark.truth

SHORT = ("--iterations", "2", "--target-step", "512", "--episode", "128", "--batch", "2048", "--after-trial", "collect")


@pytest.fixture(scope="module")
def leaking() -> Iterator[Explanation]:
    """The run that keeps its infos, explained in its third trial."""
    with Training("--trials", "3", *SHORT, "--leak", env=preload(os.environ)) as training:
        training.until("holding")
        yield explain_process(training.process.pid)


def resident(explanation: Explanation, *starts: str) -> int:
    """What owners hold whose path begins so; gradients apart, as they are not looked at while the program is in a call."""
    return sum(
        holding.resident_bytes
        for holding in explanation.holdings
        if holding.path.startswith(starts) and not holding.path.endswith(".grad")
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "allocator",
    [pytest.param({}, id="glibc as it is"), pytest.param(EXACT, id="glibc pinned", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("batch", [pytest.param("2048", marks=pytest.mark.long), "4096"])
def test_the_preset_plans_what_the_real_process_takes(batch: str, allocator: dict[str, str]) -> None:
    with Training(
        "--trials", "1", "--target-step", "1024", "--iterations", "2", "--store", "list", "--batch", batch,
        env={**os.environ, **allocator},
    ) as training:  # fmt: skip
        training.until("holding")
        seen = training.seen()
    spec = load("crypto-ppo", (f"batch_size={batch}", f"threads={seen['threads']}"))
    top = next(peak for peak in predicted(spec).peaks() if peak.phase == "update" and peak.device == "ram")
    assert top.low_bytes <= seen["peak"] <= top.high_bytes
    if allocator:  # without what glibc keeps by chance, which is most of the range
        slack = predicted(spec).only(phase="update", component="runtime.allocator").nbytes
        assert top.expected_bytes - slack == pytest.approx(seen["peak"], rel=0.1)


def test_the_networks_that_are_planned_are_the_ones_that_are_held(leaking: Explanation) -> None:
    ledger = predicted(load("crypto-ppo"))
    parameters = ledger.only(phase="update", component="learner.parameters").nbytes
    moments = ledger.only(phase="update", component="learner.optimizer").nbytes
    assert resident(leaking, "agent.act_optimizer.state", "agent.cri_optimizer.state") == pytest.approx(
        moments, rel=0.05
    )
    assert resident(leaking, "agent.act.", "agent.cri.") == pytest.approx(parameters, rel=0.05)


def test_the_rollout_and_the_market_have_names(leaking: Explanation) -> None:
    assert resident(leaking, "buffer[0]") == 512 * 71 * 4  # the states of a rollout
    assert resident(leaking, "objective.prices", "objective.indicators") == pytest.approx(36_000 * 70 * 4, rel=0.01)


def test_there_are_no_target_networks_to_hold_anything(leaking: Explanation) -> None:
    assert resident(leaking, "agent.act_target", "agent.cri_target") == 0


def test_the_stacks_of_all_threads_together_hold_less_than_a_mebibyte(leaking: Explanation) -> None:
    stacks = [stack.resident_bytes for stack in leaking.threads if stack.resident_bytes is not None]
    assert len(stacks) >= 20
    assert sum(stacks) < MIB


def test_every_page_is_counted_once(leaking: Explanation) -> None:
    classes = sum(portion.resident_bytes for portion in leaking.portions)
    assert leaking.named_bytes + classes + leaking.unexplained_bytes == leaking.rss_bytes


def test_explain_names_the_kept_infos_and_says_they_have_no_end(leaking: Explanation) -> None:
    kept = next(holding for holding in leaking.holdings if holding.path.endswith(".episode_infos"))
    assert kept.capacity is None
    assert kept.filled is not None
    steps = 3 * (2 * 512 + 2 * 128)  # trials, each with two rollouts and two episodes to evaluate
    assert kept.filled == steps
    assert 71 * 4 + 7 * 4 + 4 < kept.nbytes / steps < 4096


def watched(*arguments: str, most: int) -> Judgement:
    """The verdict on one long trial, looked at from its first evaluation on: the first of leaking, else the last.

    The network is small, so that a second has many steps.
    """
    size = ("--trials", "1", "--iterations", "100000", "--net", "64", "--threads", "1", "--batch", "1024")
    with Training(*size, "--target-step", "1024", *arguments, env=preload(os.environ)) as training:
        training.until("-1")  # the line of the first evaluation
        session = Session(Watch((training.process.pid,), interval_s=0.2), interval_s=0.2)
        for number in range(most):
            if number % 8 == 0:  # owners are asked seldom, to cost little; here often, to be done soon
                session.watch.ask_now()
            if session.step().judgement.state == "leaking":
                break
            time.sleep(0.2)
    return session.decide()


@pytest.mark.long
def test_the_planted_leak_is_called_a_leak_and_its_list_is_named() -> None:
    verdict = watched("--leak", most=250)
    assert verdict.state == "leaking", verdict.reasons
    assert verdict.culprit is not None
    assert verdict.culprit.endswith(".episode_infos")


@pytest.mark.long
def test_the_same_run_without_the_leak_is_not_called_leaking() -> None:
    verdict = watched(most=130)
    assert verdict.state in ("normal", "filling"), verdict.reasons
