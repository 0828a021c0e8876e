"""A document without what says who made it and where: folders, host and user names."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: What stands in place of a name.
HIDDEN = "…"
#: Names that say nothing about anybody, and stand in other words.
_COMMON = {"root", "user", "home", "localhost", "local", "runner", "ubuntu", "admin"}
#: Folders before a last part: from the root, a home, here, above, or a drive.
_ROOTED = re.compile(r"(?<![\w.:/])(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+~{}$-]+)+[/\\]?")
#: Folders before the name of a file that is plain to see.
_FILE = re.compile(
    r"(?:[\w.@%+~-]+[/\\])+([\w.@%+~-]+\.(?:py|ipynb|ya?ml|json|toml|zip|pkl|pt|pth|npz|csv|log|txt|html|md))\b"
)
_LINK = re.compile(r"(https?://\S+)")
_BOUNDS = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"


def redacted(document: Any, names: frozenset[str] | None = None) -> Any:
    """The same document, every text in it without folders and without the names of this host and this user."""
    words = own_names() if names is None else names
    pattern = re.compile(
        "|".join(_BOUNDS.format(re.escape(word)) for word in sorted(words, key=len, reverse=True)), re.I
    )
    return _walk(document, pattern if words else None)


def own_names() -> frozenset[str]:
    """The names of this host and of its user."""
    found = {socket.gethostname(), socket.gethostname().split(".")[0]}
    with suppress(KeyError, OSError, RuntimeError, ImportError):  # a user without a name, as in many containers
        found |= {getpass.getuser(), Path.home().name}
    return frozenset(name for name in found if len(name) >= 2 and name.lower() not in _COMMON)


def _walk(value: Any, names: re.Pattern[str] | None) -> Any:
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, Mapping):
        return {_text(key, names) if isinstance(key, str) else key: _walk(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, names) for item in value]
    return value


def _text(text: str, names: re.Pattern[str] | None) -> str:
    pieces = _LINK.split(text)  # links stand at the odd places, and stay
    pieces[::2] = (_FILE.sub(rf"{HIDDEN}/\1", _ROOTED.sub(_last, piece)) for piece in pieces[::2])
    text = "".join(pieces)
    return names.sub(HIDDEN, text) if names else text


def _last(match: re.Match[str]) -> str:
    """The last part of a path; one of a single part, such as ``/min`` of ``MiB /min``, is left alone."""
    parts = [part for part in re.split(r"[/\\]", match[0]) if part and part not in ("~", ".", "..")]
    if len(parts) < 2 and not match[0].startswith(("~", "..")):
        return match[0]
    return f"{HIDDEN}/{parts[-1]}" if parts else HIDDEN
