"""A page in one file: style, script and data inside, nothing fetched, readable from disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.report.html.markup import Child, element, text
from rlmem.version import __version__

#: A page that was mailed should do nothing but show itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def asset(name: str) -> str:
    """A file of the package that goes into the page."""
    return resources.files("rlmem.report.html").joinpath("static").joinpath(name).read_text(encoding="utf-8")


def one_file(title: str, about: str, sections: Sequence[Element], document: Mapping[str, Any]) -> str:
    """The whole page; its data can be saved from it again."""
    data = element("script", {"type": "application/json", "id": "data"}, _embedded(document))
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "generator", "content": f"rlmem {__version__}"}),
        element("title", {}, f"{title} – memory report"),
        element("style", {}, asset("look.css")),
    )
    body = element(
        "body",
        {"class": "report"},
        element("a", {"class": "skip", "href": "#main"}, "To the report"),
        element("header", {"class": "top"}, heading(title, about), tools()),
        contents(sections),
        element("main", {"id": "main"}, sections),
        element("footer", {"class": "bottom"}, f"Written by rlmem {__version__}. GiB is 2³⁰ bytes, GB is 10⁹."),
        data,
        element("script", {}, asset("look.js")),
    )
    return f"<!doctype html>\n{text(element('html', {'lang': 'en'}, head, body))}\n"


def heading(title: str, about: str) -> Element:
    """The name of the run and what it is."""
    return element(
        "div", {"class": "title"}, element("h1", {}, title), element("p", {"class": "about"}, about) if about else None
    )


def tools() -> Element:
    """What can be done with the page: another light, the data, paper."""
    buttons: list[Child] = [
        element("button", {"type": "button", "data-do": "theme"}, "Switch to dark"),
        element("button", {"type": "button", "data-do": "save"}, "Save the JSON"),
        element("button", {"type": "button", "data-do": "print"}, "Print"),
    ]
    return element("div", {"class": "tools"}, buttons)


def contents(sections: Sequence[Element]) -> Element:
    """Links to the sections."""
    links = []
    for each in sections:
        heading = each.find("h2")
        if heading is not None and each.get("id"):
            links.append(element("a", {"href": f"#{each.get('id')}"}, heading.text or ""))
    return element("nav", {"class": "contents", "aria-label": "Contents"}, links)


def _embedded(document: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    return (
        json.dumps(document, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
