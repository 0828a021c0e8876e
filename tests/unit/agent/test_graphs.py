"""Memory of autograd graphs that a program keeps belongs to whoever keeps the tensors, by bytes, and runs no hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from rlmem.agent import graphs
from rlmem.agent.walk import Walk

MIB = 1 << 20
WIDTH, ROWS = 256, 256


def rows(**named: Any) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in Walk(seconds=30).run(list(named.items())).rows()}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))


NET, X = network(), torch.randn(ROWS, 4)
#: What one loss below keeps: the result of the Tanh, and the prediction that is squared.
EACH = ROWS * (WIDTH + 1) * 4


def loss(rows: int = ROWS) -> torch.Tensor:
    found: torch.Tensor = NET(X[:rows]).pow(2).mean()
    return found


def test_a_hundred_losses_are_named_with_the_bytes_of_their_graphs() -> None:
    row = rows(net=NET, x=X, losses=[loss() for _ in range(100)])["losses"]
    assert row["graphs"] == 100
    assert row["graph_bytes"] == pytest.approx(100 * EACH, rel=0.1)
    assert row["nbytes"] == pytest.approx(100 * EACH, rel=0.01)


def test_a_graph_that_a_backward_pass_has_freed_holds_little() -> None:
    losses = [loss() for _ in range(100)]
    for each in losses:
        each.backward()  # type: ignore[no-untyped-call]
    row = rows(net=NET, x=X, losses=losses)["losses"]
    assert row["graphs"] == 100
    assert 100 * 5 * graphs.OPERATION <= row["graph_bytes"] < 0.1 * 100 * EACH


def test_graphs_of_a_long_list_are_estimated_from_a_sample() -> None:
    row = rows(net=NET, x=X, losses=[loss(1 + n // 32) for n in range(3000)])["losses"]
    true = sum((1 + n // 32) * (WIDTH + 1) * 4 for n in range(3000))
    assert row["estimated"]
    assert row["nbytes"] == pytest.approx(true, rel=0.25)
    assert row["nbytes"] - row["less"] <= true <= row["nbytes"] + row["more"]


def test_graphs_that_run_into_each_other_count_once() -> None:
    total, totals = loss(), []
    for _ in range(99):
        total = total + loss()
        totals.append(total)
    row = rows(net=NET, x=X, totals=totals)["totals"]
    assert row["nbytes"] == pytest.approx(100 * EACH, rel=0.05)


def test_the_graph_of_one_tensor_has_its_name_and_is_no_container() -> None:
    row = rows(net=NET, x=X, loss=loss())["loss.grad_fn"]
    assert (row["kind"], row["graphs"]) == ("objects", 0)
    assert row["nbytes"] == pytest.approx(EACH, rel=0.01)


def test_what_else_has_a_name_is_not_the_graphs() -> None:
    data = torch.randn(1000, 4)
    found = rows(net=NET, data=data, losses=[(NET[0](data)).sum() for _ in range(100)])
    assert found["losses"]["graph_bytes"] < 2 * MIB if "losses" in found else True


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value * 3)
        ctx.more = value * 5
        return value * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2


def test_a_programs_own_operations_are_looked_into() -> None:
    start = torch.ones(MIB, requires_grad=True)
    apply: Callable[[torch.Tensor], torch.Tensor] = Doubled.apply  # type: ignore[assignment]
    row = rows(start=start, kept=[apply(start).sum() for _ in range(3)])["kept"]
    assert row["nbytes"] == pytest.approx(3 * 8 * MIB, rel=0.01)


def test_no_hook_of_the_program_is_called() -> None:
    def refuse(_packed: Any) -> torch.Tensor:
        raise AssertionError("called")

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: ("packed", tensor.clone()), refuse):
        kept = [loss() for _ in range(3)]
    assert rows(net=NET, x=X, kept=kept)["kept"]["nbytes"] > 2.9 * EACH


def test_a_walk_in_another_thread_leaves_graphs_alone() -> None:
    walk = Walk(seconds=30, careful=True).run([("losses", [loss() for _ in range(100)])])
    assert not any(row["graphs"] for row in walk.rows())


def test_a_hidden_state_that_is_never_detached_is_named_with_what_was_looked_at_of_its_graph() -> None:
    cell = torch.nn.RNNCell(4, 512)
    hidden, one = torch.zeros(16, 512), torch.zeros(16, 512)
    for _ in range(1500):
        hidden = cell(torch.ones(16, 4), hidden)
    one = cell(torch.ones(16, 4), one)
    found = rows(hidden=hidden, one=one)
    row = found["hidden.grad_fn"]
    assert row["graph_more"]
    assert "more than 4,0" in row["note"]
    assert row["estimated"]
    assert row["graph_bytes"] > 16 * MIB
    assert not any(other["graph_more"] for path, other in found.items() if path != "hidden.grad_fn")
