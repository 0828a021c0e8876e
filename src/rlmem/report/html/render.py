"""One door: a document of a kind that has a page, as that page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.documents.contract import Document, to_plain
from rlmem.documents.kinds import kind_name
from rlmem.report.html.cluster_page import cluster_page_title, cluster_sections
from rlmem.report.html.page import one_file
from rlmem.report.html.recorded_page import recorded_sections, recorded_title
from rlmem.report.html.report_page import report_sections, report_title

_PAGES: dict[str, tuple[Callable[[Any], tuple[str, str]], Callable[[Any], list[Element]]]] = {
    "report": (report_title, report_sections),
    "recorded": (recorded_title, recorded_sections),
    "cluster": (cluster_page_title, cluster_sections),
}


def render_html(document: Document) -> str:
    """The page of a document, in one file."""
    title, sections = _PAGES[kind_name(document.SCHEMA)]
    return one_file(*title(document), sections(document), to_plain(document))
