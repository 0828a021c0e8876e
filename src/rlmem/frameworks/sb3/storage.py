"""The arrays of SB3's buffers, read from buffers.py, her_replay_buffer.py and sb3-contrib's recurrent ones."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from rlmem.core.quantity import Quantity
from rlmem.core.schedule import reached
from rlmem.core.spaces import DictSpace, Leaf, MultiBinary, TupleSpace, leaves
from rlmem.core.spec import RunSpec
from rlmem.frameworks.sb3 import compact
from rlmem.frameworks.sb3.defaults import ROLLOUT_DTYPE_SINCE, version
from rlmem.model.constants import Constants
from rlmem.model.storage import Array


def keyed(spec: RunSpec, name: str, leaf: Leaf) -> str:
    """``observations[image]`` for a Dict, ``observations`` for a Box."""
    composite = isinstance(spec.observation, (DictSpace, TupleSpace))
    return f"{name}[{leaf.name}]" if composite else name


def action_leaf(spec: RunSpec) -> Leaf:
    """Actions as one row: SB3 flattens every action space it supports."""
    parts = leaves(spec.need("action"), "action")
    return (
        parts[0]
        if len(parts) == 1
        else Leaf(
            name="action",
            shape=(sum(prod(p.shape) for p in parts),),
            dtype="float32",
            width=sum(p.width for p in parts),
        )
    )


def replay_arrays(spec: RunSpec, constants: Constants) -> list[Array]:
    """ReplayBuffer, DictReplayBuffer, NStepReplayBuffer (same arrays) and HerReplayBuffer; or rlmem's compact ones."""
    n_envs = spec.q("n_envs")
    rows = (spec.q("buffer_size") // n_envs).at_least(1)
    slots = rows.named("rows") * n_envs
    comes_to = reached(spec, slots)
    found = _replay_arrays(spec, constants, slots, rows, comes_to)
    return [replace(array, reached=comes_to) if array.rows is slots else array for array in found]


def _replay_arrays(
    spec: RunSpec, constants: Constants, slots: Quantity, rows: Quantity, comes_to: Quantity | None
) -> list[Array]:
    action = action_leaf(spec)
    if compact.is_compact(spec):
        return [*compact.replay_observations(spec, comes_to), *compact.replay_rest(spec, slots, action)]
    # float64 actions are cast to float32, everything else keeps the space's dtype (_maybe_cast_dtype).
    action_dtype = "float32" if action.dtype == "float64" else action.dtype
    why = spec.origin("observation")
    names = ("observations",) if spec.flag("optimize_memory_usage") else ("observations", "next_observations")
    arrays = [
        Array(name=keyed(spec, name, leaf), rows=slots, row_values=prod(leaf.shape), dtype=leaf.dtype, why=why)
        for name in names
        for leaf in spec.observation_leaves
    ]
    arrays.append(
        Array(name="actions", rows=slots, row_values=prod(action.shape), dtype=action_dtype, why=spec.origin("action"))
    )
    arrays += [
        Array(name=name, rows=slots, row_values=1, dtype="float32", why="buffers.py") for name in ("rewards", "dones")
    ]
    # The timeouts array always exists; when they are not handled it is never written.
    arrays.append(
        Array(
            name="timeouts",
            rows=slots,
            row_values=1,
            dtype="float32",
            why="buffers.py",
            written=spec.flag("handle_timeout_termination"),
        )
    )
    if spec.get("replay.kind") == "her":
        arrays += [
            Array(name=name, rows=slots, row_values=1, dtype="int64", why="her_replay_buffer.py")
            for name in ("ep_start", "ep_length")
        ]
        arrays.append(Array(name="infos", rows=slots, measured=constants.quantity("her.info-slot"), eager=True))
    if spec.get("replay.kind") == "prioritised":
        # A sum tree and a min tree over the next power of two, two float64 nodes a leaf: what the usual add-on does.
        leaves_ = 1 << (max(rows.value - 1, 1)).bit_length()
        nodes = Quantity.of(2 * leaves_, "tree nodes", "2 × next power of two of the rows")
        arrays += [
            Array(name=f"{tree}-tree", rows=nodes, row_values=1, dtype="float64", why="segment tree")
            for tree in ("sum", "min")
        ]
    return arrays


def rollout_arrays(spec: RunSpec) -> list[Array]:
    """RolloutBuffer, DictRolloutBuffer and the recurrent ones; dtypes depend on the version."""
    typed = version(spec) >= ROLLOUT_DTYPE_SINCE
    slots = spec.q("n_steps") * spec.q("n_envs")
    since = ".".join(map(str, ROLLOUT_DTYPE_SINCE))
    release = spec.text("framework.version")
    why = (
        f"sb3 {release} stores the space's dtype (since {since})"
        if typed
        else f"sb3 {release} stores float32 (before {since})"
    )
    action = action_leaf(spec)
    if compact.is_compact(spec):
        typed, why = True, "CompactRolloutBuffer stores the space's dtype"
        arrays = compact.rollout_store(spec).arrays()
    else:
        arrays = [
            Array(
                name=keyed(spec, "observations", leaf),
                rows=slots,
                row_values=prod(leaf.shape),
                dtype=leaf.dtype if typed else "float32",
                why=why,
            )
            for leaf in spec.observation_leaves
        ]
    arrays.append(
        Array(
            name="actions",
            rows=slots,
            row_values=prod(action.shape),
            dtype=action.dtype if typed else "float32",
            why=why,
        )
    )
    names = ("rewards", "returns", "episode_starts", "values", "log_probs", "advantages")
    arrays += [Array(name=name, rows=slots, row_values=1, dtype="float32", why="buffers.py") for name in names]
    if spec.text("algorithm") == "maskable_ppo":
        arrays.append(
            Array(
                name="action_masks",
                rows=slots,
                row_values=action.width * (2 if isinstance(spec.need("action"), MultiBinary) else 1),
                dtype="float32",
                why="sb3_contrib maskable buffers",
            )
        )
    if spec.text("algorithm") == "recurrent_ppo":
        width = spec.count("network.lstm_layers") * spec.count("network.lstm_hidden")
        states = [f"{part}_states_{head}" for head in ("pi", "vf") for part in ("hidden", "cell")]
        arrays += [
            Array(
                name=name,
                rows=slots,
                row_values=width,
                dtype="float32",
                why="sb3_contrib recurrent buffers: kept for every step",
            )
            for name in states
        ]
    return arrays
