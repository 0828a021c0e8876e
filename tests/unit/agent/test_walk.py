"""The walk names what a program holds, once, and calls nothing of the program's own."""

from __future__ import annotations

import collections
import functools
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from rlmem.agent import children, fills, roots
from rlmem.agent.walk import Walk

MIB = 1 << 20


def rows(**named: Any) -> dict[str, dict[str, Any]]:
    walk = Walk(seconds=30).run(list(named.items()))
    assert walk.complete
    return {row["path"]: row for row in walk.rows()}


class Holder:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def test_an_array_is_named_by_its_shortest_path() -> None:
    array = np.zeros(MIB, np.uint8)
    found = rows(model=Holder(replay_buffer=Holder(observations={"image": array})))
    row = found["model.replay_buffer.observations['image']"]
    assert (row["nbytes"], row["kind"], row["extents"]) == (MIB, "array", [array.ctypes.data, MIB])


def test_a_view_counts_as_the_array_it_views_and_only_once() -> None:
    base = np.zeros((4, MIB), np.uint8)
    found = rows(half=base[1:3].T, whole=base)
    assert sum(row["nbytes"] for row in found.values()) == 4 * MIB
    assert found["half"]["extents"] == [base.ctypes.data, 4 * MIB]


def test_an_object_is_counted_for_the_first_who_has_it() -> None:
    array = np.ones(MIB, np.uint8)
    found = rows(a=[array], b=[array], c=Holder(array=array))
    assert sum(row["nbytes"] for row in found.values()) == MIB


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ({"part": functools.partial(print, np.ones(MIB))}, "part.args[0]"),
        ({"method": Holder(array=np.ones(MIB)).__init__}, "method.array"),
        ({"pair": (np.ones(MIB),)}, "pair[0]"),
        ({"table": {7: np.ones(MIB)}}, "table[7]"),
        ({"boxed": np.array([np.ones(MIB), None], dtype=object)}, "boxed"),
        ({"text": "x" * MIB}, "text"),
        ({"raw": b"x" * MIB}, "raw"),
    ],
)
def test_memory_behind_odd_things_is_found(named: dict[str, Any], path: str) -> None:
    assert path in rows(**named)


def test_a_closure_names_the_variable_it_keeps() -> None:
    frames = [np.ones(MIB)]

    def callback() -> int:
        return len(frames)

    assert "callback.frames[0]" in rows(callback=callback)


def test_slots_and_private_slots_are_looked_into() -> None:
    class Frame:
        __slots__ = ("__hidden", "data", "never")

        def __init__(self) -> None:
            self.data, self.__hidden = np.ones(MIB), np.ones(2 * MIB)

    assert set(rows(frame=Frame())) >= {"frame.data", "frame._Frame__hidden"}


def test_named_tuples_are_named_by_their_fields() -> None:
    step = collections.namedtuple("step", "observation reward")(np.ones(MIB), 1.0)
    assert "step.observation" in rows(step=step)


def test_nothing_of_the_program_is_called() -> None:
    class Trap:
        array: Any

        def __init__(self) -> None:
            object.__getattribute__(self, "__dict__")["array"] = np.ones(MIB)

        def _sprung(self, *args: Any) -> Any:
            raise AssertionError("called")

        __len__ = __iter__ = __bool__ = __eq__ = __hash__ = __getattr__ = __getattribute__ = __repr__ = __sizeof__ = (
            _sprung  # type: ignore[assignment]
        )
        __class__ = property(_sprung)  # type: ignore[assignment]

    class TrapList(list):  # type: ignore[type-arg]
        __len__ = __iter__ = __getitem__ = Trap._sprung  # type: ignore[assignment]

    found = rows(trap=Trap(), listed=TrapList([np.ones(MIB)]))
    assert set(found) >= {"trap.array", "listed[0]"}


