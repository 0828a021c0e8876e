"""The table of ``rlmem bench``: profiles beside each other."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.errors import UsageError
from rlmem.report.contract import described, problems
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_count, format_size

BENCH_SCHEMA = "rlmem.bench/1"
_VERDICTS = {"fits": "fits", "tight": "tight", "does-not-fit": "does not fit", "unknown": "no limit known"}
_TONES = {"fits": "good", "tight": "warn", "does-not-fit": "bad", "unknown": "warn"}
_IMAGES = {
    "rendered": "images are rendered by the environment",
    "zeros": "images are zeros: nothing can be rendered here (MuJoCo needs an offscreen GL; set MUJOCO_GL)",
}
_TEXT, _COUNT, _NUMBER = {"type": "string"}, {"type": ["integer", "null"]}, {"type": ["number", "null"]}
_SIZES = {"type": "object", "additionalProperties": {"type": "integer"}}
_ROW = described(
    {
        "profile": _TEXT,
        "settings": {"type": "object"},
        "status": _TEXT,
        "steps": _COUNT,
        "steps_per_s": _NUMBER,
        "mean_reward": _NUMBER,
        "episodes": _COUNT,
        "reward_per_step": _NUMBER,
        "image": {"type": ["string", "null"]},
        "peak_bytes": _COUNT,
        "predicted": _SIZES,
        "predicted_full": _SIZES,
        "verdict": _TEXT,
        "wall_s": {"type": "number"},
        "note": _TEXT,
        "versions": {"type": "object"},
        "node": {**_TEXT, "description": "of a cluster, that ran it"},
    },
    optional=("node",),
)
SCHEMA = described(
    {
        "schema": _TEXT,
        "run": {"type": ["string", "null"]},
        "target": {"type": "object"},
        "timesteps": {"type": "integer"},
        "env": {"type": ["string", "null"]},
        "limit_bytes": _COUNT,
        "limit_source": _TEXT,
        "profiles": {"type": "array", "items": _ROW},
    }
)


def bench_document(
    *,
    target: Mapping[str, Any],
    timesteps: int,
    env: str | None,
    limit_bytes: int | None,
    limit_source: str,
    rows: Sequence[Mapping[str, Any]],
    run: str | None = None,
) -> dict[str, Any]:
    """Plain data: what ``--json`` prints and the store keeps."""
    return {
        "schema": BENCH_SCHEMA,
        "run": run,
        "target": dict(target),
        "timesteps": timesteps,
        "env": env,
        "limit_bytes": limit_bytes,
        "limit_source": limit_source,
        "profiles": [dict(row) for row in rows],
    }


def read_bench_document(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A document that was written earlier, checked."""
    problem = next(problems(data, SCHEMA, ""), None)
    if problem is not None:
        raise UsageError(f"{where}: not a benchmark written by rlmem: {problem}")
    return dict(data)


def bench_view(document: Mapping[str, Any]) -> View:
    """One row per profile."""
    rows = document["profiles"]
    steps = format_count(document["timesteps"])
    columns = (
        Column(title="profile", right=False),
        Column(title="steps/s"),
        Column(title="mean reward", rank=2),
        Column(title="peak, measured"),
        Column(title=f"predicted at {steps} steps"),
        Column(title="predicted, buffer full", rank=1),
        Column(title="when full", right=False),
    )
    table = Table(title="", columns=columns, rows=tuple(_row(document, row) for row in rows))
    settings = tuple(f"{row['profile']}: {_settings(row['settings'])}" for row in rows)
    target = document["target"]
    where = f"on {document['env']}" if document["env"] else "on a random env of the described shapes"
    return View(
        title=f"{target['name']}: {steps} timesteps a profile, {where}",
        verdict=_verdict(document),
        sections=(Section(title="Profiles", tables=(table,)), Section(title="Settings", lines=settings)),
        notes=_notes(document),
    )


