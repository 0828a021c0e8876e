"""A swarm that keeps its stream once: what is stored by hand, what a chunk takes, and what a description may not say."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.ledger import Ledger
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.frameworks.chunks import layer_values
from rlmem.model.constants import Constants
from rlmem.planner import Planner
from rlmem.sources import load

#: A window of other numbers than the drones': 8 samples of 2 values, one more a step, 3 values beside it.
OTHER = {
    "framework.name": "swarm",
    "algorithm": "ppo",
    "observation": {"type": "window", "sample": 2, "extra": 3, "step": 1},
    "history": 8,
    "action": {"type": "box", "shape": [4]},
    "agents": 5,
    "n_steps": 16,
    "storage": "stream",
    "network.modules": {
        "encoder": ["conv1d 4 k3 s1 p1", "relu", "flatten", "linear 5", "tanh"],
        "policy": ["linear 16", "relu", "linear 4"],
        "value": ["linear 1"],
    },
}


def drones(*sets: str) -> RunSpec:
    return load("drone-swarm", ("storage=stream", *sets))


def other(**fields: Any) -> RunSpec:
    return RunSpec().having(OTHER | fields, "test")


def ledger(spec: RunSpec) -> Ledger:
    return predict(resolve(spec), Constants())


def stored(spec: RunSpec) -> dict[str, int]:
    """The rollout's arrays by name."""
    entries = ledger(spec).only(phase="collect").entries
    return {entry.component.split(".", 1)[1]: entry.nbytes for entry in entries if entry.group == "rollout"}


def held(spec: RunSpec, component: str, phase: str = "update") -> int:
    return ledger(spec).only(phase=phase, component=component).nbytes


def test_a_drone_keeps_8740_bytes_of_a_rollout_and_49_of_its_own() -> None:
    found = stored(drones("agents=1000"))
    # 99 steps × 10 samples × 3 accelerations × 2 B; 100 × 4 actions × 4 B; 100 × three scalars × 4 B.
    assert found == {"stream": 5_940_000, "actions": 1_600_000, "scalars": 1_200_000}
    assert held(drones("agents=1000"), "workers.env-state") == 49_000


@pytest.mark.parametrize(
    ("sets", "nbytes"),
    [
        (("rollout.dtype=float32",), 11_880),
        (("rollout.dtype=int16",), 5_940),
        (("rollout.dtype=float32", "rollout.derived=0"), 23_760),
        (("rollout.derived=0",), 11_880),
        (("rollout.derived=6",), None),
        (("rollout.resimulated=true",), None),
        (("rollout.carries_history=true",), 7_800),  # (100 + 30) steps × 10 × 3 × 2 B
        (("n_steps=1",), None),  # the last step's samples are never observed
        (("n_steps=2",), 60),
    ],
)
def test_a_rung_keeps_of_the_stream_what_it_says(sets: tuple[str, ...], nbytes: int | None) -> None:
    assert stored(drones("agents=1", *sets)).get("stream") == nbytes


def test_actions_from_before_the_rollout_are_kept_only_where_a_carried_history_follows_from_them() -> None:
    carried = drones("agents=1", "rollout.carries_history=true")
    assert stored(carried)["actions-before"] == 30 * 4 * 4
    assert "actions-before" not in stored(carried.having({"rollout.derived": 0}, ""))
    assert "actions-before" not in stored(drones("agents=1"))


def test_returns_and_advantages_take_two_arrays_unless_they_are_made_in_place() -> None:
    assert held(drones("agents=10"), "rollout.returns") == 0
    assert held(drones("agents=10", "rollout.in_place_returns=false"), "rollout.returns") == 10 * 800


def test_one_more_agent_costs_what_it_stores_and_nothing_else_grows() -> None:
    for phase in ("collect", "update"):
        sizes = [ledger(drones(f"agents={agents}")).only(phase=phase).nbytes for agents in (100_000, 200_000)]
        assert (sizes[1] - sizes[0]) / 100_000 == 8_740 + 49


def test_a_million_drones_fit_in_16_gb_and_the_assessed_run_needs_terabytes() -> None:
    planner = Planner(Budget(name="test", ram_bytes=16 * 10**9), Constants())
    made = planner.plan(drones("agents=1M"))
    assert made.verdict == "fits"
    top = made.top("ram")
    assert top is not None
    assert 8_789_000_000 < top.expected_bytes < 10_500_000_000
    plain = planner.plan(load("drone-swarm", ("agents=1M",))).top("ram")
    assert plain is not None
    assert plain.expected_bytes > 13 * 10**12


def test_fields_of_the_assessed_run_lose_their_meaning_and_say_so() -> None:
    resolved = resolve(drones())
    assert resolved.get("rollout.store") == "array"
    assert resolved.get("rollout.keeps_graph") is False
    assert "list-then-stack (preset drone-swarm:" in resolved.origin("rollout.store")
    assert "has no meaning here" in resolved.origin("rollout.keeps_graph")
    assert resolve(resolved).values == resolved.values
    assert held(drones(), "rollout.graph", "collect") == 0


def test_what_a_stream_would_be_is_no_part_of_a_run_that_keeps_windows() -> None:
    resolved = resolve(load("drone-swarm"))
    assert "rollout.dtype" not in resolved
    assert "network.encoding" not in resolved
    assert "rollout.stream" not in {entry.component for entry in ledger(load("drone-swarm")).entries}


