"""A run described in a YAML (or JSON) file: parsed safely, checked field by field, with the line of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlmem.core.fields import SCHEMA, flatten
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError, UsageError

#: A description is a page of text; anything larger is not one.
LARGEST_FILE = 1 << 20
#: Deeper nesting than any space needs.
DEEPEST = 40
#: Of a number in a description, in characters.
LONGEST_NUMBER = 100
#: More values than any description has; aliases of aliases reach it with a few lines of text.
MOST_VALUES = 20_000


def read_run_file(path: Path) -> RunSpec:
    """The run a file describes; an unreadable or malformed one is a :class:`UsageError` of one line."""
    text = read_text(path)
    from rlmem.sources.preset import read_preset  # presets are run files themselves

    spec = parse_run(text, where=str(path), extend=read_preset)
    if not spec.values:
        raise UsageError(f"{path}: describes nothing; 'rlmem presets --show pidog-sac' prints an example")
    return spec.filled({"name": path.stem}, "file name")


def read_text(path: Path) -> str:
    """The text of a description; what cannot be read is a :class:`UsageError` of one line."""
    try:
        if path.is_dir():
            raise UsageError(f"{path}: is a directory, not a run file")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise UsageError(f"{path}: too large for a run description (at most {LARGEST_FILE:,} B)")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except PermissionError:
        raise UsageError(f"{path}: permission denied; check who may read it") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def parse_run(text: str, *, where: str, extend: Callable[[str], RunSpec]) -> RunSpec:
    """A spec from YAML text; ``extends: NAME`` starts from a preset."""
    data, lines = parse_yaml(text, where)
    data = {} if data is None else data  # "---" alone is an empty description
    if not isinstance(data, Mapping):
        raise SpecError("", f"expected a mapping of fields, got {type(data).__name__}", where=where)
    body = dict(data)
    schema = body.pop("schema", SCHEMA)
    if schema != SCHEMA:
        raise SpecError("schema", f"expected {SCHEMA!r}, got {schema!r}", where=where)
    spec = RunSpec()
    base = body.pop("extends", None)
    try:
        if base is not None:
            if not isinstance(base, str):
                raise SpecError("extends", f"expected the name of a preset, got {base!r}")
            spec = extend(base)
        for path, value in flatten(body).items():
            spec = spec.having({path: value}, f"{where}:{lines.get(path, 1)}")
    except SpecError as error:
        line = _nearest(lines, error.path)
        raise error.located(f"{where}:{line}" if line else where) from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return spec


def _nearest(lines: Mapping[str, int], path: str) -> int | None:
    """The line of a field, else of the closest thing around it: ``a.b[1]``, ``a.b``, ``a``."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def parse_yaml(text: str, where: str) -> tuple[Any, dict[str, int]]:
    """Plain data, and the line of every key."""
    import yaml  # only files need it

    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = None
    try:
        _refuse_depth(yaml.parse(text, Loader=kind), where)
        loader = kind(text)
        node = loader.get_single_node()
        lines: dict[str, int] = {}
        _note_lines(node, "", lines, where, 0)
        return (loader.construct_document(node) if node is not None else {}), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError(f"{place}: not valid YAML: {problem}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{where}: not valid YAML: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _refuse_depth(events: Iterable[Any], where: str) -> None:
    """Before anything recursive sees the text: libyaml's composer has no limit of its own and overruns the stack."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > DEEPEST:
            raise UsageError(f"{where}:{event.start_mark.line + 1}: nested more than {DEEPEST} levels deep")


def _note_lines(node: Any, path: str, lines: dict[str, int], where: str, depth: int) -> None:
    """The line of every key, and a refusal of keys written twice (YAML would silently keep the last)."""
    if depth > DEEPEST:  # an alias inside what it names
        raise UsageError(f"{where}: nested more than {DEEPEST} levels deep")
    if len(lines) > MOST_VALUES:
        raise UsageError(f"{where}: more than {MOST_VALUES:,} values; a run description needs a few dozen")
    if node is None or node.id == "scalar":
        if node is not None and node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise UsageError(f"{where}:{node.start_mark.line + 1}: a number of {len(node.value):,} characters")
        return
    if node.id == "sequence":
        for index, item in enumerate(node.value):
            lines[f"{path}[{index}]"] = item.start_mark.line + 1
            _note_lines(item, f"{path}[{index}]", lines, where, depth + 1)
        return
    seen: set[str] = set()
    for key, value in node.value:
        name = str(key.value)
        inner = f"{path}.{name}" if path else name
        line = key.start_mark.line + 1
        if name in seen:
            raise UsageError(f"{where}:{line}: {inner}: written twice")
        seen.add(name)
        lines[inner] = line
        _note_lines(value, inner, lines, where, depth + 1)
