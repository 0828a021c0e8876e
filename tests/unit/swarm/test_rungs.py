"""Every rung of the ladder computes the same thing: what the network sees bit for bit, what it learns to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from hypothesis import HealthCheck, Phase, given  # noqa: E402
from hypothesis import settings as examples  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from rlmem.errors import UsageError  # noqa: E402
from rlmem.swarm import collect, learn, materialised, settings  # noqa: E402
from rlmem.swarm import run as running  # noqa: E402
from rlmem.swarm.collect import NotFinite  # noqa: E402
from rlmem.swarm.incremental import GrowingStream  # noqa: E402
from rlmem.swarm.kept import KeptStream  # noqa: E402
from rlmem.swarm.physics import Drones  # noqa: E402
from rlmem.swarm.run import SwarmRun  # noqa: E402
from rlmem.swarm.settings import RUNGS, Settings  # noqa: E402

pytestmark = pytest.mark.truth

EXACT = [rung.name for rung in RUNGS if not rung.half]
HALF = [rung.name for rung in RUNGS if rung.half]
#: The last rung with a stream, with samples kept in 32 bits: for itself it is lossless too.
GYRO32 = "gyro in 32 bits"
SMALL = Settings(agents=11, steps=4, iterations=2, epochs=2, minibatches=2, chunk=3, ae_share=1.0, seed=5)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def _another_rung() -> Iterator[None]:
    settings.BY_NAME[GYRO32] = replace(settings.BY_NAME["gyro"], name=GYRO32, half=False)
    yield
    del settings.BY_NAME[GYRO32]


def parameters(run: SwarmRun) -> dict[str, Any]:
    return {f"{n}.{name}": p.clone() for n, m in enumerate(run.nets.modules) for name, p in m.state_dict().items()}


def gradients(run: SwarmRun) -> dict[str, Any]:
    """Those of the last minibatch."""
    return {f"{n}.{name}": p.grad.clone() for n, m in enumerate(run.nets.modules) for name, p in m.named_parameters()}


@cache
def trained(chosen: Settings) -> tuple[dict[str, Any], list[float]]:
    """Parameters and rewards after all iterations."""
    run = SwarmRun(chosen)
    rewards = [run.iterate().reward for _ in range(chosen.iterations)]
    return parameters(run), rewards


@cache
def first_gradients(chosen: Settings) -> dict[str, Any]:
    """Those of the first update, which the optimizer has not yet touched."""
    run = SwarmRun(replace(chosen, minibatches=1, epochs=1))
    run.iterate()
    return gradients(run)


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys()
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


def moved(chosen: Settings) -> float:
    """How far training carried the parameters."""
    return furthest(parameters(SwarmRun(chosen)), trained(chosen)[0])


def agree(one: Settings, other: Settings) -> None:
    """The same gradients to rounding, and after all updates the same parameters and rewards."""
    wanted = first_gradients(other)
    for name, value in first_gradients(one).items():
        away = (value - wanted[name]).abs().flatten()
        # A unit whose input is 1e-9 is on with one rounding and off with another: few feel it, and not much.
        assert float(away.norm()) <= 5e-3 * float(wanted[name].norm()), name
        assert float(away.quantile(0.99 if away.numel() > 1000 else 0.5)) <= 1e-4 * float(wanted[name].abs().max()), (
            name
        )
    (ours, our_rewards), (theirs, their_rewards) = trained(one), trained(other)
    apart = torch.cat([(value - theirs[name]).abs().flatten() for name, value in ours.items()])
    # A step of Adam is 1e-3 where a gradient is rounding and nothing else: one parameter in a thousand may be such.
    assert float(apart.quantile(0.999)) < 1e-4
    assert float(apart.max()) < 5e-3
    assert our_rewards == pytest.approx(their_rewards, rel=1e-5)


# ------------------------------------------------------------ what the network sees
class Seen:
    """A run that notes every window that went into the encoder, by agent and step; what it flies is given."""

    def __init__(self, chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.phase = ""
        self.run = SwarmRun(chosen, self._note_phase)
        shape = (chosen.agents, chosen.steps, 300, 6)
        self.collected, self.learnt = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
        self.at = 0
        # The policy's own means differ by rounding from rung to rung once it has learnt; here all fly the same.
        self.run.nets.policy.register_forward_hook(self._fly_as_told)
        self.run.nets.encoder.register_forward_pre_hook(self._see)
        for owner, name, wrapper in (
            (GrowingStream, "codes", self._see_growing),
            (KeptStream, "stream", self._see_stream),
            (KeptStream, "windows", self._see_windows),
            (materialised, "_learn", self._see_batch),
        ):
            monkeypatch.setattr(owner, name, wrapper(getattr(owner, name)))

    def _note_phase(self, phase: str) -> None:
        self.phase, self.at = phase, 0

    def _fly_as_told(self, _module: Any, arguments: Any, out: Any) -> Any:
        means, values = out
        return (0.3 * arguments[1] + 0.1, values) if self.phase == "collect" else (means, values)

    def _put(self, windows: Any) -> None:
        """The windows of one step of the next agents."""
        chosen = self.run.settings
        together = min(chosen.agents, 2 * chosen.chunk) if chosen.ladder.store == "stream" else chosen.agents
        flight, step = divmod(self.at, chosen.steps)
        rows = slice(flight * together, min((flight + 1) * together, chosen.agents))
        self.collected[rows, step] = windows.detach()[: rows.stop - rows.start]
        self.at += 1

    def _see(self, _module: Any, arguments: Any) -> None:
        if self.phase == "collect":
            self._put(arguments[0])

    def _see_growing(self, original: Any) -> Any:
        def codes(growing: Any, step: int) -> Any:
            self._put(growing.window(step))
            return original(growing, step)

        return codes

    def _see_stream(self, original: Any) -> Any:
        def stream(kept: Any, rows: slice) -> Any:
            found = original(kept, rows)
            self.learnt[rows] = found.unfold(1, 300, 10).transpose(2, 3)
            return found

        return stream

    def _see_windows(self, original: Any) -> Any:
        def windows(kept: Any, rows: slice, steps: slice) -> Any:
            found = original(kept, rows, steps)
            self.learnt[rows, steps] = found
            return found

        return windows

    def _see_batch(self, original: Any) -> Any:
        def learn_batch(nets: Any, kept: Any, aims: Any, losses: Any, seen: Any, rows: slice, samples: int) -> None:
            self.learnt[rows] = seen[..., :1800].unflatten(2, (300, 6)).transpose(0, 1)
            original(nets, kept, aims, losses, seen, rows, samples)

        return learn_batch

    def iterate(self) -> None:
        self.collected.fill_(torch.nan)
        self.learnt.fill_(torch.nan)
        self.run.iterate()


def seen_by(chosen: Settings, iterations: int = 3) -> list[Any]:
    """All windows of every iteration; collection and update saw the same."""
    found = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(collect, "COLLECTED", 2)  # two flights, the second one smaller
        seen = Seen(chosen, monkeypatch)
        for _ in range(iterations):
            seen.iterate()
            assert torch.equal(seen.collected, seen.learnt)
            found.append(seen.learnt.clone())
            if isinstance(seen.run.kept, KeptStream) and seen.run.kept.store is not None:
                whole = seen.run.kept.store.gather(slice(None), slice(0, chosen.steps))
                assert torch.equal(whole.unflatten(2, (300, 6)), seen.learnt)
    assert not any(bool(windows.isnan().any()) for windows in found)
    return found


FLOWN = replace(SMALL, agents=7, steps=32, epochs=1, chunk=2, ae_share=0.05)


@cache
def materialised_windows(history: str) -> list[Any]:
    return seen_by(replace(FLOWN, rung="preallocated", history=history))


@pytest.mark.parametrize(
    ("rung", "encoding", "history"),
    [
        ("naive", "window", "carry"),
        ("chunked", "window", "reset"),
        ("stream", "window", "reset"),
        ("stream", "window", "carry"),
        ("stream", "sequence", "reset"),
        ("stream", "sequence", "carry"),
        (GYRO32, "sequence", "carry"),
    ],
)
def test_windows_of_lossless_rungs_are_those_of_whole_windows(rung: str, encoding: str, history: str) -> None:
    found = seen_by(replace(FLOWN, rung=rung, encoding=encoding, history=history))
    for windows, expected in zip(found, materialised_windows(history), strict=True):
        assert torch.equal(windows, expected)


@pytest.mark.parametrize(
    ("rung", "encoding", "history"),
    [
        ("half", "sequence", "carry"),
        ("in-place", "window", "reset"),
        ("gyro", "sequence", "reset"),
        ("gyro", "window", "carry"),
        ("resimulated", "sequence", "reset"),
    ],
)
def test_windows_of_16_bit_rungs_are_those_windows_rounded_once(rung: str, encoding: str, history: str) -> None:
    found = seen_by(replace(FLOWN, rung=rung, encoding=encoding, history=history))
    for windows, expected in zip(found, materialised_windows(history), strict=True):
        assert torch.equal(windows, expected.half().float())


@pytest.mark.parametrize(("rung", "history"), [("gyro", "carry"), ("half", "reset")])
def test_windows_in_fixed_point_are_those_windows_in_units_of_1_256(rung: str, history: str) -> None:
    found = seen_by(replace(FLOWN, rung=rung, history=history, imu="int16"))
    for windows, expected in zip(found, materialised_windows(history), strict=True):
        assert torch.equal(windows, (expected * 256).round().clamp(-32767, 32767) / 256)


def test_the_windows_compared_are_full_and_carried() -> None:
    first, second, third = materialised_windows("carry")
    assert not first[:, 0].any()
    assert bool(first[:, -1].any(-1).all())
    assert torch.equal(second[:, 0, :290], first[:, -1, 10:])
    assert torch.equal(third[:, 0, :290], second[:, -1, 10:])
    assert not materialised_windows("reset")[1][:, 0].any()
    assert len(torch.unique(first[:, -1, -1, 2])) == 7


@pytest.mark.parametrize(
    ("rung", "history"), [("stream", "reset"), ("stream", "carry"), (GYRO32, "carry"), ("gyro", "reset")]
)
def test_with_its_own_policy_a_stream_holds_what_shifting_the_environments_samples_would(
    rung: str, history: str
) -> None:
    chosen = replace(SMALL, agents=17, steps=13, chunk=2, rung=rung, history=history, epochs=1, ae_share=0.1)
    run, shadow = SwarmRun(chosen), Drones(17)
    window = torch.zeros(17, 300, 6)
    for iteration in range(3):
        run.iterate()
        shadow.reset(torch.Generator().manual_seed(chosen.seed * running._SEED_STEP + iteration))
        if history == "reset":
            window.zero_()
        assert isinstance(run.kept, KeptStream) and run.kept.store is not None
        for step in range(chosen.steps):
            found = run.kept.store.gather(slice(None), step).unflatten(1, (300, 6))
            assert torch.equal(found, window.half().float() if rung == "gyro" else window)
            actions, accelerations = run.kept.actions[:, step], torch.empty(17, 10, 3)
            shadow.step(actions, slice(None), accelerations)
            new = torch.cat([accelerations, actions[:, None, 1:].expand(-1, 10, -1)], 2)
            window = torch.cat([window[:, 10:], new], 1)


# ------------------------------------------------------------ what it learns
CASES = [
    ("no-grad", "window", "reset", 3, 2),
    ("no-grad", "window", "carry", 3, 1),
    ("preallocated", "window", "reset", 3, 1),
    ("preallocated", "window", "carry", 3, 2),
    ("chunked", "window", "reset", 1, 2),
    ("chunked", "window", "reset", 13, 1),
    ("chunked", "window", "carry", 3, 2),
    ("stream", "sequence", "reset", 1, 1),
    ("stream", "sequence", "reset", 3, 2),
    ("stream", "sequence", "carry", 13, 1),
    ("stream", "sequence", "carry", 1, 2),
    ("stream", "window", "reset", 13, 2),
    ("stream", "window", "carry", 3, 1),
    (GYRO32, "sequence", "reset", 13, 2),
    (GYRO32, "window", "carry", 1, 2),
]


@pytest.mark.parametrize(("rung", "encoding", "history", "chunk", "minibatches"), CASES)
def test_lossless_rungs_learn_what_the_assessed_algorithm_learns(
    rung: str, encoding: str, history: str, chunk: int, minibatches: int
) -> None:
    base = replace(SMALL, rung="naive", history=history, minibatches=minibatches)
    agree(replace(base, rung=rung, encoding=encoding, chunk=chunk), base)


@pytest.mark.parametrize(("history", "encoding"), [("reset", "sequence"), ("reset", "window"), ("carry", "sequence")])
def test_what_follows_16_bits_changes_no_bit_of_what_is_learnt(history: str, encoding: str) -> None:
    base = replace(SMALL, rung="half", history=history, encoding=encoding)
    for rung in HALF[1:-1] if history == "carry" else HALF[1:]:
        assert furthest(trained(replace(base, rung=rung))[0], trained(base)[0]) == 0, rung


def test_rates_from_the_actions_change_no_bit_in_32_bits_either() -> None:
    base = replace(SMALL, rung="stream", history="carry")
    assert furthest(trained(replace(base, rung=GYRO32))[0], trained(base)[0]) == 0


def test_training_moves_what_is_compared() -> None:
    base = replace(SMALL, rung="naive")
    assert moved(base) > 4e-3
    others = (replace(base, seed=6), replace(base, minibatches=1), replace(base, history="carry"))
    for other in others:
        assert furthest(trained(base)[0], trained(other)[0]) > 5e-4


def test_16_bits_change_little() -> None:
    exact, half = replace(SMALL, rung="stream"), replace(SMALL, rung="half")
    fixed = replace(SMALL, rung="half", imu="int16")
    for one, other in ((half, exact), (fixed, exact), (half, fixed)):
        (ours, our_rewards), (theirs, their_rewards) = trained(one), trained(other)
        apart = torch.cat([(value - theirs[name]).abs().flatten() for name, value in ours.items()])
        assert 0 < float(apart.mean()) < 2e-4
        assert our_rewards == pytest.approx(their_rewards, rel=2e-3)


@examples(
    max_examples=15,
    deadline=None,
    derandomize=True,  # with enough sizes and seeds some rounding somewhere is large; these are looked at
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    agents=st.integers(1, 9),
    steps=st.integers(1, 6),
    chunks=st.tuples(st.integers(1, 10), st.integers(1, 10)),
    minibatches=st.integers(1, 3),
    history=st.sampled_from(["reset", "carry"]),
    seed=st.integers(0, 99),
)
def test_odd_sizes_learn_the_same_from_derived_streams_as_from_whole_windows(
    agents: int, steps: int, chunks: tuple[int, int], minibatches: int, history: str, seed: int
) -> None:
    base = replace(
        SMALL, agents=agents, steps=steps, epochs=1, minibatches=min(minibatches, agents), history=history, seed=seed
    )
    agree(
        replace(base, rung=GYRO32, encoding="sequence", chunk=chunks[0]),
        replace(base, rung="chunked", encoding="window", chunk=chunks[1]),
    )


def test_a_seed_gives_the_same_bits_twice() -> None:
    chosen = replace(SMALL, ae_share=0.5)
    runs = [SwarmRun(chosen), SwarmRun(chosen)]
    iterations = [[run.iterate() for _ in range(2)] for run in runs]
    assert furthest(parameters(runs[0]), parameters(runs[1])) == 0
    for one, other in zip(*iterations, strict=True):
        assert (one.reward, one.policy_loss, one.ae_loss) == (other.reward, other.policy_loss, other.ae_loss)


def test_a_chunk_changes_only_rounding_even_where_the_autoencoder_learns_from_some_steps() -> None:
    base = replace(SMALL, steps=9, ae_share=0.4)
    agree(replace(base, chunk=1), replace(base, chunk=256))
    agree(replace(base, chunk=4, encoding="window"), replace(base, chunk=256))


def test_the_compact_runs_curve_lies_on_the_assessed_one() -> None:
    base = Settings(agents=32, steps=20, iterations=6, minibatches=4, epochs=1, chunk=8, ae_share=1.0, seed=1)
    (_, naive), (_, compact) = trained(replace(base, rung="naive")), trained(replace(base, rung="gyro"))
    assert compact == pytest.approx(naive, rel=0.01)
    assert len(set(naive)) == 6


# ------------------------------------------------------------ stopping and going on
def same_state(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_state, one, other))
    return bool(one == other)


#: Each store, and what it carries.
KINDS = [
    ("naive", "reset"),
    ("naive", "carry"),
    ("chunked", "carry"),
    ("stream", "carry"),
    ("gyro", "reset"),
    ("gyro", "carry"),
    ("resimulated", "reset"),
]


@cache
def uninterrupted(chosen: Settings) -> list[dict[str, Any]]:
    """States after no, one, two and three iterations."""
    run = SwarmRun(chosen)
    states = [run.state()]
    for _ in range(3):
        run.iterate()
        states.append(run.state())
    return states


def stopping(rung: str, history: str) -> Settings:
    return replace(SMALL, agents=7, steps=3, epochs=1, rung=rung, history=history, ae_share=0.7)


@pytest.mark.parametrize(("rung", "history"), KINDS)
def test_a_run_goes_on_from_a_state_bit_for_bit(rung: str, history: str) -> None:
    chosen = stopping(rung, history)
    states = uninterrupted(chosen)
    # Into a new run, and into one that has been elsewhere.
    elsewhere = SwarmRun(chosen)
    elsewhere.iterate()
    elsewhere.iterate()
    for run in (SwarmRun(chosen), elsewhere):
        run.load(states[1])
        assert run.iteration == 1
        assert same_state(run.state(), states[1])
        run.iterate()
        run.iterate()
        assert same_state(run.state(), states[3])
    assert (states[3]["carried"] is not None) == (history == "carry")


class Stop(KeyboardInterrupt):
    pass


@pytest.mark.parametrize(("rung", "history"), KINDS)
def test_an_interrupted_run_is_as_it_was_after_its_last_whole_iteration(rung: str, history: str) -> None:
    chosen = stopping(rung, history)
    states = uninterrupted(chosen)
    for phase, calls in (("collect", 1), ("collect", 3), ("update", 1), ("update", 2)):
        run = SwarmRun(chosen)
        run.load(states[1])
        left = calls

        def tell(now: str, done: int, total: int, phase: str = phase) -> None:
            nonlocal left
            assert 0 <= done < total
            left -= now == phase
            if not left:
                raise Stop

        if (phase, calls) == ("collect", 3) and chosen.ladder.store == "stream":
            continue  # all agents fly together here
        with pytest.raises(Stop):
            run.iterate(tell)
        assert run.iteration == 1
        stopped = run.state()
        assert same_state(stopped, states[1]), (phase, calls)
        again = SwarmRun(chosen)
        again.load(stopped)
        again.iterate()
        assert same_state(again.state(), states[2]), (phase, calls)


def test_a_run_in_several_flights_is_stopped_between_them() -> None:
    chosen = replace(stopping("gyro", "carry"), agents=19, chunk=1, ae_share=0.1)
    run = SwarmRun(chosen)
    run.iterate()
    before = run.state()

    def tell(phase: str, done: int, total: int) -> None:
        assert phase == "collect" and total == 19
        if done == 16:
            raise Stop

    with pytest.raises(Stop):
        run.iterate(tell)
    assert same_state(run.state(), before)
    run.load(before)
    run.iterate()
    whole = SwarmRun(chosen)
    whole.iterate()
    whole.iterate()
    assert same_state(run.state(), whole.state())


def test_a_state_is_the_callers_own() -> None:
    chosen = stopping("gyro", "carry")
    source = SwarmRun(chosen)
    source.iterate()
    state = source.state()
    ends = []
    for _ in range(2):
        run = SwarmRun(chosen)
        run.load(state)
        run.iterate()
        ends.append(run.state())
    assert same_state(*ends)
    assert same_state(source.state(), state)


def test_flown_again_a_history_cannot_be_carried() -> None:
    with pytest.raises(UsageError, match=r"'carry' needs the samples of the episode before, .* rung gyro"):
        SwarmRun(replace(SMALL, rung="resimulated", history="carry"))


# ------------------------------------------------------------ numbers that are none
@pytest.mark.parametrize("rung", ["naive", "chunked", "stream", "gyro", "resimulated"])
def test_what_is_no_number_stops_the_run_with_agent_and_step(rung: str) -> None:
    run = SwarmRun(replace(SMALL, agents=20, chunk=1, epochs=1, rung=rung, ae_share=0.1))
    before = run.state()

    def poison(phase: str, done: int, total: int) -> None:
        if phase == "collect" and not done:
            run.drones.mass[17] = torch.nan

    with pytest.raises(NotFinite, match=r"agent 17, step 0: the reward is nan"):
        run.iterate(poison)
    assert run.iteration == 0
    assert same_state(run.state(), before)
    assert same_state([m.state_dict() for m in run.nets.modules], before["modules"])
    run.load(before)
    assert run.iterate().number == 1


@pytest.mark.parametrize("rung", ["chunked", "gyro"])
def test_what_is_no_number_later_is_found_at_its_step(rung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SwarmRun(replace(SMALL, agents=20, rung=rung))
    original, calls = Drones.step, 0

    def step(drones: Drones, actions: Any, agents: slice, out: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            drones.vel[0, 7] = torch.inf
        return original(drones, actions, agents, out)

    monkeypatch.setattr(Drones, "step", step)
    with pytest.raises(NotFinite, match=r"agent 7, step 2: the reward is"):
        run.iterate()


def test_policies_that_are_no_numbers_are_named_too() -> None:
    run = SwarmRun(replace(SMALL, rung="gyro"))
    with torch.no_grad():
        run.nets.policy.mean.bias[0] = torch.nan
    with pytest.raises(NotFinite, match=r"agent 0, step 0: the (reward|log-probability) is nan"):
        run.iterate()


@pytest.mark.parametrize("rung", ["chunked", "gyro"])
def test_an_update_that_ruins_the_networks_is_not_kept(rung: str) -> None:
    run = SwarmRun(replace(stopping(rung, "carry"), learning_rate=1e30))
    before = run.state()
    with pytest.raises(NotFinite, match=r"after the update.* is not finite"):
        run.iterate()
    assert run.iteration == 0
    assert same_state(run.state(), before)


# ------------------------------------------------------------ returns
@pytest.mark.parametrize("in_place", [False, True])
def test_returns_and_advantages_are_those_of_the_formula(in_place: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    rewards, values = (torch.rand(5, 7, generator=generator) for _ in range(2))

    class Rollout:
        actions = log_probs = rewards

    rollout: Any = Rollout()
    rollout.rewards, rollout.values = rewards.clone(), values.clone()
    expected = 0.01 * torch.stack([sum(0.99**k * rewards[:, t + k] for k in range(7 - t)) for t in range(7)], 1)
    advantages = expected - values
    advantages = advantages - advantages.mean(0)
    advantages = advantages / (advantages.std() + 1e-8)
    aims = learn.prepare(rollout, in_place=in_place)
    torch.testing.assert_close(aims.returns, expected)
    torch.testing.assert_close(aims.advantages, advantages)
    assert (aims.returns.data_ptr() == rollout.rewards.data_ptr()) == in_place
    assert (aims.advantages.data_ptr() == rollout.values.data_ptr()) == in_place
    assert torch.equal(rollout.rewards, rewards) != in_place
