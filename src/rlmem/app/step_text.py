"""Steps as text to write: fields of a run file, a diff of a script, hyperparameters."""

from __future__ import annotations

from pathlib import Path

from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.errors import RlmemError
from rlmem.lint.reading import Unreadable, read_file
from rlmem.remedies.base import Steps
from rlmem.remedies.program import Written, run_file, snippet, zoo
from rlmem.remedies.script import edit_script
from rlmem.scripts import ScriptError, parse_script
from rlmem.trace.drafts import Draft, as_diff


def write(subject: Subject, steps: Steps) -> Written:
    """Return steps as text: fields of a run file, a diff of a script, hyperparameters."""
    target = subject.target
    if target is None:
        return run_file(steps)
    if target.kind == "zoo":
        return zoo(target.text, target.args, subject.spec, steps)
    if target.kind == "script":
        return _edited(Path(target.text), subject.spec, steps)
    return snippet(subject.spec, steps)


def _edited(path: Path, start: RunSpec, steps: Steps) -> Written:
    """A diff of the script; a script that cannot be read or edited gets the arguments to write."""
    try:
        text = read_file(path)
        edited = edit_script(parse_script(text.text, str(path)), start, steps)
        return as_diff(Draft().and_edits(path, text, edited.edits), path.resolve().parent, edited.by_hand)
    except (Unreadable, ScriptError, RlmemError):
        return snippet(start, steps)
