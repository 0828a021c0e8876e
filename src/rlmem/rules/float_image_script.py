"""Where a script turns images into floats before they are stored; the rule's page is float_image.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import prod

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.spaces import DTYPES
from rlmem.rules.arrays import ArrayCall, arrays
from rlmem.rules.base import Rule
from rlmem.rules.flattened_image import is_long_float
from rlmem.rules.lengths import run_steps
from rlmem.rules.made_up import is_made_up, is_unused, observes_ram
from rlmem.rules.memories import dotted, store_calls
from rlmem.rules.observed import WORTH_BYTES, of_environment, severity
from rlmem.rules.reaching import OBSERVING, reaches_observation
from rlmem.rules.shapes import boxes, is_image
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of

_REAL = re.compile(r"depth|height|heat|prob|occupan|lidar|elevation|distance|feature|grid", re.IGNORECASE)
_PIXELS = re.compile(r"obs|im(g|age)|frame|screen|pixel|rgb|state|camera|grey|gray", re.IGNORECASE)
_SCALED = {"ScaledFloatFrame", "ScaledFloatObservation"}
_BYTE_MAX = 255
_REMEDY = "store uint8 and divide by 255 in the network"


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Spaces, divisions, wrappers, and arrays."""
    declared = {script.class_of(box.call) for box in boxes(script) if is_long_float(box)}  # a rule of its own
    for finding, owner in _spaces(rule, script):
        declared.add(owner)
        yield finding
    if str(_BYTE_MAX) in script.text:
        yield from _divisions(rule, script, declared)
        yield from () if observes_ram(script) else _stored(rule, script)
    yield from _wrappers(rule, script)
    yield from _stores(rule, script)
    yield from _rollouts(rule, script)


def _spaces(rule: Rule, script: Script) -> Iterator[tuple[Finding, ast.ClassDef | None]]:
    for box in boxes(script):
        bytewise = box.low == 0.0 and box.high in (1.0, 255.0)
        if not box.dtype.startswith("float") or not bytewise or box.shape is None or len(box.shape) != 3:
            continue
        if not is_image(box.shape) or not _observed(script, box.call) or _bytes_after_all(script, box.call):
            continue
        cost = prod(box.shape) * (DTYPES[box.dtype] - 1)
        yield (
            rule.finding(
                f"an image of {'×'.join(map(str, box.shape))} is declared as {box.dtype}, "
                f"{DTYPES[box.dtype]} times the bytes of uint8",
                severity="info" if _arguable(script, box.call) else rule.severity,
                place=script.place(box.call),
                costs_bytes=cost,
                costs_per="stored observation",
                remedy="declare Box(0, 255, shape, np.uint8) and normalise in the network",
            ),
            script.class_of(box.call),
        )


def _observed(script: Script, box: ast.Call) -> bool:
    """Whether a Box is an observation of images: in a class of environments, or by its name."""
    name = _name(script, box)
    owner = script.class_of(box)
    inside = owner is not None and (script.is_env(owner) or script.is_wrapper(owner) or "observation_space" in name)
    return not _REAL.search(name) and (inside or bool(_PIXELS.search(name)))


def _arguable(script: Script, box: ast.Call) -> bool:
    """A space outside of environments describes an input; one of a made-up or unused class costs nothing."""
    owner = script.class_of(box)
    if owner is None or not (script.is_env(owner) or script.is_wrapper(owner)):
        return True
    if script.argument(box, "dtype", 3) is None:
        return True  # older releases of gym had another default, and what is stored may have its own
    return is_made_up(script, box) or (script.is_wrapper(owner) and is_unused(script, owner))


def _bytes_after_all(script: Script, box: ast.Call) -> bool:
    """A Box without a dtype, in a class whose observations are cast to bytes, there or in a function it calls."""
    owner = script.class_of(box)
    if owner is None or script.argument(box, "dtype", 3) is not None:
        return False
    called = [script.function_called(call) for call in ast.walk(owner) if isinstance(call, ast.Call)]
    return any("uint8" in script.segment(node) for node in (owner, *called) if node is not None)


def _name(script: Script, node: ast.AST) -> str:
    """The key or variable a space belongs to."""
    statement = script.statement_of(node)
    name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    above = script.parent(node)
    if isinstance(above, ast.Dict):
        key = next((k for k, v in zip(above.keys, above.values, strict=True) if v is node), None)
        return ast.unparse(key) if key is not None else name
    return above.arg or name if isinstance(above, ast.keyword) else name


