"""One door: a document of a kind that has a page, as that page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.report.html.cluster_page import cluster_page_title, cluster_sections
from rlmem.report.html.page import one_file
from rlmem.report.html.recorded_page import recorded_sections, recorded_title
from rlmem.report.html.report_page import report_sections, report_title

_PAGES = {
    "rlmem.report/1": (report_title, report_sections),
    "rlmem.recorded/1": (recorded_title, recorded_sections),
    "rlmem.cluster/1": (cluster_page_title, cluster_sections),
}


def render_html(document: Mapping[str, Any]) -> str:
    """The page of a document, in one file."""
    title, sections = _PAGES[document["schema"]]
    return one_file(*title(document), sections(document), document)
