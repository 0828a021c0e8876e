"""What cannot work is named at construction, in one sentence, before an hour of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from contract.strategies import box
from rlmem.errors import RlmemError, UsageError
from rlmem.sb3 import CompactHerReplayBuffer, CompactRecurrentRolloutBuffer, CompactReplayBuffer, CompactRolloutBuffer

pytestmark = pytest.mark.truth

IMAGE, DISCRETE = box((4, 9, 8), "uint8"), spaces.Discrete(3)
DICT = spaces.Dict({"image": IMAGE, "vector": box((5,), "float32")})

#: Arguments over an image, and a word the message must have.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown codec": ({"codec": "zstandard"}, "zstandard"),
    "a codec that is no text": ({"codec": 7}, "codec"),
    "a codec for a key of a Box": ({"codec": {"image": "zstd"}}, "image"),
    "more frames than channels": ({"stack": 5}, "stack"),
    "a stack that does not divide": ({"stack": 3, "stack_axis": 0}, "stack"),
    "no frames": ({"stack": 0}, "stack"),
    "fewer than no frames": ({"stack": -2}, "stack"),
    "a stack in words": ({"stack": "four"}, "four"),
    "an axis that is not there": ({"stack": 4, "stack_axis": 3}, "stack_axis"),
    "a budget in no unit": ({"budget": "8 parrots"}, "parrots"),
    "a budget under one block": ({"budget": 10}, "budget"),
    "no budget at all": ({"budget": 0}, "budget"),
    "a speed below nothing": ({"codec": "auto", "speed": -1}, "speed"),
    "an unknown loss": ({"lossy": {"image": "float12"}}, "lossy"),
    "no steps": ({"n_steps": 0}, "n_steps"),
    "less than no threads": ({"threads": -1}, "threads"),
    "no environments": ({"n_envs": 0}, "n_envs"),
    "a negative exponent": ({"prioritized": True, "alpha": -1}, "alpha"),
}
WRONG_IN_DICT: dict[str, tuple[dict[str, Any], str]] = {
    "a codec for an unknown key": ({"codec": {"imaeg": "zstd"}}, "imaeg"),
    "an unknown codec for a key": ({"codec": {"image": "gzip"}}, "gzip"),
    "a stack for an unknown key": ({"stack": {"depth": 4}}, "depth"),
    "an axis for an unknown key": ({"stack": {"image": 4}, "stack_axis": {"depth": 0}}, "depth"),
    "a loss for an unknown key": ({"lossy": {"depth": "float16"}}, "depth"),
    "an unknown loss for a key": ({"lossy": {"vector": "float12"}}, "float12"),
}


def built(space: spaces.Space[Any], **options: Any) -> CompactReplayBuffer:
    return CompactReplayBuffer(**{"buffer_size": 100, "observation_space": space, "action_space": DISCRETE, **options})


def one_sentence(caught: pytest.ExceptionInfo[Any], word: str) -> None:
    message = str(caught.value)
    assert word in message and "\n" not in message and len(message) < 300, message


@pytest.mark.parametrize(("options", "word"), WRONG.values(), ids=list(WRONG))
def test_wrong_arguments_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        built(IMAGE, **options)
    one_sentence(caught, word)


@pytest.mark.parametrize(("options", "word"), WRONG_IN_DICT.values(), ids=list(WRONG_IN_DICT))
def test_wrong_keys_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        built(DICT, **options)
    one_sentence(caught, word)


@pytest.mark.parametrize(
    "space",
    [spaces.Tuple([IMAGE, IMAGE]), spaces.Text(5), spaces.Dict({"deep": DICT}), spaces.Sequence(DISCRETE)],
    ids=["Tuple", "Text", "nested Dict", "Sequence"],
)
def test_spaces_that_cannot_be_stored_are_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises((RlmemError, NotImplementedError)):
        built(space)


def test_a_spill_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RlmemError) as caught:
        built(IMAGE, budget="1GB", spill=tmp_path / "file")
    one_sentence(caught, "file")


def test_an_unknown_argument_is_pythons_to_name() -> None:
    for kind in (CompactReplayBuffer, CompactRolloutBuffer):
        with pytest.raises(TypeError, match="unexpected keyword argument 'compression'"):
            kind(10, IMAGE, DISCRETE, compression="zstd")


@pytest.mark.parametrize("options", [{"codec": "gzip"}, {"stack": 3, "stack_axis": 0}, {"stack": 0}, {"threads": -1}])
def test_rollout_buffers_refuse_too(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CompactRolloutBuffer(10, IMAGE, DISCRETE, **options)
    with pytest.raises(UsageError):
        CompactRecurrentRolloutBuffer(10, IMAGE, DISCRETE, (10, 1, 1, 4), **options)


def test_hindsight_needs_goals() -> None:
    with pytest.raises((RlmemError, AssertionError, KeyError)):
        CompactHerReplayBuffer(10, IMAGE, DISCRETE, env=None)


def test_what_sb3_passes_by_position_is_accepted() -> None:
    made = CompactReplayBuffer(101, DICT, DISCRETE, "cpu", 2, False, True)
    assert (made.buffer_size, made.n_envs, made.device.type) == (50, 2, "cpu")
    rollout = CompactRolloutBuffer(10, IMAGE, DISCRETE, "cpu", 0.9, 0.98, 3)
    assert (rollout.gae_lambda, rollout.gamma, rollout.n_envs) == (0.9, 0.98, 3)


@pytest.mark.parametrize("size", [1, 10, 10**7])
def test_memory_is_taken_as_it_fills(size: int) -> None:
    """Ten million images are 5.8 GB; an empty buffer holds next to nothing of them."""
    made = built(IMAGE, buffer_size=size)
    assert made.nbytes <= made.reserved_nbytes or made.reserved_nbytes == 0
    made.add(*(np.zeros((1, 4, 9, 8), np.uint8),) * 2, np.zeros(1, int), np.zeros(1), np.zeros(1), [{}])
    assert made.size() == 1
