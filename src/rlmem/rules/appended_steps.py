"""Lists to which a loop that steps an environment adds something large at every step; the page is data_without_capacity.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.lengths import WATCHING, counted, env_steps, times, watches
from rlmem.rules.memories import DATA, dotted
from rlmem.rules.observed import of_environment, severity
from rlmem.rules.syntax import SHRINKING, leaf, loops, method_calls, receiver, self_attribute
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of

#: Calls that train on what they are given.
TRAINS = re.compile(r"train|fit|update|learn|optimi[sz]e|DataLoader|behavio|clone", re.IGNORECASE)
_LARGE = re.compile(
    r"^(next_|new_|last_|prev_|raw_|cur_|current_)?(obs|observation|state|frame|image|img|screen|pixel)s?(_t|_next|_|2)?$"
)
_PIXELS = re.compile(r"frame|im(g|age)|screen|pixel", re.IGNORECASE)
_SAVED = re.compile(
    r"save|dump|write|gif|video|csv|parquet|clip|animat|DataFrame|send|put$|imwrite|upload", re.IGNORECASE
)
_SAME = {
    "copy", "deepcopy", "array", "asarray", "tensor", "as_tensor", "from_numpy", "clone", "detach", "cpu", "numpy",
    "astype", "flatten", "float", "reshape", "squeeze", "unsqueeze", "float32", "FloatTensor", "list", "dict", "tuple",
    "transpose", "ascontiguousarray",
}  # fmt: skip
_NOT_WHOLE = {"len", "print", "append", "extend", "range", "enumerate", "zip", "isinstance", "id", "type"}
_TABLES = ("FrozenLake", "Taxi", "CliffWalking", "Blackjack", "NChain")
_MANY_STEPS, _MANY_ROUNDS = 10_000, 100
#: Steps of an episode that ends when it ends, and bytes of what is kept of one: an image of 84 × 84 × 3, a small vector.
_EPISODE, _IMAGE_BYTES, _VECTOR_BYTES = 100, 84 * 84 * 3, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """One append beside a step: what it is added to, what is added, and the loops around, nearest first."""

    node: ast.AST
    base: ast.expr  # the list, or the dict of lists
    what: str
    pixels: bool
    around: tuple[ast.AST, ...]


def check_appends(rule: Rule, script: Script) -> Iterator[Finding]:
    """One finding a list: endless ones, those a long loop trains on, and those that get large."""
    if WATCHING.search(PurePath(script.path).stem):
        return
    done: set[str] = set()
    for step in env_steps(script):
        if script.loop_of(step) is None or watches(script, step) or _is_tabular(script, step):
            continue
        for append in _appends(script, step):
            text = dotted(append.base)
            if text in done or not _made_outside(script, append) or _ends(script, append.base):
                continue
            found = _judged(rule, script, append)
            if found is not None:
                done.add(text)
                yield found


def _judged(rule: Rule, script: Script, append: _Append) -> Finding | None:
    outermost = append.around[-1]
    name = ast.unparse(append.base)
    endless = _is_endless(script, outermost)
    rounds = None if endless else times(script, outermost)
    if not endless and rounds is None:
        return None
    title = f"{name} keeps {append.what} of every step, and nothing ever leaves it"
    level = rule.severity
    if not endless:
        count = _count(script, append)
        trained = (rounds or 0) >= _MANY_ROUNDS and _is_trained_on(script, append)
        if trained:
            title = f"{name} grows in every round of the loop that trains on it"
        elif count < _MANY_STEPS:
            return None
        else:
            each = _IMAGE_BYTES if append.pixels else _VECTOR_BYTES
            level = "info" if _is_result(script, append) else severity(count * each)
    return rule.finding(
        title,
        severity=level,
        place=script.place(append.node),
        costs_per="step",
        remedy="keep the newest in deque(maxlen=…), start anew with every episode, or write it to a file",
    )


def _appends(script: Script, step: ast.Call) -> Iterator[_Append]:
    """What the loop around a step appends: observations, info tables, and transitions with them."""
    loop, function = script.loop_of(step), script.function_of(step)
    observed, told = _results(script, step)
    environment = environment_of(script, receiver(step))
    images = bool(environment and of_environment(script, environment).image) or any(script.calls_of("Conv2d", "Conv2D"))
    for node, owner, added in _puts(script):
        around = tuple(loops(script, node))
        if loop not in around or script.function_of(node) is not function:
            continue
        item = _bare(added)
        what = _what(script, item, observed, told)
        base = owner.value if isinstance(owner, ast.Subscript) and isinstance(owner.slice, ast.Constant) else owner
        if what and dotted(base):
            pixels = images or bool(_PIXELS.search(ast.unparse(item)))
            yield _Append(node=node, base=base, what=what, pixels=pixels and what != "info tables", around=around)


def _puts(script: Script) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """``x.append(item)``, ``x.extend([item])`` and ``x += [item]``: the node, the list and the item."""
    for call in method_calls(script, "append", "extend"):
        owner = receiver(call)
        if owner is None or len(call.args) != 1:
            continue
        if leaf(call) == "append":
            yield call, owner, call.args[0]
        elif isinstance(call.args[0], ast.List) and len(call.args[0].elts) == 1:
            yield call, owner, call.args[0].elts[0]
    for grown in script.augassigns:
        if isinstance(grown.op, ast.Add) and isinstance(grown.value, ast.List) and len(grown.value.elts) == 1:
            yield grown, grown.target, grown.value.elts[0]


def _results(script: Script, step: ast.Call) -> tuple[set[str], set[str]]:
    """The names that a step's observation and its info table get."""
    above = script.parent(step)
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if not isinstance(target, ast.Tuple):
        return ({dotted(target)} - {""} if target is not None else set()), set()
    first, last = target.elts[0], target.elts[-1]
    return {dotted(first)} - {"", "_"}, {dotted(last)} - {"", "_"}


