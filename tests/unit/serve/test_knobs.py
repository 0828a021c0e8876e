"""Which knobs a run gets."""

from __future__ import annotations

import pytest

from rlmem.core.spaces import Box, DictSpace
from rlmem.frameworks import resolve
from rlmem.serve.knobs import Knob, knobs, with_dtype
from rlmem.sources import load
from rlmem.sources.preset import PRESETS


def of(target: str, *sets: str) -> dict[str, Knob]:
    own = resolve(load(target))
    turned = {text.partition("=")[0] for text in sets}
    return {knob.path: knob for knob in knobs(own, resolve(load(target, sets)), turned)}


def test_each_kind_of_run_has_the_knobs_that_matter_in_it() -> None:
    assert {"buffer_size", "n_envs", "batch_size", "observation", "storage", "frame_stack"} <= set(of("pidog-sac"))
    assert {"n_steps", "n_envs", "frame_stack", "batch_size"} <= set(of("pyboy-ppo"))
    assert {"agents", "history", "n_steps"} <= set(of("drone-swarm"))
    assert "agents" not in of("pidog-sac")
    assert "history" not in of("pidog-sac")
    assert "n_steps" not in of("pidog-sac")
    assert "buffer_size" not in of("pyboy-ppo")


def test_a_codec_is_offered_for_compact_stores_only() -> None:
    assert "codec" not in of("pidog-sac")
    assert "codec" in of("pidog-sac", "storage=compact")


@pytest.mark.parametrize("target", PRESETS)
def test_every_choice_holds_the_value_it_has_now(target: str) -> None:
    for knob in of(target).values():
        if knob.choices:
            assert knob.value in {choice.value for choice in knob.choices}, knob.path
        else:
            assert knob.low <= int(knob.value) <= knob.high
        assert not knob.is_turned


def test_a_turned_knob_remembers_the_runs_own_value() -> None:
    knob = of("pidog-sac", "buffer_size=1M")["buffer_size"]
    assert (knob.value, knob.own, knob.is_turned) == ("1000000", "400000", True)


def test_what_another_knob_moves_is_not_turned() -> None:
    found = of("drone-swarm", "agents=2048")
    assert (found["batch_size"].value, found["batch_size"].is_turned) == ("204800", False)
    dtype = of("drone-swarm", "storage=stream")["rollout.dtype"]
    assert (dtype.value, dtype.own, dtype.is_turned) == ("float16", "float16", False)


def test_a_small_count_is_turned_one_by_one() -> None:
    knob = of("pidog-sac", "n_envs=1")["n_envs"]
    assert (knob.low, knob.high) == (1, 64)


def test_a_dtype_is_changed_in_one_array_only() -> None:
    space = DictSpace(
        spaces=(("image", Box(shape=(84, 84, 3), dtype="uint8")), ("vector", Box(shape=(4,), dtype="float32")))
    )
    changed = with_dtype(space, "image", "float32")
    assert isinstance(changed, DictSpace)
    assert [sub.dtype for _, sub in changed.spaces if isinstance(sub, Box)] == ["float32", "float32"]
    assert with_dtype(space, "vector", "float64") != changed
