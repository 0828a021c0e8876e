"""What our JSON documents share: a way to write their schemas and to check a document against one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Where a value departs from the part of JSON Schema that our documents use."""
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ())
    fits = any(
        isinstance(value, _TYPES[name]) and not (name == "integer" and isinstance(value, bool)) for name in types
    )
    if types and not fits:
        yield f"{path or 'document'}: expected {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {', '.join(schema['enum'])}"
    if isinstance(value, Mapping):
        inside = f"{path}." if path else ""
        yield from (f"{inside}{key}: missing" for key in schema.get("required", ()) if key not in value)
        for key, part in schema.get("properties", {}).items():
            if key in value:
                yield from problems(value[key], part, f"{inside}{key}")
        if "additionalProperties" in schema:
            others = (key for key in value if key not in schema.get("properties", {}))
            for key in others:
                yield from problems(value[key], schema["additionalProperties"], f"{inside}{key}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{index}]")


def described(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON Schema of an object; every property is required that is not optional."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}