def test_a_long_list_is_sampled_and_says_so() -> None:
    found = rows(infos=[{"reward": float(n), "key": n + 1000} for n in range(50_000)])
    row = found["infos"]
    assert row["estimated"]
    assert row["filled"] == 50_000
    assert row["capacity"] is None
    true = 50_000 * (8 + 232 + 24 + 32)  # a slot, a dict of two, a float, an int
    assert row["small"] + row["medium"] == pytest.approx(true, rel=0.25)


def test_what_sampled_elements_share_is_not_multiplied() -> None:
    shared = Holder(array=np.ones(MIB))
    found = rows(infos=[(n + 300, shared) for n in range(20_000)])
    assert sum(row["nbytes"] for row in found.values()) == 8 * MIB


def test_arrays_in_a_long_list_are_estimated_from_a_sample() -> None:
    found = rows(frames=[np.ones(100, np.uint8) for _ in range(10_000)])
    assert found["frames"]["nbytes"] == pytest.approx(10_000 * 100, rel=0.01)


def test_a_bounded_queue_has_a_capacity_and_a_list_has_none() -> None:
    queue = collections.deque((np.ones(1000) for _ in range(40)), maxlen=100)
    found = rows(memory=queue, log=[np.ones(1000) for _ in range(40)])
    assert (found["memory"]["filled"], found["memory"]["capacity"]) == (40, 100)
    assert (found["log"]["filled"], found["log"]["capacity"]) == (40, None)


@pytest.mark.parametrize(
    ("fields", "fill"),
    [
        ({"capacity": 500, "size": 20}, (20, 500)),
        ({"capacity": 500, "ptr": 3, "full": True}, (500, 500)),
        ({"max_size": 500, "cur_size": 7, "if_full": False}, (7, 500)),
        ({"mem_size": 500, "mem_cntr": 1200}, (500, 500)),
        ({"capacity": 499, "size": 20}, None),
        ({"capacity": True, "size": 20}, None),
        ({"capacity": 500}, None),
    ],
)
def test_a_hand_written_buffer_tells_its_fill(fields: dict[str, Any], fill: tuple[int, int] | None) -> None:
    found = rows(buffer=Holder(states=np.zeros((500, 100)), **fields))
    row = found["buffer.states"]
    assert (row["filled"], row["capacity"]) == (fill or (None, None))


def test_an_algorithm_tells_its_progress() -> None:
    walk = Walk(seconds=30).run([("model", Holder(num_timesteps=12, _total_timesteps=100, n_envs=4))])
    assert walk.progress == {"step": 12, "total": 100, "source": "Holder", "n_envs": 4}
    assert Walk(seconds=30).run([("global_step", 77)]).progress == {"step": 77, "total": None, "source": "global_step"}


def test_a_walk_ends_at_its_limit_and_says_so() -> None:
    chain: list[Any] = []
    for _ in range(5000):
        chain = [chain, Holder(x=1)]
    ticks = iter(range(10**6))
    walk = Walk(seconds=3, clock=lambda: float(next(ticks))).run([("chain", chain)])
    assert not walk.complete
    assert walk.objects < 5000


Segment = collections.namedtuple("Segment", "text style control")
ZEROS = np.zeros(4)


@pytest.mark.parametrize(
    ("element", "transitions"),
    [
        ((ZEROS, 1, 0.5, ZEROS, False), True),
        (((0.1, 0.2), 1, 0.5, (0.1, 0.3), False), True),
        ({"obs": ZEROS, "action": 1, "reward": 0.5}, True),
        (Holder(state=ZEROS, action=1, reward=0.5), True),
        (Segment("text", None, None), False),  # rich's console has a long _buffer of them
        ("a line of a log", False),
        (ZEROS, False),
        ((1.5, 2), False),
    ],
)
def test_elements_are_transitions_by_what_they_are_made_of(element: Any, transitions: bool) -> None:
    assert rows(buffer=[element] * 20_000)["buffer"]["transitions"] is transitions


