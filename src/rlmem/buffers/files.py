"""Buffers on disk: written beside and renamed into place, streamed in and out, every part with a checksum."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rlmem.buffers.packing import FORMAT, Packed, checksum
from rlmem.errors import AnalysisError

Array = npt.NDArray[Any]
MAGIC, END = b"rlmembuf", b"rlmemend"
#: Format, and the size and checksum of what follows.
_HEAD = struct.Struct("<IQI")


def save(path: str | os.PathLike[str], packed: Packed) -> int:
    """Write a buffer; the file is there whole or not at all. Returns its size."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            _write(file, packed)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        beside.replace(target)
    except OSError as problem:
        raise AnalysisError(f"cannot save to {target}: {problem.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    return size


def _write(file: BinaryIO, packed: Packed) -> None:
    listed = [[name, array.dtype.str, list(array.shape), checksum(array)] for name, array in packed.arrays]
    head = json.dumps({"description": packed.description, "arrays": listed}).encode()
    file.write(MAGIC + _HEAD.pack(FORMAT, len(head), zlib.crc32(head)) + head)
    for _, array in packed.arrays:
        if array.size:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    file.write(END)


def load(path: str | os.PathLike[str]) -> Packed:
    """Read a buffer, array by array into its own memory; a damaged or shortened file is refused."""
    try:
        with Path(path).open("rb") as file:
            head = _head(file, path)
            arrays = list(_arrays(file, head["arrays"], path))
            _check_end(file, path)
    except OSError as problem:
        raise AnalysisError(f"cannot read {path}: {problem.strerror}") from None
    return Packed(head["description"], arrays)


def _check_end(file: BinaryIO, path: str | os.PathLike[str]) -> None:
    if file.read(len(END) + 1) != END:
        raise _damaged(path, "it does not end where it should")


def _head(file: BinaryIO, path: str | os.PathLike[str]) -> dict[str, Any]:
    start = file.read(len(MAGIC) + _HEAD.size)
    if len(start) < len(MAGIC) + _HEAD.size or not start.startswith(MAGIC):
        raise AnalysisError(f"{path} is not a buffer saved by rlmem")
    version, size, expected = _HEAD.unpack(start[len(MAGIC) :])
    if not 1 <= version <= FORMAT:
        raise AnalysisError(f"{path} is in format {version}; this version of rlmem reads up to {FORMAT}")
    room = os.fstat(file.fileno()).st_size
    head = file.read(size) if size <= room else b""
    if len(head) != size or zlib.crc32(head) != expected:
        raise _damaged(path, "its description does not match its checksum")
    return json.loads(head)


def _arrays(file: BinaryIO, listed: list[Any], path: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    for name, dtype, shape, expected in listed:
        array = np.empty(shape, np.dtype(dtype))
        if array.size:
            line = array.reshape(-1).view(np.uint8)
            if file.readinto(line.data) != line.size:  # type: ignore[attr-defined]
                raise _damaged(path, "it is cut short")
        if checksum(array) != expected:
            raise _damaged(path, f"{name} does not match its checksum")
        yield name, array


def _damaged(path: str | os.PathLike[str], how: str) -> AnalysisError:
    return AnalysisError(f"{path} is damaged: {how}; nothing was loaded")


def verify(path: str | os.PathLike[str]) -> None:
    """Read a file through and refuse it if anything is wrong with it; nothing of it is kept."""
    try:
        with Path(path).open("rb") as file:
            for _ in _arrays(file, _head(file, path)["arrays"], path):
                pass
            _check_end(file, path)
    except OSError as problem:
        raise AnalysisError(f"cannot read {path}: {problem.strerror}") from None


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says it holds."""
    try:
        with Path(path).open("rb") as file:
            return _head(file, path)["description"]
    except OSError as problem:
        raise AnalysisError(f"cannot read {path}: {problem.strerror}") from None
