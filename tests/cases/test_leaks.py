"""Real programs that leak, fill, warm up or hang, watched as a user would: is the verdict right, and the culprit?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.core.moments import Judgement
from rlmem.process.attach import preload
from rlmem.watch.census import Census
from rlmem.watch.sampling import Watch
from rlmem.watch.session import Session

pytestmark = pytest.mark.truth
PROGRAMS = Path(__file__).parent / "leaky"
INTERVAL, SAMPLES, MOST_SAMPLES, OWNERS_EVERY = 0.1, 150, 500, 15
LEAKS = {
    "infos_list": "trainer.episode_infos",
    "kept_graphs": "log.losses",
    "closures": "hooks.callbacks",
    "figure_cache": "plots.figures",
    "appended_array": "history.states",
}


@dataclass
class Watched:
    """One program: its session, and every state it was ever said to be in."""

    session: Session
    states: set[str] = field(default_factory=set)

    @property
    def verdict(self) -> Judgement:
        return self.session.judgement

    def step(self, *, ask: bool) -> None:
        if ask:  # as if by key: not left to what a busy machine's CPU time allows
            self.session.watch.ask_now()
        self.states.add(self.session.step().judgement.state)


@pytest.fixture(scope="module")
def watched() -> Iterator[dict[str, Watched]]:
    """All programs at once, each watched by its own session, as 'rlmem watch PID PID …' does.

    A busy machine slows the programs down now and then, which is noise: the watch goes on until every leak is found.
    """
    children = {
        path.stem: subprocess.Popen(
            [sys.executable, str(path)], env=preload({**os.environ, "OMP_NUM_THREADS": "1"}), stdout=subprocess.PIPE
        )
        for path in sorted(PROGRAMS.glob("*.py"))
    }
    try:
        for child in children.values():
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        census = Census(interval_s=INTERVAL)
        found = {
            name: Watched(Session(Watch((child.pid,), interval_s=INTERVAL, census=census), interval_s=INTERVAL))
            for name, child in children.items()
        }
        for sample in range(MOST_SAMPLES):
            due = time.monotonic() + INTERVAL
            for each in found.values():
                each.step(ask=sample % OWNERS_EVERY == 0)
            if sample > SAMPLES and all(found[name].verdict.culprit == culprit for name, culprit in LEAKS.items()):
                break
            time.sleep(max(0.0, due - time.monotonic()))
        for each in found.values():
            each.session.decide()
        yield found
    finally:
        for child in children.values():
            child.kill()
            child.wait()


@pytest.mark.parametrize(("program", "culprit"), LEAKS.items())
def test_a_real_leak_is_found_and_its_owner_named(watched: dict[str, Watched], program: str, culprit: str) -> None:
    found = watched[program].verdict
    assert (found.state, found.culprit) == ("leaking", culprit), found.reasons
    assert found.forecast.oom_in_s is not None
    assert "leak suspected, OOM in" in found.reasons[0]
    assert culprit in found.reasons[0]


def test_tensors_kept_with_their_graph_are_told_apart(watched: dict[str, Watched]) -> None:
    assert any("graph" in reason and "detach()" in reason for reason in watched["kept_graphs"].verdict.reasons)


@pytest.mark.parametrize("program", ["filling_buffer", "bounded_queue"])
def test_a_store_that_fills_is_filling_and_its_end_is_known(watched: dict[str, Watched], program: str) -> None:
    found = watched[program].verdict
    assert (found.state, found.culprit) == ("filling", None), found.reasons
    assert found.forecast.fits is True
    assert found.forecast.full_in_s is not None
    assert found.reasons[0].startswith("fills in ")
    assert "leaking" not in watched[program].states


def test_a_real_replay_buffer_is_full_at_the_step_of_its_size(watched: dict[str, Watched]) -> None:
    found = watched["sb3_dqn"].verdict
    assert (found.state, found.culprit) == ("filling", None), found.reasons
    assert found.forecast.full_at_step == pytest.approx(400_000, rel=0.05)
    assert found.reasons[0].startswith("fills at step ")
    assert "leaking" not in watched["sb3_dqn"].states


@pytest.mark.parametrize("program", ["allocator_warmup", "first_eval", "rollout_list"])
def test_what_warms_up_steps_or_comes_and_goes_is_no_leak(watched: dict[str, Watched], program: str) -> None:
    assert watched[program].verdict.state == "normal", watched[program].verdict.reasons
    assert "leaking" not in watched[program].states


def test_a_program_that_does_nothing_is_stuck(watched: dict[str, Watched]) -> None:
    assert watched["stuck"].verdict.state == "stuck"
    assert watched["stuck"].verdict.reasons[0].startswith("no CPU time and no change for ")
