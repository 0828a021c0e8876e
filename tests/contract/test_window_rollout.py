"""Every sample once gives the very observations that a store of whole windows holds, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

import numpy as np  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from contract.strategies import examples  # noqa: E402
from rlmem.buffers import WindowRollout  # noqa: E402
from rlmem.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.truth

Array = np.ndarray[Any, np.dtype[Any]]
FIELDS: dict[str, tuple[int, ...]] = {"actions": (3,), "torques": (2, 2), "rewards": ()}
#: Values of a sample that follow from a field, where a sample has so many.
DERIVED = {1: ("actions", 2), 2: ("rewards", 0), 3: ("torques", 3)}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class Shape:
    """What a store is made with."""

    agents: int = 3
    steps: int = 4
    history: int = 5
    sample: int = 2
    new: int = 2
    extra: int = 1
    extra_once: bool = False
    derived: dict[int, tuple[str, int]] = field(default_factory=dict)
    dtype: str = "float32"
    scale: float = 1 / 256
    on_reset: str = "zeros"
    first: int = 0
    whole_episodes: bool = False
    final: bool = True

    def store(self) -> WindowRollout:
        options = {name: value for name, value in vars(self).items() if name not in {"agents", "steps"}}
        return WindowRollout(self.agents, self.steps, fields=FIELDS, **options)

    def rounded(self, values: Array) -> Array:
        if self.dtype == "float16":
            return values.astype(np.float16).astype(np.float32)
        if self.dtype == "int16":
            whole = np.clip(np.rint(values / np.float32(self.scale)), -32767, 32767).astype(np.int16)
            return whole.astype(np.float32) * np.float32(self.scale)
        return values


class Whole:
    """The plain store: a window of every agent that is shifted at every step, and a copy of it for every step."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.window = np.zeros((shape.agents, shape.history, shape.sample), np.float32)
        self.beside = np.zeros((shape.agents, shape.extra), np.float32)
        self.begin()

    def begin(self) -> None:
        if self.shape.whole_episodes and self.shape.on_reset != "carry":
            self.window[:] = 0
        self.windows, self.besides = [self.window.copy()], [self.beside.copy()]
        self.fields: dict[str, list[Array]] = {name: [] for name in FIELDS}

    def _new_episode(self, agents: Array, samples: Array) -> None:
        """Samples ``[agents, first, sample]`` begin an episode."""
        first = self.shape.first
        if self.shape.on_reset == "zeros":
            self.window[agents] = 0
        elif self.shape.on_reset == "edge":
            self.window[agents] = samples[agents, :1]
        if first:
            self.window[agents, -first:] = samples[agents]

    def reset(self, samples: Array, extra: Array | None) -> None:
        self._new_episode(np.ones(self.shape.agents, bool), self.shape.rounded(samples))
        self.beside = self.beside if extra is None else extra
        self.windows[-1], self.besides[-1] = self.window.copy(), self.beside.copy()

    def append(self, samples: Array, ended: Array | None, extra: Array | None, fields: dict[str, Array]) -> None:
        samples = self.shape.rounded(samples)
        self.window = np.concatenate([self.window, samples], 1)[:, -self.shape.history :]
        if ended is not None and self.shape.on_reset != "carry":
            self._new_episode(ended, samples[:, self.shape.new - self.shape.first :])
        self.beside = self.beside if extra is None else extra
        self.windows.append(self.window.copy())
        self.besides.append(self.beside.copy())
        for name, value in fields.items():
            self.fields[name].append(value)

    @property
    def observations(self) -> Array:
        """``[agents, steps so far + 1, width]``."""
        besides = [self.besides[-1]] * len(self.besides) if self.shape.extra_once else self.besides
        flat = [np.concatenate([w.reshape(len(w), -1), b], 1) for w, b in zip(self.windows, besides, strict=True)]
        return np.stack(flat, 1)


def same(ours: Any, theirs: Array) -> None:
    """Bit for bit."""
    theirs = np.ascontiguousarray(theirs, dtype=np.float32)
    assert ours.dtype == torch.float32
    assert tuple(ours.shape) == theirs.shape
    assert np.array_equal(ours.contiguous().numpy().view(np.int32), theirs.view(np.int32))


