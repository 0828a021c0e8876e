"""An observation key is stored but never used.

Switching a sensor off often leaves its key in the observation space, filled with zeros: the store keeps an array for
it at full size, and writing zeros makes those pages resident like any others.

A key that is the same in every observation of a dry run is named as well. The compact buffers of ``rlmem.sb3`` keep
nothing of it.

Use instead: remove the key from the observation space, so that no array is made for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlmem.core.findings import Finding
from rlmem.core.spaces import DictSpace, describe_space, nbytes
from rlmem.core.subject import Subject
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.rules.base import Rule
from rlmem.units import format_size


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """One finding per key listed in ``unused_keys``, or seen not to change, that a plain store keeps."""
    space = subject.asked.get("observation")
    if not isinstance(space, DictSpace):
        return
    unused = subject.spec.get("unused_keys", ())
    constant = () if is_compact(subject.spec) else subject.spec.get("constant_keys", ())
    for key in dict.fromkeys((*unused, *constant)):
        kept = tuple((name, sub) for name, sub in space.spaces if name != key)
        if len(kept) == len(space.spaces) or not kept:
            continue
        changes: dict[str, Any] = {
            "observation": describe_space(DictSpace(spaces=kept)),
            "unused_keys": None,
            "constant_keys": None,
        }
        extractor = subject.asked.get("network.extractor")
        if isinstance(extractor, Mapping):
            changes["network.extractor"] = {name: list(layers) for name, layers in extractor.items() if name != key}
        saves = subject.saving(changes)
        size = format_size(nbytes(dict(space.spaces)[key]))
        yield rule.finding(
            f"{key!r} is stored with every transition ({size}) and never {'used' if key in unused else 'changes'}",
            saves_bytes=saves or None,
            location=f"observation.{key}",
            remedy=f"remove {key!r} from the observation space",
            changes=changes,
        )
