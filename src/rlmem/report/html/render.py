"""One door: a document of a kind that has a page, as that page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.documents.contract import Document, to_plain
from rlmem.report.html.cluster_page import cluster_page_title, cluster_sections
from rlmem.report.html.page import one_file
from rlmem.report.html.recorded_page import recorded_sections, recorded_title
from rlmem.report.html.report_page import report_sections, report_title

_PAGES: dict[str, tuple[Callable[[Any], tuple[str, str]], Callable[[Any], list[Element]]]] = {
    "rlmem.report/1": (report_title, report_sections),
    "rlmem.recorded/1": (recorded_title, recorded_sections),
    "rlmem.cluster/1": (cluster_page_title, cluster_sections),
}


def render_html(document: Any) -> str:
    """The page of a document, in one file."""
    title, sections = _PAGES[document.SCHEMA if isinstance(document, Document) else document["schema"]]
    data = to_plain(document) if isinstance(document, Document) else document
    return one_file(*title(document), sections(document), data)
