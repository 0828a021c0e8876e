"""Starting the server: a free port, a token, and an end that leaves nothing behind."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import sys
from collections.abc import Callable

import uvicorn

from rlmem.errors import AnalysisError, UsageError
from rlmem.serve.app import make_app
from rlmem.serve.planning import Planning
from rlmem.serve.settings import HOST, Settings
from rlmem.serve.state import State
from rlmem.sources.preset import PRESETS

#: A picture changes threads several times, and each time waits so long for one that works on something else.
SWITCH_S = 0.0005
#: More than a crowd of browsers needs, and less than the files a process may have open.
MOST_CONNECTIONS = 400


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 takes any that is free."""
    # With the protocol named, asyncio turns Nagle's algorithm off; without, every other answer comes 40 ms later.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is in use: 'rlmem serve --port 0' takes a free one") from None
        raise AnalysisError(f"cannot listen on {HOST}:{port}: {error.strerror or error}") from None
    return listening


def serve(listening: socket.socket, settings: Settings, *, ready: Callable[[], None] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    sys.setswitchinterval(SWITCH_S)
    app = make_app(settings)
    warm(app.state.desk.planning)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=64 << 10,
    )
    server = _Server(config, ready)
    server.run(sockets=[listening])


def warm(planning: Planning) -> None:
    """Load what plans need before anybody waits for one, and keep it from the garbage collector.

    A full collection goes over every module, 70 to 130 ms in the middle of a picture; without what is loaded, 5 ms.
    """
    for target in PRESETS:
        planning.plan(State(target=target))
    planning.judge(State())
    gc.collect()
    gc.freeze()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What is cancelled at the end would tell of itself at length.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)
