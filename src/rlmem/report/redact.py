"""A document without what says who made it and where: folders, host and user names."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: What stands in place of a name.
HIDDEN = "…"
#: Names that say nothing about anybody, and stand in other words.
_COMMON = {"root", "user", "home", "localhost", "local", "runner", "ubuntu", "admin"}
#: Where links in our own texts lead; any other one may name a machine or a bucket.
_OPEN_HOSTS = (
    "github.com",
    "readthedocs.io",
    "readthedocs.org",
    "pytorch.org",
    "python.org",
    "json-schema.org",
    "example.org",
)
#: Folders of users: what follows is a name.
_HOMES = {"home", "Users"}
#: A word, as far as it can be told; each is looked at by itself, so that the time is that of the text.
_WORD = re.compile(r"""[^\s"'`<>|()\[\]]+""")
#: Folders of a drive may have spaces in their names, and the last backslash ends them.
_DRIVE = re.compile(r"""[A-Za-z]:\\[^"'`<>|*?\n]*\\""")
_ROOTED = re.compile(r"(?:~[A-Za-z][\w.-]*|~|\.{1,2})?[/\\]|[A-Za-z]:[/\\]|~[A-Za-z]")
#: A path behind an option or a name: -I/usr/include, out=/data, PATH=/a:/b.
_BEHIND = re.compile(r"^(-[A-Za-z]|[^/\\=]*=|[\w.-]+:(?=[/~]))(?=[/~.])")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,5}$")
_BOUNDS = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"


def redacted(document: Any, names: frozenset[str] | None = None) -> Any:
    """The same document, every text in it without folders and without the names of this host and this user."""
    words = own_names() if names is None else names
    folders = sorted({*_own_folders(), *_folders_of(document)}, key=len, reverse=True)
    pattern = _any_of(_BOUNDS.format(re.escape(word)) for word in sorted(words, key=len, reverse=True))
    return _walk(document, _any_of(re.escape(folder) + r"[/\\]" for folder in folders), pattern)


def own_names() -> frozenset[str]:
    """The names of this host and of its user."""
    found = {socket.gethostname(), socket.gethostname().split(".")[0]}
    with suppress(KeyError, OSError, RuntimeError, ImportError):  # a user without a name, as in many containers
        found |= {getpass.getuser(), Path.home().name}
    return frozenset(name for name in found if len(name) >= 2 and name.lower() not in _COMMON)


def _own_folders() -> Iterator[str]:
    for find in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # a folder that is gone, a user without one
            folder = str(find())
            if folder != "/":
                yield folder


def _folders_of(value: Any) -> Iterator[str]:
    """Folders in words of commands: there a path is whole, spaces and all, so that it is known elsewhere too."""
    if is_dataclass(value) or isinstance(value, Mapping):
        for key, item in value.items() if isinstance(value, Mapping) else _fields(value):
            if key == "command" and isinstance(item, (list, tuple)):
                yield from (_head(word) for word in item if isinstance(word, str) and len(_head(word)) > 1)
            else:
                yield from _folders_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _folders_of(item)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Fields of a document or a part of one that say something of their own."""
    return ((item.name, getattr(value, item.name)) for item in fields(value) if item.init and item.name != "schema")


def _head(word: str) -> str:
    """The folders of a word of a command: all before its last separator."""
    start = _BEHIND.match(word)
    path = word[start.end() :] if start else word
    return path[: max(path.rfind("/"), path.rfind("\\"), 0)] if _ROOTED.match(path) else ""


def _any_of(patterns: Any) -> re.Pattern[str] | None:
    text = "|".join(patterns)
    return re.compile(text, re.I) if text else None


def _walk(value: Any, folders: re.Pattern[str] | None, names: re.Pattern[str] | None) -> Any:
    if isinstance(value, str):
        return _text(value, folders, names)
    if isinstance(value, Mapping):
        return {
            _text(key, folders, names) if isinstance(key, str) else key: _walk(item, folders, names)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_walk(item, folders, names) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        # Not by way of JSON: a reader would refuse a word of a closed vocabulary that is somebody's name too.
        return replace(value, **{name: _walk(item, folders, names) for name, item in _fields(value)})
    return value


def _text(text: str, folders: re.Pattern[str] | None, names: re.Pattern[str] | None) -> str:
    if "/" in text or "\\" in text or "~" in text:
        text = folders.sub(f"{HIDDEN}/", text) if folders else text
        text = _WORD.sub(_word, _DRIVE.sub(f"{HIDDEN}/", text))
    return names.sub(HIDDEN, text) if names else text


def _word(match: re.Match[str]) -> str:
    """One word without folders: a link, a path from a root, one behind an option, or one to the name of a file."""
    word = match[0]
    if "://" in word:
        return _link(word)
    start = _BEHIND.match(word)
    lead, path = (word[: start.end()], word[start.end() :]) if start else ("", word)
    if _ROOTED.match(path):
        return lead + _last(path)
    bare = path.rstrip(".,;:")
    if ("/" in bare or "\\" in bare) and _EXTENSION.search(bare.split(":")[0]) and not path.startswith(f"{HIDDEN}/"):
        return f"{lead}{HIDDEN}/{_base(path)}"
    return word


def _base(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _link(word: str) -> str:
    try:
        host = urlsplit(word).hostname or ""
    except ValueError:
        host = ""
    is_open = word.startswith("http") and any(host == each or host.endswith(f".{each}") for each in _OPEN_HOSTS)
    return word if is_open else f"{word.split('://', 1)[0][-5:]}://{HIDDEN}"


def _last(path: str) -> str:
    """The last part of a path; one of a single part, such as ``/min`` of ``MiB /min``, is left alone."""
    parts = [part for part in re.split(r"[/\\]", path) if part and part not in ("~", ".", "..")]
    if len(parts) < 2 and not path.startswith(("~", "..")):
        return path
    is_name = not parts or parts[-1].startswith("~") or (len(parts) >= 2 and parts[-2] in _HOMES)
    return HIDDEN if is_name else f"{HIDDEN}/{parts[-1]}"
