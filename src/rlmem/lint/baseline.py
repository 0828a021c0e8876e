"""What was there when lint came: findings that are known, so that only new ones count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rlmem.errors import UsageError
from rlmem.lint.names import exact_json

SCHEMA = "rlmem.lint-baseline/1"
#: Path as seen from the settings' root, code, fingerprint: what makes a finding the same one as before.
Key: TypeAlias = tuple[str, str, str]
_FIELDS = ("path", "code", "fingerprint")


def fingerprints(lines: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """For each code and line of text, in order: the text as a hash, and how often it stood above.

    A line that has moved keeps its fingerprint, and one that was changed gets another.
    """
    seen: dict[tuple[str, str], int] = {}
    made = []
    for code, text in lines:
        digest = hashlib.sha256(" ".join(text.split()).encode("utf-8", errors="replace")).hexdigest()[:16]
        count = seen.get((code, digest), 0)
        seen[code, digest] = count + 1
        made.append(f"{digest}:{count}")
    return tuple(made)


class NotBaselineError(UsageError):
    """A file that was read, and is no baseline."""


def read_baseline(path: Path) -> dict[Key, Mapping[str, Any]]:
    """The known findings by key."""
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"--baseline {path}: no such file; --write-baseline writes it") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise NotBaselineError(f"{path}: not a baseline: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise NotBaselineError(f"{path}: not a baseline: expected schema {SCHEMA!r}; --write-baseline writes it again")
    entries = document.get("findings")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        needs = f"every finding needs {', '.join(_FIELDS)} as texts, and its line is a number or null"
        raise NotBaselineError(f"{path}: not a baseline: {needs}")
    return {(entry["path"], entry["code"], entry["fingerprint"]): entry for entry in entries}


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in _FIELDS):
        return False
    line = entry.get("line")
    return line is None or (isinstance(line, int) and not isinstance(line, bool))


def baseline_text(entries: Iterable[Mapping[str, Any]]) -> str:
    """A baseline as JSON, one finding a line, so that a change to it is easy to read."""
    ordered = sorted(entries, key=lambda entry: (entry["path"], entry.get("line") or 0, entry["code"]))
    lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in ordered)
    body = f"[\n{lines}\n  ]" if lines else "[]"
    return exact_json(f'{{\n  "schema": "{SCHEMA}",\n  "findings": {body}\n}}\n')
