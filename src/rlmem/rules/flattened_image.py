"""An image is flattened into a long vector of floats.

A camera image joined with a few sensor values in one Box becomes a float32 vector: each pixel takes four bytes instead of
one, in every row of every buffer, and the network's first layer has a weight for every pixel::

    pixels = 84 * 84 * 3
    self.observation_space = Box(-np.inf, np.inf, shape=(pixels + 31,), dtype=np.float32)   # 83 KiB a row

Use instead: a Dict space with the image as a uint8 Box and the vector beside it, and MultiInputPolicy: 21 KiB a row and a
convolution. FlattenObservation does the same to a Dict with an image in it.

It is found where a float Box has more than 5,000 values in one dimension and its length is a product or that of a usual
image with a few values more.

Fix: none; the environment, its space and the policy change together.

Reference: j0hk3rPT/pidog_rl (21,199 values, 84×84×3 of them pixels); DLR-RM/stable-baselines3#2165.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from rlmem.core.findings import Finding
from rlmem.core.spaces import DTYPES, Box, DictSpace, Space, describe_space
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import WORTH_BYTES, of_environment
from rlmem.rules.shapes import IMAGE_SIDE, BoxCall, boxes, known
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of

LONG = 5_000
#: Images as environments usually make them, and how many other values may lie beside one.
_SIDES, _CHANNELS, _BESIDE = (64, 84, 96, 128), (1, 3, 4), 40
_REMEDY = "a Dict space with the image as a uint8 Box of its own, and MultiInputPolicy"


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Long float Boxes that hold an image, and FlattenObservation around one."""
    for box in boxes(script):
        if not is_long_float(box):
            continue
        length = prod(box.shape or ())
        sides = _product(script, box) or image_in(length)
        if sides is None:
            continue
        pixels = prod(sides)
        yield rule.finding(
            f"{'×'.join(map(str, sides))} pixels lie in a {box.dtype} vector of {length:,} values",
            place=script.place(box.shape_expr if box.shape_expr is not None else box.call),
            costs_bytes=pixels * (DTYPES[box.dtype] - 1),
            costs_per="stored observation",
            remedy=_REMEDY,
        )
    for call in script.calls_of("FlattenObservation", roots=("gym", "gymnasium")):
        environment = environment_of(script, call.args[0]) if call.args else None
        seen = of_environment(script, environment) if environment else None
        if seen is None or not seen.image:
            continue
        mixed = seen.nbytes is None and seen.known_bytes > 0
        yield rule.finding(
            "FlattenObservation makes one vector of an image and other values, with four bytes for every pixel"
            if mixed
            else "FlattenObservation makes a vector of an image, and the first layer gets a weight for every pixel",
            severity="warning" if mixed else "info",
            place=script.place(call),
            remedy=_REMEDY if mixed else "leave the image as it is and use CnnPolicy",
        )


def is_long_float(box: BoxCall) -> bool:
    """Whether a Box is one long vector of floats."""
    return box.dtype.startswith("float") and box.shape is not None and len(box.shape) == 1 and box.shape[0] > LONG


def _product(script: Script, box: BoxCall) -> tuple[int, ...] | None:
    """The sides of an image in the way a length is written: ``84 * 84 * 3 + 31``."""
    expr = box.shape_expr
    if isinstance(expr, (ast.Tuple, ast.List)) and len(expr.elts) == 1:
        expr = expr.elts[0]
    for node in _summands(script, expr, 6) if expr is not None else ():
        factors = [known(script, factor) for factor in _factors(node)]
        whole = all(isinstance(factor, int) for factor in factors)
        if whole and len(factors) > 1 and sorted(factors)[-2] >= IMAGE_SIDE and prod(factors) > LONG // 2:
            return tuple(factors)
    return None


def _summands(script: Script, expr: ast.expr, depth: int) -> Iterator[ast.expr]:
    found = script.definition(expr)
    if isinstance(found, ast.BinOp) and isinstance(found.op, ast.Add) and depth:
        yield from _summands(script, found.left, depth - 1)
        yield from _summands(script, found.right, depth - 1)
    else:
        yield found


def _factors(expr: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mult):
        yield from _factors(expr.left)
        yield from _factors(expr.right)
    else:
        yield expr


def image_in(length: int) -> tuple[int, int, int] | None:
    """The usual image that fills a vector but for a few values."""
    for side in _SIDES:
        for channels in _CHANNELS:
            if 0 <= length - side * side * channels <= _BESIDE:
                return side, side, channels
    return None


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """A planned vector that is as long as a usual image and a few values."""
    declared = subject.asked.get("observation")
    if declared is None or (better := _as_bytes(declared)) == declared:
        return
    changes = {"observation": describe_space(better)}
    saves = subject.saving(changes)
    if saves < WORTH_BYTES:
        return
    yield rule.finding(
        "an image seems to lie in a long vector of floats",
        saves_bytes=saves,
        location="observation",
        remedy=_REMEDY,
        changes=changes,
    )


def _as_bytes(space: Space) -> Space:
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype.startswith("float"):
        return replace(space, dtype="uint8") if space.shape[0] > LONG and image_in(space.shape[0]) else space
    if isinstance(space, DictSpace):
        return DictSpace(spaces=tuple((key, _as_bytes(sub)) for key, sub in space.spaces))
    return space
