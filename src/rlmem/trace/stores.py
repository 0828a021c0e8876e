"""A compact buffer met in a dry run, full: the same arithmetic as the closed form, with what was seen of its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlmem.agent.protocol import Sized, SizedKey, StoreFacts, StoreKey
from rlmem.core.quantity import Quantity
from rlmem.model.compact import Compact, Key

#: Episode ends beyond those seen: a policy that learns ends its episodes later, or sooner.
MOST_ENDS, TIMES = 0.02, 2
EXPECTED_ENDS = 0.005


def kept(store: StoreFacts, sized: Sized) -> Iterator[tuple[str, Quantity, int]]:
    """Component, bytes when full and bytes resident now, for every key and for the tables."""
    if store.get("full"):
        yield from _full(store)
        return
    rows = Quantity.of(store["rows"], "rows", "a live buffer")
    n_envs = Quantity.of(store["n_envs"], "n_envs", "a live buffer")
    budget = store["options"].get("budget")
    whole = Compact(
        rows=rows,
        n_envs=n_envs,
        ends=_ends(rows.value * n_envs.value, sized.get("ends")) if store["paired"] else None,
        keys=tuple(_key(name, key, sized, store["options"].get("codec")) for name, key in store["keys"].items()),
        budget=Quantity.of(budget, "budget", "the buffer's own") if budget else None,
    )
    resident = {_name(name): int(key["resident"]) for name, key in store["keys"].items()}
    spilled = sum(resident.values())
    for array in whole.arrays():
        now = resident.pop(array.name, 0)
        if array.name == "observations" and len(store["keys"]) > 1:
            now = spilled  # what stays of all keys together
        yield array.name, array.amount, min(now, array.amount.value)
    tree = store.get("prioritised_bytes", 0)
    if tree:
        yield "sum-tree", Quantity.of(tree, "sum tree", "a live buffer"), tree


def _full(store: StoreFacts) -> Iterator[tuple[str, Quantity, int]]:
    """A buffer that is full says itself what it takes."""
    parts = {_name(name): int(key["nbytes"]) for name, key in store["keys"].items()}
    parts |= {"tables": int(store["index_bytes"]), "sum-tree": int(store.get("prioritised_bytes", 0))}
    for name, nbytes in parts.items():
        if nbytes:
            yield name, Quantity.of(nbytes, name, "a full live buffer"), nbytes


def _key(name: str, key: StoreKey, sized: Sized, codec: Any) -> Key:
    found: SizedKey = sized.get("keys", {}).get(name, {})
    stack = int(found.get("stack", key["stack"]))
    coded = None
    why = f"a sample of {sized.get('transitions', 0):,} observations"
    if found and found["codec"] != "none":
        how = f"{found['codec']}, blocks of {found['block']}; {why}"
        low, expected, high = (int(found[bound]) for bound in ("low", "expected", "high"))
        coded = Quantity.of(expected, f"{_name(name)} coded bytes", how, low=low, high=high)
    return Key(
        name=_name(name),
        obs_bytes=int(key["obs_bytes"]),
        why=why if found else "a live buffer",
        depth=stack,
        constant=bool(found.get("constant")),
        coded=coded,
        block=int(found["block"]) if coded else None,
        unknown=not found and (codec.get(name, "none") if isinstance(codec, Mapping) else codec) not in (None, "none"),
    )


def _name(key: str) -> str:
    return "observations" if key == "observation" else f"observations[{key}]"


def _ends(transitions: int, share: float | None) -> Quantity:
    seen = EXPECTED_ENDS if share is None else share
    why = "assumed: no sample" if share is None else f"{100 * seen:.2g} % of the sampled transitions"
    most = max(MOST_ENDS, TIMES * seen)
    return Quantity.of(round(transitions * seen), "episode ends", why, low=0, high=round(transitions * most))
