"""One door to all formats: a document and the function that views it, drawn as text, Markdown or JSON."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlmem.report.view import Appendix, View


def render_view(document: Any, view: Callable[[Any], View], wanted: str, output: Path | None) -> str:
    """JSON is the document itself; text and Markdown are drawn from its view."""
    if wanted == "json":
        from rlmem.documents.contract import to_json

        return to_json(document)
    arranged = view(document)
    if wanted == "markdown":
        from rlmem.report.markdown import render

        shown = render(arranged)
    else:
        shown = _text(arranged, coloured=output is None and sys.stdout.isatty())
    return shown + _appendix(arranged.appendix, wanted)


def _appendix(appendix: Appendix | None, wanted: str) -> str:
    if appendix is None:
        return ""
    text = appendix.text.rstrip()
    if wanted == "markdown":
        return f"\n## {appendix.title}\n\n```{appendix.language}\n{text}\n```\n"
    return f"\n{appendix.title}\n\n{text}\n"


def _text(view: View, *, coloured: bool) -> str:
    from rlmem.report.terminal import draw, make_console

    if coloured:
        console = make_console(sys.stdout)
        with console.capture() as captured:
            draw(view, console)
        return captured.get()
    buffer = io.StringIO()
    draw(view, make_console(buffer))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
