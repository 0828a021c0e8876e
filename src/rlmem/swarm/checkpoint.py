"""A training run on disk: written beside and renamed, so that what is there is always whole."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rlmem.errors import AnalysisError, UsageError
from rlmem.swarm.settings import Settings

SCHEMA = "rlmem.swarm/1"
#: Where a run is kept that was stopped before it was told where.
DEFAULT_NAME = "swarm.pt"
#: What may differ from the file when a run goes on; everything else is what the run is.
FREE = ("iterations", "device", "chunk")
#: torch writes zip archives; a file that is none was not written by us and is not written over.
ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run after a whole iteration: what it is, what it learnt, and how it got there."""

    settings: Settings
    state: Mapping[str, Any]
    #: One row an iteration, those before an earlier resume included.
    rows: tuple[Mapping[str, Any], ...] = ()
    #: Threads it ran with on the CPU; another number sums in another order.
    threads: int | None = None
    torch: str = ""

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self.state["iteration"])


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file in one step, on disk before it takes the name; nothing is left behind on failure."""
    import torch

    body = {
        "schema": SCHEMA,
        "settings": asdict(checkpoint.settings),
        "state": checkpoint.state,
        "rows": [dict(row) for row in checkpoint.rows],
        "threads": checkpoint.threads,
        "torch": checkpoint.torch,
    }
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            torch.save(body, stream)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes it private
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise AnalysisError(f"cannot write the checkpoint {path}: {error.strerror or error}") from None
    except RuntimeError as error:  # torch's writer: the disk is full
        raise AnalysisError(f"cannot write the checkpoint {path}: {_first_line(error)}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The new name, too, survives a power cut; not every system can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def load(path: Path) -> Checkpoint:
    """Read a run; only plain values and tensors are unpacked, no code."""
    import torch

    place = in_folder(path)
    try:
        with place.open("rb") as stream:
            if stream.read(len(ZIP)) != ZIP:
                raise UsageError(f"{place}: not a checkpoint of a swarm")
        # torch does not look at the checksums of the archive it writes: a flipped bit would be learnt from.
        with zipfile.ZipFile(place) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise UsageError(f"{place}: damaged ({broken} does not match its checksum); resume from another one")
        body = torch.load(place, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UsageError(f"cannot read the checkpoint {place}: {error.strerror or error}") from None
    except UsageError:
        raise
    except Exception as error:  # zip, pickle and torch each have their own for a file that ends early
        raise UsageError(f"{place}: damaged or cut short ({_first_line(error)}); resume from another one") from None
    return _read(place, body)


def _read(path: Path, body: Any) -> Checkpoint:
    if not isinstance(body, dict) or not str(body.get("schema", "")).startswith("rlmem.swarm/"):
        raise UsageError(f"{path}: not a checkpoint of a swarm")
    if body["schema"] != SCHEMA:
        raise UsageError(f"{path}: written as {body['schema']}, this version of rlmem reads {SCHEMA}")
    known = {field.name for field in fields(Settings)}
    given = body.get("settings")
    state = body.get("state")
    if not isinstance(given, dict) or not isinstance(state, dict) or "iteration" not in state:
        raise UsageError(f"{path}: the checkpoint lacks its settings or its state; resume from another one")
    if unknown := sorted(set(given) - known):
        raise UsageError(f"{path}: written by another version of rlmem: unknown settings {', '.join(unknown)}")
    return Checkpoint(
        settings=Settings(**given),
        state=state,
        rows=tuple(body.get("rows", ())),
        threads=body.get("threads"),
        torch=str(body.get("torch", "")),
    )


def merged(path: Path, kept: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings of the file with what may change; an option that says otherwise is an error."""
    for name, value in given.items():
        if name not in FREE and getattr(kept, name) != value:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} {value} contradicts {path}, which was trained with {getattr(kept, name)}; "
                f"leave {option} out to go on with it, or start anew without --resume"
            )
    return Settings(**{**asdict(kept), **{name: value for name, value in given.items() if name in FREE}})


def in_folder(path: Path) -> Path:
    """A folder stands for the file of the usual name in it."""
    return path / DEFAULT_NAME if path.is_dir() else path


def free_name(folder: Path) -> Path:
    """The usual name, or the next that is free: a run kept by an earlier Ctrl-C is not written over unasked."""
    path, number = folder / DEFAULT_NAME, 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{Path(DEFAULT_NAME).stem}-{number}{Path(DEFAULT_NAME).suffix}"
    return path


def check_writable(path: Path) -> Path:
    """A place a checkpoint can be written to, tried now and not after hours; what is no checkpoint is not replaced."""
    path = in_folder(path)
    hint = "choose another with --checkpoint PATH, or pass --no-checkpoint"
    if not path.parent.is_dir():
        raise UsageError(f"cannot write the checkpoint {path}: no folder {path.parent}; {hint}")
    try:
        if path.exists():
            if not path.is_file():
                raise UsageError(f"cannot write the checkpoint {path}: not a file; {hint}")
            with path.open("rb") as stream:
                if stream.read(len(ZIP)) not in {b"", ZIP}:
                    raise UsageError(f"{path} exists and is not a checkpoint; {hint}")
        with tempfile.TemporaryFile(prefix=f".{path.name}-", dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"cannot write the checkpoint {path}: {error.strerror or error}; {hint}") from None
    return path.resolve() if path.is_symlink() else path


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
