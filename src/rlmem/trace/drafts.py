"""A run with changes that nobody has written yet: edits of its script and of files it reads, and other arguments."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlmem.core.edits import Edit, apply, diff
from rlmem.errors import AnalysisError
from rlmem.lint.reading import Text
from rlmem.remedies.program import Written
from rlmem.scripts import parse_script
from rlmem.trace.target import RunnableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Changes of a run; an edit beside the file it is for, by its resolved path."""

    edits: tuple[tuple[Path, Edit], ...] = ()
    #: The files as they were read; what was changed since is not written over.
    read: Mapping[Path, Text] = field(default_factory=dict)
    #: The command line with other values; ``None`` where it stays.
    args: tuple[str, ...] | None = None

    def and_edits(self, path: Path, text: Text, edits: tuple[Edit, ...]) -> Draft:
        """With more edits of one file."""
        path = path.resolve()
        return replace(self, edits=(*self.edits, *((path, edit) for edit in edits)), read={path: text, **self.read})

    def files(self) -> Mapping[Path, tuple[Text, str]]:
        """Each file that is edited: as it was read, and its text afterwards."""
        return {
            path: (self.read[path], apply(self.read[path].text, [edit for other, edit in self.edits if other == path]))
            for path in dict.fromkeys(path for path, _ in self.edits)
        }


def as_diff(draft: Draft, folder: Path, by_hand: tuple[str, ...] = ()) -> Written:
    """Return one diff of all files of a draft, with paths from a folder.

    Args:
        draft: the edits.
        folder: where the diff is applied.
        by_hand: what no edit does, a sentence each.

    Raises:
        ScriptError: an edit breaks a script; such a diff is shown to nobody.
    """
    here, parts = folder.resolve(), list[str]()
    for path, (text, after) in draft.files().items():
        if path.suffix == ".py":
            parse_script(after, str(path))
        name = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
        parts.append(diff(name, text.text, after))
    whole = "".join(parts)
    return Written(kind="diff" if whole else "nothing", text=whole, by_hand=by_hand)


@contextmanager
def tried(draft: Draft, target: RunnableTarget) -> Iterator[RunnableTarget]:
    """The target with the changes, to be run."""
    files = draft.files()
    target = target if draft.args is None else replace(target, args=draft.args)
    script = Path(target.text).resolve()
    if set(files) <= {script}:
        if not files:
            yield target
            return
        with edited_copy(target, *files[script]) as copy:
            yield copy
        return
    with _linked_folder(target, script, files) as copy:
        yield copy


@contextmanager
def edited_copy(target: RunnableTarget, text: Text, after: str) -> Iterator[RunnableTarget]:
    """A target that runs an edited copy of its script: beside it, so that what it imports and reads is found."""
    folder = Path(target.text).resolve().parent
    try:
        handle, name = tempfile.mkstemp(prefix=f".rlmem-fit-{Path(target.text).stem}-", suffix=".py", dir=folder)
    except OSError as error:
        raise AnalysisError(f"cannot write an edited copy beside {target.text}: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encoded(after))
        yield replace(target, text=name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _linked_folder(
    target: RunnableTarget, script: Path, files: Mapping[Path, tuple[Text, str]]
) -> Iterator[RunnableTarget]:
    """A target that runs in a folder of links to its own, where the script and the edited files are copies.

    A module or a YAML file is found through the script's folder or the one it starts in, so that both are this one.
    """
    here = target.folder.resolve()
    root = Path(os.path.commonpath([here, script.parent, *(path.parent for path in files)]))
    folder = Path(tempfile.mkdtemp(prefix="rlmem-fit-")).resolve()
    copies = {path: text.encoded(after) for path, (text, after) in files.items()}
    copies.setdefault(script, script.read_bytes())
    try:
        own = {root, here, *(above for path in copies for above in path.parents)}
        _link(root, folder, own)
        for path, content in copies.items():
            copy = folder / path.relative_to(root)
            copy.unlink(missing_ok=True)  # the link to it: what is written must not reach the file itself
            copy.write_bytes(content)
        yield replace(target, text=str(folder / script.relative_to(root)), folder=folder / here.relative_to(root))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(source: Path, copy: Path, own: set[Path]) -> None:
    """Links to what is in a folder; folders that must be changed become folders. Compiled modules are left behind."""
    for entry in os.scandir(source):
        path, beside = Path(entry.path), copy / entry.name
        if path in own and not entry.is_symlink():
            beside.mkdir()
            _link(path, beside, own)
        elif entry.name != "__pycache__":
            beside.symlink_to(path)
