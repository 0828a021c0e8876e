"""What one piece of JSON data has to have of another."""

from __future__ import annotations

from typing import Any


def assert_holds(more: Any, data: Any) -> None:
    """Whether all of ``data`` is in ``more``, which may have keys beside."""
    if isinstance(data, dict):
        for key, value in data.items():
            assert_holds(more[key], value)
    elif isinstance(data, list):
        assert len(more) == len(data)
        for one, other in zip(more, data, strict=True):
            assert_holds(one, other)
    else:
        assert more == data