def test_32_agents_with_all_their_steps_are_in_the_network_at_once_unless_the_batch_says_otherwise() -> None:
    assert resolve(drones()).get("batch_size") == 32 * 100
    assert resolve(drones("agents=5")).get("batch_size") == 500
    assert resolve(drones("network.encoding=window")).get("batch_size") == 32 * 10
    assert resolve(drones("batch_size=6400")).get("batch_size") == 6400
    assert resolve(drones("device=cuda", "agents=10k")).get("batch_size") == 4096 * 100


def test_layers_over_a_stream_have_a_position_for_every_second_sample() -> None:
    # 1290 samples: (1290 − 5) // 2 + 1 = 643 positions, 639 and 631 behind them.
    assert layer_values(1290) == (643 * 16, 639 * 32, 631 * 64)


def test_the_update_of_a_chunk_is_largest_where_gradients_spread_over_the_third_layer() -> None:
    layers = 643 * 16 + 639 * 32 + 631 * 64
    ends, codes, inner = 100 * 256, 100 * 20, 100 * 23 * 64
    floats = 1290 * 6 + layers + ends + 3 * codes + inner + 631 * 64
    spec = drones("agents=2000", "network.decoded_steps=1")
    parts = [held(spec, name) for name in ("batch.stream", "learner.activations", "learner.backward")]
    assert sum(parts) == 32 * floats * 4


def test_collection_flies_sixteen_chunks_with_the_layers_of_their_streams() -> None:
    layers = 648 * 16 + 644 * 32 + 636 * 64  # of 300 + 100 × 10 samples
    first = sum(layer_values(300))
    floats = 1300 * 6 + layers + first + 100 * 7 + 46
    assert held(drones("agents=2000"), "batch.flight", "collect") == 16 * 32 * floats * 4
    assert held(drones("agents=100"), "batch.flight", "collect") == 100 * floats * 4


def test_another_window_is_planned_by_its_own_numbers() -> None:
    # 15 steps × 1 sample × 2 values × 4 B an agent; 3 values beside 16 windows; 4 actions and 3 scalars a sample.
    assert stored(other()) == {"stream": 5 * 120, "extra": 5 * 192, "actions": 5 * 256, "scalars": 5 * 192}
    assert stored(other(**{"rollout.extra": "episode"}))["extra"] == 5 * 12
    assert "extra" not in stored(other(**{"rollout.extra": "none"}))
    assert stored(other(n_envs=3))["stream"] == 3 * 5 * 120
    assert stored(other(storage="compact")) == stored(other())
    windows = other(batch_size=40)
    assert held(windows, "batch.device") >= 40 * 8 * 2 * 4


def test_one_pass_over_the_stream_is_for_the_drones_and_others_are_told() -> None:
    for spec in (other(**{"network.encoding": "sequence"}), drones("history=100")):
        resolved = resolve(spec)
        assert resolved.get("network.encoding") == "window"
        assert "the drones' own window and encoder" in resolved.origin("network.encoding")


def test_an_environment_has_no_window_of_its_own_beside_a_stream() -> None:
    state = {"window": {"like": "observation"}, "pose": {"shape": [6], "dtype": "float32"}}
    assert held(other(**{"env.state": state}), "workers.env-state") == 5 * 24
    assert "without window: the stream has it" in resolve(other(**{"env.state": state})).origin("env.state")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (other(history=1, observation={"type": "window", "sample": 2, "step": 10}), "history: .* shorter than the 10"),
        (other(**{"rollout.derived": 3}), "rollout.derived: a sample has 2 values"),
        (other(**{"network.decoded_steps": 17}), "network.decoded_steps: a rollout has 16 steps"),
        (
            other(**{"rollout.resimulated": True, "rollout.carries_history": True}),
            "rollout.resimulated: a window that goes on",
        ),
        (other(observation={"type": "box", "shape": [8]}), "observation.type: a swarm observes a window"),
    ],
)
def test_what_no_stream_can_be_is_refused(spec: RunSpec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        resolve(spec)


def test_no_agents_are_refused() -> None:
    with pytest.raises(SpecError, match="agents: expected at least 1"):
        drones("agents=0")


def test_a_window_longer_than_the_stream_and_rounded_samples_are_said() -> None:
    def notes(spec: RunSpec) -> str:
        resolved = resolve(spec)
        return " ".join(find_adapter(resolved).notes(resolved))

    assert "the window (300 samples) is longer than the stream of a rollout (90)" in notes(drones("n_steps=10"))
    assert "longer" not in notes(drones())
    assert "longer" not in notes(drones("n_steps=10", "rollout.carries_history=true"))
    assert "float16, which rounds" in notes(drones())
    assert notes(drones("rollout.dtype=float32")) == ""
    assert notes(load("drone-swarm")) == ""


def test_a_gpu_keeps_a_captured_flight_during_the_update() -> None:
    def flown(device: str, where: str) -> int:
        found = ledger(drones("agents=100k", f"device={device}"))
        return found.only(phase="update", device=where, component="batch.flight").nbytes

    assert flown("cuda", "vram") > 0
    assert flown("cpu", "ram") == 0