def _by_255(node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):  # obs /= 255
        return isinstance(node.op, ast.Div) and _is_255(node.value) and bool(_PIXELS.search(ast.unparse(node.target)))
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.Mult)):
        return False
    right = node.right
    if isinstance(right, ast.Call) and len(right.args) == 1:
        right = right.args[0]  # np.float32(255)
    if isinstance(node.op, ast.Mult):  # x * (1 / 255)
        return isinstance(right, ast.BinOp) and isinstance(right.op, ast.Div) and _is_255(right.right)
    return _is_255(right) and bool(_PIXELS.search(ast.unparse(node.left)) or isinstance(node.left, ast.Call))


def _is_picture(node: ast.AST) -> bool:
    """Whether what is divided has the name of an image; that alone says so outside of the usual methods."""
    divided = ast.unparse(
        node.target if isinstance(node, ast.AugAssign) else node.left if isinstance(node, ast.BinOp) else node
    )
    return bool(_PIXELS.search(divided)) and not _REAL.search(divided)


def _is_255(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and not isinstance(expr.value, bool) and expr.value == _BYTE_MAX


def _cast_back(script: Script, node: ast.AST) -> bool:
    statement = script.statement_of(node)
    return any("uint8" in ast.unparse(above) for above in script.ancestors(node) if isinstance(above, ast.Call)) or any(
        isinstance(above, ast.Call)
        and isinstance(above.func, ast.Attribute)
        and above.func.attr in {"show", "imshow", "save"}
        for above in ast.walk(statement)
    )


def _divisions(rule: Rule, script: Script, declared: set[ast.ClassDef | None]) -> Iterator[Finding]:
    """In wrappers and environments, where it gets into what they return; one finding a class."""
    for node in script.classes:
        wrapper = script.is_wrapper(node)
        if node in declared or not (wrapper or script.is_env(node)) or (wrapper and _optional(script, node.name)):
            continue
        if _compresses(node) or observes_ram(script, node) or observes_ram(script):
            continue
        parts = (
            part
            for name, item in script.methods(node).items()
            for part in ast.walk(item)
            if _by_255(part) and (name in OBSERVING or _is_picture(part))
        )
        divided = next(
            (part for part in parts if not _cast_back(script, part) and reaches_observation(script, node, part)), None
        )
        if divided is None:
            continue
        idle = (
            "minigrid" in script.text.lower()
            or is_made_up(script, node)
            or (wrapper and is_unused(script, node))
            or _on_request(script, divided)
        )
        yield rule.finding(
            f"{node.name} divides images by 255, so that they are stored as floats",
            severity="info" if idle else rule.severity,
            place=script.place(divided),
            remedy=f"{_REMEDY}; SB3's CnnPolicy does",
        )


def _on_request(script: Script, divided: ast.AST) -> bool:
    """Whether a flag decides about the division."""
    tests = [above.test for above in script.ancestors(divided) if isinstance(above, (ast.If, ast.IfExp))]
    return any(isinstance(test, (ast.Name, ast.Attribute)) for test in tests)


def _compresses(node: ast.ClassDef) -> bool:
    """A wrapper that makes features out of an image stores those."""
    return any(isinstance(part, ast.Attribute) and part.attr in {"encode", "encoder", "vae"} for part in ast.walk(node))


def _optional(script: Script, name: str) -> bool:
    """Whether a wrapper is only applied on request: every construction stands under an ``if``."""
    calls = list(script.calls_of(name))
    return bool(calls) and all(
        any(isinstance(above, ast.If) and script.function_of(above) is not None for above in script.ancestors(call))
        for call in calls
    )


def _wrappers(rule: Rule, script: Script) -> Iterator[Finding]:
    own = {node.name for node in script.classes}
    for call in script.calls_of(*_SCALED, "wrap_deepmind"):
        name = script.called(call)
        scale = script.argument(call, "scale")
        if name is None or (name.leaf == "wrap_deepmind" and (scale is None or script.value(scale) is not True)):
            continue
        if name.leaf in _SCALED and (name.leaf in own or _optional(script, name.leaf)):
            continue
        yield rule.finding(
            f"{name.leaf} makes float32 of every frame before it is stored, four times the bytes",
            place=script.place(scale if scale is not None else call),
            remedy=_REMEDY,
        )


def _stored(rule: Rule, script: Script) -> Iterator[Finding]:
    """A frame divided by 255, here or in a function of the script, and then put into a replay memory."""
    makers = {
        function.name: divided
        for function in script.functions
        if isinstance(function, ast.FunctionDef)
        for returned in script.walked.returns.get(function, ())
        if returned.value is not None and (divided := _top_division(script, returned.value)) is not None
    }
    names: dict[str, ast.AST] = {}
    for assign in script.assigns:
        if isinstance(assign, ast.Assign) and (divided := _division_of(script, assign.value, makers)) is not None:
            names |= {dotted(target): divided for target in assign.targets if dotted(target)}
    done: set[ast.AST] = set()
    for call, text in store_calls(script):
        given = [part for one in call.args for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])]
        for part in given:
            divided = names.get(dotted(part)) or _division_of(script, part, makers)
            if divided is None or divided in done:
                continue
            done.add(divided)
            yield rule.finding(
                f"frames are divided by 255 before {text} keeps them, so that they are stored as floats",
                place=script.place(divided),
                remedy=_REMEDY,
            )


