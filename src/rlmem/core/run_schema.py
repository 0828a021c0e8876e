"""The JSON Schema of a run file, made from the table of fields."""

from __future__ import annotations

from typing import Any

from rlmem.core.fields import FIELDS, SCHEMA, Field
from rlmem.core.layers import KINDS
from rlmem.core.spaces import DTYPES

_COUNT = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^[0-9][0-9_,.]*(e[0-9]+)?\s*[kKmMbBgG]?$"}]}
_SIZE = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[0-9.]+\s*[kKMGTPi]*B?$"}]}
_LAYER = {
    "type": "string",
    "pattern": f"^({'|'.join(KINDS)})( .*)?$",
    "description": "such as 'conv2d 32 k8 s4' or 'relu'",
}
_RANGE = {"type": "array", "items": _SIZE, "minItems": 3, "maxItems": 3}
_LAYERS = {"type": "array", "items": _LAYER}
_WIDTHS = {"type": "array", "items": _COUNT}
_SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 1}}
_DTYPE = {"enum": list(DTYPES)}
_SPACE = {"$ref": "#/$defs/space"}


def _kind(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    body = {"type": {"const": name}, **properties}
    return {"type": "object", "properties": body, "required": ["type", *required], "additionalProperties": False}


_SPACES = {
    "anyOf": [
        _kind(
            "box", {"shape": _SHAPE, "dtype": _DTYPE, "low": {"type": "number"}, "high": {"type": "number"}}, ["shape"]
        ),
        _kind("discrete", {"n": {"type": "integer", "minimum": 1}}, ["n"]),
        _kind("multidiscrete", {"nvec": _SHAPE}, ["nvec"]),
        _kind("multibinary", {"n": {"anyOf": [_SHAPE, {"type": "integer", "minimum": 1}]}, "shape": _SHAPE}, []),
        _kind(
            "window",
            {
                "sample": {"type": "integer", "minimum": 1},
                "extra": {"type": "integer", "minimum": 0},
                "step": {"type": "integer", "minimum": 1},
                "dtype": _DTYPE,
            },
            ["sample"],
        ),
        _kind("tuple", {"spaces": {"type": "array", "items": _SPACE, "minItems": 1}}, ["spaces"]),
        _kind("dict", {"spaces": {"type": "object", "additionalProperties": _SPACE, "minProperties": 1}}, ["spaces"]),
    ]
}
_KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": ["string", "number"]},
    "word": {"type": "string"},
    "count": _COUNT,
    "size": _SIZE,
    "share": {"type": "number", "minimum": 0},
    "flag": {"type": "boolean"},
    "space": _SPACE,
    "texts": {"type": "array", "items": {"type": "string"}},
    "layers": {"anyOf": [{"type": "string"}, _LAYERS, {"type": "object", "additionalProperties": _LAYERS}]},
    "modules": {"type": "object", "additionalProperties": _LAYERS},
    "widths": {"anyOf": [_WIDTHS, {"type": "object", "additionalProperties": _WIDTHS}]},
    "arrays": {"type": "object"},
    "counts": {"type": "object", "additionalProperties": _COUNT},
    "ranges": {"type": "object", "additionalProperties": {"anyOf": [_SIZE, _RANGE]}},
    "settings": {"type": "object"},
}


def _property(field: Field) -> dict[str, Any]:
    body = {"enum": list(field.choices)} if field.kind == "choice" else _KINDS[field.kind]
    return {"description": field.doc, **body}


def _build() -> dict[str, Any]:
    properties: dict[str, Any] = {
        "schema": {"const": SCHEMA},
        "extends": {"type": "string", "description": "Start from a preset."},
    }
    for field in FIELDS:
        section, _, name = field.path.rpartition(".")
        if not section:
            properties[field.path] = _property(field)
            continue
        place = properties.setdefault(section, {"type": "object", "properties": {}, "additionalProperties": False})
        place["properties"][name] = _property(field)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "rlmem run file",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": {"space": _SPACES},
    }


RUN_JSON_SCHEMA = _build()
