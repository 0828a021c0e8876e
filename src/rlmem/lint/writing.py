"""Another content for a file: in one step, and only when it is still the file that was read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path


class ChangedError(OSError):
    """The file is no longer the one that was read."""


def replace_file(path: Path, data: bytes, digest: str) -> None:
    """The mode and the owner stay, and a link stays a link; nothing is left behind on failure."""
    target = Path(os.path.realpath(path))
    if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
        raise PermissionError(13, "the file is read-only")
    handle, temporary = tempfile.mkstemp(prefix=".rlmem-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        shutil.copymode(target, temporary)
        with contextlib.suppress(OSError):  # only root may give a file away
            found = target.stat()
            os.chown(temporary, found.st_uid, found.st_gid)
        if hashlib.sha256(target.read_bytes()).hexdigest() != digest:
            raise ChangedError(16, "it was changed since it was read; run the command again")
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