def _top_division(script: Script, expr: ast.expr) -> ast.AST | None:
    found = script.definition(expr)
    while isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        if any("uint8" in ast.unparse(argument) for argument in found.args):
            return None
        found = found.func.value if not found.args or found.func.attr == "astype" else found.args[0]
    return found if _by_255(found) else None


def _division_of(script: Script, expr: ast.expr, makers: dict[str, ast.AST]) -> ast.AST | None:
    if isinstance(expr, ast.Call):
        leaf = expr.func.attr if isinstance(expr.func, ast.Attribute) else getattr(expr.func, "id", "")
        if leaf in makers:
            return makers[leaf]
    return _top_division(script, expr) if isinstance(expr, (ast.Call, ast.BinOp)) else None


def _stores(rule: Rule, script: Script) -> Iterator[Finding]:
    """One finding a class: float arrays with a row for each image."""
    done: set[ast.ClassDef | None] = set()
    for array in arrays(script):
        row = array.row_shape
        if not array.is_store or not array.dtype.startswith("float") or not is_image(row) or row is None:
            continue
        size = array.filled_bytes(run_steps(script))
        if array.owner in done or _REAL.search(array.name) or (size is not None and size < WORTH_BYTES):
            continue
        if _by_default(script, array):
            continue
        done.add(array.owner)
        wide = DTYPES[array.dtype]
        waste = size * (wide - 1) // wide if size is not None else None
        yield rule.finding(
            f"{array.name} keeps images as {array.dtype}, {wide} times the bytes of uint8",
            severity="warning" if waste is None else severity(waste),
            place=script.place(array.call),
            costs_bytes=waste,
            remedy=_REMEDY,  # no fix: what is put in may be between 0 and 1
        )


def _by_default(script: Script, array: ArrayCall) -> bool:
    """Whether the sizes of a row are defaults of a class that this file never builds: another file says which they are."""
    owner = array.owner
    if owner is None or any(script.calls_of(owner.name)):
        return False
    init = script.methods(owner).get("__init__")
    defaults = [default for default in (*init.args.defaults, *init.args.kw_defaults) if default] if init else []
    sizes = [part for expr in array.exprs[1:] for part in ast.walk(expr) if isinstance(part, ast.expr)]
    return any(script.definition(size) in defaults for size in sizes)


def _rollouts(rule: Rule, script: Script) -> Iterator[Finding]:
    """``torch.zeros((steps, envs) + envs.single_observation_space.shape)`` over images, as CleanRL's PPO does."""
    for array in arrays(script):
        last = array.exprs[-1]
        space = last.value if isinstance(last, ast.Starred) else last
        if not array.dtype.startswith("float") or not isinstance(space, ast.Attribute) or space.attr != "shape":
            continue
        owner = space.value
        if not isinstance(owner, ast.Attribute) or not owner.attr.endswith("observation_space"):
            continue
        environment = environment_of(script, owner.value)
        seen = of_environment(script, environment) if environment else None
        if seen is None or not seen.image or seen.dtype not in ("", "uint8"):
            continue
        counts = [size for size in array.dims if size is not ...]
        exact = bool(counts) and all(isinstance(size, int) for size in counts) and seen.shape is not None
        values = prod(counts) * prod(seen.shape or ()) if exact else 0
        waste = values * (DTYPES[array.dtype] - 1)
        if exact and waste < WORTH_BYTES:
            continue
        yield rule.finding(
            f"{array.name} keeps images as {array.dtype}, {DTYPES[array.dtype]} times the bytes of uint8",
            severity=severity(waste) if exact else "info",
            place=script.place(array.call),
            costs_bytes=waste or None,
            remedy="dtype=torch.uint8, and convert the minibatch",
            fix=_fix(script, array) if seen.dtype and seen.shape else None,
        )


def _fix(script: Script, array: ArrayCall) -> Fix | None:
    func = array.call.func
    if array.dtype_given or not isinstance(func, ast.Attribute):
        return None
    edit = script.add_argument(array.call, f"dtype={script.segment(func.value)}.uint8")
    return Fix(title="store uint8", edits=(edit,), safety="unsafe")
