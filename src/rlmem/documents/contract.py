"""What all documents share: a document as JSON, a document read from JSON, and its JSON Schema.

A document is a frozen dataclass; everything else follows from its fields. msgspec does the three conversions. It was chosen
over pydantic, cattrs, mashumaro and apischema because it does all three on plain dataclasses, is one wheel of 0.2 MB without
dependencies, and is imported in 18 ms (the others: 26 to 45 ms; msgspec 0.22, Python 3.11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from rlmem.errors import UsageError
from rlmem.version import __version__

DocumentT = TypeVar("DocumentT", bound="Document")
PartT = TypeVar("PartT")
Plain = dict[str, Any]

#: What msgspec calls types, and what JSON Schema does.
_TYPE_NAMES = {"int": "integer", "str": "string", "float": "number", "bool": "boolean", "null": "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A result that is printed, stored or served.

    A field with a default is one that an older version may not have written. Keys that are not fields are passed over.
    """

    #: The name and version of the contract: a change that breaks readers gets a new number.
    SCHEMA: ClassVar[str]
    #: What the document holds, in one line.
    TITLE: ClassVar[str]
    #: How a document of an older version is read: its schema, and what makes of its data that of the next version.
    OLDER: ClassVar[Mapping[str, Callable[[Plain], Plain]]] = {}
    #: Fields that a document makes of its others; what a file has there is not read.
    COMPUTED: ClassVar[frozenset[str]] = frozenset()
    #: ``SCHEMA``, in documents inside of others too.
    schema: str = ""
    #: The version of rlmem that wrote the document; empty where it did not say.
    rlmem: str = __version__

    def __post_init__(self) -> None:
        """Write the schema down; refuse the data of another one."""
        if self.schema not in ("", self.SCHEMA):
            raise ValueError(f"schema {self.schema!r} is not {self.SCHEMA}")
        object.__setattr__(self, "schema", self.SCHEMA)

    def as_written(self, plain: Plain) -> Plain:
        """Return the JSON data of the document as it is written; a kind may leave out what says nothing."""
        return plain


@overload
def to_plain(document: Document) -> Plain: ...


@overload
def to_plain(document: Any) -> Any: ...


def to_plain(document: Any) -> Any:
    """Return a document, or parts of one, as JSON data: dictionaries, lists, text and numbers."""
    import msgspec

    try:
        plain = msgspec.json.decode(msgspec.json.encode(document))
    except UnicodeEncodeError:
        # A name that is not UTF-8 on disk has lone surrogates in Python; msgspec writes UTF-8 only, json escapes them.
        plain = json.loads(json.dumps(msgspec.to_builtins(document)))
    return document.as_written(plain) if isinstance(document, Document) else plain


def read_part(kind: type[PartT], data: Any) -> PartT:
    """Read such a dataclass, as any version wrote it; raise ``ValueError`` where the data is none."""
    import msgspec

    return msgspec.convert(data, kind)


def to_json(document: Any) -> str:
    """Return a document, or parts of one, as the text that ``--json`` prints."""
    return json.dumps(to_plain(document), indent=2, ensure_ascii=False)


def from_plain(kind: type[DocumentT], data: Any, where: str) -> DocumentT:
    """Read a document of one kind, as any version wrote it.

    Args:
        kind: the class of the document.
        data: what was read from JSON.
        where: the file or run that an error names.

    Raises:
        UsageError: the data is no document of this kind, or not a complete one.
    """
    import msgspec

    schema = schema_name(data, where)
    if schema in kind.OLDER:
        try:
            data = kind.OLDER[schema](dict(data))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{where}: not a complete {schema} document: {error}") from None
    elif schema != kind.SCHEMA:
        readable = ", ".join((kind.SCHEMA, *kind.OLDER))
        raise UsageError(f"{where}: schema {schema!r} is not one this version reads; it reads {readable}")
    data = {key: value for key, value in data.items() if key not in kind.COMPUTED}
    try:
        return msgspec.convert({"rlmem": "", **data, "schema": kind.SCHEMA}, kind)
    except msgspec.ValidationError as error:
        name = kind.SCHEMA.removeprefix("rlmem.").partition("/")[0]
        raise UsageError(f"{where}: not a complete {name} document: {_problem(str(error), kind)}") from None


def schema_name(data: Any, where: str) -> str:
    """Return the schema that a document says it has; raise ``UsageError`` where it says none."""
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if not isinstance(schema, str):
        raise UsageError(f"{where}: not a document written by rlmem (no 'schema' field)")
    return schema


def schema_of(kind: type[Document]) -> Plain:
    """Return the JSON Schema of a kind of document."""
    import msgspec

    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = parts.pop(top["$ref"].rpartition("/")[2])
    fields = own["properties"]
    first = {
        "schema": {"const": kind.SCHEMA},
        "rlmem": {"type": "string", "description": "version that wrote the document"},
    }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": kind.SCHEMA,
        "title": kind.TITLE,
        "description": own["description"],
        "type": "object",
        "properties": first | {name: part for name, part in fields.items() if name not in first},
        "required": ["schema", *own.get("required", ())],
    }
    return {**whole, "$defs": parts} if parts else whole


def _problem(message: str, kind: type[Document]) -> str:
    """Return msgspec's ``Expected `int`, got `str` - at `$.peaks[0].phase``` as ``peaks[0].phase: expected integer``."""
    text, _, place = message.partition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".")
    where = path or "document"
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", text):
        return f"{path}.{missing[1]}: missing" if path else f"{missing[1]}: missing"
    if expected := re.match(r"Expected `([^`]+)`", text):
        return f"{where}: expected {' or '.join(_TYPE_NAMES.get(name, name) for name in expected[1].split(' | '))}"
    if wrong := re.fullmatch(r"Invalid enum value (.+)", text):
        return f"{where}: {wrong[1]} is not one of {', '.join(map(str, _words(kind, path)))}"
    return f"{where}: {text[:1].lower()}{text[1:]}"


def _words(kind: type[Document], path: str) -> list[str]:
    """Return the words that the schema allows at ``peaks[0].phase``."""
    schema = schema_of(kind)
    parts: list[Any] = [schema]
    for step in re.findall(r"\w+|\[.*?\]", path):
        inside = [part["items"] if step[0] == "[" else part["properties"][step] for part in parts if _has(part, step)]
        parts = [choice for part in inside for choice in part.get("anyOf", [part])]
        parts = [schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part for part in parts]
    return [word for part in parts for word in part.get("enum", ())]


def _has(part: Plain, step: str) -> bool:
    return "items" in part if step[0] == "[" else step in part.get("properties", {})
