"""Measure the runtime constants of an environment, and keep them for its later plans."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from rlmem.documents.calibration import CalibrationDocument, ConstantPart
from rlmem.errors import AnalysisError
from rlmem.model.constants import Constants
from rlmem.process.calibration import cache_file, write_calibration
from rlmem.process.calibration import calibrate as measure
from rlmem.process.interpreters import named_python


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateRequest:
    """An environment whose constants are to be measured.

    Attributes:
        python: its interpreter; the one rlmem runs in when ``None``.
        packages: packages to measure beside those of every training.
    """

    python: str | None = None
    packages: tuple[str, ...] = ()


def calibrate(request: CalibrateRequest, *, say: Callable[[str], None] = lambda step: None) -> CalibrationDocument:
    """Measure the constants of an environment in fresh processes, and keep them.

    Args:
        request: the environment.
        say: hears what is measured next.

    Returns:
        The constants beside those that rlmem ships.

    Raises:
        UsageError: there is no such interpreter, or it is too old.
        AnalysisError: it does not answer, or nothing can be measured or kept here.
    """
    python = _interpreter(request.python)
    rows, versions = measure(python, request.packages, today=date.today().isoformat(), say=say)
    path = write_calibration(python, rows, versions)
    shipped = Constants()
    constants = tuple(
        ConstantPart(
            name=row.name,
            low_bytes=row.low,
            expected_bytes=row.expected,
            high_bytes=row.high,
            how=row.how,
            shipped_bytes=shipped.find(row.name).expected,
        )
        for row in rows.values()
    )
    return CalibrationDocument(python=python, versions=versions, file=str(path), constants=constants)


def forget_calibration(python: str | None = None) -> str:
    """Drop what was measured of an environment, and return its interpreter."""
    interpreter = _interpreter(python)
    file = cache_file(interpreter)
    try:
        file.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # nothing was ever kept there
    except OSError as error:
        raise AnalysisError(f"cannot remove {file}: {error.strerror or error}") from None
    return interpreter


def _interpreter(python: str | None) -> str:
    return sys.executable if python is None else named_python(python)
