"""Who may ask what: our own hosts and origins only, no more than a description at once, a token for what acts."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rlmem.serve.settings import Settings
from rlmem.serve.state import LARGEST_CONFIG

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: A description as JSON text, every character of it escaped, and what stands around it.
LARGEST_BODY = 2 * LARGEST_CONFIG + 4096
_PAGES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: The OpenAPI page starts itself with a script of its own inside the page.
_DOCS = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Stands before the application, for every kind of request."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a body that is small enough, and our headers on the answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        problem = refusal(headers, self._settings)
        if scope["type"] == "websocket" or problem:
            await _refuse(scope, send, 403, problem or "no websockets here")
            return
        length = headers.get(b"content-length", b"0")
        body = await _read(receive) if length.isdigit() and int(length) <= LARGEST_BODY else None
        if body is None:
            await _refuse(scope, send, 413, f"too large: a description has at most {LARGEST_CONFIG:,} B")
            return
        await self._app(scope, _again(body, receive), _sealed(send, scope["path"]))


def refusal(headers: dict[bytes, bytes], settings: Settings) -> str:
    """Why a request is not for us, or nothing."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host not in settings.own_hosts:
        return f"asked for host {host[:80]!r}: this server answers as {settings.url} only"
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
        return "asked by a page of another origin"
    # Without an Origin (a link, an image): what the browser itself says about who asks. A link may lead here from anywhere.
    is_own = headers.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin")
    is_link = (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return "" if is_own or is_link else "asked by a page of another origin"


def has_token(headers: Iterable[tuple[bytes, bytes]], settings: Settings) -> bool:
    """Whether a request carries the token. Not as a cookie: a browser sends those to every port of this machine."""
    given = dict(headers).get(b"authorization", b"").removeprefix(b"Bearer ").strip()
    return hmac.compare_digest(given, settings.token.encode("ascii"))


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None where it grows larger than it may be, whatever length it was said to have."""
    pieces, size, is_more = [], 0, True
    while is_more:
        message = await receive()
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST_BODY:
            return None
        is_more = message.get("more_body", False)
    return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body in one piece for the application, then whatever else comes."""
    is_new = True

    async def again() -> Message:
        nonlocal is_new
        if is_new:
            is_new = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def _sealed(send: Send, path: str) -> Send:
    policy = _DOCS if path.startswith("/api/docs") else _PAGES

    async def sealing(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message["headers"]}
            added = [*_HEADERS, (b"content-security-policy", policy.encode("ascii"))]
            message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in own)]
        await send(message)

    return sealing


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"refused: {why}\n".encode("utf-8", "replace")})
