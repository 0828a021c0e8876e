"""Names of files, and other text of the user's, as terminals and other programs can take them.

A name on disk is bytes. What is not UTF-8 in it becomes lone surrogates in Python, which no encoding can write.
"""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def printable(text: str) -> str:
    r"""What a terminal would obey, or could not show, as it is written in Python.

    >>> print(printable("é\n\x1b[31m\udcff.py"))
    é\n\x1b[31m\xff.py
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(text: str) -> str:
    """Text that can be written as UTF-8; what has no place in it is replaced by a mark."""
    return _LONE.sub("�", text)


def exact_json(text: str) -> str:
    r"""JSON that can be written as UTF-8, and from which every name is read back as it was.

    >>> print(exact_json('"\udcff.py"'))
    "\udcff.py"
    """
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