class Played:
    """Both stores side by side, through rollouts of random data."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape, self.random = shape, np.random.default_rng(seed)
        self.store, self.whole = shape.store(), Whole(shape)

    def values(self, *shape: int) -> Array:
        """Of all sizes that are stored, negative zero included, and some that a 16-bit store cuts or rounds away."""
        sizes = 10.0 ** self.random.integers(-6, 4, shape)
        found = (self.random.standard_normal(shape) * sizes).astype(np.float32)
        return np.where(self.random.random(shape) < 0.05, np.float32(-0.0), found).astype(np.float32)

    def maybe_extra(self) -> Array | None:
        return self.values(self.shape.agents, self.shape.extra) if self.random.random() < 0.8 else None

    def reset(self) -> None:
        shape = self.shape
        samples, extra = self.values(shape.agents, shape.first, shape.sample), self.maybe_extra()
        # Without samples of its own a reset may be told of as one, or not.
        given = tensor(samples) if shape.first or self.random.random() < 0.5 else None
        self.store.reset(given, extra=None if extra is None else tensor(extra))
        self.whole.reset(samples, extra)

    def step(self, ends: float) -> None:
        shape = self.shape
        fields = {name: self.values(shape.agents, *size) for name, size in FIELDS.items()}
        samples = self.values(shape.agents, shape.new, shape.sample)
        for value, (name, index) in shape.derived.items():
            samples[:, :, value] = fields[name].reshape(shape.agents, -1)[:, index, None]
        stored = [value for value in range(shape.sample) if value not in shape.derived]
        ended = self.random.random(shape.agents) < ends if ends else None
        extra = self.maybe_extra()
        self.store.append(
            tensor(samples if self.random.random() < 0.5 else samples[..., stored]),
            ended=None if ended is None else tensor(ended),
            extra=None if extra is None else tensor(extra),
            **{name: tensor(value) for name, value in fields.items()},
        )
        self.whole.append(samples, ended, extra, fields)

    def rollout(self, *, steps: int, ends: float, resets: float, again: bool) -> None:
        """One, from wherever the one before stopped."""
        if again and self.random.random() < 0.5:
            state = self.store.state_dict()
            self.store.samples.fill_(99)  # what is saved is a copy
            self.store = self.shape.store()
            self.store.load_state_dict(state)
            self.whole.begin()
        else:
            self.store.begin()
            self.whole.begin()
        self.look()
        if (self.shape.whole_episodes and self.shape.first) or self.random.random() < 0.5:
            self.reset()
            self.look()
        for _ in range(steps):
            self.step(ends)
            self.look()
            if self.random.random() < resets:
                self.reset()
                self.look()
        self.read()

    def look(self) -> None:
        """What the policy sees now."""
        if self.store.step == self.shape.steps and not self.shape.final:
            with pytest.raises(UsageError, match="final=True"):
                self.store.observe()
            return
        same(self.store.observe(), self.whole.observations[:, -1])
        part = self.slice(self.shape.agents)
        same(self.store.observe(part), self.whole.observations[part, -1])

    def slice(self, length: int) -> slice:
        """One of any start, end and stride, as Python reads them."""
        ends = [None, *range(-length - 1, length + 2)]
        low, high = self.random.choice(np.array(ends, object), 2)
        return slice(low, high, self.random.choice(np.array([None, None, 1, 2, 3, -1, -2], object)))

    def read(self) -> None:
        """All observations so far, in every way there is to ask for them."""
        shape, store = self.shape, self.store
        expected = self.whole.observations
        if not shape.final:
            expected = expected[:, : shape.steps]
        known = expected.shape[1]
        same(store.gather(slice(None), slice(0, known)), expected)
        agents, steps = self.random.integers(0, shape.agents, 11), self.random.integers(0, known, 11)
        same(store.gather(tensor(agents), tensor(steps)), expected[agents, steps])
        same(store.gather(tensor(agents).int(), int(steps[0])), expected[agents, steps[0]])
        same(store.gather(int(agents[0]), tensor(steps)), expected[agents[0], steps])
        same(store.gather(slice(None), int(steps[0])), expected[:, steps[0]])
        for _ in range(3):
            rows, (low, high) = self.slice(shape.agents), sorted(self.random.integers(0, known + 1, 2).tolist())
            stride = int(self.random.integers(1, 4))
            # Only steps that are written: those beyond are the caller's to know.
            for some in (slice(low, high, stride), slice(max(high - 1, 0), low - 1 if low else None, -stride)):
                same(store.gather(rows, some), expected[rows, some])
        self.read_stream(expected)
        for name, values in self.whole.fields.items():
            if values:
                same(store.field(name)[:, : len(values)], np.stack(values, 1))

    def read_stream(self, expected: Array) -> None:
        shape, known = self.shape, expected.shape[1]
        low = int(self.random.integers(0, known))
        high = int(self.random.integers(low + 1, known + 1))
        try:
            stream = self.store.stream(slice(None), slice(low, high))
        except UsageError as error:
            assert "use gather()" in str(error)
            assert shape.on_reset != "carry"
            return
        assert stream.shape == (shape.agents, shape.history + (high - low - 1) * shape.new, shape.sample)
        for step in range(low, high):
            at = (step - low) * shape.new
            window = stream[:, at : at + shape.history].flatten(1)
            same(window, expected[:, step, : shape.history * shape.sample])


def tensor(array: Array) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))


@st.composite
def shapes(draw: Callable[..., Any]) -> Shape:
    history, new = draw(st.integers(1, 25)), draw(st.sampled_from([1, 2, 3, 3, 4, 5, 6]))
    derived: dict[int, tuple[str, int]] = {}
    if draw(st.booleans()):  # a reset's samples follow from no field, so there are none
        sample, first, on_reset = draw(st.integers(2, 4)), 0, draw(st.sampled_from(["zeros", "carry"]))
        derived = {c: DERIVED[c] for c in draw(st.sets(st.integers(1, sample - 1), min_size=1))}
    else:
        sample, on_reset = draw(st.integers(1, 4)), draw(st.sampled_from(["zeros", "edge", "carry"]))
        first = draw(st.integers(1 if on_reset == "edge" else 0, min(new, history)))
    whole = draw(st.booleans())
    return Shape(
        agents=draw(st.integers(1, 7)),
        steps=draw(st.integers(1, 9)),
        history=history,
        sample=sample,
        new=new,
        extra=draw(st.integers(0, 3)),
        extra_once=draw(st.booleans()),
        derived=derived,
        dtype=draw(st.sampled_from(["float32", "float16", "int16"])),
        scale=draw(st.sampled_from([1 / 256, 0.013])),
        on_reset=on_reset,
        first=first,
        whole_episodes=whole,
        final=draw(st.booleans()) if whole and on_reset != "carry" else True,
    )


@examples(150)
@given(shapes(), st.integers(0, 2**32 - 1), st.data())
def test_windows_are_those_of_a_store_of_whole_windows(shape: Shape, seed: int, data: Any) -> None:
    played = Played(shape, seed)
    ends = data.draw(st.sampled_from([0.0, 0.0, 0.1, 0.4, 1.0]))
    resets = data.draw(st.sampled_from([0.0, 0.0, 0.0, 0.2]))
    for number in range(data.draw(st.integers(1, 4))):
        steps = data.draw(st.one_of(st.just(shape.steps), st.integers(0, shape.steps)))
        # From the third rollout on nothing ends: what was told before must not be forgotten.
        played.rollout(steps=steps, ends=ends if number < 2 else 0.0, resets=resets, again=bool(number))


@examples(60)
@given(shapes(), st.integers(0, 2**32 - 1))
def test_bytes_are_those_of_the_tensors(shape: Shape, seed: int) -> None:
    played = Played(shape, seed)
    store, whole = played.store, played.whole
    played.reset()
    while store.step < shape.steps:
        played.step(0.3)
    tensors = {id(v): v for v in [*vars(store).values(), *store.fields.values()] if isinstance(v, torch.Tensor)}
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors.values() if t.numel()}
    assert store.nbytes == sum(storages.values())
    assert store.bytes_per_agent == store.nbytes / shape.agents
    seen = (
        whole.observations[:, : shape.steps].nbytes
        if not shape.extra_once
        else 4 * shape.agents * shape.steps * store.width
    )
    # Of derived values also the carried steps are kept; a store of whole windows needs none.
    assert store.materialised_nbytes == seen + sum(np.stack(v, 1).nbytes for v in whole.fields.values())


# ------------------------------------------------------------ named cases
@pytest.mark.parametrize("on_reset", ["zeros", "edge", "carry"])
@pytest.mark.parametrize("whole_episodes", [False, True])
def test_a_window_longer_than_all_there_ever_was_is_exact(on_reset: str, whole_episodes: bool) -> None:
    shape = Shape(steps=3, new=2, history=41, on_reset=on_reset, first=1, whole_episodes=whole_episodes)
    played = Played(shape, 1)
    for _ in range(3):
        played.rollout(steps=3, ends=0, resets=0, again=False)


def simple(**options: Any) -> WindowRollout:
    return WindowRollout(2, 3, **{"history": 4, "sample": 1, **options})


def ramp(low: float, agents: int = 2) -> Any:
    return torch.full((agents, 1, 1), low)


def test_the_padding_rules_by_example() -> None:
    seen = {}
    for rule in ("zeros", "edge", "carry"):
        store = simple(on_reset=rule, first=1)
        store.reset(ramp(1))
        store.append(ramp(2))
        store.append(ramp(3), ended=torch.tensor([True, False]))
        seen[rule] = store.observe().tolist()
    assert seen == {
        "zeros": [[0, 0, 0, 3], [0, 1, 2, 3]],
        "edge": [[3, 3, 3, 3], [1, 1, 2, 3]],
        "carry": [[0, 1, 2, 3], [0, 1, 2, 3]],
    }


def test_a_rollout_may_begin_before_the_last_is_full() -> None:
    store = simple()
    for value in (1, 2):
        store.append(ramp(value))
    store.begin()
    store.append(ramp(3))
    assert store.observe().tolist() == [[0, 1, 2, 3]] * 2


def test_extra_values_stay_until_others_come() -> None:
    store = simple(extra=1)
    for _ in range(2):
        store.reset(extra=torch.tensor([[5.0], [6.0]]))
        store.append(ramp(1))
        store.append(ramp(1), extra=torch.tensor([[7.0], [8.0]]))
        store.append(ramp(1))
        assert store.gather(0, slice(None))[:, -1].tolist() == [5, 5, 7, 7]
        store.begin()
        assert store.observe()[:, -1].tolist() == [7, 8]


def test_after_an_end_of_some_agents_windows_are_asked_for_one_by_one() -> None:
    store = simple()
    store.append(ramp(1), ended=torch.tensor([False, True]))
    with pytest.raises(UsageError, match=r"stream: an agent's episode ended within the rollout; use gather\(\)"):
        store.stream(slice(None))
    store.begin()
    with pytest.raises(UsageError, match="use gather"):
        store.stream(slice(None))
    store.reset()
    assert store.stream(slice(None), slice(0, 1)).flatten().tolist() == [0] * 8
    assert store.nbytes == simple().nbytes


def test_where_rollouts_are_whole_episodes_an_end_is_over_with_the_rollout() -> None:
    store = simple(whole_episodes=True)
    store.append(ramp(1), ended=torch.tensor([False, True]))
    store.begin()
    assert store.nbytes == simple(whole_episodes=True).nbytes
    assert store.stream(slice(None), slice(0, 1)).flatten().tolist() == [0] * 8


def test_a_reset_after_the_last_step_needs_no_place_where_final_samples_have_none() -> None:
    store = simple(whole_episodes=True, final=False, new=2, first=2)
    for value in (1, 2, 3):
        store.append(ramp(value).repeat(1, 2, 1))
    last = store.gather(slice(None), 2)
    store.reset(ramp(9).repeat(1, 2, 1))
    assert torch.equal(store.gather(slice(None), 2), last)
    store.begin()
    store.reset(ramp(4).repeat(1, 2, 1))
    assert store.observe().tolist() == [[0, 0, 4, 4]] * 2


def test_carried_windows_need_no_ages() -> None:
    store = simple(on_reset="carry")
    for value in (1, 2, 3):
        store.append(ramp(value), ended=torch.tensor([True, False]))
    assert store.nbytes == simple().nbytes
    assert store.stream(slice(0, 1)).flatten().tolist() == [0, 0, 0, 0, 1, 2, 3]


def test_an_episode_may_last_longer_than_32_bits_count() -> None:
    store = simple(history=2)
    store.append(ramp(1), ended=torch.tensor([True, False]))
    for again in (store.begin, lambda: store.load_state_dict(store.state_dict())):
        assert store._ages is not None
        store._ages[:, store.step] = 2**31 - 2  # as after so many samples
        again()
        for value in (1, 2, 3):
            store.append(ramp(value))
            store.observe()
        assert store.observe().tolist() == [[2, 3]] * 2


def test_a_state_goes_into_a_store_of_its_shape_only() -> None:
    for other in (WindowRollout(1, 3, history=4, sample=1), simple(history=5), simple(sample=2), simple(extra=1)):
        store, state = simple(), other.state_dict()
        with pytest.raises(UsageError, match=r"(samples|extra): expected \[2, .*, got"):
            store.load_state_dict(state)


# ------------------------------------------------------------ numbers that do not fit
def test_what_is_no_number_stays_none_in_every_dtype() -> None:
    for dtype in ("float32", "float16", "int16"):
        store = simple(dtype=dtype, sample=2, fields={"a": ()}, derived={1: ("a", 0)}, history=1)
        store.append(torch.tensor([[[float("nan")]], [[1.0]]]), a=torch.tensor([1.0, float("nan")]))
        expected = torch.tensor([[float("nan"), 1.0], [1.0, float("nan")]])
        for seen in (
            store.observe(),
            store.gather(torch.arange(2), 1),
            store.stream(slice(None), slice(1, 2)).flatten(1),
        ):
            assert torch.equal(seen.isnan(), expected.isnan())
            assert torch.equal(seen.nan_to_num(), expected.nan_to_num())


def test_beyond_its_range_int16_keeps_its_end_and_float16_what_is_infinite() -> None:
    values = torch.tensor([65504.0, 70000.0, -70000.0, float("inf"), -127.99609375, 128.5])
    kept = {}
    for dtype in ("float32", "float16", "int16"):
        store = WindowRollout(6, 1, history=1, sample=1, dtype=dtype)
        store.append(values[:, None, None])
        kept[dtype] = store.observe().flatten()
    inf, most = float("inf"), 32767 / 256
    assert torch.equal(kept["float32"], values)
    assert kept["float16"].tolist() == [65504, inf, -inf, inf, -128.0, 128.5]
    assert kept["int16"][:3].tolist() == [most, most, -most]
    assert kept["int16"][4:].tolist() == [-most, most]
    assert kept["int16"][3].isnan()  # no number, so not turned into one


def test_an_int16_sample_is_within_half_a_unit() -> None:
    store = WindowRollout(1000, 1, history=1, sample=1, dtype="int16", scale=0.01)
    values = torch.linspace(-300, 300, 1000)
    store.append(values[:, None, None])
    assert float((store.observe().flatten() - values).abs().max()) <= 0.00502  # half a unit, and float32's own


# ------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 0}, "agents: expected at least 1, got 0"),
        ({"steps": 0}, "steps: expected at least 1, got 0"),
        ({"history": 0}, "history: expected at least 1, got 0"),
        ({"sample": 0}, "sample: expected at least 1, got 0"),
        ({"new": 0}, "new: expected at least 1, got 0"),
        ({"extra": -1}, "extra: expected at least 0, got -1"),
        ({"first": -1}, "first: expected at least 0, got -1"),
        ({"agents": 2.5}, "agents: expected a whole number, got 2.5"),
        ({"first": 2}, r"first: at most new \(1\) and history \(4\) samples, got 2"),
        ({"dtype": "bfloat16"}, r"'bfloat16' is not one of .*eight bits of mantissa keep 9.81 to 0.06"),
        ({"dtype": "int8"}, "dtype: 'int8' is not one of float32, float16, int16$"),
        ({"dtype": "int16", "scale": 0.0}, "scale: expected more than 0, got 0.0"),
        ({"dtype": "int16", "scale": float("nan")}, "scale: expected more than 0, got nan"),
        ({"on_reset": "wrap"}, "on_reset: 'wrap' is not one of zeros, edge, carry"),
        ({"on_reset": "edge"}, "'edge' repeats the first sample of an episode; pass first=1"),
        ({"derived": {0: ("thrust", 0)}}, "derived: no value 0 of a field 'thrust'; fields are a"),
        ({"derived": {0: ("a", 1)}}, "derived: no value 1 of a field 'a'"),
        ({"derived": {7: ("a", 0)}}, "derived: a sample has values 0 to 0, not 7"),
        ({"derived": {0: ("a", 0)}, "first": 1}, "first: the samples of a reset follow from no field"),
        (
            {"final": False},
            "final: without the last step's samples the next rollout has no history; .*whole_episodes=True",
        ),
        ({"final": False, "whole_episodes": True, "on_reset": "carry"}, "final: without the last step's samples"),
        ({"fields": {"extra": ()}}, "fields: 'extra' is an argument of append"),
        ({"fields": {"ended": ()}}, "fields: 'ended' is an argument of append"),
    ],
)
def test_a_store_that_cannot_work_is_refused_with_the_reason(options: dict[str, Any], message: str) -> None:
    options = {"agents": 2, "steps": 3, "history": 4, "sample": 1, "fields": {"a": ()}, **options}
    with pytest.raises(UsageError, match=message):
        WindowRollout(options.pop("agents"), options.pop("steps"), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": torch.zeros(2, 1)}, r"samples: expected \[2, 1, 2\], got \[2, 1\]"),
        ({"samples": torch.zeros(1, 1, 2)}, r"samples: expected \[2, 1, 2\], got \[1, 1, 2\]"),
        ({"samples": torch.zeros(2, 3, 2)}, r"samples: expected \[2, 1, 2\], got \[2, 3, 2\]"),
        ({"samples": torch.zeros(2, 1, 3)}, "samples: expected 2 values a sample, got 3"),
        ({"b": torch.zeros(2)}, "fields: no field 'b'; fields are a, v"),
        ({"a": torch.zeros(1)}, r"a: expected \[2\], got \[1\]"),
        ({"v": torch.zeros(2)}, r"v: expected \[2, 2\], got \[2\]"),
        ({"extra": torch.zeros(2)}, r"extra: expected \[2, 2\], got \[2\]"),
        ({"ended": torch.zeros(2)}, "ended: expected a bool of every agent, got torch.float32"),
        ({"ended": torch.zeros(2, 1, dtype=torch.bool)}, "ended: expected a bool of every agent"),
    ],
)
def test_a_step_of_another_shape_is_refused_and_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    store = WindowRollout(2, 3, history=4, sample=2, extra=2, fields={"a": (), "v": (2,)})
    arguments = {"samples": torch.ones(2, 1, 2), "a": torch.ones(2), "v": torch.ones(2, 2), **arguments}
    with pytest.raises(UsageError, match=message):
        store.append(arguments.pop("samples"), **arguments)
    assert store.step == 0
    assert not any(bool(t.any()) for t in (store.samples, store.extras, *store.fields.values()))


def test_a_step_needs_the_field_its_samples_follow_from() -> None:
    store = simple(sample=2, fields={"a": (), "b": ()}, derived={1: ("a", 0)})
    with pytest.raises(UsageError, match="append: values of a sample follow from 'a'; pass it"):
        store.append(torch.zeros(2, 1, 1), b=torch.zeros(2))


def test_a_full_rollout_takes_no_more() -> None:
    store = simple()
    for _ in range(3):
        store.append(ramp(1))
    with pytest.raises(UsageError, match=r"append: the rollout has 3 steps and is full; call begin\(\)"):
        store.append(ramp(1))


def test_a_reset_brings_the_samples_it_was_said_to() -> None:
    store = simple(first=1)
    with pytest.raises(UsageError, match=r"reset: an episode begins with 1 samples; pass them as \[2, 1, 1\]"):
        store.reset()
    with pytest.raises(UsageError, match=r"samples: expected \[2, 1, 1\], got \[2, 2, 1\]"):
        store.reset(torch.zeros(2, 2, 1))
    with pytest.raises(UsageError, match=r"samples: expected \[2, 0, 1\], got \[2, 1, 1\]"):
        simple().reset(ramp(1))


@pytest.mark.parametrize(
    ("agents", "steps", "message"),
    [
        (2, 0, "gather: 2 to 2 is outside 0 to 1"),
        (-1, 0, "gather: -1 to -1 is outside 0 to 1"),
        (0, 4, "gather: 4 to 4 is outside 0 to 3"),
        (0, torch.tensor([0, -1]), "gather: -1 to 0 is outside 0 to 3"),
        (torch.tensor([0.0]), 0, "gather: expected whole numbers, got torch.float32"),
        (0, 1.0, "gather: expected whole numbers, got torch.float32"),
        (torch.tensor([True, False]), 0, "gather: expected whole numbers, got torch.bool"),
        (torch.tensor([0, 1]), torch.tensor([0, 1, 2]), "gather: 2 agents and 3 steps are no pairs"),
        (slice(None), torch.tensor([0, 1, 2]), "gather: 2 agents and 3 steps are no pairs"),
    ],
)
def test_indices_that_are_none_are_refused(agents: Any, steps: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simple().gather(agents, steps)


def test_of_nothing_there_are_no_windows() -> None:
    store, none = simple(extra=1), torch.empty(0, dtype=torch.long)
    assert store.gather(none, none).shape == (0, 5)
    assert store.gather([], []).shape == (0, 5)
    assert store.gather(slice(1, 1), slice(0, 2)).shape == (0, 2, 5)
    assert store.gather(slice(None), slice(2, 1)).shape == (2, 0, 5)
    with pytest.raises(UsageError, match="stream: no step in slice"):
        store.stream(slice(None), slice(2, 2))
    with pytest.raises(UsageError, match="stream: expected consecutive steps"):
        store.stream(slice(None), slice(0, 3, 2))


def test_without_the_final_samples_the_last_observation_is_not_there() -> None:
    store = simple(whole_episodes=True, final=False)
    for value in (1, 2, 3):
        store.append(ramp(value))
    message = "gather: the last observation kept is that of step 2; pass final=True"
    for agents, steps in (
        (0, 3),
        (slice(None), slice(3, 4)),
        (slice(None), slice(0, 4)),
        (slice(None, None, -1), slice(0, 4)),
    ):
        with pytest.raises(UsageError, match=message):
            store.gather(agents, steps)
    with pytest.raises(UsageError, match=message):
        store.observe()
    assert store.gather(slice(None), slice(None)).shape == (2, 3, 4)
    assert store.gather(0, slice(None, None, -1)).tolist() == [[0, 0, 1, 2], [0, 0, 0, 1], [0, 0, 0, 0]]


# ------------------------------------------------------------ memory
class Largest(TorchDispatchMode):  # type: ignore[misc]
    """The most elements of a tensor that an operation makes: no view, nothing in place."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.name = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {
            t.untyped_storage().data_ptr()
            for t in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor)
        }
        for made in torch.utils._pytree.tree_leaves(out):
            if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in given:
                size = made.untyped_storage().nbytes() // made.element_size()
                if size > self.elements:
                    self.elements, self.name = size, str(func)
        return out


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("derived", [False, True])
def test_a_small_batch_makes_nothing_of_the_size_of_the_rollout(ended: bool, derived: bool) -> None:
    agents, steps = 4000, 30
    store = WindowRollout(
        agents,
        steps,
        history=6,
        sample=3,
        new=2,
        extra=2,
        fields={"actions": (4,), "rewards": ()},
        derived={1: ("actions", 2), 2: ("rewards", 0)} if derived else None,
        dtype="float16",
    )
    samples, fields = torch.ones(agents, 2, 3), {"actions": torch.ones(agents, 4), "rewards": torch.ones(agents)}
    for step in range(steps):
        store.append(samples, ended=torch.arange(agents) % 7 == step % 7 if ended else None, **fields)
    with Largest() as found:
        store.gather(torch.tensor([5, 3999, 17]), torch.tensor([30, 1, 17]))
        store.gather(slice(10, 14), slice(3, 8))
        store.gather(slice(10, 100, 31), slice(3, 8, 2))
        store.observe(slice(20, 30))
        if not ended:
            store.stream(slice(20, 30))
    assert 0 < found.elements < agents, found.name
    with Largest() as found:
        store.observe()
        store.append(samples, **fields) if store.step < steps else store.begin()
    assert found.elements < agents * steps, found.name