def _what(script: Script, item: ast.expr, observed: set[str], told: set[str]) -> str:
    """What an item is, when it is more than a few numbers."""
    name = dotted(item)
    if name in observed or _LARGE.match(name.rsplit(".", maxsplit=1)[-1]):
        return "" if _indexes(script, name) else "the observation"
    if name in told:
        return "info tables"
    made = script.definition(item) if name else item
    match made:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            kept = parts
        case ast.Call(func=ast.Name(id=called), args=args, keywords=keywords) if called[:1].isupper():
            kept = [*args, *(keyword.value for keyword in keywords)]
        case _:
            return ""
    names = {dotted(_bare(part)) for part in kept} - {""}
    large = [each for each in names if each in observed or _LARGE.match(each)]
    return "the transition" if large and not any(_indexes(script, each) for each in large) else ""


def _indexes(script: Script, name: str) -> bool:
    """Whether a state is a number: ``q_table[state]``."""
    for load in script.walked.loads.get(name, ()):
        above = script.parent(load)
        above = script.parent(above) if isinstance(above, ast.Tuple) else above
        if isinstance(above, ast.Subscript) and above.value is not load:
            return True
    return False


def _bare(expr: ast.expr) -> ast.expr:
    """An observation under ``.copy()``, ``np.array(…)``, ``obs["image"]`` and the like."""
    while True:
        if isinstance(expr, ast.Call) and leaf(expr) in _SAME:
            inner = expr.args[0] if expr.args and _is_function(expr) else receiver(expr)
            if inner is None:
                return expr
            expr = inner
        elif (
            isinstance(expr, ast.Subscript)
            and isinstance(expr.slice, ast.Constant)
            and isinstance(expr.slice.value, str)
        ):
            if not _PIXELS.search(expr.slice.value):
                return expr
            expr = expr.value
        else:
            return expr


def _is_function(call: ast.Call) -> bool:
    """``np.array(obs)`` and ``deepcopy(obs)`` rather than ``obs.copy()``."""
    owner = receiver(call)
    return owner is None or (isinstance(owner, ast.Name) and owner.id in {"np", "numpy", "torch", "copy", "jnp", "th"})


def _is_tabular(script: Script, step: ast.Call) -> bool:
    environment = environment_of(script, receiver(step))
    return environment is not None and (environment.id or "").startswith(_TABLES)


