"""The application: pages, the JSON API beneath them, and the files they are made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline

from rlmem.app.session import DryRunMissingError
from rlmem.errors import RlmemError, UsageError
from rlmem.report.html.markup import clean, element
from rlmem.serve import api, pages
from rlmem.serve.desk import Desk, GoneError, NoTokenError
from rlmem.serve.guarding import Guard, has_token
from rlmem.serve.live_page import no_token
from rlmem.serve.settings import Settings
from rlmem.serve.shell import fragment, page, problem
from rlmem.serve.state import LINK
from rlmem.version import __version__

#: Every file there is, and where it lies; nothing else is looked for on disk.
_FILES = {
    "look.css": ("text/css", "rlmem.report.html"),
    "look.js": ("text/javascript", "rlmem.report.html"),
    "serve.css": ("text/css", "rlmem.serve"),
    "serve.js": ("text/javascript", "rlmem.serve"),
    "htmx.min.js": ("text/javascript", "rlmem.serve"),
}


def make_app(settings: Settings) -> FastAPI:
    """The application of one server."""
    desk = Desk(settings=settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPIOffline(
        title="rlmem",
        version=__version__,
        description="What a reinforcement-learning run needs, who holds it, and what was measured. Sizes are bytes. "
        "What acts on a process wants the token that 'rlmem serve' prints: Authorization: Bearer TOKEN.",
        docs_url="/api/docs",
        redoc_url=None,
        openapi_url="/api/openapi.json",
        static_url="/api/docs-files",
        lifespan=lifespan,
    )
    app.state.desk = desk
    app.add_middleware(Guard, settings=settings)
    app.include_router(api.router(desk))
    app.include_router(pages.router(desk), include_in_schema=False)
    for kind, status in ((DryRunMissingError, 409), (UsageError, 400), (RlmemError, 422), (Exception, 500)):
        app.add_exception_handler(kind, _answer(status))
    app.add_exception_handler(NoTokenError, _no_token(settings))
    app.add_exception_handler(GoneError, lambda *_: Response(status_code=204))
    app.add_exception_handler(RequestValidationError, _wrong)
    app.add_api_route("/static/{name}", static, include_in_schema=False)
    app.add_api_route("/token/{token}", _entrance(settings), include_in_schema=False)
    return app


def static(name: str) -> Response:
    """A file of the pages, by its name in the table."""
    if name not in _FILES:
        return PlainTextResponse("no such file", status_code=404)
    kind, home = _FILES[name]
    headers = {"cache-control": "no-cache"}
    text = resources.files(home).joinpath("static").joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)


def _entrance(settings: Settings) -> Callable[[str], Response]:
    def enter(token: str) -> Response:
        """The link that ``rlmem serve`` prints: the page keeps the token for this origin, and goes on to the planner."""
        if not has_token([(b"authorization", b"Bearer " + token.encode("utf-8", "replace"))], settings):
            return HTMLResponse(
                page("Refused", "", problem("This link is of another server: its token is not ours.")), status_code=403
            )
        words = element("p", {"data-token": settings.token}, element("a", {"href": "/"}, "To the planner"))
        return HTMLResponse(page("rlmem", "", element("h1", {}, "This browser may act now"), words))

    return enter


def _answer(status: int) -> Callable[[Request, Any], Response]:
    """An error as JSON for the API, as a fragment for a part of a page, as a page otherwise."""

    def answer(request: Request, error: Exception) -> Response:
        words = clean(
            str(error).removeprefix(f"{LINK}: ")
            if status < 500
            else f"a mistake of ours: {type(error).__name__}: {error}"
        )
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": words}, status_code=status)
        if request.headers.get("hx-request"):
            if request.url.path == "/planner/picture":  # no verdict of a run that cannot be
                answered = element(
                    "section", {"id": "verdict", "aria-label": "Verdict", "hx-swap-oob": "true"}, problem(words)
                )
                return HTMLResponse(fragment(answered), headers={"x-rlmem-status": str(status)})
            # htmx shows what comes with 200 only; the picture then says what is wrong with the knob.
            return HTMLResponse(fragment(problem(words)), headers={"x-rlmem-status": str(status)})
        back = {"href": "/", "class": "button"}
        return HTMLResponse(
            page("Not possible", "", problem(words, element("a", back, "To the planner"))), status_code=status
        )

    return answer


def _wrong(request: Request, error: Any) -> Response:
    """What is wrong with a request, without what it was."""
    places = (".".join(str(part) for part in each["loc"]) + f": {each['msg']}" for each in error.errors())
    return _answer(422)(request, UsageError("; ".join(places)))


def _no_token(settings: Settings) -> Callable[[Request, Any], Response]:
    """A page that may not act is told how it may; a part that asked takes the whole page along."""
    refuse = _answer(403)

    def answer(request: Request, error: Exception) -> Response:
        if not request.headers.get("hx-request"):
            return refuse(request, error)
        headers = {"x-rlmem-status": "403", "HX-Retarget": "#main", "HX-Reswap": "innerHTML"}
        title = element("h1", {}, "This browser may look, and not act")
        return HTMLResponse(fragment(title, no_token(settings.url)), headers=headers)

    return answer
