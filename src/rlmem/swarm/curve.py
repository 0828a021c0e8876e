"""The reward over the iterations: as CSV, JSON lines, a small SVG, a line of text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlmem.errors import UsageError

FORMATS = (".csv", ".svg")
#: What a row of the CSV holds, and of a row of the log: seconds are of the whole iteration.
COLUMNS = ("iteration", "reward", "policy_loss", "value_loss", "ae_loss", "seconds", "agent_steps_per_s")
WIDTH, HEIGHT, MARGIN = 640, 320, 48


def check_curve(path: Path) -> Path:
    """A file whose name says a format we write."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--curve {path}: the name must end in {' or '.join(FORMATS)}")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--curve {path}: {'is a folder' if path.is_dir() else f'no folder {path.parent}'}")
    return path


def draw_curve(path: Path, rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """The content of the file, by its name."""
    return svg(rows, title) if path.suffix.lower() == ".svg" else table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a heading; one line an iteration."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def json_line(row: Mapping[str, Any]) -> str:
    """A row of the log."""
    return json.dumps(finite(dict(row))) + "\n"


def finite(value: Any) -> Any:
    """JSON has no NaN: unknown is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list) else value


def svg(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """A line with its axes, readable on light and dark pages; no script, no font of its own."""
    points = [(int(row["iteration"]), float(row["reward"])) for row in rows]
    numbers, rewards = [number for number, _ in points] or [0], [reward for _, reward in points] or [0.0]
    left, right, low, high = min(numbers), max(numbers), min(rewards), max(rewards)
    pad = (high - low) * 0.05 or 0.1
    low, high = low - pad, high + pad

    def place(number: float, reward: float) -> tuple[float, float]:
        x = MARGIN + (WIDTH - 2 * MARGIN) * ((number - left) / (right - left) if right > left else 0.5)
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (reward - low) / (high - low)

    path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
    labels = [_text(MARGIN - 6, place(left, reward)[1] + 4, f"{reward:.3g}", "end") for reward in _ticks(low, high)]
    labels += [_text(place(n, low)[0], HEIGHT - MARGIN + 18, f"{n:,}", "middle") for n in sorted({left, right})]
    marks = [
        '<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="#2a7ab0"/>'.format(*place(*point))
        for point in (points if len(points) <= 60 else [])
    ]
    corner = f"{MARGIN},{MARGIN} {MARGIN},{HEIGHT - MARGIN} {WIDTH - MARGIN},{HEIGHT - MARGIN}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f"<title>{_escape(title)}</title>",
        _text(MARGIN, MARGIN - 20, title, "start"),
        f'<polyline points="{corner}" fill="none" stroke="#888888"/>',
        f'<polyline points="{path}" fill="none" stroke="#2a7ab0" stroke-width="2"/>',
        *marks,
        *labels,
        _text(WIDTH / 2, HEIGHT - 10, "iteration", "middle"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _ticks(low: float, high: float) -> tuple[float, ...]:
    return tuple(low + (high - low) * share for share in (0.05, 0.5, 0.95))


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#888888">{_escape(text)}</text>'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
