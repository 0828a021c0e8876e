"""One file at a time: read, parsed, asked, and sorted into what is shown, silenced, known and hidden."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.core.findings import Finding, Place
from rlmem.core.plan import Budget
from rlmem.lint.baseline import Key, fingerprints
from rlmem.lint.check import Said, find, order
from rlmem.lint.files import Problem, relative
from rlmem.lint.reading import Text, Unreadable, is_notebook, read_file
from rlmem.lint.settings import Settings
from rlmem.lint.suppression import absolute_line, place_of, silence
from rlmem.planner import Planner
from rlmem.scripts import Script, ScriptError, parse_script
from rlmem.scripts.reading import Project

#: What rules are about, in lower case. A file in which nothing of it stands is parsed, and not looked into.
WORDS = (
    *("gym", "baselines", "sb3_contrib", "elegantrl", "isaac", "brax", "pettingzoo", "mujoco", "wandb"),
    *("torch", "tensorflow", "keras", "jax", "import ray", "from ray"),
    *("replay", "transition", "reward", "episode", "rollout", "observation", "agent", "policy"),
    *(" env.", "(env.", " envs.", "=env", " obs ", " obs,", "(obs", "_obs"),
    *(".render(", "memory(", "buffer(", "queue(", "virtual_memory", "pyplot", "pylab", "xla_", "num_threads"),
)
_COMMENT = "rlmem:"
#: What Python 3 says about Python 2.
_PYTHON_2 = ("Missing parentheses in call to", "multiple exception types must be parenthesized")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding with the line it is about; ``changes`` are the edits of its fix as places and texts."""

    finding: Finding
    source_line: str
    fingerprint: str
    changes: tuple[tuple[Place, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What came of one file; ``digest`` is of the bytes that were linted, ``None`` when there is nothing to say.

    ``path`` is the file as it is shown, ``key`` as the settings' root sees it.
    """

    path: str
    key: str
    digest: str | None = None
    shown: tuple[Found, ...] = ()
    hidden: tuple[Key, ...] = ()
    silenced: int = 0
    known: tuple[Key, ...] = ()
    problem: Problem | None = None


class Linter:
    """Lints files with one set of settings, for one machine, and against one baseline."""

    def __init__(self, settings: Settings, budget: Budget, known: frozenset[Key] = frozenset()) -> None:
        self.settings, self.known, self.here = settings, known, Path.cwd()
        self._planner, self._project = Planner(budget), Project()

    def lint(self, path: Path, text: Text | None = None) -> FileReport:
        """The report on a file, or on a text that stands for it."""
        shown, key = relative(path, self.here), relative(path, self.settings.root)
        try:
            text = text or read_file(path)
            if not is_notebook(shown) and not self.relevant(text.text):
                _check_syntax(text.text, shown)
                return FileReport(path=shown, key=key, digest=text.digest)
            return self.report(self.parse(text.text, shown), key, text.digest)
        except Unreadable as error:
            problem = Problem(path=shown, text=str(error), failed=not error.policy)
        except ScriptError as error:
            problem = Problem(path=shown, text=_said(error))
        except (RecursionError, MemoryError):
            problem = Problem(path=shown, text="too deep or too large to be analysed")
        except Exception as error:  # a rule that stumbles over one file must not end the others
            text_ = f"{type(error).__name__}: {error}".splitlines()[0]
            problem = Problem(
                path=shown, text=f"rlmem could not analyse this and should have ({text_}); please report it"
            )
        return FileReport(path=shown, key=key, problem=problem)

    def parse(self, text: str, shown: str) -> Script:
        """A text as a script that knows the files around it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._project.kept(shown, text) or parse_script(text, shown, project=self._project)

    @staticmethod
    def relevant(text: str) -> bool:
        """Whether any rule could have something to say about a text."""
        lower = text.lower()
        return _COMMENT in lower or any(word in lower for word in WORDS)

    def report(self, script: Script, key: str, digest: str) -> FileReport:
        """What is said about a script, sorted."""
        enabled = self.settings.enabled_for(key)
        said = find(script, self._planner)
        findings = [finding for finding in said.findings if finding.code in enabled]
        if _has_unseen_cells(script):
            findings = [_to_be_looked_at(finding) for finding in findings]
        kept, silenced = silence(script, findings, enabled)
        kept = tuple(sorted((f for f in kept if f.code in enabled), key=order))
        lines = [_line(script, finding) for finding in kept]
        prints = fingerprints((finding.code, line) for finding, line in zip(kept, lines, strict=True))
        shown, known, hidden = [], [], []
        for finding, line, fingerprint in zip(kept, lines, prints, strict=True):
            identity = (key, finding.code, fingerprint)
            if identity in self.known:
                known.append(identity)
            elif self.settings.shows(finding.severity):
                edits = finding.fix.edits if finding.fix else ()
                changes = tuple((place_of(script, edit.start, edit.end), edit.text) for edit in edits)
                shown.append(Found(finding=finding, source_line=line, fingerprint=fingerprint, changes=changes))
            else:
                hidden.append(identity)
        return FileReport(
            path=script.path,
            key=key,
            digest=digest,
            shown=tuple(shown),
            hidden=tuple(hidden),
            silenced=len(silenced),
            known=tuple(known),
            problem=_stumbled(script, said) or _skipped(script) or _unplanned(script, said),
        )


def _stumbled(script: Script, said: Said) -> Problem | None:
    """A rule that could not deal with the file; the others could."""
    if not said.stumbled:
        return None
    return Problem(
        path=script.path, text=f"a rule could not deal with this and should have, please report it: {said.stumbled[0]}"
    )


def _skipped(script: Script) -> Problem | None:
    """The cells of a notebook that are no Python; the others were linted."""
    cells = script.source.skipped
    if not cells:
        return None
    number, problem = cells[0]
    more = f", and {len(cells) - 1} more cells" if len(cells) > 1 else ""
    return Problem(path=script.path, text=f"cell {number}{more} left out: {problem}", failed=False)


def _unplanned(script: Script, said: Said) -> Problem | None:
    """A script that describes more runs than anybody starts by hand."""
    if not said.unplanned:
        return None
    return Problem(path=script.path, text=f"{said.unplanned} of its runs were not planned; skipped", failed=False)


def _has_unseen_cells(script: Script) -> bool:
    """Whether a notebook has code that Python does not parse, and that may use what nothing else seems to use."""
    source = script.source
    return bool(source.skipped) or any(
        source.text[cell.start : cell.end].strip() and not source.code[cell.start : cell.end].strip()
        for cell in source.cells
    )


def _to_be_looked_at(finding: Finding) -> Finding:
    """A finding whose fix is not made before somebody has looked."""
    return replace(finding, fix=replace(finding.fix, safety="unsafe")) if finding.fix else finding


def _check_syntax(text: str, path: str) -> None:
    """Only whether it parses; the error is the one a whole reading gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parse_script(text, path)


def _said(error: ScriptError) -> str:
    old = any(words in error.problem for words in _PYTHON_2)
    return f"{f'line {error.line}: ' if error.line else ''}{error.problem}{'; is it Python 2?' if old else ''}"


def _line(script: Script, finding: Finding) -> str:
    if finding.place is None:
        return ""
    line = absolute_line(script.source, finding.place)
    return script.source.line(line) if 1 <= line <= len(script.source.starts) else ""
