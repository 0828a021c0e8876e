"""Every environment of a GPU simulator has a camera.

A simulator that runs thousands of environments on one GPU needs megabytes for each; a camera adds its images, the buffers of its
renderer and, in the rollout, all of that again for every step. 2,048 environments with one 640 × 480 colour camera hold 2.3 GiB
for one step of images.

The rule multiplies ``num_envs`` with the size of the cameras that the script configures: Isaac Lab's ``TiledCameraCfg`` and
``CameraCfg``, Isaac Gym's ``create_camera_sensor``. From 128 environments on it mentions it for information; a step of images of 512 MiB or
more is a warning, and so are separate cameras (``CameraCfg``, ``create_camera_sensor``) of 256 environments, which are rendered one by
one.

Where the size of the cameras is not in the script, but they are switched on (``enable_cameras=True``) or named in the
id of the task, the number alone is mentioned from 512 environments on, and is a warning from 4,096 on.

Example::

    scene = InteractiveSceneCfg(num_envs=4096, env_spacing=4.0)
    camera = TiledCameraCfg(prim_path="…", width=320, height=240, data_types=["rgb", "depth"])

Use instead: fewer environments or a smaller image, ``TiledCameraCfg`` in place of ``CameraCfg``, a shorter rollout.

Fix: none.

Reference: isaac-sim/IsaacLab#5793, #5350, #3917, #604.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.shapes import number
from rlmem.rules.syntax import leaf, rounds
from rlmem.scripts import Script
from rlmem.units import MIB, format_size

SEVERAL, SEPARATE = 128, 256
#: Environments with cameras of an unknown size.
CROWD, LARGE_CROWD = 512, 4096
_SEES = re.compile(r"^Isaac-.*(Camera|RGB|Depth|Vision|Visuomotor)")
LARGE_BYTES = 512 * MIB
_TILED, _ONE_BY_ONE = "TiledCameraCfg", ("CameraCfg", "create_camera_sensor")
#: Bytes of a pixel by what a camera gives; what is not listed are four (a float, a label).
_PIXEL = {"rgb": 3, "rgba": 4, "normals": 12, "motion_vectors": 8}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Cameras whose number and size are written in the script."""
    calls = [call for call in script.calls if leaf(call) in (_TILED, *_ONE_BY_ONE)]
    if not calls and ("enable_cameras" in script.text or "Isaac-" in script.text):
        yield from _switched_on(rule, script)
    for call in calls:
        sizes = _size(script, call)
        count = rounds(script, script.loop_of(call)) or _environments(script)
        if sizes is None or count is None or count < SEVERAL:
            continue
        width, height, pixel = sizes
        step = count * width * height * pixel
        separate = leaf(call) in _ONE_BY_ONE and count >= SEPARATE
        yield rule.finding(
            f"{count:,} environments with a camera of {width} × {height} each: {format_size(step)} of images a step",
            severity="warning" if step >= LARGE_BYTES or separate else "info",
            place=script.place(call),
            costs_bytes=step,
            costs_per="step",
            remedy="TiledCameraCfg, a smaller image or fewer environments"
            if separate
            else "a smaller image or fewer environments",
        )


def _switched_on(rule: Rule, script: Script) -> Iterator[Finding]:
    """Cameras that are switched on or belong to a task, of a size that is written elsewhere."""
    given = [k.value for call in script.calls for k in call.keywords if k.arg in ("num_envs", "numEnvs")]
    counted = [(count, node) for node in given if (count := number(script, node)) is not None and count >= CROWD]
    if not counted or not (_is_on(script) or _is_in_task(script)):
        return
    count, node = max(counted, key=lambda pair: pair[0])
    yield rule.finding(
        f"{count:,} environments run with cameras on: every one renders its images and keeps them",
        severity="warning" if count >= LARGE_CROWD else "info",
        place=script.place(node),
        costs_per="environment",
        remedy="fewer environments, or smaller images; memory grows with both",
    )


def _is_on(script: Script) -> bool:
    """``AppLauncher(enable_cameras=True)`` and ``args.enable_cameras = True``."""
    starts = [call for call in script.calls if leaf(call) in ("AppLauncher", "SimulationApp")]
    flags = [k.value for call in starts for k in call.keywords if k.arg == "enable_cameras"]
    flags += [b.value for _, b in script.walked.attribute_values.get("enable_cameras", ()) if b.value is not None]
    return any(script.value(flag) is True for flag in flags)


def _is_in_task(script: Script) -> bool:
    texts = (script.value(node) for call in script.calls for node in call.args)
    return any(isinstance(text, str) and _SEES.match(text) for text in texts)


def _environments(script: Script) -> int | None:
    """The number of environments: the largest ``num_envs`` that is written."""
    given: list[ast.expr | None] = [
        item.value for call in script.calls for item in call.keywords if item.arg in ("num_envs", "numEnvs")
    ]
    for assign in script.assigns:
        for target in assign.targets if isinstance(assign, ast.Assign) else [assign.target]:
            word = (
                target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
            )
            given += [assign.value] if word.lower() in ("num_envs", "numenvs") else []
    found = [count for each in given if (count := number(script, each)) is not None]
    return max(found, default=None)


def _size(script: Script, call: ast.Call) -> tuple[int, int, int] | None:
    """Width, height and bytes of a pixel."""
    if leaf(call) == "create_camera_sensor":
        width, height = (_property(script, name) for name in ("width", "height"))
        return (width, height, 4) if width and height else None
    sides = [number(script, script.argument(call, name)) for name in ("width", "height")]
    kinds = script.value(script.argument(call, "data_types"))
    width, height = sides
    if not width or not height:
        return None
    named = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, (list, tuple)) else ["rgb"]
    return width, height, sum(_PIXEL.get(kind, 4) for kind in named) or 3


def _property(script: Script, name: str) -> int | None:
    """``camera_props.width = 128`` of Isaac Gym."""
    found = [
        number(script, binding.value)
        for target, binding in script.walked.attribute_values.get(name, ())
        if isinstance(target.value, ast.Name)
    ]
    return found[0] if len(found) == 1 else None
