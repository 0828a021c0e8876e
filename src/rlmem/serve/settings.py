"""What a server was started with."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

#: Where nobody else can reach it.
HOST = "127.0.0.1"
PORT = 8642


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The port, the word that allows to act on processes, the store and the interpreter of RL Zoo entries."""

    port: int = PORT
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    store: Path | None = None
    python: str | None = None

    @property
    def url(self) -> str:
        """The address of the planner."""
        return f"http://{HOST}:{self.port}/"

    @property
    def link(self) -> str:
        """The address with the token, which our pages keep in the browser and send along."""
        return f"{self.url}token/{self.token}"

    @property
    def own_hosts(self) -> frozenset[str]:
        """Names under which we may be asked; another name in a request means that a page elsewhere points here."""
        ports = (f":{self.port}", "") if self.port == 80 else (f":{self.port}",)
        return frozenset(f"{name}{port}" for name in (HOST, "localhost") for port in ports)
