"""Layers: shapes, parameters, errors."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.layers import KINDS, infer, parse_layer, parse_layers
from rlmem.errors import SpecError

NATURE = (
    "conv2d 32 k8 s4",
    "relu",
    "conv2d 64 k4 s2",
    "relu",
    "conv2d 64 k3 s1",
    "relu",
    "flatten",
    "linear 512",
    "relu",
)


@pytest.mark.parametrize(
    ("text", "in_shape", "out_shape", "parameters"),
    [
        ("linear 64", (10,), (64,), 704),
        ("linear 64", (5, 10), (5, 64), 704),
        ("conv1d 16 k5 s2 p2", (6, 300), (16, 150), 6 * 16 * 5 + 16),
        ("conv2d 32 k8 s4", (3, 84, 84), (32, 20, 20), 3 * 32 * 64 + 32),
        ("conv2d 8 k3 p1", (1, 7, 9), (8, 7, 9), 80),
        ("convt1d 6 k5 s2 p2 o1", (16, 150), (6, 300), 16 * 6 * 5 + 6),
        ("convt2d 3 k4 s2 p1", (8, 16, 16), (3, 32, 32), 8 * 3 * 16 + 3),
        ("maxpool2d k2 s2", (8, 21, 20), (8, 10, 10), 0),
        ("avgpool2d k3 s1 p1", (8, 5, 5), (8, 5, 5), 0),
        ("lstm 256", (64,), (256,), 4 * 256 * (64 + 256 + 2)),
        ("gru 32", (16,), (32,), 3 * 32 * (16 + 32 + 2)),
        ("layernorm", (64,), (64,), 128),
        ("batchnorm", (32, 8, 8), (32, 8, 8), 64),
        ("flatten", (3, 4, 5), (60,), 0),
        ("unflatten 4", (60,), (4, 15), 0),
        ("tanh", (3, 2), (3, 2), 0),
        ("identity", (3,), (3,), 0),
    ],
)
def test_a_layer_has_its_shape_and_parameters(
    text: str, in_shape: tuple[int, ...], out_shape: tuple[int, ...], parameters: int
) -> None:
    chain = infer(parse_layers([text]), in_shape)
    assert (chain.out_shape, chain.parameters) == (out_shape, parameters)


def test_the_nature_network_has_the_parameters_of_the_paper() -> None:
    chain = infer(parse_layers(list(NATURE)), (4, 84, 84))
    assert (chain.out_shape, chain.parameters, chain.largest_parameter) == ((512,), 1_684_128, 3136 * 512 + 512)


def test_the_nature_network_grows_with_the_frames_it_sees() -> None:
    chain = infer(parse_layers(list(NATURE)), (12, 144, 160))
    assert chain.ops[6].out_shape == (64 * 14 * 16,)
    convolutions = (12 * 32 * 64 + 32) + (32 * 64 * 16 + 64) + (64 * 64 * 9 + 64)
    assert chain.parameters == convolutions + 14_336 * 512 + 512


def test_an_empty_chain_passes_its_input_through() -> None:
    chain = infer((), (7, 3))
    assert (chain.out_shape, chain.out_floats, chain.parameters, chain.largest_parameter) == ((7, 3), 21, 0, 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a layer"),
        (3, "expected a layer"),
        (None, "expected a layer"),
        ("liner 64", "did you mean 'linear'"),
        ("linear", "needs a positive width"),
        ("linear 0", "needs a positive width"),
        ("linear -4", "needs a positive width"),
        ("linear ²", "needs a positive width"),
        ("linear 64 k3", "is not an option of linear; it takes no options"),
        ("conv2d 32 q3", "is not an option of conv2d"),
        ("conv2d 32 k0", "at least 1"),
        ("conv2d 32 s0", "at least 1"),
        ("relu 5", "is not an option of relu"),
    ],
)
def test_a_layer_that_makes_no_sense_is_refused(text: Any, problem: str) -> None:
    with pytest.raises(SpecError, match="net") as caught:
        parse_layer(text, "net[2]")
    assert caught.value.path == "net[2]"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("texts", "shape", "path", "problem"),
    [
        (["relu", "conv2d 8 k3"], (10,), "net[1]", "needs an input with 3 dimensions, got [10]"),
        (["conv2d 8 k9"], (3, 8, 8), "net[0]", "leaves nothing"),
        (["unflatten 7"], (60,), "net[0]", "cannot split [60] into 7"),
        (["maxpool2d k2"], (60,), "net[0]", "needs an input with 3 dimensions"),
    ],
)
def test_layers_that_do_not_fit_their_input_name_the_layer(
    texts: list[str], shape: tuple[int, ...], path: str, problem: str
) -> None:
    with pytest.raises(SpecError) as caught:
        infer(parse_layers(texts), shape, "net")
    assert caught.value.path == path
    assert problem in caught.value.problem


def test_a_list_is_expected() -> None:
    with pytest.raises(SpecError, match="expected a list of layers"):
        parse_layers("linear 64", "net")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_parses_from_its_shortest_text(kind: str) -> None:
    text = f"{kind} 4" if KINDS[kind].takes_width else kind
    assert parse_layer(text).kind == kind


def test_an_activation_is_labelled_by_the_layer_it_follows() -> None:
    ops = infer(parse_layers(["linear 64", "relu"]), (3,)).ops
    assert [op.label for op in ops] == ["linear 64", "linear 64 relu"]
