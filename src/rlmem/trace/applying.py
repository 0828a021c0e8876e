"""Write an edited script in place of the one that was read, with a backup beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rlmem.errors import AnalysisError, UsageError
from rlmem.lint.reading import Text
from rlmem.lint.writing import ChangedError, replace_file

SUFFIX = ".orig"


def write_edited(path: Path, before: Text, after: str) -> Path:
    """The backup's path. Refused when the file is not the one that was read; a backup that is there is never touched."""
    backup: Path | None = None
    written = False
    try:
        backup = _backup(Path(os.path.realpath(path)), before)
        replace_file(path, before.encoded(after), before.digest)
        written = True
    except ChangedError:
        raise AnalysisError(
            f"{path} was changed since it was read; nothing was written. Run the command again"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        if backup is not None and not written:
            backup.unlink(missing_ok=True)
    return backup


def _backup(target: Path, before: Text) -> Path:
    """A copy of what was read under a name that nobody has."""
    number = 0
    while True:
        backup = target.with_name(f"{target.name}{SUFFIX}{number or ''}")
        try:
            with backup.open("xb") as stream:
                stream.write(before.encoded(before.text))
        except FileExistsError:
            number += 1
            continue
        shutil.copymode(target, backup)
        return backup
