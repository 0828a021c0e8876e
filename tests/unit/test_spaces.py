"""Spaces as sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.core.spaces import (
    DTYPES,
    Box,
    DictSpace,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    TupleSpace,
    Window,
    describe_space,
    is_nested,
    leaves,
    nbytes,
    parse_space,
)
from rlmem.errors import SpecError

IMAGE = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [31]}


@pytest.mark.parametrize(
    ("data", "size", "width"),
    [
        (IMAGE, 21_168, 21_168),
        (VECTOR, 124, 31),
        ({"type": "box", "shape": 5, "dtype": "float64"}, 40, 5),
        ({"type": "box", "shape": []}, 4, 1),
        ({"type": "discrete", "n": 6}, 8, 6),
        ({"type": "multidiscrete", "nvec": [3, 3, 2]}, 24, 8),
        ({"type": "multibinary", "n": 7}, 7, 7),
        ({"type": "multibinary", "shape": [2, 3]}, 6, 6),
        ({"type": "window", "sample": 6, "extra": 4}, 40, 10),
        ({"type": "BOX", "shape": [2]}, 8, 2),
    ],
)
def test_every_kind_has_the_size_it_is_stored_with(data: dict[str, Any], size: int, width: int) -> None:
    space = parse_space(data)
    assert nbytes(space) == size
    assert sum(leaf.width for leaf in leaves(space)) == width


def test_a_window_at_its_length_is_a_flat_vector() -> None:
    (leaf,) = leaves(Window(sample=6, extra=4, length=300))
    assert (leaf.shape, leaf.nbytes) == ((1804,), 7216)


def test_nested_spaces_name_their_arrays_by_path() -> None:
    inner = {"type": "tuple", "spaces": [VECTOR, {"type": "dict", "spaces": {"deep": IMAGE}}]}
    space = parse_space({"type": "dict", "spaces": {"camera": IMAGE, "rest": inner}})
    assert [leaf.name for leaf in leaves(space)] == ["camera", "rest.0", "rest.1.deep"]
    assert is_nested(space)
    assert not is_nested(parse_space({"type": "dict", "spaces": {"camera": IMAGE}}))
    assert not is_nested(parse_space(IMAGE))


def test_only_three_dimensional_bytes_are_an_image() -> None:
    for data, image in ((IMAGE, True), (VECTOR, False), (IMAGE | {"dtype": "float32"}, False)):
        assert leaves(parse_space(data))[0].is_image is image


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        (3, "obs", "expected a mapping with a 'type'"),
        ({}, "obs.type", "cannot size a None space"),
        ({"type": "bx"}, "obs.type", "did you mean 'box'"),
        ({"type": ["box"]}, "obs.type", "cannot size"),
        ({"type": "box"}, "obs.shape", "missing"),
        ({"type": "box", "shape": "84x84"}, "obs.shape", "expected a list of dimensions"),
        ({"type": "box", "shape": [84, 0]}, "obs.shape[1]", "from 1 to"),
        ({"type": "box", "shape": [84, -1]}, "obs.shape[1]", "from 1 to"),
        ({"type": "box", "shape": [84, 1.5]}, "obs.shape[1]", "whole number"),
        ({"type": "box", "shape": [True]}, "obs.shape[0]", "whole number"),
        ({"type": "box", "shape": [10**10]}, "obs.shape[0]", "from 1 to"),
        ({"type": "box", "shape": [2], "dtype": "flot32"}, "obs.dtype", "did you mean 'float32'"),
        ({"type": "box", "shape": [2], "dtype": ["float32"]}, "obs.dtype", "unknown dtype"),
        ({"type": "box", "shape": [2], "low": "0"}, "obs.low", "expected a number"),
        ({"type": "box", "shape": [2], "shpe": 3}, "obs.shpe", "did you mean 'shape'"),
        ({"type": "discrete"}, "obs.n", "whole number"),
        ({"type": "multidiscrete", "nvec": []}, "obs.nvec", "list of bounds"),
        ({"type": "window"}, "obs.sample", "whole number"),
        ({"type": "tuple", "spaces": []}, "obs.spaces", "list of spaces"),
        ({"type": "dict", "spaces": [VECTOR]}, "obs.spaces", "mapping from names"),
        (
            {"type": "dict", "spaces": {"a": {"type": "tuple", "spaces": [VECTOR, {"type": "box", "shape": ["x"]}]}}},
            "obs.spaces.a.spaces[1].shape[0]",
            "whole number",
        ),
    ],
)
def test_an_error_names_the_field_and_what_was_expected(data: Any, path: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_space(data, "obs")
    assert caught.value.path == path
    assert problem in caught.value.problem


def test_an_object_that_is_no_space_says_what_to_register() -> None:
    with pytest.raises(SpecError, match="register it with"):
        leaves(object())


@pytest.mark.parametrize("bound", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_a_bound_that_json_cannot_hold_is_no_bound(bound: float) -> None:
    assert parse_space(VECTOR | {"low": bound, "high": 1}) == Box(shape=(31,), high=1.0)


shapes = st.lists(st.integers(1, 100), max_size=4).map(tuple)
bounds = st.none() | st.floats(-1e6, 1e6)
simple = st.one_of(
    st.builds(Box, shape=shapes, dtype=st.sampled_from(list(DTYPES)), low=bounds, high=bounds),
    st.builds(Discrete, n=st.integers(1, 1000)),
    st.builds(MultiDiscrete, nvec=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)),
    st.builds(MultiBinary, shape=shapes),
    st.builds(Window, sample=st.integers(1, 99), extra=st.integers(0, 9), step=st.integers(1, 9)),
)
spaces = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(TupleSpace, spaces=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(
            DictSpace,
            spaces=st.dictionaries(st.text(min_size=1, max_size=5), inner, min_size=1, max_size=3).map(
                lambda parts: tuple(parts.items())
            ),
        ),
    ),
    max_leaves=6,
)


@given(spaces)
def test_a_described_space_parses_back_to_itself(space: Space) -> None:
    assert parse_space(describe_space(space)) == space


@given(spaces)
def test_the_size_of_a_space_is_the_sum_of_its_arrays(space: Space) -> None:
    assert nbytes(space) == sum(leaf.nbytes for leaf in leaves(space)) >= 1
