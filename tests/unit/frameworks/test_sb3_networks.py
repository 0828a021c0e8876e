"""Parameter counts against SB3 2.9.2's own models; the counts were read off models really built."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.spec import RunSpec
from rlmem.frameworks import resolve
from rlmem.frameworks.sb3.networks import networks

IMAGE = {"type": "box", "shape": [40, 40, 3], "dtype": "uint8"}
CHANNELS_FIRST = {"type": "box", "shape": [1, 40, 40], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [4]}
MIXED = {"type": "dict", "spaces": {"image": IMAGE, "v": VECTOR}}
CONTINUOUS, TWO = {"type": "box", "shape": [3]}, {"type": "discrete", "n": 2}
SHARED = {"network.share_features_extractor": True}


@pytest.mark.parametrize(
    ("built", "fields"),
    [
        (1_541_162, {"algorithm": "td3", "observation": MIXED, "action": CONTINUOUS, **SHARED}),
        (1_088_760, {"algorithm": "ddpg", "observation": MIXED, "action": CONTINUOUS, **SHARED}),
        (853_834, {"algorithm": "sac", "observation": MIXED, "action": CONTINUOUS, **SHARED}),
        (112_803, {"algorithm": "ppo", "observation": CHANNELS_FIRST, "action": TWO, "frame_stack": 4}),
        (
            138_083,
            {
                "algorithm": "ppo",
                "observation": {"type": "dict", "spaces": {"image": CHANNELS_FIRST, "v": VECTOR}},
                "action": TWO,
                "frame_stack": 4,
            },
        ),
        (623_043, {"algorithm": "ppo", "observation": {**IMAGE, "low": 0, "high": 1}, "action": TWO}),
        (
            9_931,
            {
                "algorithm": "maskable_ppo",
                "observation": {"type": "box", "shape": [6]},
                "action": {"type": "multibinary", "n": 5},
            },
        ),
        (
            313_607,
            {
                "algorithm": "recurrent_ppo",
                "observation": {"type": "box", "shape": [6]},
                "action": CONTINUOUS,
                "network.critic_lstm": False,
            },
        ),
    ],
    ids=[
        "td3 shared",
        "ddpg shared",
        "sac shared",
        "stack first",
        "dict stack",
        "not an image",
        "mask bits",
        "no critic lstm",
    ],
)
def test_parameters_are_those_of_the_real_model(built: int, fields: dict[str, Any]) -> None:
    spec = resolve(RunSpec().having({"framework.name": "sb3", **fields}, "test"))
    assert sum(network.parameters for network in networks(spec)) == built


@pytest.mark.parametrize("image", [False, True])
def test_cleanrl_uses_the_numbers_of_the_script_for_its_observations(image: bool) -> None:
    observation = {"type": "box", "shape": [84, 84, 4], "dtype": "uint8"} if image else VECTOR
    for algorithm, expected in (
        ("ppo", {"n_envs": 8 if image else 4}),
        ("dqn", {"buffer_size": 10**6 if image else 10**4}),
    ):
        run = {"framework.name": "cleanrl", "algorithm": algorithm, "observation": observation, "action": TWO}
        spec = resolve(RunSpec().having(run, "test"))
        assert {path: spec.get(path) for path in expected} == expected


def test_a_knob_of_the_other_kind_of_algorithm_is_dropped() -> None:
    run = {"framework.name": "sb3", "algorithm": "ppo", "observation": VECTOR, "action": TWO, "buffer_size": 1000}
    assert "buffer_size" not in resolve(RunSpec().having(run, "test"))
    assert "n_steps" not in resolve(RunSpec().having({**run, "algorithm": "dqn", "n_steps": 5}, "test"))
