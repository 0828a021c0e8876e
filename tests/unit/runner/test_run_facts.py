"""What a recording carries beside its moments: facts of the model, asked for in the background, and the processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.documents.moment import MemberPart
from rlmem.process.sampler import Pages
from rlmem.runner import run_facts
from rlmem.runner.run_facts import EARLY_TRIES, LONGEST_COMMAND, MOST_MEMBERS, RunFacts, kept_facts, member_parts
from rlmem.units import MIB
from rlmem.watch.members import Member

#: As an agent answers for DQN on CartPole.
FACTS: dict[str, Any] = {
    "model": {
        "algorithm": "DQN",
        "bases": ["DQN", "OffPolicyAlgorithm", "BaseAlgorithm", "ABC", "object"],
        "package": "stable_baselines3",
        "observation": {"type": "box", "shape": [4], "dtype": "float32"},
        "action": {"type": "discrete", "n": 2},
        "settings": {"n_envs": 1, "n_steps": 1, "batch_size": 32, "buffer_size": 200_000, "train_freq": [4, "step"]},
        "policy": "DQNPolicy",
        "policy_kwargs": {},
        "networks": {"q_net": 18_000, "q_net_target": 18_000},
        "optimizers": ["Adam"],
        "buffers": {
            "replay_buffer": {
                "class": "ReplayBuffer",
                "arrays": [{"name": "observations", "nbytes": 3_200_000, "resident": 4096, "address": 1 << 40}],
            }
        },
        "env": ["DummyVecEnv"],
        "device": "cpu",
        "learner_device": "cpu",
        "total_timesteps": 6000,
        "callbacks": [],
    },
    "versions": {"stable_baselines3": "2.9.2", "torch": "2.13.0"},
}


def member(pid: int, mib: int = 100, **fields: Any) -> Member:
    pages = Pages(anonymous=mib * MIB, shared=0)
    values = {"start": 1, "parent": 1, "state": "S", "cpu_s": 1.0, "threads": 2, "command": f"python {pid}", **fields}
    return Member(pid=pid, pages=pages, **values)


def moment(at_s: float, mib: int = 100, *, owners: bool = False) -> Moment:
    held = Holding(path="x", kind="array", type="ndarray", nbytes=1, resident_bytes=1)
    return Moment(at_s=at_s, tree_bytes=mib * MIB, rss_bytes=mib * MIB, holdings=(held,) if owners else None)


class Agent:
    """Answers from a list, the last answer for ever; an exception is raised."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers, self.asked = list(answers), list[int]()

    def __call__(self, pid: int) -> Mapping[str, Any]:
        self.asked.append(pid)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def settle(one: RunFacts) -> None:
    assert one._thread is not None
    one._thread.join(10)
    assert not one._thread.is_alive()


def test_what_is_kept_is_small_plain_and_without_what_was_measured() -> None:
    kept = kept_facts(FACTS)
    assert kept is not None
    assert kept["model"]["buffers"] == {
        "replay_buffer": {"class": "ReplayBuffer", "arrays": [{"name": "observations"}]}
    }
    assert "networks" not in kept["model"]
    assert kept["versions"] == FACTS["versions"]
    assert json.loads(json.dumps(kept)) == kept
    assert len(json.dumps(kept)) < 1000


def test_of_a_compact_store_its_options_are_kept() -> None:
    store = {"options": {"codec": "lz4", "budget": None}, "n_steps": 3, "prioritised_bytes": 0, "keys": {"x": {}}}
    buffer = {"class": "CompactReplayBuffer", "arrays": [], "store": store}
    kept = kept_facts({"model": {**FACTS["model"], "buffers": {"replay_buffer": buffer}}})
    assert kept is not None
    assert set(kept["model"]["buffers"]["replay_buffer"]["store"]) == {"options", "n_steps", "prioritised_bytes"}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"model": None},
        {"model": "DQN"},
        {"model": {**FACTS["model"], "buffers": {"replay_buffer": {}}}},
        {"model": {**FACTS["model"], "settings": {"tau": float("nan")}}},
        {"model": {**FACTS["model"], "observation": object()}},
        {"model": {**FACTS["model"], "action": {"type": "multidiscrete", "nvec": [9] * 40_000}}},  # too large
    ],
)
def test_facts_that_are_none_or_cannot_be_kept_are_none(facts: Mapping[str, Any]) -> None:
    assert kept_facts(facts) is None


