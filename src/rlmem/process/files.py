"""Small files under a root, read without ever failing: the kernel's answer, or None."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """The file's text; None when it is missing, unreadable or gone while being read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # ValueError: a NUL byte in a path taken from junk
        return None


def parse_whole(text: str | None) -> int | None:
    """A whole number alone on its line, as the kernel writes one; None for ``max``, junk or nothing.

    >>> parse_whole("4096\\n"), parse_whole("max\\n"), parse_whole("12 MiB"), parse_whole(None)
    (4096, None, None, None)
    """
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdecimal() else None


def parse_pairs(text: str | None) -> dict[str, int]:
    """``name value`` lines such as memory.stat; lines that are not so are left out.

    >>> parse_pairs("anon 12\\nfile x\\ninactive_file 30\\ntrunc")
    {'anon': 12, 'inactive_file': 30}
    """
    pairs = (line.split() for line in (text or "").splitlines())
    numbers = ((words[0], parse_whole(words[1])) for words in pairs if len(words) == 2)
    return {name: value for name, value in numbers if value is not None}


def under(root: Path, path: str) -> Path:
    """An absolute path of the machine, looked up below ``root``."""
    return root / path.lstrip("/")


def shown(root: Path, path: Path) -> str:
    """The path as the machine itself would name it."""
    return "/" + path.relative_to(root).as_posix()
