"""Compact buffers in SB3 runs: which arrays, which stacks, which change to a program."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.ledger import Ledger
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.frameworks.sb3.compact import depths, observation_keys
from rlmem.model.constants import Constants
from rlmem.planner import Planner

IMAGE = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [31]}
MIXED = {"type": "dict", "spaces": {"image": IMAGE, "vector": VECTOR}}
GOAL = {"type": "dict", "spaces": dict.fromkeys(("observation", "achieved_goal", "desired_goal"), VECTOR)}
SAC = {"algorithm": "sac", "observation": MIXED, "action": {"type": "box", "shape": [8]}, "buffer_size": 100_000}
PPO = {"algorithm": "ppo", "observation": IMAGE, "action": {"type": "discrete", "n": 6}, "n_envs": 2, "n_steps": 2048}
WINDOW = {"type": "window", "sample": 6, "step": 10}


def spec_of(*parts: dict[str, Any], **fields: Any) -> RunSpec:
    merged: dict[str, Any] = {"framework.name": "sb3", "storage": "compact"}
    for part in (*parts, fields):
        merged |= part
    return RunSpec().having(merged, "test")


def ledger(spec: RunSpec) -> Ledger:
    return predict(resolve(spec), Constants())


def stored(spec: RunSpec) -> dict[str, int]:
    entries = ledger(spec).only(phase="collect").entries
    return {e.component: e.nbytes for e in entries if e.group in ("replay", "rollout") and "batches" not in e.component}


def test_a_compact_replay_buffer_has_one_array_a_key_and_flags_of_a_byte() -> None:
    arrays = stored(spec_of(SAC))
    assert set(arrays) == {
        "replay.observations[image]", "replay.observations[vector]", "replay.tables", "replay.actions", "replay.rewards",
        "replay.dones", "replay.timeouts",
    }  # fmt: skip
    assert [arrays[f"replay.{name}"] for name in ("actions", "rewards", "dones", "timeouts")] == [
        3_200_000,
        400_000,
        100_000,
        100_000,
    ]


@pytest.mark.parametrize("name", ["frames-once", "compact"])
def test_the_older_name_means_the_same(name: str) -> None:
    assert stored(spec_of(SAC, storage=name)) == stored(spec_of(SAC))


def test_hindsight_keeps_episode_bounds_and_no_dicts_and_prioritised_one_tree() -> None:
    her = stored(spec_of(SAC, {"observation": GOAL, "replay.kind": "her"}))
    assert her["replay.ep_start"] == her["replay.ep_length"] == 400_000
    assert "replay.infos" not in her
    assert stored(spec_of(SAC, {"replay.kind": "prioritised"}))["replay.sum-tree"] == 2 * 2**17 * 8


def test_a_rollout_is_not_flattened_and_its_frames_are_kept_once() -> None:
    plain, compact = (ledger(spec_of(PPO, frame_stack=4, storage=name)) for name in ("plain", "compact"))
    held = [made.only(phase="collect", component="rollout.observations").nbytes for made in (plain, compact)]
    assert held[1] == pytest.approx(held[0] / 4, rel=0.03)
    copies = [made.only(phase="update", component="rollout.flatten-copy").nbytes for made in (plain, compact)]
    assert copies[0] == held[0]
    assert copies[1] < 10**6


def test_an_older_sb3_stores_float32_and_the_compact_buffer_does_not() -> None:
    old = stored(spec_of(PPO, {"framework.version": "2.7.0"}))
    assert old == stored(spec_of(PPO))


def test_batches_live_in_arrays_that_are_used_again() -> None:
    once = ledger(spec_of(SAC, batch_size=1000)).only(phase="update", component="replay.batches")
    twice = ledger(spec_of(SAC, batch_size=1000, gradient_steps=4)).only(phase="update", component="replay.batches")
    assert once.nbytes == 2 * 1000 * (21_168 + 124)
    assert twice.nbytes == 2 * once.nbytes
    assert not ledger(spec_of(SAC)).only(component="batch.host").entries
    on_gpu = ledger(spec_of(SAC, batch_size=1000, gradient_steps=4, device="cuda")).only(phase="update")
    assert on_gpu.only(device="ram", component="replay.batches").nbytes == once.nbytes
    assert on_gpu.only(device="vram", component="batch.device").nbytes > once.nbytes


def test_numba_and_the_buffers_are_imported() -> None:
    imports = [ledger(spec_of(SAC, storage=name)).only(phase="import").nbytes for name in ("plain", "compact")]
    assert 100e6 < imports[1] - imports[0] < 120e6


def test_stacks_are_those_of_the_wrapper_of_the_description_and_of_windows() -> None:
    assert depths(spec_of(PPO, frame_stack=4)) == {"observation": 4}
    assert depths(spec_of(SAC, stacked={"image": 3})) == {"image": 3}
    assert depths(spec_of(SAC, observation=WINDOW, history=300)) == {"observation": 30}
    assert depths(spec_of(SAC, observation={**WINDOW, "extra": 4}, history=300)) == {}
    with pytest.raises(SpecError, match="not a stack of 5 frames"):
        stored(spec_of(SAC, stacked={"image": 5, "vector": 31}))


def test_a_stream_keeps_the_newest_step_of_a_window_and_further_values_as_a_key_of_their_own() -> None:
    keys = observation_keys(spec_of(SAC, observation={**WINDOW, "extra": 4}, history=300, storage="stream"))
    assert [(key.name, key.unit_bytes) for key in keys] == [
        ("observations", 10 * 6 * 4),
        ("observations[extra]", 4 * 4),
    ]
    with pytest.raises(SpecError, match="not 10 times"):
        observation_keys(spec_of(SAC, observation=WINDOW, history=305, storage="stream"))
    with pytest.raises(SpecError, match="type window"):
        observation_keys(spec_of(SAC, storage="stream"))


def test_episode_ends_are_counted_from_a_stated_length_and_assumed_otherwise() -> None:
    terms = {length: _ends(spec_of(SAC, {"episode_length": length} if length else {})) for length in (None, 50, 1000)}
    assert terms == {None: 500, 50: 2000, 1000: 100}


def _ends(spec: RunSpec) -> int:
    (entry,) = ledger(spec).only(phase="collect", component="replay.observations[image]").entries
    return next(term.value for term in entry.origin if term.name == "episode ends")


def test_what_a_codec_saves_is_said_to_be_unknown_until_it_is_stated() -> None:
    planner = Planner(Budget(name="test"), Constants())
    (note,) = planner.plan(spec_of(SAC, codec="auto")).notes
    assert "not known without data" in note
    assert "image, vector" in note
    known = {"codec": "auto", "coded_bytes": {"image": [4_000, 5_000, 6_000], "vector": 124}}
    made = planner.plan(spec_of(SAC, known))
    assert made.notes == ()
    image = made.ledger.only(phase="collect", component="replay.observations[image]").nbytes
    assert image == pytest.approx(100_500 * 5_000, rel=0.01)
    vector = made.ledger.only(phase="collect", component="replay.observations[vector]").entries[0].amount
    assert vector.low > 0.97 * vector.value  # no codec was worth it: stored as it is


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (SAC, "from rlmem.sb3 import CompactReplayBuffer; replay_buffer_class=CompactReplayBuffer"),
        ({**SAC, "replay.kind": "her", "observation": GOAL}, "replay_buffer_class=CompactHerReplayBuffer"),
        ({**SAC, "replay.kind": "n-step"}, 'replay_buffer_kwargs={"n_steps": …, "gamma": …}'),
        (PPO, "rollout_buffer_class=CompactRolloutBuffer"),
        ({**PPO, "algorithm": "recurrent_ppo"}, "CompactRecurrentRolloutBuffer.like(model.rollout_buffer)"),
        ({**SAC, "framework.name": "cleanrl", "observation": VECTOR}, "CompactReplayBuffer(…)"),
    ],
)  # fmt: skip
def test_the_change_names_the_class_and_the_argument(fields: dict[str, Any], words: str) -> None:
    spec = resolve(spec_of(fields, storage="plain"))
    swap = find_adapter(spec).swap(spec)
    assert swap is not None
    assert words in swap.sentence


@pytest.mark.parametrize(
    "fields",
    [{**PPO, "algorithm": "maskable_ppo"}, {**PPO, "framework.version": "2.2.1"}, {**SAC, "storage": "compact"}],
)
def test_there_is_no_change_where_there_is_no_such_buffer(fields: dict[str, Any]) -> None:
    spec = resolve(spec_of({"storage": "plain", **fields}))
    assert find_adapter(spec).swap(spec) is None


def test_what_sb3_refuses_is_not_refused_here() -> None:
    adapter = find_adapter(spec_of(SAC))
    for fields in ({"optimize_memory_usage": True}, {"replay.kind": "n-step"}, {"replay.kind": "prioritised"}):
        assert adapter.refusals(resolve(spec_of(SAC, fields))) == ()
    masked = resolve(spec_of(PPO, algorithm="maskable_ppo"))
    assert [refusal.location for refusal in adapter.refusals(masked)] == ["storage"]
