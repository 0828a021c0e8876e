"""Where the C functions of Zstandard and LZ4 are.

The wheels of ``zstandard`` and ``lz4`` carry the whole C libraries inside their extension modules and export them;
their Python calls would cost an object and the GIL for every block. Where a build does not export them (conda links
the shared library instead), the system's own library is used.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlmem.errors import AnalysisError


@dataclass(frozen=True, slots=True, kw_only=True)
class Coders:
    """Addresses of the functions the compiled code calls, 0 where a library is missing."""

    zstd_decompress: int
    zstd_compress: int
    lz4_decompress: int
    lz4_compress: int


def _candidates(package: str, pattern: str, library: str) -> Iterator[str]:
    found = importlib.util.find_spec(package)
    for place in (found.submodule_search_locations or []) if found else []:
        yield from sorted(str(path) for path in Path(place).glob(pattern))
    system = ctypes.util.find_library(library)
    if system:
        yield system


def _library(package: str, pattern: str, library: str, symbol: str) -> ctypes.CDLL | None:
    for path in _candidates(package, pattern, library):
        try:
            opened = ctypes.CDLL(path)
            getattr(opened, symbol)
        except (OSError, AttributeError):
            continue
        return opened
    return None


@cache
def zstd() -> ctypes.CDLL | None:
    """The Zstandard library, or None."""
    library = _library("zstandard", "_cffi*", "zstd", "ZSTD_decompressDCtx")
    if library:
        for name in ("ZSTD_createDCtx", "ZSTD_createCCtx"):
            getattr(library, name).restype = ctypes.c_void_p
        for name in ("ZSTD_freeDCtx", "ZSTD_freeCCtx"):
            getattr(library, name).argtypes = [ctypes.c_void_p]
    return library


@cache
def lz4() -> ctypes.CDLL | None:
    """The LZ4 library, or None."""
    return _library("lz4", "block/_block*", "lz4", "LZ4_decompress_safe")


def _address(library: ctypes.CDLL | None, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 if library else 0


@cache
def coders() -> Coders:
    """The functions found on this machine."""
    return Coders(
        zstd_decompress=_address(zstd(), "ZSTD_decompressDCtx"),
        zstd_compress=_address(zstd(), "ZSTD_compressCCtx"),
        lz4_decompress=_address(lz4(), "LZ4_decompress_safe"),
        lz4_compress=_address(lz4(), "LZ4_compress_default"),
    )


def require(coder: str) -> None:
    """Refuse a coder whose library is not here."""
    if not {"zstd": coders().zstd_decompress, "lz4": coders().lz4_decompress}[coder]:
        package = {"zstd": "zstandard", "lz4": "lz4"}[coder]
        raise AnalysisError(f"codec {coder!r} needs the {package} library: pip install {package}")
