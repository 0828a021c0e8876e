"""A training run of the swarm as a description that can be planned, and back."""

from __future__ import annotations

import math
from typing import Any

from rlmem.core.spec import RunSpec
from rlmem.errors import UsageError
from rlmem.frameworks import resolve
from rlmem.frameworks.chunks import PIECE
from rlmem.frameworks.stream import is_stream
from rlmem.sources import load
from rlmem.swarm.settings import ACTIONS, IMUS, RUNGS, Rung, Settings

PRESET = "drone-swarm"
#: Values of a sample that are rates, the last three actions.
RATES = ACTIONS - 1
ORIGIN = "swarm settings"
#: Fields that the drones' own code has no choice about.
FIXED = ("observation", "history", "action", "n_envs", "network.modules", "optimizer", "rollout.extra")
#: Arrays of the drones that observe whole windows, beside those of ``env.stream_state``.
_WINDOWS = {"observations": {"like": "observation"}, "pos_history": {"shape": (100, 3), "dtype": "float32"}}


def swarm_spec(settings: Settings) -> RunSpec:
    """The preset ``drone-swarm`` with what the settings change."""
    base = load(PRESET)
    changes: dict[str, Any] = {
        "agents": settings.agents,
        "n_steps": settings.steps,
        "episode_length": settings.steps,
        "n_epochs": settings.epochs,
        "device": "cuda" if settings.device.startswith("cuda") else "cpu",
        "precision": settings.compute,
        "batch_size": chunk_of(settings) * steps_at_once(settings),
    }
    rung = settings.ladder
    if rung.store == "stream":
        return base.having(changes | _stream(rung, settings), ORIGIN)
    changes |= {
        "storage": "plain",
        "rollout.store": "list-then-stack" if rung.store == "list" else "array",
        "rollout.keeps_graph": rung.keeps_graph,
        "env.state": _WINDOWS | base.get("env.stream_state"),
    }
    return base.having(changes, ORIGIN)


def chunk_of(settings: Settings) -> int:
    """Agents in the network at once: a minibatch may be smaller than the chunk asked for."""
    share = math.ceil(settings.agents / settings.minibatches)
    return share if settings.ladder.whole_batch else min(settings.chunk, share)


def steps_at_once(settings: Settings) -> int:
    """Steps of a chunk that are in the network at once: windows of a stream that are encoded by themselves come in pieces."""
    pieces = settings.ladder.store == "stream" and settings.encoding == "window"
    return min(PIECE, settings.steps) if pieces else settings.steps


def _stream(rung: Rung, settings: Settings) -> dict[str, Any]:
    return {
        "storage": "stream",
        "rollout.store": "array",
        "rollout.keeps_graph": False,
        "rollout.dtype": settings.imu if rung.half else "float32",
        "rollout.derived": RATES if rung.derived_gyro else 0,
        "rollout.in_place_returns": rung.in_place_returns,
        "rollout.resimulated": rung.resimulated,
        "rollout.carries_history": settings.history == "carry",
        "network.encoding": settings.encoding,
        "network.decoded_steps": max(round(settings.ae_share * settings.steps), 1),
    }


def swarm_settings(spec: RunSpec) -> Settings:
    """The settings of a described run that keeps a stream; an error where the drones' own code cannot do it."""
    resolved, drones = resolve(spec), resolve(swarm_spec(Settings()))
    for path in FIXED:
        if resolved.get(path) != drones.get(path):
            raise UsageError(
                f"{path}: a run with storage=stream can be planned, but only the drones' own can be run "
                f"(preset {PRESET}, where this is {_short(drones.get(path))}); measure a script of yours instead"
            )
    steps, batch = resolved.count("n_steps"), resolved.count("batch_size")
    encoding = resolved.text("network.encoding")
    together = min(PIECE, steps) if encoding == "window" else steps
    if batch % together:
        raise UsageError(
            f"batch_size: {batch:,} is not a multiple of {together:,}: a chunk is some agents with so many steps each"
        )
    rung = _rung(resolved)
    half = resolved.get("rollout.dtype") in IMUS
    return Settings(
        agents=resolved.count("agents"),
        steps=steps,
        epochs=resolved.count("n_epochs"),
        minibatches=1,
        chunk=batch // together,
        rung=rung.name,
        history="carry" if resolved.flag("rollout.carries_history") else "reset",
        encoding=encoding,
        imu=resolved.text("rollout.dtype") if half else IMUS[0],
        compute=resolved.text("precision"),
        ae_share=resolved.count("network.decoded_steps") / steps,
        device=resolved.text("device"),
    )


def _rung(spec: RunSpec) -> Rung:
    """The row of the ladder that keeps the same things of a stream."""
    assert is_stream(spec)
    wanted = (
        spec.get("rollout.dtype", "float32") in IMUS,
        spec.flag("rollout.in_place_returns"),
        spec.get("rollout.derived", 0) == RATES,
        spec.flag("rollout.resimulated"),
    )
    rows = [rung for rung in RUNGS if rung.store == "stream"]
    for rung in rows:
        if wanted == (rung.half, rung.in_place_returns, rung.derived_gyro, rung.resimulated):
            return rung
    known = "; ".join(f"{rung.name}: {_fields(rung)}" for rung in rows)
    raise UsageError(f"rollout: no version of the drones' code keeps this; those that are there: {known}")


def _fields(rung: Rung) -> str:
    dtype = "float16" if rung.half else "float32"
    derived = RATES if rung.derived_gyro else 0
    flags = f"in_place_returns={str(rung.in_place_returns).lower()}, resimulated={str(rung.resimulated).lower()}"
    return f"dtype={dtype}, derived={derived}, {flags}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
