"""Changes to a script's run: constructor arguments of its model, or options of the script itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlmem.core.fields import BY_PATH, read_value
from rlmem.core.target import Target
from rlmem.errors import UsageError
from rlmem.sources.overrides import parse_set
from rlmem.trace.target import RunnableTarget, find_runnable


def prepare_run(
    target: Target, values: Mapping[str, int | str] | None = None
) -> tuple[RunnableTarget, dict[str, Any], str | None]:
    """Return what to run, with which changes of its model, and for which device.

    Args:
        target: a script, a factory or an RL Zoo entry.
        values: further changes, after those of ``--set``.

    Raises:
        UsageError: a change is not one, or the target cannot be run.
    """
    changes, device = changes_from(target.sets)
    changes |= {name: checked(name, value) for name, value in (values or {}).items()}
    script = Path(target.text) if target.kind == "script" and Path(target.text).is_file() else None
    args, changes = split_values(script, target.args, changes)
    return find_runnable(replace(target, args=args)), changes, device


def changes_from(sets: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    """``--set`` items as constructor arguments, and the device a learner is meant for if one of them says it."""
    changes: dict[str, Any] = {}
    device = None
    for item in sets:
        path, value = parse_set(item)
        value = checked(path, value)
        if path == "device":
            device = str(value)
        elif "." in path:
            raise UsageError(
                f"--set {item}: of a script's run, only arguments of its model can be set, such as buffer_size, "
                "batch_size, n_steps or n_envs"
            )
        else:
            changes[path] = value
    return changes, device


def checked(name: str, value: Any) -> Any:
    """A value as a constructor takes it: ``200k`` is 200,000."""
    return read_value(BY_PATH[name], value) if name in BY_PATH else value


def split_values(
    script: Path | None, args: Sequence[str], values: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Values a script takes as options of its own go into its arguments; the others change its model.

    An option is found by its name in quotes (``"--buffer-size"``), or as a field of a class whose fields become options
    (``buffer_size: int = …`` in a script that uses tyro).
    """
    arguments, changes = list(args), {}
    text = script.read_text(encoding="utf-8", errors="replace") if script else ""
    for name, value in values.items():
        option = _option(text, name)
        if option is None:
            changes[name.lstrip("-")] = value
            continue
        arguments = _without(arguments, option)
        arguments += [option, str(value)]
    return tuple(arguments), changes


def option_names(script: Path) -> tuple[str, ...]:
    """Names of the options that a script plainly has, as ``--vary`` takes them."""
    if not script.is_file():
        return ()
    text = script.read_text(encoding="utf-8", errors="replace")
    return tuple(name.replace("-", "_") for name in re.findall(r"""["']--([\w-]+)["']""", text))


def _option(text: str, name: str) -> str | None:
    if name.startswith("-"):
        return name
    spelled = "[-_]".join(re.escape(part) for part in re.split("[-_]", name))
    quoted = re.search(rf"""["'](--{spelled})["']""", text)
    if quoted:
        return quoted.group(1)
    if "tyro" in text and re.search(rf"^\s+{re.escape(name)}\s*:\s*\w", text, re.MULTILINE):
        return f"--{name.replace('_', '-')}"
    return None


def _without(args: list[str], option: str) -> list[str]:
    """Arguments without an option that is given there already, in either spelling."""
    same = {option, option.replace("_", "-"), f"--{option[2:].replace('-', '_')}"}
    kept: list[str] = []
    skip = False
    for item in args:
        if skip:
            skip = False
            continue
        if item in same:
            skip = True
            continue
        if item.split("=", 1)[0] in same and "=" in item:
            continue
        kept.append(item)
    return kept
