"""Settings of the swarm as descriptions, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlmem.errors import UsageError
from rlmem.frameworks import predict, resolve
from rlmem.model.constants import Constants
from rlmem.sources import load
from rlmem.swarm.settings import RUNGS, Settings
from rlmem.swarm.spec import chunk_of, swarm_settings, swarm_spec

ONE = Settings(agents=600, minibatches=1, chunk=32, ae_share=1.0)


@pytest.mark.parametrize("rung", [rung.name for rung in RUNGS])
def test_every_rung_can_be_planned(rung: str) -> None:
    ledger = predict(resolve(swarm_spec(replace(ONE, rung=rung))), Constants())
    assert {"collect", "update"} <= set(ledger.phases)


def test_a_rung_takes_no_more_than_the_one_before_it() -> None:
    peaks = []
    for rung in RUNGS:
        ledger = predict(resolve(swarm_spec(replace(ONE, agents=20_000, rung=rung.name))), Constants())
        peaks.append(max(peak.expected_bytes for peak in ledger.peaks()))
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > 100 * peaks[-1]


@pytest.mark.parametrize("rung", [rung.name for rung in RUNGS if rung.store == "stream"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"history": "carry"},
        {"encoding": "window"},
        {"ae_share": 0.1, "steps": 40, "epochs": 3},
        {"device": "cuda", "compute": "bfloat16", "chunk": 100},
        {"agents": 10, "chunk": 4},
    ],
)
def test_settings_come_back_from_their_description(rung: str, changes: dict[str, object]) -> None:
    if rung == "resimulated" and changes.get("history") == "carry":
        pytest.skip("is not kept")
    settings = replace(ONE, rung=rung, **changes)  # type: ignore[arg-type]
    assert swarm_settings(swarm_spec(settings)) == settings


def test_16_bits_are_said_by_name() -> None:
    settings = replace(ONE, imu="int16")
    assert swarm_spec(settings).get("rollout.dtype") == "int16"
    assert swarm_settings(swarm_spec(settings)).imu == "int16"


def test_the_preset_with_a_stream_is_the_default_rung() -> None:
    found = swarm_settings(load("drone-swarm", ("storage=stream", "agents=5000")))
    assert (found.agents, found.rung, found.chunk, found.ae_share) == (5000, "gyro", 32, 1.0)


def test_a_minibatch_bounds_what_whole_windows_have_in_the_network() -> None:
    settings = Settings(agents=1000, minibatches=20, chunk=256, rung="chunked")
    assert chunk_of(settings) == 50
    assert chunk_of(replace(settings, rung="preallocated")) == 50
    assert chunk_of(replace(settings, rung="naive", minibatches=1)) == 1000
    assert chunk_of(replace(settings, rung="chunked", minibatches=1)) == 256


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("history=100",), "history: .* only the drones' own can be run"),
        (("optimizer=sgd",), "optimizer: "),
        (("n_envs=2",), "n_envs: "),
        (("batch_size=150",), "batch_size: 150 is not a multiple of 100"),
        (("rollout.dtype=float32",), "no version of the drones' code keeps this; those that are there: stream: "),
    ],
)
def test_what_the_drones_own_code_cannot_do_is_refused_in_one_line(sets: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        swarm_settings(load("drone-swarm", ("storage=stream", *sets)))
