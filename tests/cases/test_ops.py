"""The op recorder on real updates: a recording at small sizes, extended, is the recording at the real one."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

import numpy as np
import torch
from torch import nn

from rlmem.agent.ops import OpRecorder, as_on_cuda
from rlmem.trace.align import Recording, extend

pytestmark = pytest.mark.truth


def dense() -> Any:
    return nn.Sequential(nn.Linear(27, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))


def convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(4, 8, 8, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 4, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 9 * 9, 256), nn.ReLU(), nn.Linear(256, 6),
    )  # fmt: skip


def step(net: Any, optimizer: Any, batch: int, *, images: bool) -> None:
    """Rows come from numpy, as from a replay buffer; images are turned to floats and scaled."""
    shape = (4, 84, 84) if images else (27,)
    rows = np.random.default_rng(0).integers(0, 255, (batch, *shape)).astype(np.uint8 if images else np.float32)
    seen = torch.as_tensor(rows)
    actions = torch.tensor(np.zeros((batch, 1), np.int64))
    values = net(seen.float() / 255.0).gather(1, actions)
    loss = torch.distributions.Normal(values, 1.0).log_prob(torch.zeros_like(values)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    optimizer.step()


def record(batch: int, *, images: bool) -> Recording:
    torch.manual_seed(0)
    net = convolutional() if images else dense()
    optimizer = torch.optim.Adam(net.parameters())
    with as_on_cuda([optimizer]), OpRecorder(net.parameters()) as recorder:
        for _ in range(2):
            step(net, optimizer, batch, images=images)
    return Recording.from_plain(batch, recorder.recording())


@pytest.mark.parametrize("images", [False, True])
def test_small_recordings_extend_to_the_real_one_exactly(images: bool) -> None:
    timeline = extend([record(8, images=images), record(16, images=images)], 512)
    real = record(512, images=images)
    assert timeline.unaligned == 0
    assert timeline.recording.before == real.before
    assert [event.made for event in timeline.recording.events] == [event.made for event in real.events]
    assert timeline.curve == list(real.live())


def test_another_operation_is_at_the_peak_of_a_large_batch() -> None:
    known = [record(8, images=True), record(16, images=True)]
    small, large = (extend(known, batch).peak() for batch in (2, 512))
    assert small.op == "_foreach_sqrt"
    assert large.op == "div"
    assert set(list(large.holders)[:2]) == {"_to_copy", "div"}


def test_recording_changes_no_result_and_keeps_nothing_alive() -> None:
    def train(*, watched: bool) -> list[Any]:
        torch.manual_seed(1)
        net = dense()
        optimizer = torch.optim.Adam(net.parameters())
        recorder = OpRecorder(net.parameters())
        if watched:
            with recorder:
                step(net, optimizer, 32, images=False)
            made = {storage for event in recorder.events for storage, _ in event[1]}
            freed = {storage for event in recorder.events for storage in event[2]}
            # Gradients, and Adam's two averages and a counter for each parameter, stay.
            assert len(made - freed) == 4 * len(list(net.parameters()))
        else:
            step(net, optimizer, 32, images=False)
        return [parameter.detach().clone() for parameter in net.parameters()]

    for plain, seen in zip(train(watched=False), train(watched=True), strict=True):
        assert torch.equal(plain, seen)


def test_views_and_updates_in_place_make_nothing_and_arrays_arrive_once() -> None:
    array = np.ones((8, 4), np.float32)
    buffer = torch.zeros(8, 4)
    with OpRecorder([buffer]) as recorder:
        copied = torch.tensor(array)
        shared = torch.from_numpy(array)
        buffer[2:4].add_(1.0)
        buffer.view(-1)[0] = 5.0
        buffer.copy_(copied + shared)
    sizes = [nbytes for event in recorder.events for _, nbytes in event[1]]
    assert sum(nbytes == array.nbytes for nbytes in sizes) == 3  # the copy, the array itself, their sum
    assert recorder.before == [[0, array.nbytes]]


def test_a_recurrent_network_and_second_derivatives_are_seen() -> None:
    net = nn.LSTM(8, 16)
    rows = torch.zeros(5, 3, 8)
    with OpRecorder(net.parameters()) as recorder:
        out, _ = net(rows)
        first = torch.autograd.grad(dense()(torch.zeros(4, 27)).pow(2).sum(), [torch.zeros(1, requires_grad=True)],
                                    allow_unused=True)  # fmt: skip
        weight = torch.ones(6, requires_grad=True)
        slope = torch.autograd.grad((weight**3).sum(), weight, create_graph=True)[0]
        torch.autograd.grad((slope * slope.detach()).sum(), weight)
        out.sum().backward()
    assert first == (None,)
    names = {event[0] for event in recorder.events}
    assert {name for name in names if name.endswith(".backward")}
    assert [0, 16 * 4 * 8 * 4] in recorder.before
    assert sum(nbytes for event in recorder.events for _, nbytes in event[1]) > out.numel() * 4


def test_optimizers_are_given_back_as_they_were() -> None:
    parameter = nn.Parameter(torch.ones(3))
    plain, own = torch.optim.Adam([parameter]), torch.optim.Adam([parameter], foreach=False)
    with as_on_cuda([plain, own]):
        assert [one.param_groups[0]["foreach"] for one in (plain, own)] == [True, False]
    assert [one.param_groups[0]["foreach"] for one in (plain, own)] == [None, False]


def test_recording_is_cheap() -> None:
    net = dense()
    optimizer = torch.optim.Adam(net.parameters())
    step(net, optimizer, 8, images=False)

    def spent(*, watched: bool) -> tuple[float, int]:
        recorder = OpRecorder(net.parameters())
        began = time.thread_time()
        if watched:
            with recorder:
                step(net, optimizer, 8, images=False)
        else:
            step(net, optimizer, 8, images=False)
        return time.thread_time() - began, len(recorder.events)

    plain = min(spent(watched=False)[0] for _ in range(10))
    watched, events = min(spent(watched=True) for _ in range(10))
    assert (watched - plain) / events < 0.0004  # 0.06 ms on an idle machine
