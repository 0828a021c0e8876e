"""The replay buffer is in GPU memory.

A batch needs the GPU for milliseconds, a replay buffer is there for the whole run. Transitions that are moved to the
device before they are stored, tensors of a million rows made with ``device="cuda"``, and storages of TorchRL on the GPU
take the memory that networks and larger batches need; and one small tensor at a time takes at least 512 bytes each::

    state = torch.tensor(observation).cuda()
    memory.push(state, action, reward, next_state)      # every state stays on the GPU

Use instead: keep the store in RAM and move the batch: ``batch.to(device, non_blocking=True)``, from pinned memory when
the copy matters. A small store on the GPU is fast and fine: it is reported from 50,000 rows on, or when it holds images; TorchRL's storages, where one has to ask
for it, as information below a million rows.

Fix: none.

Reference: pytorch/tutorials#1620, #2381; recursionpharma/gflownet#130; Motphys/MotrixLab#68 (137 GB of VRAM).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.arrays import arrays
from rlmem.rules.base import Rule
from rlmem.rules.memories import dotted, store_calls, stored_rows
from rlmem.rules.observed import WARN_BYTES, WORTH_BYTES, of_environment
from rlmem.rules.shapes import number
from rlmem.scripts import Script
from rlmem.scripts.training import environments
from rlmem.units import format_count

MANY_ROWS, HUGE_ROWS = 50_000, 1_000_000
#: The smallest piece of GPU memory torch hands out.
_BLOCK_BYTES = 512
_REMEDY = "keep the store in RAM and move the batch to the GPU when it is sampled"


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Tensors moved to the GPU and then stored, stores made there, and TorchRL's storages there."""
    if "cuda" not in script.text:
        return
    yield from _tensors(rule, script)
    yield from _storages(rule, script)
    yield from _stored(rule, script)


def is_cuda(script: Script, expr: ast.expr | None) -> bool:
    """Whether a device is a GPU: by its text, or "cuda if there is one"."""
    if expr is None:
        return False
    value = script.value(expr)
    if isinstance(value, str):
        return value.startswith("cuda")
    found = script.definition(expr)
    name = script.called(found) if isinstance(found, ast.Call) else None
    if name is not None and name.leaf == "device" and isinstance(found, ast.Call) and found.args:
        return is_cuda(script, found.args[0])
    if isinstance(found, ast.IfExp) and "is_available" in ast.unparse(found.test):
        return is_cuda(script, found.body)
    return False


def _tensors(rule: Rule, script: Script) -> Iterator[Finding]:
    for array in arrays(script):
        if array.library != "torch" or not array.is_store or not (array.on_cuda or is_cuda(script, array.device)):
            continue
        if array.nbytes is not None and array.nbytes < WORTH_BYTES:
            continue
        if array.nbytes is None and (array.rows or 0) < MANY_ROWS:
            continue
        large = array.nbytes is None or array.nbytes >= WARN_BYTES
        yield rule.finding(
            f"{array.name} keeps {format_count(array.rows)} rows on the GPU"
            if array.rows
            else f"{array.name} is on the GPU",
            severity="warning" if large else "info",
            place=script.place(array.call),
            costs_bytes=array.nbytes,
            remedy=_REMEDY,
        )


def _storages(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("LazyTensorStorage", "TensorStorage", roots=("torchrl",)):
        device = script.argument(call, "device")
        rows = number(script, script.argument(call, "max_size", 0))
        if not is_cuda(script, device) or rows is None or rows < MANY_ROWS:
            continue
        yield rule.finding(
            f"a storage of {format_count(rows)} rows is on the GPU",
            severity="warning" if rows >= HUGE_ROWS else "info",
            place=script.place(device if device is not None else call),
            remedy="device='cpu' (or LazyMemmapStorage), and move the batch",
        )


def _stored(rule: Rule, script: Script) -> Iterator[Finding]:
    images: bool | None = None
    done: set[str] = set()
    for call, text in store_calls(script):
        moved = next((part for given in call.args for part in _parts(given) if _on_gpu(script, part, call)), None)
        if moved is None or text in done or not isinstance(call.func, ast.Attribute):
            continue
        rows = stored_rows(script, call.func.value)
        images = _images(script) if images is None else images
        if rows is None or (rows < MANY_ROWS and not images):
            continue
        done.add(text)
        yield rule.finding(
            f"{text} keeps up to {format_count(rows)} transitions on the GPU",
            place=script.place(moved),
            costs_bytes=None if images else rows * _BLOCK_BYTES,
            remedy=_REMEDY,
        )


def _images(script: Script) -> bool:
    return any(of_environment(script, environment).image for environment in environments(script))


def _parts(expr: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expr, (ast.Tuple, ast.List)):
        yield from expr.elts
    elif isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id[:1].isupper():
        yield from expr.args
    else:
        yield expr


def _on_gpu(script: Script, expr: ast.expr, call: ast.Call) -> bool:
    """Whether an expression is a tensor on the GPU: moved here, or where its name got its values in this function."""
    if isinstance(expr, ast.Name):
        function = script.function_of(call)
        values = [
            assign.value
            for assign in script.assigns
            if isinstance(assign, ast.Assign) and any(dotted(target) == expr.id for target in assign.targets)
            if script.function_of(assign) is function
        ]
        return any(value is not None and _moved(script, value) for value in values)
    return _moved(script, expr)


def _moved(script: Script, expr: ast.expr) -> bool:
    """Whether the last thing done to a value is to put it on the GPU."""
    while isinstance(expr, ast.Call):
        func = expr.func
        if isinstance(func, ast.Attribute) and func.attr in {"cpu", "numpy", "item", "tolist"}:
            return False
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return True
        if isinstance(func, ast.Attribute) and func.attr == "to" and expr.args and is_cuda(script, expr.args[0]):
            return True
        if is_cuda(script, script.argument(expr, "device")):
            return True
        if not isinstance(func, ast.Attribute):
            return False
        expr = func.value
    return False