class Ticking:
    """A clock that goes on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def test_a_walk_is_cut_into_slices_and_ends_with_its_time() -> None:
    clock, pauses = Ticking(), list[float]()
    walk = Walk(seconds=0.15, slice_s=0.03, clock=clock)
    chain: list[Any] = []
    for _ in range(5000):
        chain = [chain, Holder(x=1)]
    more = True
    while more:
        begin = clock.now
        more = walk.advance([("chain", chain)])
        pauses.append(clock.now - begin)
    assert not walk.complete
    assert len(pauses) >= 5
    assert max(pauses) < 0.034  # what is begun is brought to its end
    assert sum(pauses[:-1]) < 0.15


def test_what_the_program_lets_go_between_two_slices_is_not_kept_by_the_walk() -> None:
    arrays = {f"a{n}": np.zeros(10) for n in range(40)}
    watched = [weakref.ref(each) for each in arrays.values()]
    walk = Walk(seconds=30, slice_s=0.004, clock=Ticking())
    pairs = [*arrays.items(), *((f"list{n}", [n]) for n in range(40))]
    walk.advance(pairs)
    assert walk.queue  # there is more to do
    arrays.clear()
    pairs.clear()
    assert not any(each() is not None for each in watched)


def test_a_walk_in_slices_finds_what_one_at_once_finds() -> None:
    named = [("table", {f"k{n}": [np.zeros(20_000), (n, "text")] for n in range(30)})]
    whole = Walk(seconds=30, slice_s=30).run(list(named)).rows()
    parts = Walk(seconds=30, slice_s=0.002, clock=Ticking()).run(list(named)).rows()
    assert parts == whole


def test_cycles_end() -> None:
    a, b = Holder(array=np.ones(MIB)), Holder()
    vars(a)["b"], vars(b)["a"] = b, a
    assert [row["nbytes"] for row in rows(a=a).values() if row["nbytes"]] == [8 * MIB]


def test_containers_that_change_meanwhile_are_read_as_far_as_they_go() -> None:
    class Shrinking(list):  # type: ignore[type-arg]
        pass

    assert children.elements(Shrinking([1, 2]), 5)[:2] == [("[0]", 1), ("[1]", 2)]
    assert len(list(children.picks(10**6))) == children.SAMPLE_RUNS * children.SAMPLE_LENGTH
    assert max(children.picks(10**6)) == 10**6 - 1


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (True, None), (2.5, None), (None, None), ("7", None)])
def test_only_whole_numbers_are_rows(value: Any, expected: int | None) -> None:
    assert fills.whole(value) == expected


class Big:
    """Something whose end can be seen."""


def test_looking_at_a_functions_variables_does_not_keep_them_alive() -> None:
    big = Big()
    gone = weakref.ref(big)
    seen: list[str] = []

    def look() -> None:
        own, _ = roots.frames(threading.get_ident(), roots.library_places())
        seen.extend(name for name, _ in own)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert "big" in seen
    del big
    assert gone() is None


def test_what_a_program_kept_of_its_locals_stays_as_it_was() -> None:
    learning_rate, kept = 0.1, locals()
    thread = threading.Thread(target=lambda: roots.frames(threading.get_ident(), roots.library_places()))
    thread.start()
    thread.join()
    assert kept["learning_rate"] == learning_rate


def test_lists_within_lists_are_sampled_together() -> None:
    walk = Walk(seconds=30).run([("episodes", [[(n + 1000, float(n)) for n in range(128)] for _ in range(900)])])
    assert walk.objects < 20_000
    (row,) = [row for row in walk.rows() if row["path"] == "episodes"]
    true = 900 * 128 * (8 + 64 + 32 + 32)  # a slot, a tuple of two, an int, a float
    assert row["estimated"]
    assert row["small"] + row["medium"] == pytest.approx(true, rel=0.25)


def test_a_strided_view_is_no_larger_than_what_it_views() -> None:
    window = np.lib.stride_tricks.sliding_window_view(np.ones(MIB), 1000)
    assert rows(window=window)["window"]["nbytes"] == 8 * MIB


def test_one_text_in_many_places_is_one_text() -> None:
    text = "x" * 400
    found = rows(infos=[[text] * 1000 for _ in range(100)])
    assert sum(row["small"] + row["medium"] for row in found.values()) < 2 * MIB


def test_arrays_of_objects_are_estimated_from_a_sample() -> None:
    boxed = np.empty(5000, dtype=object)
    for index in range(5000):
        boxed[index] = np.ones(1000)
    row = rows(boxed=boxed)["boxed"]
    assert row["estimated"]
    assert row["nbytes"] == pytest.approx(5000 * 8000 + boxed.nbytes, rel=0.02)


def test_names_cannot_move_the_cursor() -> None:
    assert "table['?[31mred?']" in rows(table={"\x1b[31mred\n": np.ones(MIB)})


def test_arrays_of_a_programs_own_class_are_read_without_asking_it() -> None:
    class Own(np.ndarray):  # type: ignore[type-arg]
        asked = 0

        def __getitem__(self, index: Any) -> Any:
            Own.asked += 1
            return super().__getitem__(index)

        @property
        def dtype(self) -> Any:
            Own.asked += 1
            return super().dtype

    own = np.empty(100, dtype=object).view(Own)
    Own.asked = 0
    rows(own=own)
    assert Own.asked == 0


def linked(count: int, each: int) -> Holder:
    """Objects of which each refers to the next."""
    first: Any = None
    for _ in range(count):
        first = Holder(next=first, data=np.ones(each, np.uint8))
    return first


@pytest.mark.parametrize("count", [900, 1500, 50_000])
def test_a_chain_of_objects_is_one_owner_and_takes_no_name_from_others(count: int) -> None:
    found = rows(root=linked(count, 1000), other=np.ones(MIB), deep=nested(count))
    assert found["other"]["nbytes"] == 8 * MIB
    chain = found["root.next…"]
    assert (chain["kind"], chain["filled"], chain["capacity"]) == ("container", count - 1, None)
    assert chain["nbytes"] == (count - 1) * 1000
    assert max(len(path) for path in found) < 80


def nested(depth: int) -> list[Any]:
    """Lists within lists; as deep as they are, they cannot be freed by a recursion."""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner, 0.5]
    return inner


def test_a_long_path_is_shortened_in_the_middle() -> None:
    inner: Any = np.ones(MIB)
    for word in reversed("abcdefghijklmnopqrstuvwxyz"):
        inner = Holder(**{word: inner})
    assert "root.a.b.c.d.e…(17 more).w.x.y.z" in rows(root=inner)


def test_what_lies_deeper_than_any_path_is_counted() -> None:
    inner: Any = Holder()
    for _ in range(500):
        inner = Holder(odd=Holder(even=inner, data=np.ones(10_000, np.uint8)))
    found = rows(root=inner)
    assert sum(row["nbytes"] for row in found.values()) == 500 * 10_000
    assert max(row["nbytes"] for path, row in found.items() if path.startswith("root.odd.even.odd.even.odd…(")) > 4e6


@pytest.mark.parametrize(("bound", "filled"), [(None, 500), (100, 100), (2000, 500)])
def test_a_function_with_a_cache_is_named_with_its_results_and_its_bound(bound: int | None, filled: int) -> None:
    @functools.lru_cache(maxsize=bound)
    def features(step: int) -> Any:
        return np.ones(20_000, np.uint8)

    for step in range(500):
        features(step)
    row = rows(features=features)["features"]
    assert (row["kind"], row["type"]) == ("container", "functools.lru_cache")
    assert (row["filled"], row["capacity"]) == (filled, bound)
    assert row["nbytes"] == pytest.approx(filled * 20_000, rel=0.01)


def test_a_cache_of_a_method_is_found_on_its_class() -> None:
    class Environment:
        @functools.cache  # noqa: B019  # what is to be found
        def render(self, step: int) -> Any:
            return {"frame": np.ones(20_000, np.uint8)}

    environment = Environment()
    for step in range(5000):
        environment.render(step)
    kept = dict(roots._of_class("Environment", Environment))
    row = rows(**kept)["Environment.render"]
    assert (row["filled"], row["capacity"]) == (5000, None)
    assert row["nbytes"] == pytest.approx(5000 * 20_000, rel=0.02)
