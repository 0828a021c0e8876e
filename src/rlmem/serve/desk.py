"""What all requests share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import Request

from rlmem.errors import RlmemError
from rlmem.serve import zoo
from rlmem.serve.guarding import has_token
from rlmem.serve.live import Finder, Hub
from rlmem.serve.planning import Kept, Planning
from rlmem.serve.settings import Settings
from rlmem.serve.zoo import Trying


@dataclass(slots=True)
class Desk:
    """What requests share: plans that are kept, dry runs, watches, the finder of processes."""

    settings: Settings
    planning: Planning = field(default_factory=Planning)
    hub: Hub = field(default_factory=Hub)
    finder: Finder = field(default_factory=Finder)
    kept: Kept = field(default_factory=Kept)
    trying: Trying = field(init=False)

    def __post_init__(self) -> None:
        self.trying = Trying(planning=self.planning, python=self.settings.python)

    @property
    def zoo_entries(self) -> tuple[str, ...]:
        """The RL Zoo entries that can be picked, looked up once."""
        return self.kept.get("zoo", lambda: zoo.entries(self.settings.python))

    def may_act(self, request: Request) -> bool:
        """Whether a request may act on a process."""
        return has_token(request.scope["headers"], self.settings)

    def close(self) -> None:
        """End everything that is under way."""
        self.hub.close()
        self.trying.close()


class NoTokenError(RlmemError):
    """A request that acts came without the token."""
