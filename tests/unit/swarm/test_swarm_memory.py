"""What a rollout keeps, to the byte, and that nothing else grows with agents times steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from rlmem.buffers import window  # noqa: E402
from rlmem.swarm import collect  # noqa: E402
from rlmem.swarm import run as running  # noqa: E402
from rlmem.swarm.kept import KeptStream  # noqa: E402
from rlmem.swarm.physics import Drones  # noqa: E402
from rlmem.swarm.run import SwarmRun  # noqa: E402
from rlmem.swarm.settings import RUNGS, Settings  # noqa: E402

pytestmark = pytest.mark.truth

#: Four actions, a log-probability, a reward and a value a step.
REST = 100 * (4 + 3) * 4
#: Bytes that an agent's rollout of 100 steps takes, by rung and history.
STORED = {
    ("naive", "reset"): 100 * 1804 * 4 + REST,
    ("no-grad", "reset"): 100 * 1804 * 4 + REST,
    ("preallocated", "reset"): 100 * 1804 * 4 + REST,
    ("chunked", "carry"): 100 * 1804 * 4 + REST,
    # No window of the rollout sees the last step's samples; with a history to carry the next rollout does.
    ("stream", "reset"): 990 * 6 * 4 + REST,
    ("stream", "carry"): 1300 * 6 * 4 + REST,
    ("half", "reset"): 990 * 6 * 2 + REST,
    ("half", "carry"): 1300 * 6 * 2 + REST,
    ("in-place", "reset"): 990 * 6 * 2 + REST,
    ("gyro", "reset"): 8_740,
    # Rates of the history carried in follow from the 30 actions before.
    ("gyro", "carry"): 1300 * 3 * 2 + 30 * 16 + REST,
    ("resimulated", "reset"): REST,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def storages(*held: Any) -> int:
    """Bytes behind all tensors that these objects hold, each storage once."""
    tensors = [t for thing in held for t in tree_leaves(list(vars(thing).values())) if isinstance(t, torch.Tensor)]
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(found.values())


@pytest.mark.parametrize(("rung", "history"), STORED)
def test_stored_bytes_of_an_agent_are_these(rung: str, history: str) -> None:
    # What a list keeps is there once it is filled; the rest from the start.
    chosen = Settings(agents=2, minibatches=1, rung=rung, history=history, ae_share=0.01)
    run = SwarmRun(chosen)
    stored = run.kept.nbytes if chosen.ladder.store != "list" else run.iterate().stored_bytes
    assert stored == 2 * STORED[rung, history]


@pytest.mark.parametrize(
    ("rung", "history"), [key for key in STORED if key[0] in {"stream", "half", "gyro", "resimulated"}]
)
@pytest.mark.parametrize("imu", ["float16", "int16"])
def test_that_is_all_there_is(rung: str, history: str, imu: str) -> None:
    chosen = Settings(agents=7, minibatches=1, rung=rung, history=history, imu=imu)
    kept = KeptStream(chosen, Drones(7), torch.device("cpu"))
    assert kept.nbytes == storages(kept, *([kept.store] if kept.store is not None else [])) == 7 * STORED[rung, history]


def test_every_rung_has_its_number_and_the_goal_is_met() -> None:
    assert {rung for rung, _ in STORED} == {rung.name for rung in RUNGS}
    assert STORED["gyro", "reset"] <= 9_000
    assert STORED["naive", "reset"] / STORED["gyro", "reset"] > 80


class New(TorchDispatchMode):  # type: ignore[misc]
    """Sizes of the tensors that operations make, by elements: no views, nothing written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: Counter[int] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = {t.untyped_storage().data_ptr() for t in tensors_in((args, tuple(kwargs.values())))}
        for made in tensors_in((out,)):
            storage = made.untyped_storage()
            if storage.data_ptr() not in given:
                self.sizes[storage.nbytes() // made.element_size()] += 1
        return out


def tensors_in(values: Any) -> Iterator[Any]:
    """Those of what an operation takes or gives."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


#: Numbers of agents whose product with the steps is no size that a chunk's own tensors have.
FEW, MANY, STEPS = 6, 14, 7


def made_by(chosen: Settings) -> New:
    """An iteration; the second, where the first leaves a history to carry."""
    run = SwarmRun(chosen)
    if chosen.history == "carry":
        run.iterate()
    with New() as made:
        run.iterate()
    return made


def grown(rung: str, history: str, encoding: str) -> dict[int, int]:
    """How many tensors of which size, as large as a number for every agent and step, there are with more agents only."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        # Blocks of agents beside the chunks: as small against the agents as they are in earnest.
        patch.setattr(running, "_NOISE", 2)
        patch.setattr(collect, "COLLECTED", 1)
        patch.setattr(window, "_COPY", 1)
        for agents in (FEW, MANY):
            made[agents] = made_by(
                Settings(
                    agents=agents, steps=STEPS, minibatches=1, chunk=2, rung=rung, history=history, encoding=encoding
                )
            )
    few, many = made[FEW], made[MANY]
    assert max(few.sizes) == max(many.sizes)
    return {size: n for size, n in many.sizes.items() if size not in few.sizes and size >= MANY * (STEPS - 1)}


@pytest.mark.parametrize(
    ("rung", "history", "encoding"),
    [
        ("stream", "reset", "window"),
        ("half", "carry", "sequence"),
        ("in-place", "reset", "sequence"),
        ("gyro", "carry", "window"),
        ("resimulated", "reset", "sequence"),
    ],
)
def test_nothing_is_made_that_grows_with_agents_times_steps(rung: str, history: str, encoding: str) -> None:
    # Up to "half", returns and advantages are tensors of their own: "in-place" is there to end that.
    expected = {MANY * STEPS: 2} if rung in {"stream", "half"} else {}
    assert grown(rung, history, encoding) == expected


def test_an_index_or_a_transposed_copy_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = KeptStream.finish

    def finish(kept: KeptStream) -> None:
        kept.values.t().contiguous()
        torch.arange(kept.actions.numel())
        original(kept)

    monkeypatch.setattr(KeptStream, "finish", finish)
    assert grown("gyro", "reset", "sequence") == {MANY * STEPS: 1, MANY * STEPS * 4: 1}
