"""What bounds a container, as its source says it."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlmem.agent import growing

LENGTH = 40


def bound(tmp_path: Path, source: str, name: str = "store", owner: object = None) -> dict[str, object]:
    path = tmp_path / "train.py"
    path.write_text(source)
    ast.parse(source)
    return growing.bounds(name, owner, str(path), LENGTH)


@pytest.mark.parametrize(
    "source",
    [
        "if len(store) < 100: store.append(1)",
        "store[step % 100] = 1",
        "k = step % 100\nif k not in store:\n    store[k] = 1",
        "while 100 > len(store): store.append(1)",
    ],
)
def test_a_bound_is_read(tmp_path: Path, source: str) -> None:
    assert bound(tmp_path, source)["capacity"] == 100


def test_a_bound_may_be_an_attribute_of_the_owner(tmp_path: Path) -> None:
    owner = SimpleNamespace(most=60)
    assert bound(tmp_path, "if len(self.store) == self.most: pass", owner=owner)["capacity"] == 60


@pytest.mark.parametrize(
    "source",
    [
        "store[step] = 1",
        "k = step % 100\nk = step\nstore[k] = 1",
        "store.append(1)\nif len(store) > 5: learn(store)",  # a length it has passed bounds nothing
        "other[step % 100] = 1",
    ],
)
def test_no_bound_is_made_up(tmp_path: Path, source: str) -> None:
    assert bound(tmp_path, source) == {"capacity": None, "shortened": False}


@pytest.mark.parametrize("source", ["store.pop(0)", "del store[0]", "store[:] = []", "for _ in x:\n    store = []"])
def test_shortening_is_seen(tmp_path: Path, source: str) -> None:
    assert bound(tmp_path, source)["shortened"] is True
