"""What was there when lint came: findings that are known, so that only new ones count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from rlmem.documents.contract import from_plain
from rlmem.documents.lint import BaselineDocument, KnownPart
from rlmem.errors import UsageError

#: Path as seen from the settings' root, code, fingerprint: what makes a finding the same one as before.
Key: TypeAlias = tuple[str, str, str]


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


def read_baseline(path: Path) -> dict[Key, KnownPart]:
    """The known findings by key."""
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"--baseline {path}: no such file; --write-baseline writes it") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise NotBaselineError(f"{path}: not a baseline: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != BaselineDocument.SCHEMA:
        wanted = f"expected schema {BaselineDocument.SCHEMA!r}; --write-baseline writes it again"
        raise NotBaselineError(f"{path}: not a baseline: {wanted}")
    try:
        baseline = from_plain(BaselineDocument, document, str(path))
    except UsageError:
        needs = "every finding needs path, code, fingerprint as texts, and its line is a number or null"
        raise NotBaselineError(f"{path}: not a baseline: {needs}") from None
    return {(known.path, known.code, known.fingerprint): known for known in baseline.findings}
