"""What the buffers are for: next observations once, frames once, constants for nothing. Bounds are loose; benchmarks measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from contract.compare import fill
from contract.stacks import LAYOUTS, Stacking, stack_plan
from contract.strategies import Plan, box
from contract.streams import Pace
from rlmem.sb3 import CompactReplayBuffer, CompactRolloutBuffer

pytestmark = pytest.mark.truth

IMAGE = box((3, 32, 32), "uint8")
PLAN = Plan(
    observation_space=spaces.Dict({"image": IMAGE, "vector": box((8,), "float32")}),
    action_space=spaces.Discrete(3),
    n_envs=2,
    buffer_size=3000,
    steps=1500,
    seed=2,
    pace=Pace(terminated=0.01, truncated=0.0),
)
IMAGE_BYTES = 3 * 32 * 32


def filled(plan: Plan, **options: Any) -> CompactReplayBuffer:
    buffer = CompactReplayBuffer(**plan.common, **options)
    fill(plan.play(), buffer)
    return buffer


def test_next_observations_are_kept_once() -> None:
    assert filled(PLAN).bytes_per_transition < 1.15 * IMAGE_BYTES


def test_frames_are_kept_once() -> None:
    for layout in LAYOUTS:
        stacking = Stacking(layout=layout, frames=4)
        plan = stack_plan(stacking, steps=1000, buffer_size=4000, pace=Pace(terminated=0.01, truncated=0.0))
        frame_bytes = int(np.prod(stacking.frame.shape))
        for options in ({}, {"stack": 4, "stack_axis": stacking.axis}):
            if options or "window" not in layout:  # windows are declared
                # fixed costs per transition: action, reward, done, timeout
                assert filled(plan, **options).bytes_per_transition < 1.3 * frame_bytes + 60, (layout, options)


def test_a_constant_image_costs_nothing() -> None:
    assert filled(replace(PLAN, contents={"image": "constant"})).bytes_per_transition < 150


@pytest.mark.parametrize("codec", ["zstd", "lz4", "huffman", "auto"])
def test_codecs_save_where_there_is_something_to_save(codec: str) -> None:
    plain, packed = (filled(replace(PLAN, contents={"image": "sparse"}), codec=one) for one in ("none", codec))
    assert packed.bytes_per_transition < 0.6 * plain.bytes_per_transition


def test_codecs_do_not_lose_on_noise() -> None:
    plain, packed = (filled(PLAN, codec=one) for one in ("none", "zstd"))
    assert packed.bytes_per_transition < 1.05 * plain.bytes_per_transition


def test_the_numbers_agree() -> None:
    buffer = filled(PLAN)
    stored = buffer.size() * buffer.n_envs
    assert isinstance(buffer.nbytes, int) and isinstance(buffer.reserved_nbytes, int)
    assert buffer.nbytes / stored == pytest.approx(buffer.bytes_per_transition, rel=0.5)
    assert isinstance(buffer.describe(), dict)


def test_rollouts_keep_frames_once() -> None:
    plan = stack_plan(Stacking(layout="RGB first"), steps=600)
    buffer = CompactRolloutBuffer(600, plan.observation_space, plan.action_space, n_envs=2, device="cpu", stack=4)
    assert buffer.nbytes < 0.6 * 600 * 2 * int(np.prod(plan.observation_space.shape))
