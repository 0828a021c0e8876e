"""Settings that a script reads from a JSON or YAML file beside it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

LOADERS = ("json.load", "json.loads", "yaml.safe_load", "yaml.load", "yaml.full_load")
#: A file of settings is smaller.
_LARGEST = 256 * 1024


def load(script: Script, call: ast.Call) -> Any:
    """What a loader gives back, when the file it reads is named in the script and stands beside it."""
    if script.project is None or not call.args:
        return None
    opened = script.definition(call.args[0])
    if not isinstance(opened, ast.Call):
        return None
    name = script.value(opened.args[0]) if opened.args and script.qualified(opened.func) == "open" else None
    if not isinstance(name, str) or Path(name).is_absolute():
        return None
    text = script.project.data(script, name, _LARGEST)
    if text is None:
        return None
    try:
        return json.loads(text) if name.endswith(".json") else _yaml(text)
    except (ValueError, RecursionError):
        return None


def _yaml(text: str) -> Any:
    import yaml  # only scripts with such a file need it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
