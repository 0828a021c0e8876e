"""The frame around every page of the server."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rlmem.report.html.markup import Child, element, text
from rlmem.version import __version__

_PLACES = (("/", "Planner"), ("/live", "Live"), ("/runs", "Runs"), ("/api/docs", "API"))
#: No code from attributes, no styles written into the page: the page's policy forbids both.
_HTMX = '{"allowEval":false,"includeIndicatorStyles":false,"historyCacheSize":0,"refreshOnHistoryMiss":true,"defaultSettleDelay":0}'


def page(title: str, here: str, *children: Child) -> str:
    """A whole page."""
    scripts = [
        element("script", {"src": f"/static/{name}", "defer": True}) for name in ("htmx.min.js", "look.js", "serve.js")
    ]
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "htmx-config", "content": _HTMX}),
        element("title", {}, f"{title} – rlmem"),
        element("link", {"rel": "icon", "href": "data:,"}),
        [element("link", {"rel": "stylesheet", "href": f"/static/{name}"}) for name in ("look.css", "serve.css")],
        scripts,
    )
    links = [
        element("a", {"href": address, "aria-current": "page" if address == here else None}, words)
        for address, words in _PLACES
    ]
    body = element(
        "body",
        {"class": "app"},
        element("a", {"class": "skip", "href": "#main"}, "To the page"),
        element(
            "header",
            {"class": "top"},
            element("p", {"class": "brand"}, "rlmem"),
            element("nav", {"aria-label": "Pages"}, links),
            element("button", {"type": "button", "data-do": "theme"}, "Switch to dark"),
        ),
        element("main", {"id": "main"}, children),
        element("footer", {"class": "bottom"}, f"rlmem {__version__}. GiB is 2³⁰ bytes, GB is 10⁹."),
    )
    return f"<!doctype html>\n{text(element('html', {'lang': 'en'}, head, body))}\n"


def fragment(*children: Child) -> str:
    """A part of a page."""
    holder = element("div", {}, children)
    return "".join(text(child) for child in holder)


def problem(words: str, *more: Child) -> Element:
    """What went wrong, where the answer would have stood."""
    return element("div", {"class": "problem", "role": "alert"}, element("p", {}, words), more)


def choices(name: str, rows: Sequence[tuple[str, str]], value: str, **attributes: str) -> Element:
    """A field that offers a few values."""
    options = [element("option", {"value": each, "selected": each == value}, words) for each, words in rows]
    return element("select", {"name": name, **attributes}, options)
