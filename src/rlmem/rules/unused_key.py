"""An observation key is stored but never used.

Switching a sensor off often leaves its key in the observation space, filled with zeros: the store keeps an array for
it at full size, and writing zeros makes those pages resident like any others.

Use instead: remove the key from the observation space, so that no array is made for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule
from rlmem.spaces import Box, DictSpace, describe_space, nbytes
from rlmem.units import format_size


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """One finding per key listed in ``unused_keys``."""
    space = context.asked.get("observation")
    if not isinstance(space, DictSpace):
        return
    for key in context.spec.get("unused_keys", ()):
        kept = tuple((name, sub) for name, sub in space.spaces if name != key)
        if len(kept) == len(space.spaces) or not kept:
            continue
        smaller = kept[0][1] if len(kept) == 1 and isinstance(kept[0][1], Box) else DictSpace(spaces=kept)
        changes = {
            "observation": describe_space(smaller),
            "unused_keys": None,
            "network.extractor": None,
            "network.fusion": None,
        }
        saves = context.saving(changes, f"no {key}")
        size = format_size(nbytes(dict(space.spaces)[key]))
        yield rule.finding(
            f"{key!r} is stored with every transition ({size}) and never used",
            saves_bytes=saves,
            location=f"observation.{key}",
            remedy=f"remove {key!r} from the observation space",
        )
