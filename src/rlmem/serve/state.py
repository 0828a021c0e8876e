"""What a page of the planner is about, as its address says it: a run, changes of its fields, and the machine.

The address holds everything, so that a link shares a plan and two tabs know nothing of each other.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from rlmem.core.fields import BY_PATH, find_field, plain_value
from rlmem.core.spaces import describe_space
from rlmem.core.target import Target, executable_kind
from rlmem.errors import UsageError
from rlmem.sources.overrides import parse_set
from rlmem.sources.target import parse_target

#: Text of a description that is sent to us; a description is a page.
LARGEST_CONFIG = 256 << 10
#: Of an address, in characters; browsers and servers take more, mail programs do not.
LONGEST_LINK = 32_000
DEFAULT_TARGET = "pidog-sac"
#: Where values of an address come from, in words.
LINK = "the link"
_OWN = ("of", "config", "ram", "vram", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A run and a machine. ``config`` is the text of a description, in place of a target's name."""

    target: str = DEFAULT_TARGET
    config: str = ""
    ram: str = ""
    vram: str = ""
    machine: str = ""
    #: Fields that differ from the run's own, as text.
    sets: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """The state as the query of an address."""
        pairs = [("config", packed(self.config))] if self.config else [("of", self.target)]
        pairs += [(name, value) for name in _OWN[2:] if (value := getattr(self, name))]
        return urlencode([*pairs, *self.sets.items()], safe=":,/")

    @property
    def run(self) -> Target:
        """The run that is named, for pages without a description of their own."""
        return parse_target(self.target)

    @property
    def is_zoo(self) -> bool:
        """Whether it is about an RL Zoo entry, which is planned by running a little of it."""
        return not self.config and executable_kind(self.target) == "zoo"

    def having(self, changes: Mapping[str, str]) -> State:
        """The same with further changes of fields."""
        return replace(self, sets={**self.sets, **changes})

    def key(self) -> str:
        """What tells two states apart."""
        return self.query


def read_state(pairs: Iterable[tuple[str, str]]) -> State:
    """The state of an address; what it cannot mean is a :class:`UsageError` of one line."""
    own: dict[str, str] = {}
    sets: dict[str, str] = {}
    for name, text in pairs:
        value = text.strip()
        if name in _OWN:
            own[name] = value
        elif name in BY_PATH:
            if value:
                sets[name] = value
        elif not name.startswith("_"):  # what a page sends along for itself
            find_field(name)
    config = unpacked(own["config"]) if own.get("config") else ""
    return State(
        target=own.get("of") or DEFAULT_TARGET,
        config=config,
        ram=own.get("ram", ""),
        vram=own.get("vram", ""),
        machine=own.get("machine", ""),
        sets=sets,
    )


def packed(text: str) -> str:
    """Text for an address: compressed, in letters that need no escaping."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode("utf-8"), 9)).rstrip(b"=").decode("ascii")


def unpacked(text: str) -> str:
    """The text again; more than a description can be is refused before it is there."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        stream = zlib.decompressobj()
        found = stream.decompress(data, LARGEST_CONFIG + 1)
        if len(found) <= LARGEST_CONFIG and not stream.eof:
            raise ValueError("cut short")
        words = found.decode("utf-8")
    except (ValueError, zlib.error):
        raise UsageError("the description in this link is damaged: it was cut short, or is not one of ours") from None
    if len(found) > LARGEST_CONFIG:
        raise UsageError(f"the description in this link is too large (at most {LARGEST_CONFIG:,} B)")
    return words


def value_text(path: str, value: Any) -> str:
    """A value as an address, ``--set`` and a form have it.

    >>> value_text("n_envs", 4), value_text("optimize_memory_usage", True), value_text("network.net_arch", (64, 64))
    ('4', 'true', '[64, 64]')
    """
    if value is None:
        return "none"
    row = find_field(path)
    if row.kind == "space":
        plain = value if isinstance(value, Mapping) else describe_space(value)
    else:
        plain = plain_value(row, value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def changed(sets: Mapping[str, str]) -> dict[str, Any]:
    """Checked values of the changes."""
    return dict(parse_set(f"{path}={text}", LINK) for path, text in sets.items())
