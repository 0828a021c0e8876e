"""A rollout that keeps the stream of a window observation once, as ``rlmem.swarm`` does.

Consecutive windows share all but a step's samples. Here every sample is kept once, without the values that follow from the
actions; windows are cut out for a chunk of agents at a time, in collection and in the update.
"""

from __future__ import annotations

from math import ceil

from rlmem.core.quantity import Quantity
from rlmem.core.spaces import Window
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.chunks import PIECE, is_drones
from rlmem.model.storage import Array

#: Agents whose windows are in the network at once, unless ``batch_size`` says otherwise; by device.
CHUNK_AGENTS = {"cpu": 32, "cuda": 4096}
#: Fields that say something about a stream, and nothing without one.
FIELDS = (
    "rollout.dtype",
    "rollout.derived",
    "rollout.extra",
    "rollout.carries_history",
    "rollout.in_place_returns",
    "rollout.resimulated",
    "network.encoding",
    "network.decoded_steps",
)
_HALF = ("float16", "int16")


def is_stream(spec: RunSpec) -> bool:
    """Whether the run keeps a stream; ``compact`` says the same of a window."""
    return spec.get("storage") in ("stream", "compact", "frames-once")


def resolve_stream(spec: RunSpec, window: Window) -> RunSpec:
    """What such a run does where the description leaves it open, and which of its fields have lost their meaning."""
    _check(spec, window)
    for path, value in (("rollout.store", "array"), ("rollout.keeps_graph", False)):
        if path in spec and spec.get(path) != value:
            said = f"{spec.get(path)} ({spec.origin(path)})"
            why = f"storage=stream writes rows, without gradients; {said} has no meaning here"
            spec = spec.having({path: value}, why)
    if spec.get("network.encoding") == "sequence" and not is_drones(spec, window):
        why = "storage=stream: one pass over the stream is written for the drones' own window and encoder"
        spec = spec.having({"network.encoding": "window"}, why)
    spec = _lean(spec)
    agents, steps = spec.count("agents") * spec.count("n_envs"), spec.count("n_steps")
    chunk = min(CHUNK_AGENTS[spec.text("device")], agents)
    spec = spec.filled({"network.encoding": "window", "network.decoded_steps": steps}, "storage=stream default")
    if spec.get("network.encoding") == "window" and is_drones(spec, window):
        steps = min(PIECE, steps)
    spec = spec.filled({"batch_size": chunk * steps}, f"storage=stream: {steps} steps of {chunk} agents at a time")
    return spec.filled(
        {
            "rollout.derived": 0,
            "rollout.extra": "steps",
            "rollout.carries_history": False,
            "rollout.in_place_returns": True,
            "rollout.resimulated": False,
        },
        "storage=stream default",
    )


def _check(spec: RunSpec, window: Window) -> None:
    if window.length < window.step:
        raise SpecError(
            "history",
            f"a window of {window.length} samples is shorter than the {window.step} of a step: windows share nothing, and a "
            "stream would be larger than they are; use storage=plain",
        )
    derived = spec.get("rollout.derived", 0)
    if derived > window.sample:
        raise SpecError("rollout.derived", f"a sample has {window.sample} values, {derived} of them cannot be derived")
    if spec.get("network.decoded_steps", 0) > spec.count("n_steps"):
        raise SpecError("network.decoded_steps", f"a rollout has {spec.count('n_steps'):,} steps (n_steps)")
    if spec.flag("rollout.resimulated") and spec.flag("rollout.carries_history"):
        raise SpecError(
            "rollout.resimulated", "a window that goes on over a reset needs the samples before it, which are not kept"
        )


def _lean(spec: RunSpec) -> RunSpec:
    """The environment without a window of its own: the store has it."""
    if "env.stream_state" in spec:
        origin = f"env.stream_state, {spec.origin('env.stream_state')}"
        return spec.having({"env.state": spec.get("env.stream_state")}, origin)
    state = spec.get("env.state", {})
    kept = {name: item for name, item in state.items() if isinstance(item, int) or "like" not in item}
    if len(kept) == len(state):
        return spec
    left = ", ".join(name for name in state if name not in kept)
    return spec.having({"env.state": kept or None}, f"{spec.origin('env.state')}, without {left}: the stream has it")


def notes(spec: RunSpec) -> tuple[str, ...]:
    """What the reader of a plan should know about the stream."""
    window = spec.window
    if window is None or not is_stream(spec):
        return ()
    said = []
    reached = (spec.count("n_steps") - 1) * window.step
    if window.length > reached and not spec.flag("rollout.carries_history"):
        said.append(
            f"the window ({window.length:,} samples) is longer than the stream of a rollout ({reached:,}): its oldest part is "
            "always zeros"
        )
    dtype = spec.get("rollout.dtype")
    if dtype in _HALF and window.dtype == "float32" and not spec.flag("rollout.resimulated"):
        said.append(f"samples are kept in {dtype}, which rounds them; rollout.dtype=float32 keeps every bit")
    return tuple(said)


def stream_arrays(spec: RunSpec, window: Window, actions: int, samples: Quantity) -> list[Array]:
    """What is kept of a rollout: the stream and the values beside it, actions, and three scalars of every sample.

    The last step's samples are never observed, unless the next rollout begins with them. Then as many steps are kept from before
    the rollout as a window reaches back, of the actions too where values of a sample follow from them.
    """
    agents = spec.q("agents") if spec.count("n_envs") == 1 else spec.q("agents") * spec.q("n_envs")
    steps, derived = spec.count("n_steps"), spec.get("rollout.derived", 0)
    before = ceil(window.length / window.step) if spec.flag("rollout.carries_history") else 0
    length = (steps + before if before else steps - 1) * window.step
    counted = f"(n_steps + {before}) × {window.step}" if before else f"(n_steps − 1) × {window.step}"
    kept = window.sample - derived
    arrays = []
    if length * kept and not spec.flag("rollout.resimulated"):
        arrays.append(
            Array(
                name="stream",
                rows=agents,
                row_values=length * kept,
                dtype=str(spec.get("rollout.dtype", window.dtype)),
                why=f"{counted} samples × {kept} of {window.sample} values",
            )
        )
    if window.extra and spec.get("rollout.extra") != "none":
        once = spec.get("rollout.extra") == "episode"
        why = "once an episode" if once else "every step"
        rows = agents if once else samples
        arrays.append(Array(name="extra", rows=rows, row_values=window.extra, dtype=window.dtype, why=why))
    arrays.append(Array(name="actions", rows=samples, row_values=actions, dtype="float32", why="action space"))
    if before and derived:
        why = f"the {before} steps before the rollout, from which {derived} values of their samples follow"
        arrays.append(Array(name="actions-before", rows=agents, row_values=before * actions, dtype="float32", why=why))
    in_place = "; returns and advantages take the place of two" if spec.flag("rollout.in_place_returns") else ""
    why = f"reward, value, log-probability{in_place}"
    arrays.append(Array(name="scalars", rows=samples, row_values=3, dtype="float32", why=why))
    return arrays
