"""The bytes of a file as text, as Python itself would read them, and back."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import stat
import tokenize
from dataclasses import dataclass
from pathlib import Path

from rlmem.lint.files import why
from rlmem.units import format_size

#: Above this a file was written by a program; the largest of 85 public training scripts has 0.1 MB.
LARGEST = 2 * 2**20
#: Notebooks keep their pictures with them.
LARGEST_NOTEBOOK = 50 * 2**20
_OTHERS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


class Unreadable(Exception):  # noqa: N818 - a state of the file rather than a fault of ours
    """Why a file has no text for us; ``policy`` when we could and do not want to."""

    def __init__(self, text: str, *, policy: bool = False) -> None:
        super().__init__(text)
        self.policy = policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text and what it takes to write it as it was: ends of lines are in it, the byte order mark is not."""

    text: str
    encoding: str
    digest: str

    def encoded(self, changed: str) -> bytes:
        """Another text in the same encoding."""
        return changed.encode(self.encoding)


def read_file(path: Path) -> Text:
    """A file's text; :class:`Unreadable` says why not."""
    limit = LARGEST_NOTEBOOK if is_notebook(str(path)) else LARGEST
    try:
        with open(path, "rb", opener=_opener) as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise Unreadable("not a regular file")
            if found.st_size > limit:
                text = f"{format_size(found.st_size)}, more than the {format_size(limit)} of a file written by hand; skipped"
                raise Unreadable(text, policy=True)
            data = stream.read(limit + 1)
    except OSError as error:
        raise Unreadable(why(error)) from None
    return decode(data, notebook=is_notebook(str(path)))


def _opener(path: str, flags: int) -> int:
    """A pipe called train.py is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def is_notebook(path: str) -> bool:
    """Whether a path is a notebook's."""
    return path.endswith(".ipynb")


def decode(data: bytes, *, notebook: bool = False) -> Text:
    """Bytes as Python reads a source file: its cookie and its byte order mark are honoured, UTF-8 is the rule."""
    other = next((name for mark, name in _OTHERS.items() if data.startswith(mark)), None)
    if other:
        raise Unreadable(f"written in {other}, which Python does not read; save it as UTF-8")
    if b"\0" in data:
        raise Unreadable("contains null bytes; not a text")
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        if not notebook:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"line {line} is not {encoding.removesuffix('-sig').upper()}"
        raise Unreadable(f"{problem}; save it as UTF-8, or say what it is: # -*- coding: latin-1 -*-") from None
    except (SyntaxError, LookupError, ValueError) as error:  # the cookie, or bytes in the first two lines
        said = str(getattr(error, "msg", None) or error)
        raise Unreadable(f"{said}; save it as UTF-8, or say what it is: # -*- coding: latin-1 -*-") from None
    return Text(text=text, encoding=encoding, digest=hashlib.sha256(data).hexdigest())
