"""The table of ``rlmem bench``: profiles beside each other."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from functools import partial
from typing import Any

from rlmem.documents.bench import BenchDocument, BenchRow
from rlmem.report.table import Cell, make_table
from rlmem.report.text import UNKNOWN, size
from rlmem.report.view import Column, Section, View
from rlmem.units import format_count, format_size

_VERDICTS = {"fits": "fits", "tight": "tight", "does-not-fit": "does not fit", "unknown": "no limit known"}
_TONES = {"fits": "good", "tight": "warn", "does-not-fit": "bad", "unknown": "warn"}
_IMAGES = {
    "rendered": "images are rendered by the environment",
    "zeros": "images are zeros: nothing can be rendered here (MuJoCo needs an offscreen GL; set MUJOCO_GL)",
}


def bench_view(document: BenchDocument) -> View:
    """One row per profile."""
    rows = document.profiles
    steps = format_count(document.timesteps)
    columns: tuple[Cell[BenchRow], ...] = (
        (Column(title="profile", right=False), lambda row: row.profile),
        (Column(title="steps/s"), _speed),
        (Column(title="mean reward", rank=2), partial(_reward, document)),
        (Column(title="peak, measured"), lambda row: _size(row, row.peak_bytes)),
        (Column(title=f"predicted at {steps} steps"), _predicted),
        (Column(title="predicted, buffer full", rank=1), lambda row: _size(row, row.predicted_full.expected)),
        (Column(title="when full", right=False), lambda row: _VERDICTS[row.verdict]),
    )
    settings = tuple(f"{row.profile}: {_settings(row.settings)}" for row in rows)
    target = document.target
    where = f"on {document.env}" if document.env else "on a random env of the described shapes"
    return View(
        title=f"{target.name}: {steps} timesteps a profile, {where}",
        verdict=_verdict(document),
        sections=(
            Section(title="Profiles", tables=(make_table(columns, rows),)),
            Section(title="Settings", lines=settings),
        ),
        notes=_notes(document),
    )


def _speed(row: BenchRow) -> str:
    if not row.is_ok:
        return row.status
    return UNKNOWN if row.steps_per_s is None else f"{row.steps_per_s:,.1f}"


def _reward(document: BenchDocument, row: BenchRow) -> str:
    if not row.is_ok:
        return ""
    if not document.env:
        return "random env"
    if row.mean_reward is None:
        return "no episode ended"
    return f"{row.mean_reward:,.1f} ({min(row.episodes or 0, 100)} ep.)"


def _predicted(row: BenchRow) -> str:
    expected = row.predicted.expected
    if expected is None or not row.is_ok or not row.peak_bytes:
        return _size(row, expected)
    return f"{format_size(expected)} ({100 * (expected / row.peak_bytes - 1):+.1f} %)"


def _size(row: BenchRow, nbytes: int | None) -> str:
    """Return a size; of a profile that did not end well, what it did not come to is empty."""
    return "" if nbytes is None and not row.is_ok else size(nbytes)


def _settings(settings: Mapping[str, Any]) -> str:
    texts = (f"{key} {format_count(value) if isinstance(value, int) else value}" for key, value in settings.items())
    return ", ".join(texts)


def _verdict(document: BenchDocument) -> tuple[tuple[str, str], ...]:
    """What a reader decides by: who fits when the buffer is full, who is fastest and who earned most."""
    rows = document.profiles
    limit = document.limit_bytes
    lines = []
    for verdict, tone in _TONES.items():
        names = [row.profile for row in rows if row.verdict == verdict]
        if names and limit is not None:
            lines.append(
                (f"with a full buffer in {format_size(limit)}, {_VERDICTS[verdict]}: {', '.join(names)}", tone)
            )
    ended = [(row.steps_per_s, row) for row in rows if row.is_ok and row.steps_per_s]
    if len(ended) > 1:
        speed, fastest = max(ended, key=lambda pair: pair[0])
        text = f"fastest: {fastest.profile} ({speed:,.1f} steps/s)"
        paid = [(row.mean_reward, row) for _, row in ended if row.mean_reward is not None]
        if document.env and paid:
            reward, best = max(paid, key=lambda pair: pair[0])
            text += f"; highest mean reward: {best.profile} ({reward:,.1f})"
        lines.append((text, "plain"))
    return tuple(lines)


def _notes(document: BenchDocument) -> tuple[str, ...]:
    rows = document.profiles
    notes = [f"{row.profile}: {row.note}" for row in rows if row.note]
    notes += [_IMAGES[kind] for kind in dict.fromkeys(row.image or "" for row in rows) if kind in _IMAGES]
    if document.limit_source:
        notes.append(f"limit: {document.limit_source}")
    notes.append(
        "One fresh process a profile. Peaks are PSS of the process tree; the replay buffer fills as training goes on, so "
        "the peak of a short run is not that of a long one. What the environment itself holds is measured and part of "
        "both predictions. Rewards of short runs say little."
    )
    return tuple(notes)


def bench_csv(document: BenchDocument) -> str:
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
    names = sorted({name for row in document.profiles for name in row.settings})
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
    for row in document.profiles:
        writer.writerow(
            [
                *(getattr(row, name) for name in plain),
                *(getattr(row.predicted, key) for key in keys),
                *(getattr(row.predicted_full, key) for key in keys),
                *(row.settings.get(name) for name in names),
            ]
        )
    return buffer.getvalue()
