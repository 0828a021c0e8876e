"""Measured constants of a Python environment, as a document: ``rlmem.calibration/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantPart:
    """One measured constant with its range."""

    name: str
    low_bytes: Size
    expected_bytes: Size
    high_bytes: Size
    how: Annotated[str, Meta(description="how it was measured")]
    shipped_bytes: Annotated[
        Size | None, Meta(description="what plans expect without a calibration; null: not written down")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationDocument(Document):
    """Runtime constants that were measured in one environment, and are used by its later plans. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.calibration/1"
    TITLE: ClassVar[str] = "rlmem calibrate"

    python: Annotated[str, Meta(description="the interpreter of the environment")]
    versions: Annotated[Mapping[str, str], Meta(description="of its packages; an error's name where one is not there")]
    file: Annotated[str, Meta(description="where the constants are kept")]
    constants: tuple[ConstantPart, ...]
