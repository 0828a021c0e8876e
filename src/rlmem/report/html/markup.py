"""Elements of a page. Text goes in as text: whatever a process or a file is called, it cannot become markup.

>>> text(element("p", {"class": "note"}, "a <script> & ", element("b", {}, "more")))
'<p class="note">a &lt;script&gt; &amp; <b>more</b></p>'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from xml.etree.ElementTree import Element, tostring

Child: TypeAlias = "Element | str | Iterable[Child] | None"
Attributes: TypeAlias = "Mapping[str, str | int | float | bool | None]"

#: What XML 1.0 and HTML do not allow in text; lone surrogates cannot be encoded at all.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def element(tag: str, attributes: Attributes | None = None, *children: Child) -> Element:
    """An element; attributes that are None or False are left out, True ones have no value, None among children is nothing."""
    made = Element(tag)
    for name, value in (attributes or {}).items():
        if value is not None and value is not False:
            made.set(name, name if value is True else _number(value) if isinstance(value, float) else clean(str(value)))
    add(made, children)
    return made


def add(parent: Element, children: Child) -> None:
    """Append what may be text, an element, nothing, or several of these."""
    if children is None:
        return
    if isinstance(children, str):
        last = parent[-1] if len(parent) else None
        if last is None:
            parent.text = (parent.text or "") + clean(children)
        else:
            last.tail = (last.tail or "") + clean(children)
    elif isinstance(children, Element):
        parent.append(children)
    else:
        for child in children:
            add(parent, child)


def clean(words: str) -> str:
    """Text without the characters that a page cannot hold."""
    return _FORBIDDEN.sub("�", words)


def text(*parts: Element) -> str:
    """The markup of some elements."""
    return "".join(tostring(part, encoding="unicode", method="html") for part in parts)


def _number(value: float) -> str:
    """Coordinates need no more than a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
