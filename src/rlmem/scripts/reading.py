"""Files into scripts: encodings, notebooks, and the other files of a project that a script imports from."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rlmem.errors import AnalysisError
from rlmem.scripts.script import Script
from rlmem.scripts.source import Source, read_notebook
from rlmem.scripts.walk import Binding

#: Other files of a project that stay parsed; a large repository should not stay in memory whole.
_KEPT = 64
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_LEVELS = 4
#: Larger modules are generated.
_LARGEST = 1_000_000


class ScriptError(AnalysisError):
    """A file that cannot be read as Python: what is wrong, and where."""

    def __init__(self, path: str, problem: str, line: int | None = None) -> None:
        self.path, self.problem, self.line = path, problem, line
        super().__init__(f"{path}{f':{line}' if line else ''}: {problem}")


class Project:
    """The files around a script, read when a name leads there; ``files`` stands in for a disk in tests."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = files
        self._scripts: dict[str, Script] = {}
        self._paths: dict[tuple[str, str, int], str | None] = {}
        self._roots: dict[str, list[Path]] = {}

    def symbol(self, script: Script, dotted: str, depth: int = 0) -> tuple[Script, Binding] | None:
        """What ``package.module.name`` is bound to, when that module is a file of the project."""
        level = len(dotted) - len(dotted.lstrip("."))
        parts = dotted.lstrip(".").split(".")
        if len(parts) < 2 - bool(level):
            return None
        *module, name = parts
        other = self._module(script, tuple(module), level)
        if other is None or other is script:
            return None
        found = other.walked.module.bindings.get(name, [])
        if len(found) != 1:
            return None
        if found[0].kind == "import":
            return self.symbol(other, found[0].dotted, depth + 1) if depth < 5 else None
        return other, found[0]

    def all_of(self, script: Script) -> tuple[Script, ...]:
        """A script and the files of the project that it imports, and those that they import."""
        found = {script.path: script}
        left = [script]
        while left:
            one = left.pop()
            for node in one.imports_nodes:
                for parts, level in _modules_of(node):
                    other = self._module(one, parts, level)
                    if other is not None and other.path not in found and len(found) < _KEPT:
                        found[other.path] = other
                        left.append(other)
        return tuple(found.values())

    def data(self, script: Script, name: str, largest: int) -> str | None:
        """The text of a file beside a script."""
        if self._files is not None:
            return self._files.get(str(PurePosixPath(script.path).parent / name))
        for folder in (Path(script.path).parent, Path()):
            path = folder / name
            try:
                if path.is_file() and path.stat().st_size <= largest:
                    return path.read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError):
                continue
        return None

    def _module(self, script: Script, parts: tuple[str, ...], level: int) -> Script | None:
        folder = str(Path(script.path).parent)
        key = (folder, ".".join(parts), level)
        if key not in self._paths:
            self._paths[key] = self._find(folder, parts, level)
        path = self._paths[key]
        if path is None:
            return None
        if path not in self._scripts:
            read = self._read(path)
            if read is None:
                self._paths[key] = None
                return None
            while len(self._scripts) >= _KEPT:
                self._scripts.pop(next(iter(self._scripts)))
            self._scripts[path] = read
        return self._scripts[path]

    def kept(self, path: str, text: str) -> Script | None:
        """A file that is at hand, if it still has this text."""
        found = self._scripts.get(path)
        return found if found is not None and found.text == text else None

    def _find(self, folder: str, parts: tuple[str, ...], level: int) -> str | None:
        """The file of a module; the standard library and what is installed are not looked for."""
        if not level and parts and parts[0] in sys.stdlib_module_names:
            return None
        for root in self._folders(folder, level):
            stem = root.joinpath(*parts)
            for candidate in (f"{stem}.py", str(stem / "__init__.py")):
                if candidate in self._files if self._files is not None else Path(candidate).is_file():
                    return candidate
        return None

    def _folders(self, name: str, level: int) -> list[Path]:
        here = Path(name)
        if level:
            for _ in range(level - 1):
                here = here.parent
            return [here]
        if self._files is not None:
            return [here, Path()]
        if name not in self._roots:
            self._roots[name] = [here, *_roots(here.resolve())]
        return self._roots[name]

    def _read(self, path: str) -> Script | None:
        try:
            if self._files is not None:
                return parse_script(self._files[path], path, project=self)
            return None if Path(path).stat().st_size > _LARGEST else read_script(path, project=self)
        except (OSError, ScriptError, ValueError):
            return None


def _modules_of(node: ast.Import | ast.ImportFrom) -> list[tuple[tuple[str, ...], int]]:
    """The modules that a statement may import: of ``from package import name`` the package, and a module of that name."""
    if isinstance(node, ast.Import):
        return [(tuple(alias.name.split(".")), 0) for alias in node.names]
    module = tuple(node.module.split(".")) if node.module else ()
    inner = [((*module, alias.name), node.level) for alias in node.names if alias.name != "*"]
    return [*([(module, node.level)] if module else []), *inner]


def _roots(here: Path) -> list[Path]:
    """Folders that imports of a script may start from: that of its repository, else the one above."""
    folder = here
    for _ in range(_LEVELS):
        if any((folder / mark).exists() for mark in _MARKS):
            return [folder, folder / "src"]
        folder = folder.parent
    return [here.parent]


def read_script(path: str | Path, *, project: Project | None = None) -> Script:
    """A file as a script; an error that says what is wrong with it, and in which line."""
    name = str(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ScriptError(name, f"cannot be read: {error.strerror or error}") from None
    return parse_script(decode(name, content), name, project=project or Project())


def decode(path: str, content: bytes) -> str:
    """The text of a file in the encoding it declares."""
    try:
        encoding = "utf-8-sig" if path.endswith(".ipynb") else tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        return content.decode(encoding)
    except (SyntaxError, LookupError):
        raise ScriptError(path, "declares an encoding that is not known") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScriptError(path, f"is not {error.encoding} and declares no other encoding", line) from None


def parse_script(text: str, path: str = "train.py", *, project: Project | None = None) -> Script:
    """A text as a script; a notebook by its name."""
    source = Source(path, text)
    if path.endswith(".ipynb"):
        try:
            source = read_notebook(path, text)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ScriptError(path, f"is not a notebook: {error}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in somebody's string
            tree = ast.parse(source.code)
        return Script(source, tree, project)
    except SyntaxError as error:
        raise ScriptError(path, f"does not parse: {error.msg}", error.lineno) from None
    except ValueError as error:
        raise ScriptError(path, f"does not parse: {error}") from None
    except (RecursionError, MemoryError):
        raise ScriptError(path, "does not parse: nested too deep") from None
