"""The drones in torch against those in numpy, and against themselves: any slice, any threads, the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmem.errors import UsageError
from rlmem.swarm import physics, reference
from rlmem.swarm.physics import Drones

pytestmark = pytest.mark.truth
EVERYBODY = slice(None)


@pytest.fixture
def threads() -> Iterator[Any]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def drones(agents: int, seed: int = 0, device: str = "cpu") -> Drones:
    made = Drones(agents, device)
    made.reset(torch.Generator(device).manual_seed(seed))
    return made


def twins(agents: int, seed: int = 0) -> tuple[Drones, reference.Drones]:
    """The same drones in torch and in numpy."""
    fast, plain = drones(agents, seed), reference.Drones(agents)
    plain.reset(np.random.default_rng(seed))
    for name in ("mass", "drag", "thrust"):
        getattr(plain, name)[:] = getattr(fast, name).numpy()
    plain.targets[:] = fast.targets(EVERYBODY).numpy()
    return fast, plain


def still(body: Drones, *, pick: int = 0, drag: float = 0.0) -> None:
    """Mass and thrust coefficient 1, so that a test can be worked out by hand."""
    body.mass.fill_(1)
    body.thrust.fill_(1)
    body.drag.fill_(drag)
    body.pick.fill_(pick)


def flown(body: Drones, actions: Any, dtype: Any = torch.float32) -> tuple[Any, Any]:
    """One step of everybody."""
    out = torch.empty(body.agents, 10, 3, dtype=dtype)
    return out, body.step(actions, EVERYBODY, out)


def episode(body: Drones, actions: Any, cut: int, out: Any = None) -> Any:
    """The accelerations of an episode, flown ``cut`` agents at a time."""
    agents, steps = actions.shape[:2]
    out = torch.empty(agents, steps, 10, 3) if out is None else out
    for step in range(steps):
        for low in range(0, agents, cut):
            some = slice(low, min(low + cut, agents))
            body.step(actions[some, step], some, out[some, step])
    return out


def same_bits(one: Any, other: Any) -> bool:
    return bool((one.contiguous().view(torch.int32) == other.contiguous().view(torch.int32)).all())


def random_actions(agents: int, steps: int, seed: int = 1) -> Any:
    noise = torch.randn(agents, steps, 4, generator=torch.Generator().manual_seed(seed))
    return noise * 0.5 + torch.tensor([0.5, 0.0, 0.0, 0.0])


# --- against the reference ---


CASES = [
    pytest.param((0.0, 0.0, 0.0, 0.0), 0.5, 301, id="random"),
    pytest.param((0.5, 0.0, 0.0, 0.0), 0.05, 300, id="hover", marks=pytest.mark.long),
    pytest.param((0.0, 0.0, 0.0, 0.0), 0.02, 64, id="crash"),
    pytest.param((0.5, 3.0, 3.0, 3.0), 2.0, 300, id="extreme-tilt", marks=pytest.mark.long),
    pytest.param((0.5, 0.0, 0.0, 0.0), 0.5, 1, id="one"),
]


def errors(fast: Drones, plain: reference.Drones, mean: Any, deviation: float) -> Iterator[Any]:
    """How far each agent is off at every step of an episode, as a share of what it should be, or of 1."""
    rng, agents = np.random.default_rng(5), fast.agents
    for _ in range(100):
        actions = (rng.standard_normal((agents, 4)) * deviation + mean).astype(np.float32)
        out, rewards = flown(fast, torch.from_numpy(actions))
        samples, expected = plain.step(actions)
        assert (samples[..., 3:] == actions[:, None, 1:]).all()
        pairs = [(out.numpy(), samples[..., :3]), (rewards.numpy(), expected)]
        pairs += [(getattr(fast, name).T.numpy(), getattr(plain, name)) for name in ("pos", "vel", "ang")]
        rows = [(mine.reshape(agents, -1), theirs.reshape(agents, -1)) for mine, theirs in pairs]
        yield np.max([abs(mine - theirs).max(1) / (1 + abs(theirs).max(1)) for mine, theirs in rows], axis=0)


@pytest.mark.parametrize(("mean", "deviation", "agents"), CASES)
def test_an_episode_in_the_air_is_that_of_the_reference(mean: Any, deviation: float, agents: int) -> None:
    fast, plain = twins(agents)
    fast.pos[2] = plain.pos[:, 2] = 1000
    assert max(error.max() for error in errors(fast, plain, mean, deviation)) < 1e-5
    assert plain.pos[:, 2].min() > 5


@pytest.mark.parametrize(("mean", "deviation", "agents"), CASES)
def test_an_episode_is_that_of_the_reference(mean: Any, deviation: float, agents: int) -> None:
    fast, plain = twins(agents)
    off, before = np.zeros(agents, bool), np.full(agents, 10.0)
    for error in errors(fast, plain, mean, deviation):
        x, y, z = plain.pos.T
        clearance = z - 5 * np.sin(0.1 * x) * np.cos(0.1 * y)
        # One rounding decides whether a drone that slides over the ground touches it in this substep or in the next; from
        # there on it flies elsewhere. Nobody else may.
        parted = (error > 1e-5) & ~off
        assert (np.minimum(before, clearance)[parted] < 0.1).all()
        off, before = off | parted, clearance
    assert off.mean() <= 0.05


def test_the_reference_writes_targets_where_it_is_told() -> None:
    observations = np.zeros((50, 10), np.float32)
    reference.Drones(50, observations[:, 6:]).reset(np.random.default_rng(0))
    assert 0 < abs(observations[:, 6:]).sum() <= 50
    assert not observations[:, :6].any()


# --- by hand ---


def test_hovering_when_told_to_go_forward_is_rewarded_as_worked_out_by_hand() -> None:
    body = drones(1)
    still(body, pick=2)
    out, reward = flown(body, torch.tensor([[0.4905, 0.0, 0.0, 0.0]]))
    assert reward.item() == pytest.approx(math.exp(-2) + 0.5 + 0.1, abs=1e-6)
    assert out[0].tolist() == [pytest.approx([0, 0, 9.81], abs=1e-5)] * 10
    assert body.pos[:, 0].tolist() == pytest.approx([0, 0, 10])


def test_a_tipped_fall_is_rewarded_as_worked_out_by_hand() -> None:
    body = drones(1)
    still(body, pick=9)  # yaw rate −1
    out, reward = flown(body, torch.tensor([[0.0, 12.0, 0.0, -1.0]]))
    assert not out.any()  # falling freely an IMU feels nothing
    speed = 0.981
    assert body.vel[:, 0].tolist() == pytest.approx([0, 0, -speed], abs=1e-6)
    assert body.pos[2, 0].item() == pytest.approx(10 - 9.81 * 1e-4 * 55, abs=1e-5)
    expected = math.exp(-2 * speed**2) + 0.5 - 0.01 * 1.2**2 - 0.1 + 0.1
    assert reward.item() == pytest.approx(expected, abs=1e-5)


def test_velocity_is_judged_as_the_body_sees_it() -> None:
    body = drones(2)
    still(body, pick=4)  # vy +1, by the body
    body.ang[2] = math.pi / 2
    body.vel[0] = torch.tensor([-1.0, 1.0])  # turned left by 90°, the body's left is the world's −x
    _, reward = flown(body, torch.tensor([[0.4905, 0.0, 0.0, 0.0]] * 2))
    assert reward.tolist() == pytest.approx([1.6, math.exp(-8) + 0.6], abs=1e-5)


def test_the_ground_stops_whoever_meets_it() -> None:
    body = drones(3)
    still(body)
    body.pos[:] = torch.tensor([[0.0, 10.0, 10.0], [0.0, 3.0, 3.0], [0.0, 4.5, 9.0]])
    body.vel[:] = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [-5.0, -5.0, -1.0]])
    ground = 5 * math.sin(1) * math.cos(0.3)
    flown(body, torch.zeros(3, 4))
    assert body.vel[:, :2].abs().max() == 0
    assert body.pos[2, :2].tolist() == pytest.approx([0, ground], abs=1e-5)
    assert body.vel[0, 2] != 0
    assert body.pos[2, 2] > ground


# --- resets ---


def test_commands_are_a_fifth_hover_and_a_tenth_each_way() -> None:
    agents = 100_000
    targets = drones(agents).targets(EVERYBODY)
    assert targets.dtype == torch.float32
    kinds, counts = targets.unique(dim=0, return_counts=True)
    shares = {tuple(kind.tolist()): count / agents for kind, count in zip(kinds, counts.tolist(), strict=True)}
    assert len(shares) == 9
    assert shares.pop((0, 0, 0, 0)) == pytest.approx(0.2, abs=0.008)
    for kind, share in shares.items():
        assert sorted(map(abs, kind)) == [0, 0, 0, 1]
        assert share == pytest.approx(0.1, abs=0.006)


def test_picks_mean_the_same_in_both() -> None:
    rng = np.random.default_rng(3)
    plain = reference.Drones(1000)
    plain.reset(rng)
    again = np.random.default_rng(3)
    for _, low, high in reference.RANGES:
        again.uniform(low, high, 1000)
    assert (physics.commands().numpy()[again.integers(0, 10, 1000)] == plain.targets).all()


def test_a_reset_draws_within_its_ranges_and_starts_over() -> None:
    body = drones(20_000)
    first = body.mass.clone()
    flown(body, random_actions(20_000, 1)[:, 0])
    body.reset(torch.Generator().manual_seed(1))
    for row, low, high in ((body.mass, 0.5, 1.5), (body.drag, 0.05, 0.15), (body.thrust, 0.8, 1.2)):
        middle, width = (low + high) / 2, high - low
        assert low <= row.min().item() < low + width / 100
        assert high - width / 100 < row.max().item() <= high + 1e-6
        assert row.mean().item() == pytest.approx(middle, abs=width / 50)
    assert not same_bits(first, body.mass)
    assert body.pos.T.unique(dim=0).tolist() == [[0, 0, 10]]
    assert not body.vel.any()
    assert not body.ang.any()


def test_a_seed_gives_the_same_drones_again() -> None:
    one, other = drones(77, seed=4), drones(77, seed=4)
    assert same_bits(one.state, other.state)
    assert (one.pick == other.pick).all()


# --- slices, types, strides ---


def test_a_step_of_some_leaves_the_others_alone() -> None:
    body = drones(200)
    before = body.state.clone()
    some = slice(50, 113)
    rewards = body.step(random_actions(63, 1)[:, 0], some, torch.empty(63, 10, 3))
    assert rewards.shape == (63,)
    changed = (body.state != before).any(0)
    assert changed[some].all()
    assert not changed[:50].any()
    assert not changed[113:].any()


def test_any_strides_take_the_same_numbers_and_half_precision_their_rounding() -> None:
    agents = 133
    actions = random_actions(agents, 1)[:, 0]
    plain, rewards = flown(drones(agents), actions)
    store = torch.full((agents, 50, 3), 7.0, dtype=torch.float16)
    last = torch.empty(10, 3, agents)
    for out in (store[:, 20:30], last.permute(2, 0, 1), torch.empty(agents, 10, 3, dtype=torch.float16)):
        again = drones(agents).step(actions.t().contiguous().t(), EVERYBODY, out)
        assert (out == plain.to(out.dtype)).all()
        assert same_bits(again, rewards)
    assert (store[:, :20] == 7).all()
    assert (store[:, 30:] == 7).all()


def test_what_is_not_a_number_shows_and_stays_with_its_agent() -> None:
    actions = random_actions(70, 1)[:, 0]
    clean, clean_rewards = flown(drones(70), actions)
    for value in range(4):
        body = drones(70)
        broken = actions.clone()
        broken[5, value] = math.nan
        out, rewards = flown(body, broken)
        assert out[5].isnan().any()
        assert rewards[5].isnan()
        assert body.pos[:, 5].isnan().any()
        others = torch.arange(70) != 5
        assert same_bits(out[others], clean[others])
        assert same_bits(rewards[others], clean_rewards[others])


def test_no_agents_are_no_work() -> None:
    body = drones(5)
    assert body.step(torch.empty(0, 4), slice(5, 5), torch.empty(0, 10, 3)).shape == (0,)
    assert body.replay(torch.empty(0, 7, 4), slice(2, 2)).shape == (0, 7, 10, 3)


def test_bytes_are_49_an_agent_and_scratch_does_not_grow_with_them() -> None:
    few, many = drones(3_000), drones(7_001)
    assert (few.nbytes, many.nbytes) == (49 * 3_000, 49 * 7_001)
    held = few.state.untyped_storage().nbytes() + few.pick.untyped_storage().nbytes()
    assert held == few.nbytes
    assert few.scratch_nbytes == 0
    for body in (few, many):
        flown(body, torch.zeros(body.agents, 4))
    assert few.scratch_nbytes == many.scratch_nbytes == few._scratch.nbytes > 0


def test_a_graph_of_the_actions_is_not_followed() -> None:
    out, rewards = flown(drones(9), random_actions(9, 1)[:, 0].requires_grad_())
    assert not out.requires_grad
    assert not rewards.requires_grad


# --- flown again ---


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("cut", [1024, 997, 64, 7])
def test_a_replay_has_the_bits_of_the_flight(cut: int, count: int, threads: Any) -> None:
    agents = 1501 if cut > 7 else 50
    body, actions = drones(agents), random_actions(agents, 5)
    threads(1)
    first = episode(body, actions, cut)
    after = body.state.clone()
    threads(count)
    assert same_bits(body.replay(actions, EVERYBODY), first)
    for some in (slice(0, 1), slice(3, 4), slice(13, 30), slice(agents - 33, agents)):
        assert same_bits(body.replay(actions[some], some), first[some])
    assert same_bits(body.state, after)


def test_blocks_and_threads_do_not_show(threads: Any) -> None:
    agents = 2 * physics.BLOCK + 77
    actions = random_actions(agents, 2)
    threads(1)
    body = drones(agents)
    first = episode(body, actions, agents)
    for count in (2, 3):
        threads(count)
        again = drones(agents)
        assert same_bits(episode(again, actions, 1234), first)
        assert same_bits(again.state, body.state)
        assert same_bits(again.replay(actions, EVERYBODY), first)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_slice_replays_what_any_other_flew(data: st.DataObject) -> None:
    agents, steps = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 3))
    body, actions = drones(agents, seed=agents), random_actions(agents, steps, seed=steps)
    half = data.draw(st.booleans())
    out = torch.empty(agents, steps, 10, 3, dtype=torch.float16 if half else torch.float32)
    first = episode(body, actions, data.draw(st.integers(-(-agents // 9), agents)), out)
    low = data.draw(st.integers(0, agents - 1))
    some = slice(low, data.draw(st.integers(low + 1, agents)))
    again = body.replay(actions[some], some, torch.empty_like(first[some]))
    assert same_bits(again.float(), first[some].float())


# --- what is refused ---


@pytest.mark.parametrize("agents", [0, -3])
def test_no_swarm_without_agents(agents: int) -> None:
    with pytest.raises(UsageError, match="agents: expected at least 1"):
        Drones(agents)


def test_shapes_and_types_that_would_go_wrong_silently_are_refused() -> None:
    body, out = drones(8), torch.empty(8, 10, 3)
    with pytest.raises(UsageError, match=r"actions: expected the shape \[8, 4\], got \[1, 4\]"):
        body.step(torch.zeros(1, 4), EVERYBODY, out)
    with pytest.raises(UsageError, match=r"out: expected the shape \[4, 10, 3\], got \[8, 10, 3\]"):
        body.step(torch.zeros(4, 4), slice(0, 4), out)
    with pytest.raises(UsageError, match=r"out: expected a float type, got torch\.int16"):
        body.step(torch.zeros(8, 4), EVERYBODY, out.short())
    with pytest.raises(UsageError, match="a slice of neighbours"):
        body.step(torch.zeros(4, 4), slice(0, 8, 2), out[:4])
    with pytest.raises(UsageError, match=r"actions: expected the shape \[8, 0, 4\], got \[8, 4\]"):
        body.replay(torch.zeros(8, 4), EVERYBODY)


# --- on a GPU ---


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_kernel_flies_as_torch_does() -> None:
    body, plain = drones(1501, device="cuda"), drones(1501, device="cuda")
    assert body._kernel is not None
    plain._kernel = None
    actions = random_actions(1501, 20).cuda()
    out = torch.empty(1501, 20, 10, 3, device="cuda")
    first, expected = episode(body, actions, 400, out), episode(plain, actions, 1501, torch.empty_like(out))
    assert same_bits(body.replay(actions[3:900], slice(3, 900)), first[3:900])
    torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-4)