def test_members_are_at_most_64_the_largest_first() -> None:
    rows = member_parts([member(pid, mib=pid) for pid in range(1, 101)])
    assert len(rows) == MOST_MEMBERS
    assert [row.pid for row in rows] == list(range(100, 36, -1))


def test_a_member_is_plain_and_what_is_not_known_is_none() -> None:
    (row,) = member_parts([member(7, command="a\x1b[2J" + "b" * 1000, role="worker", uss_bytes=5)])
    assert replace(row, command="") == MemberPart(
        pid=7, role="worker", command="", rss_bytes=100 * MIB, pss_bytes=None, uss_bytes=5, threads=2
    )
    assert row.command.startswith("a?[2Jb")
    assert len(row.command) == LONGEST_COMMAND


def test_the_processes_are_those_of_the_largest_look_and_told_when_they_change() -> None:
    one = RunFacts(Agent({}))
    assert one.look(moment(0, 100), [member(1)], {}) == {"members": one.members}
    assert one.look(moment(1, 300), [member(1), member(2, 200)], {}) == {"members": one.members}
    assert [row.pid for row in one.members] == [2, 1]
    assert one.look(moment(2, 200), [member(1)], {}) == {}
    assert one.look(moment(3, 900), [], {}) == {}  # a look without processes knows nothing of them
    assert [row.pid for row in one.members] == [2, 1]


def test_nobody_is_asked_before_somebody_learns() -> None:
    agent = Agent(FACTS)
    one = RunFacts(agent)
    one.look(moment(0), [member(1), member(2)], {})
    one.look(moment(2), [member(1), member(2)], {2: -1})
    one.look(moment(4), [member(1), member(2)], {3: 100})  # ended: its mark is still there
    assert one._thread is None
    one.look(moment(6), [member(1), member(2)], {2: 0, 3: 100})
    settle(one)
    assert agent.asked == [2]


def test_the_model_is_asked_for_once_and_told_once() -> None:
    agent = Agent(FACTS)
    one = RunFacts(agent)
    looks = [one.look(moment(0), [member(1)], {1: 5})]
    settle(one)
    looks.append(one.look(moment(1), [member(1)], {1: 9}))
    assert [look["described"] for look in looks if "described" in look] == [one.described]
    assert one.described == kept_facts(FACTS)
    assert one.look(moment(60, owners=True), [member(1)], {1: 99}) == {}
    assert agent.asked == [1]


def test_facts_that_are_too_large_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_facts, "MOST_FACTS_BYTES", 100)
    agent = Agent(FACTS)
    one = RunFacts(agent)
    for second in range(5):
        one.look(moment(second), [member(1)], {1: 5})
        settle(one)
    assert (one.described, agent.asked) == (None, [1])


def test_without_an_answer_it_is_tried_a_few_times_and_then_when_owners_are_looked_at() -> None:
    agent = Agent({})
    one = RunFacts(agent)
    for tenth in range(200):
        one.look(moment(tenth / 10), [member(1)], {1: 5})
        settle(one)
    assert len(agent.asked) == EARLY_TRIES  # a second apart
    one.look(moment(30, owners=True), [member(1)], {1: 5})
    settle(one)
    assert len(agent.asked) == EARLY_TRIES + 1
    agent.answers = [FACTS]
    one.look(moment(40, owners=True), [member(1)], {1: 5})
    settle(one)
    assert one.described is not None


def test_a_describe_that_raises_is_tried_again_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    agent = Agent(RuntimeError("ours"), {"model": "nonsense"})
    one = RunFacts(agent)
    for second in range(3):
        assert "described" not in one.look(moment(second), [member(1)], {1: 5})
        settle(one)
    assert (len(agent.asked), one.described) == (2, None)
    assert capfd.readouterr().err == ""


def test_nothing_is_asked_while_the_guard_acts_or_an_answer_is_awaited() -> None:
    gate, asked = threading.Event(), []

    def slow(pid: int) -> Mapping[str, Any]:
        asked.append(pid)
        gate.wait(10)
        return {}

    one = RunFacts(slow)
    one.look(moment(0), [member(1)], {1: 5}, is_calm=False)
    assert one._thread is None
    for second in range(1, 10):
        one.look(moment(second), [member(1)], {1: 5})  # returns at once
    gate.set()
    settle(one)
    assert asked == [1]