def _made_outside(script: Script, append: _Append) -> bool:
    """Whether the list is made once, empty, before the loops begin: here, in the module, or in ``__init__``."""
    base = append.base
    if isinstance(base, ast.Name):
        found = script.meaning.lookup(base.id, base)
        bindings = found[1] if found else []
    else:
        owner, name = script.class_of(base), self_attribute(base)
        if owner is None or name is None or script.is_callback(owner):
            return False
        values = script.walked.attribute_values.get(name, ())
        bindings = [binding for target, binding in values if script.class_of(target) is owner]
    bindings = [binding for binding in bindings if binding.kind != "augment"]
    if len(bindings) != 1 or bindings[0].kind != "assign":
        return False
    value, index = bindings[0].value, bindings[0].index
    if index is not None:
        value = value.elts[index] if isinstance(value, (ast.Tuple, ast.List)) and index < len(value.elts) else None
    return value is not None and _is_empty(script, value) and script.loop_of(bindings[0].node) is None


def _is_empty(script: Script, value: ast.expr) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
        case ast.Dict(values=values):
            return bool(values) and all(_is_empty(script, each) for each in values)
        case ast.Call(args=[ast.Name(id="list")]) if leaf(value) == "defaultdict":
            return True
    return isinstance(value, ast.Call) and leaf(value) == "deque" and not value.args and not value.keywords


def _ends(script: Script, base: ast.expr) -> bool:
    """Whether anything takes items out, looks at the length, deletes, or writes the list to a file."""
    text = dotted(base)
    for use in script.uses(base):
        below: ast.AST = use
        above = script.parent(use)
        while isinstance(above, (ast.Subscript, ast.Starred)) and above.value is below:
            if isinstance(above, ast.Subscript) and (
                isinstance(above.ctx, ast.Del)
                or (isinstance(above.slice, ast.Slice) and isinstance(above.ctx, ast.Store))
            ):
                return True
            below, above = above, script.parent(above)
        if isinstance(above, ast.Attribute) and above.attr in SHRINKING:
            return True
        if isinstance(above, ast.Call) and below is not above.func:
            beyond = script.parent(above)
            if _SAVED.search(leaf(above)) or (leaf(above) == "len" and isinstance(beyond, ast.Compare)):
                return True
            if isinstance(beyond, (ast.Call, ast.keyword)) and _SAVED.search(ast.unparse(script.statement_of(above))):
                return True
    return any(
        text == dotted(item) for node in ast.walk(script.tree) if isinstance(node, ast.Delete) for item in node.targets
    )


def _is_endless(script: Script, loop: ast.AST) -> bool:
    """``while True`` and ``for _ in itertools.count()`` that nothing leaves."""
    if isinstance(loop, ast.While):
        forever = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    else:
        over = loop.iter if isinstance(loop, ast.For) else None
        forever = isinstance(over, ast.Call) and leaf(over) == "count"
    return forever and not _leaves(script, loop)


def _leaves(script: Script, loop: ast.AST) -> bool:
    function = script.function_of(loop)
    for node in ast.walk(loop):
        if isinstance(node, ast.Break) and script.loop_of(node) is loop:
            return True
        if isinstance(node, ast.Return) and script.function_of(node) is function:
            return True
    return False


def _count(script: Script, append: _Append) -> int:
    """About how often an append happens; an episode that ends by itself has a hundred steps."""
    count = 1
    for loop in append.around:
        limit = counted(script, loop, append.node)
        if limit is not None:
            count = limit
            continue
        again = times(script, loop)
        ends = loop is not append.around[-1] and _leaves(script, loop)
        count *= _EPISODE if again is None else min(again, _EPISODE) if ends else again
    return count


def _is_trained_on(script: Script, append: _Append) -> bool:
    """Whether the outermost loop hands the whole of it to something that trains; data may go anywhere."""
    text, outermost = dotted(append.base), append.around[-1]
    data = bool(DATA.search(text))
    for use in script.uses(append.base):
        above = script.parent(use)
        above = script.parent(above) if isinstance(above, ast.Subscript) and above.value is use else above
        above = script.parent(above) if isinstance(above, ast.keyword) else above
        if not isinstance(above, ast.Call) or outermost not in script.ancestors(above):
            continue
        if above.func is not use and (TRAINS.search(leaf(above)) or (data and leaf(above) not in _NOT_WHOLE)):
            return True
    return False


def _is_result(script: Script, append: _Append) -> bool:
    """Whether the list is what the loop is for: it is read after it."""
    end = script.span(append.around[-1])[1]
    return any(script.span(use)[0] >= end for use in script.uses(append.base))
