"""What all requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from rlmem.app.zoo import list_zoo
from rlmem.documents.serve_tables import ZooDocument
from rlmem.errors import RlmemError
from rlmem.serve.cache import Cache
from rlmem.serve.guarding import has_token
from rlmem.serve.live import Finder, Hub
from rlmem.serve.planning import Planning
from rlmem.serve.settings import Settings
from rlmem.serve.zoo import Trying

T = TypeVar("T")


@dataclass(slots=True)
class Desk:
    """What requests share: plans that are kept, dry runs, watches, the finder of processes."""

    settings: Settings
    planning: Planning = field(default_factory=Planning)
    hub: Hub = field(default_factory=Hub)
    finder: Finder = field(default_factory=Finder)
    cache: Cache = field(default_factory=Cache)
    trying: Trying = field(init=False)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.trying = Trying(session=self.planning.session, python=self.settings.python)

    @property
    def zoo(self) -> ZooDocument:
        """The RL Zoo entries that can be picked, looked up once."""
        return self.cache.get("zoo", lambda: list_zoo(self.settings.python))

    def check_token(self, request: Request) -> None:
        """Refuse a request that would act on a process and may not."""
        if not has_token(request.scope["headers"], self.settings):
            raise NoTokenError(
                "this acts on a process: send the token 'rlmem serve' printed as Authorization: Bearer TOKEN"
            )

    async def in_turn(self, request: Request, work: Callable[[], T]) -> T:
        """Work of many plans, one piece at a time, and none for somebody who has gone: they wait without a thread."""
        await request.body()  # what comes after it is that nobody waits any more
        async with self._one_by_one:
            if await request.is_disconnected():
                raise GoneError("nobody waits for this any more")
            return await run_in_threadpool(work)

    def close(self) -> None:
        """End everything that is under way."""
        self.hub.close()
        self.trying.close()


class GoneError(RlmemError):
    """Whoever asked has gone."""


class NoTokenError(RlmemError):
    """A request that acts came without the token."""
