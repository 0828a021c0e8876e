"""rlmem's compact buffers in an SB3 run: their arrays, and the change to a program that brings them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from rlmem.core.quantity import Quantity
from rlmem.core.spaces import DTYPES, Box, DictSpace, Leaf, Space, TupleSpace, Window
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.base import Swap
from rlmem.frameworks.sb3.defaults import is_on_policy, version
from rlmem.model.compact import MOST_FRAMES, Compact, Key
from rlmem.model.storage import Array

#: Values of ``storage`` that mean a compact store.
COMPACT = ("compact", "frames-once", "stream")
#: What the key of an observation that is not a Dict is called in a description.
ONLY = "observation"
#: What its process imports beside the framework.
PACKAGES = ("numba", "rlmem.sb3")
#: On-policy algorithms take a ``rollout_buffer_class`` from this version on.
ROLLOUT_CLASS_SINCE = (2, 3, 0)
#: Episode ends in a thousand transitions where no length is known: expected, and at most.
ENDS, MOST_ENDS = 5, 20


def is_compact(spec: RunSpec) -> bool:
    """Whether the run's buffers are rlmem's own."""
    return spec.get("storage", "plain") in COMPACT


def named(leaf: Leaf) -> str:
    """A key as a description calls it."""
    return leaf.name or ONLY


def depths(spec: RunSpec) -> dict[str, int]:
    """Frames of every key that is a stack or a window, by name."""
    found = dict(_depths(spec.need("observation"), spec, ""))
    found |= spec.get("stacked", {})
    return {name: depth for name, depth in found.items() if depth > 1}


def _depths(space: Space, spec: RunSpec, name: str) -> Iterator[tuple[str, int]]:
    match space:
        case Box():
            yield name or ONLY, int(spec.get("frame_stack", 1))
        case Window():
            steps, rest = divmod(int(spec.get("history", 1)), space.step)
            # Further values in the same array break the pattern; "stream" says that they get a key of their own.
            if not rest and steps <= MOST_FRAMES and (not space.extra or spec.get("storage") == "stream"):
                yield name or ONLY, steps
        case DictSpace():
            for key, sub in space.spaces:
                yield from _depths(sub, spec, f"{name}.{key}" if name else key)
        case TupleSpace():
            for index, sub in enumerate(space.spaces):
                yield from _depths(sub, spec, f"{name}.{index}" if name else str(index))
        case _:
            return


def observation_keys(spec: RunSpec) -> tuple[Key, ...]:
    """The keys of an observation as a compact store keeps them."""
    depth_of, window = depths(spec), spec.window
    if spec.get("storage") == "stream":
        _check_stream(spec, window)
    keys: list[Key] = []
    for leaf in spec.observation_leaves:
        parts = [leaf]
        if window is not None and window.extra and spec.get("storage") == "stream":
            size = window.length * window.sample
            parts = [replace(leaf, shape=(size,), width=size), _extra(window)]
        keys += [_key(spec, part, depth_of.get(named(part), 1)) for part in parts]
    return tuple(keys)


def _check_stream(spec: RunSpec, window: Window | None) -> None:
    if window is None:
        raise SpecError("storage", "a stream needs an observation of type window; use compact for stacked frames")
    if window.length % window.step or window.length // window.step > MOST_FRAMES:
        raise SpecError(
            "storage",
            f"a window is kept once as a stack of whole steps: history {window.length} is not {window.step} times up to "
            f"{MOST_FRAMES} of them",
        )


def _extra(window: Window) -> Leaf:
    return Leaf(name="extra", shape=(window.extra,), dtype=window.dtype, width=window.extra)


def _key(spec: RunSpec, leaf: Leaf, depth: int) -> Key:
    composite = isinstance(spec.observation, (DictSpace, TupleSpace)) or leaf.name
    name = f"observations[{leaf.name}]" if composite else "observations"
    codec, known = spec.get("codec", "none"), spec.get("coded_bytes", {}).get(named(leaf))
    coded = None
    size = prod(leaf.shape) * DTYPES[leaf.dtype]
    if codec != "none" and known and known[0] < size // depth:  # else no codec is worth it
        coded = Quantity.of(known[1], f"{name} coded bytes", spec.origin("coded_bytes"), low=known[0], high=known[2])
    if prod(leaf.shape) % depth:
        raise SpecError("stacked", f"{named(leaf)} of shape {list(leaf.shape)} is not a stack of {depth} frames")
    return Key(
        name=name,
        obs_bytes=size,
        why=spec.origin("observation"),
        depth=depth,
        constant=named(leaf) in spec.get("constant_keys", ()),
        coded=coded,
        unknown=codec != "none" and known is None,
    )


def replay_store(spec: RunSpec, comes_to: Quantity | None = None) -> Compact:
    """CompactReplayBuffer's observations: full, or with the transitions that the run comes to."""
    n_envs = spec.q("n_envs")
    rows = (spec.q("buffer_size") // n_envs).at_least(1).named("rows")
    return Compact(
        rows=rows,
        n_envs=n_envs,
        ends=_ends(spec, comes_to or rows * n_envs),
        keys=observation_keys(spec),
        budget=_budget(spec),
        reached=comes_to,
    )


def replay_observations(spec: RunSpec, comes_to: Quantity | None) -> list[Array]:
    """The same as arrays, which know what the run comes to."""
    full = replay_store(spec).arrays()
    if comes_to is None:
        return full
    part = {array.name: array.whole for array in replay_store(spec, comes_to).arrays()}
    if part.keys() != {array.name for array in full}:  # only the full one is larger than what may stay in RAM
        return replay_store(spec, comes_to).arrays()
    return [replace(array, reached_whole=part[array.name]) for array in full]


def rollout_store(spec: RunSpec) -> Compact:
    """CompactRolloutBuffer's observations: no next ones, so that an episode's end adds nothing."""
    return Compact(rows=spec.q("n_steps"), n_envs=spec.q("n_envs"), ends=None, keys=observation_keys(spec))


def _ends(spec: RunSpec, slots: Quantity) -> Quantity:
    if "episode_length" in spec:
        return (slots // spec.q("episode_length")).named("episode ends").between(0.5, 2, "episodes differ in length")
    low, high = 0, slots.value * MOST_ENDS // 1000
    why = f"{ENDS / 10:g} % of the transitions, at most {MOST_ENDS / 10:g} %: no episode_length is given"
    return Quantity.of(slots.value * ENDS // 1000, "episode ends", why, low=low, high=high)


def _budget(spec: RunSpec) -> Quantity | None:
    return spec.q("spill_budget") if "spill_budget" in spec else None


def replay_rest(spec: RunSpec, slots: Quantity, action: Leaf) -> list[Array]:
    """What a compact replay buffer keeps beside observations; flags take a byte, not a float."""
    dtype = "float32" if action.dtype == "float64" else action.dtype
    why = "CompactReplayBuffer"
    arrays = [
        Array(name="actions", rows=slots, row_values=prod(action.shape), dtype=dtype, why=spec.origin("action")),
        Array(name="rewards", rows=slots, row_values=1, dtype="float32", why=why),
        Array(name="dones", rows=slots, row_values=1, dtype="uint8", why=why),
        Array(
            name="timeouts",
            rows=slots,
            row_values=1,
            dtype="uint8",
            why=why,
            written=spec.flag("handle_timeout_termination"),
        ),
    ]
    if spec.get("replay.kind") == "her":
        arrays += [
            Array(name=name, rows=slots, row_values=1, dtype="int32", why="CompactHerReplayBuffer")
            for name in ("ep_start", "ep_length")
        ]
    if spec.get("replay.kind") == "prioritised":
        nodes = Quantity.of(
            2 << max(slots.value - 1, 0).bit_length(), "tree nodes", "2 × next power of two of the transitions"
        )
        arrays.append(Array(name="sum-tree", rows=nodes, row_values=1, dtype="float64", why="prioritized=True"))
    return arrays


def notes(spec: RunSpec) -> tuple[str, ...]:
    """What a plan of a compact store cannot know."""
    if not is_compact(spec):
        return ()
    unknown = [named(leaf) for leaf in spec.observation_leaves if named(leaf) not in spec.get("coded_bytes", {})]
    codec = spec.get("codec", "none")
    if codec == "none" or not unknown:
        return ()
    return (
        f"codec {codec}: what it saves is not known without data, and planned as nothing ({', '.join(unknown)}); a plan of "
        "your script takes a sample, coded_bytes states it",
    )


def swap(spec: RunSpec) -> Swap | None:
    """The buffer that takes the place of SB3's own, and how a program asks for it; ``None`` where there is none."""
    algorithm = spec.text("algorithm")
    if is_compact(spec) or algorithm == "maskable_ppo":
        return None
    if algorithm == "recurrent_ppo":
        store = "CompactRecurrentRolloutBuffer"
        return Swap(store=store, change=f"model.rollout_buffer = {store}.like(model.rollout_buffer)", options=None)
    if is_on_policy(spec):
        if version(spec) < ROLLOUT_CLASS_SINCE:
            return None
        store = "CompactRolloutBuffer"
        return Swap(store=store, change=f"rollout_buffer_class={store}", options="rollout_buffer_kwargs")
    store = "CompactHerReplayBuffer" if spec.get("replay.kind") == "her" else "CompactReplayBuffer"
    change = f"replay_buffer_class={store}"
    if spec.get("replay.kind") == "n-step":
        change += ' with replay_buffer_kwargs={"n_steps": …, "gamma": …}'
    return Swap(store=store, change=change, options="replay_buffer_kwargs")
