"""Whether facts from a user's interpreter are of the protocol that this rlmem reads (``rlmem.agent.protocol``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.agent import PROTOCOL
from rlmem.errors import AnalysisError

#: What facts without a version are: rlmem wrote none into them before the protocol was written down.
FIRST = 1


def check_protocol(facts: Mapping[str, Any], source: str) -> None:
    """Refuse facts of another version of the protocol.

    Args:
        facts: what an agent or a program said, or what of it was stored.
        source: who said it; the error begins with it.

    Raises:
        AnalysisError: the facts are of another version.
    """
    version = facts.get("protocol", FIRST)
    if version != PROTOCOL:
        raise AnalysisError(
            f"{source} uses protocol {version}; this rlmem needs protocol {PROTOCOL}. Install the same rlmem version on both sides"
        )