def _row(document: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, ...]:
    ended = row["status"] == "ok"
    speed = "" if row["steps_per_s"] is None else f"{row['steps_per_s']:,.1f}"
    return (
        row["profile"],
        speed if ended else row["status"],
        _reward(document, row),
        _size(row["peak_bytes"]),
        _predicted(row, ended),
        _size(row["predicted_full"].get("expected")),
        _VERDICTS[row["verdict"]],
    )


def _reward(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    if row["status"] != "ok":
        return ""
    if not document["env"]:
        return "random env"
    if row["mean_reward"] is None:
        return "no episode ended"
    return f"{row['mean_reward']:,.1f} ({min(row['episodes'], 100)} ep.)"


def _predicted(row: Mapping[str, Any], ended: bool) -> str:
    expected = row["predicted"].get("expected")
    if expected is None or not ended or not row["peak_bytes"]:
        return _size(expected)
    return f"{format_size(expected)} ({100 * (expected / row['peak_bytes'] - 1):+.1f} %)"


def _size(nbytes: int | None) -> str:
    return "" if nbytes is None else format_size(nbytes)


def _settings(settings: Mapping[str, Any]) -> str:
    texts = (f"{key} {format_count(value) if isinstance(value, int) else value}" for key, value in settings.items())
    return ", ".join(texts)


def _verdict(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a reader decides by: who fits when the buffer is full, who is fastest and who earned most."""
    rows = document["profiles"]
    limit = document["limit_bytes"]
    lines = []
    for verdict, tone in _TONES.items():
        names = [row["profile"] for row in rows if row["verdict"] == verdict]
        if names and limit is not None:
            lines.append(
                (f"with a full buffer in {format_size(limit)}, {_VERDICTS[verdict]}: {', '.join(names)}", tone)
            )
    ended = [row for row in rows if row["status"] == "ok" and row["steps_per_s"]]
    if len(ended) > 1:
        fastest = max(ended, key=lambda row: row["steps_per_s"])
        text = f"fastest: {fastest['profile']} ({fastest['steps_per_s']:,.1f} steps/s)"
        paid = [row for row in ended if row["mean_reward"] is not None]
        if document["env"] and paid:
            best = max(paid, key=lambda row: row["mean_reward"])
            text += f"; highest mean reward: {best['profile']} ({best['mean_reward']:,.1f})"
        lines.append((text, "plain"))
    return tuple(lines)


def _notes(document: Mapping[str, Any]) -> tuple[str, ...]:
    rows = document["profiles"]
    notes = [f"{row['profile']}: {row['note']}" for row in rows if row["note"]]
    notes += [_IMAGES[kind] for kind in dict.fromkeys(row["image"] for row in rows) if kind in _IMAGES]
    if document["limit_source"]:
        notes.append(f"limit: {document['limit_source']}")
    notes.append(
        "One fresh process a profile. Peaks are PSS of the process tree; the replay buffer fills as training goes on, so "
        "the peak of a short run is not that of a long one. What the environment itself holds is measured and part of "
        "both predictions. Rewards of short runs say little."
    )
    return tuple(notes)


def bench_csv(document: Mapping[str, Any]) -> str:
    """One row per profile, sizes in bytes, what is not known empty."""
    plain = (
        "profile",
        "status",
        "steps",
        "steps_per_s",
        "mean_reward",
        "episodes",
        "peak_bytes",
        "verdict",
        "wall_s",
        "note",
    )
    keys = ("low", "expected", "high")
    names = sorted({name for row in document["profiles"] for name in row["settings"]})
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        [
            *plain,
            *(f"predicted_{key}_bytes" for key in keys),
            *(f"predicted_full_{key}_bytes" for key in keys),
            *(f"set.{name}" for name in names),
        ]
    )
    for row in document["profiles"]:
        writer.writerow(
            [
                *(row[name] for name in plain),
                *(row["predicted"].get(key) for key in keys),
                *(row["predicted_full"].get(key) for key in keys),
                *(row["settings"].get(name) for name in names),
            ]
        )
    return buffer.getvalue()
