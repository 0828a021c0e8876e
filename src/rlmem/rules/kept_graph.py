"""A tensor is kept together with the autograd graph that computed it.

A tensor that came out of a network refers to the operations it was computed by, and those to their inputs. Whoever keeps it
keeps all of that: appended to a list of losses, added to a running total, stored as a priority in a replay buffer. The
list looks like a few numbers and grows by a graph a step; on a GPU, the run ends with "out of memory" after hours.

```python
loss = F.mse_loss(model(x), y)
loss.backward()
optimizer.step()
losses.append(loss)
total_loss += loss
```

In a running process, ``rlmem explain`` counts the tensors of a list that have a graph, and the bytes of those graphs.

Use instead: the number, ``losses.append(loss.item())``, or the value without its history, ``loss.detach()``.

Fix: safe where the tensor's own ``backward()`` is sure to have been called, or to be called next, which frees what another
one would need; unsafe where the variable may hold something else by then, a number or another tensor.

Reference: Kaixhin/Rainbow#33; oxwhirl/pymarl#73; recursionpharma/gflownet#130; wandb/wandb#354; "My model reports CUDA
out of memory" in PyTorch's FAQ.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.graphs import Graphs, training_scopes
from rlmem.rules.syntax import base_name, leaf, method_calls, receiver, self_attribute
from rlmem.scripts import Script
from rlmem.units import MIB, format_count, format_size

#: A list with this many tensors that have a graph is no episode of a policy gradient any more; nor is one whose graphs
#: hold this much.
MANY, SOME = 2000, 200
MANY_BYTES, SOME_BYTES = 64 * MIB, 16 * MIB
_STORES = ("push", "store", "remember", "add", "append", "store_transition")
_PRIORITIES = ("update_priorities", "update_priority", "set_priorities", "update")
_CONVERTS = {"detach", "item", "numpy", "tolist", "float", "array", "asarray", "cpu"}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for what is appended, added up or stored with its graph and takes part in no later ``backward()``."""
    if "torch" not in script.text or "backward" not in script.text:
        return
    scopes = list(training_scopes(script))
    consumed: set[str] = set().union(*(graphs.consumed() for graphs in scopes))
    for graphs in scopes:
        yield from _appended(rule, script, graphs, consumed)
        yield from _totals(rule, script, graphs, consumed)
        yield from _priorities(rule, script, graphs)
    yield from _handed_over(rule, script, scopes)
    yield from _stored(rule, script, {graphs.scope: graphs for graphs in scopes})


def _appended(rule: Rule, script: Script, graphs: Graphs, consumed: set[str]) -> Iterator[Finding]:
    for call in _appends(script).get(graphs.scope, ()):
        owner = receiver(call)
        if not call.args or owner is None:
            continue
        if _word(owner) in consumed or not _outlives(script, call, owner):
            continue
        for name in _bare(call.args[0]):
            if name.id in graphs.spent and graphs.may_hold(name):
                yield _found(
                    rule, script, graphs, name, f"{ast.unparse(owner)} keeps {name.id} with its autograd graph"
                )


@lru_cache(maxsize=2)
def _appends(script: Script) -> dict[ast.AST, list[ast.Call]]:
    """The calls of ``append`` in each function's own lines, and in the module's."""
    found: dict[ast.AST, list[ast.Call]] = {}
    for call in method_calls(script, "append"):
        found.setdefault(script.function_of(call) or script.tree, []).append(call)
    return found


def _totals(rule: Rule, script: Script, graphs: Graphs, consumed: set[str]) -> Iterator[Finding]:
    for node in graphs.assignments:
        target, added = _added(node)
        if target is None or added is None or _word(target) in consumed:
            continue
        if not graphs.holds(added) or not _outlives(script, node, target):
            continue
        for name in _bare(added):
            if name.id in graphs.spent and name.id != base_name(target) and graphs.may_hold(name):
                title = f"{ast.unparse(target)} adds up {name.id} with its autograd graph"
                yield _found(rule, script, graphs, name, title)


def _added(node: ast.AST) -> tuple[ast.expr, ast.expr] | tuple[None, None]:
    """Total and summand of ``total += x`` and ``total = total + x``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.target, node.value
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        target = node.targets[0]
        if len(node.targets) == 1 and ast.unparse(node.value.left) == ast.unparse(target):
            return target, node.value.right
    return None, None


def _goes_back(script: Script, loop: ast.AST) -> bool:
    """Whether a loop differentiates in every round, itself or in a function of this file that it calls."""
    calls = list(method_calls(script, "backward"))
    if any(loop in script.ancestors(call) for call in calls):
        return True
    names = {getattr(script.function_of(call), "name", "") for call in calls} - {""}
    return any(isinstance(node, ast.Call) and leaf(node) in names for node in ast.walk(loop))


def _outlives(script: Script, node: ast.AST, kept: ast.expr) -> bool:
    """Whether what is kept here is there for longer than one round: an attribute, or a variable from outside the loop."""
    if self_attribute(kept) is not None:
        return True
    loop, name = script.loop_of(node), base_name(kept)
    if loop is None or not _goes_back(script, loop):
        return False  # collected first, and gone through afterwards
    return all(each is node for each in _assigned(script).get((loop, name), ()))


@lru_cache(maxsize=2)
def _assigned(script: Script) -> dict[tuple[ast.AST, str | None], list[ast.Assign]]:
    """The assignments of each variable in each loop's own lines."""
    found: dict[tuple[ast.AST, str | None], list[ast.Assign]] = {}
    for each in script.assigns:
        loop = script.loop_of(each) if isinstance(each, ast.Assign) else None
        if loop is not None and isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    found.setdefault((loop, target.id), []).append(each)
    return found


def _handed_over(rule: Rule, script: Script, scopes: list[Graphs]) -> Iterator[Finding]:
    """What a function that trains returns as its loss, kept by its caller: at once, or through a variable."""
    giving = {
        graphs.scope.name
        for graphs in scopes
        if isinstance(graphs.scope, (ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(value := script.returned(graphs.scope), ast.Name)
        and value.id in graphs.spent
    }
    for name in giving:
        for call in _calls_named(script, name):
            for use in (call, *_variable(script, call)):
                above = script.parent(use)
                kept = receiver(above) if isinstance(above, ast.Call) and leaf(above) == "append" else None
                if isinstance(above, ast.AugAssign) and isinstance(above.op, ast.Add) and above.value is use:
                    kept = above.target
                if kept is None or above is None or not _outlives(script, above, kept):
                    continue
                if _is_consumed(script, scopes, kept):
                    continue
                title = f"{ast.unparse(kept)} keeps what {name}() returns with its autograd graph"
                yield _kept(rule, script, use, title, safety="unsafe")


def _variable(script: Script, call: ast.Call) -> tuple[ast.expr, ...]:
    """The uses of the variable a call's result is given to, unless it is a number afterwards."""
    statement = script.statement_of(call)
    if not (isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1):
        return ()
    target = statement.targets[0]
    uses = script.uses(target) if isinstance(target, ast.Name) else ()
    return () if any(_is_cut(script, use) for use in uses) else uses


def _is_consumed(script: Script, scopes: list[Graphs], kept: ast.expr) -> bool:
    """Whether a ``backward()`` takes its gradients through it; a variable is seen in its function and those inside it."""
    around = (script.tree, *script.ancestors(kept))
    return any(
        _word(kept) in graphs.consumed()
        for graphs in scopes
        if not isinstance(kept, ast.Name)
        or graphs.scope in around
        or any(above is script.function_of(kept) for above in script.ancestors(graphs.scope))
    )


def _calls_named(script: Script, name: str) -> Iterator[ast.Call]:
    """Calls of the only function of this name: by the name itself, or as a method."""
    if sum(getattr(function, "name", None) == name for function in script.functions) != 1:
        return
    yield from method_calls(script, name)
    for load in script.walked.loads.get(name, ()):
        call = script.parent(load)
        if isinstance(call, ast.Call) and call.func is load:
            yield call


def _is_cut(script: Script, use: ast.expr) -> bool:
    """Whether a variable is asked whether it is there, or what number it is: it may be none, or one, elsewhere."""
    above = script.parent(use)
    statement = script.statement_of(use)
    return (
        isinstance(statement, ast.Assign)
        and isinstance(above, (ast.Attribute, ast.Call))
        and any(
            isinstance(target, ast.Name) and isinstance(use, ast.Name) and target.id == use.id
            for target in statement.targets
        )
    )


def _priorities(rule: Rule, script: Script, graphs: Graphs) -> Iterator[Finding]:
    """Priorities of a prioritised buffer that are tensors of the loss."""
    if "torchrl" in script.text:
        return  # its buffers detach
    for call in method_calls(script, *_PRIORITIES):
        if (script.function_of(call) or script.tree) is not graphs.scope or len(call.args) + len(call.keywords) < 2:
            continue
        first = _words(call.args[0]) if call.args else ""
        if leaf(call) == "update" and "ind" not in first and "idx" not in first:
            continue
        if _converts(script, leaf(call)):
            continue
        for name in [part for value in (*call.args, *(k.value for k in call.keywords)) for part in _bare(value)]:
            if name.id in graphs.names and graphs.may_hold(name):
                title = f"{leaf(call)}() stores {name.id} with its autograd graph"
                yield _found(rule, script, graphs, name, title)


def _stored(rule: Rule, script: Script, known: dict[ast.AST, Graphs]) -> Iterator[Finding]:
    """What a network said, put into a replay buffer: its graph is of no use there."""
    for call in method_calls(script, *_STORES):
        owner = receiver(call)
        if owner is None or not _is_replay(script, owner) or _converts(script, leaf(call)):
            continue
        scope = script.function_of(call) or script.tree
        graphs = known.get(scope) or known.setdefault(scope, Graphs(script, scope))
        values = [
            element for value in call.args for element in (value.elts if isinstance(value, ast.Tuple) else [value])
        ]
        for name in (value for value in values if isinstance(value, ast.Name)):
            if name.id in graphs.names and all(
                graphs.holds(value)
                for _, value in graphs.definitions.get(name.id, ())
                if not isinstance(value, ast.Constant)
            ):
                title = f"{ast.unparse(owner)} stores {name.id} with its autograd graph"
                yield _found(rule, script, graphs, name, title)


def _is_replay(script: Script, owner: ast.expr) -> bool:
    if "replay" in _word(owner).lower():
        return True
    made = script.made_by(owner)
    return made is not None and ("Replay" in made.leaf or made.leaf == "deque") and made.root != "torchrl"


def _converts(script: Script, method: str) -> bool:
    """Whether a function of this name in the file takes tensors out of their graphs itself."""
    return any(
        isinstance(node, (ast.Call, ast.Attribute))
        and (leaf(node) if isinstance(node, ast.Call) else node.attr) in _CONVERTS
        for function in script.functions
        if not isinstance(function, ast.Lambda) and function.name == method
        for node in ast.walk(function)
    )


def _found(rule: Rule, script: Script, graphs: Graphs, name: ast.Name, title: str) -> Finding:
    return _kept(rule, script, name, title, safety="safe" if graphs.is_spent(name) else "unsafe")


def _kept(rule: Rule, script: Script, kept: ast.expr, title: str, *, safety: str) -> Finding:
    what = kept.id if isinstance(kept, ast.Name) else "the result"
    edits = (script.edit(kept, f"{script.segment(kept)}.detach()"),)
    fix = Fix(title=f"take {what} out of its graph", edits=edits, safety=safety)
    remedy = f"{what}.item() for a number, {what}.detach() for a tensor without its history"
    if not isinstance(kept, ast.Name):
        remedy = "add .item() for a number, .detach() for a tensor without its history"
    return rule.finding(title, place=script.place(kept), remedy=remedy, fix=fix)


def _bare(expr: ast.expr) -> Iterator[ast.Name]:
    """Variables as they are, in a tuple, a table, or scaled by something."""
    if isinstance(expr, ast.Name):
        yield expr
    elif isinstance(expr, (ast.Tuple, ast.List)):
        for element in expr.elts:
            yield from _bare(element)
    elif isinstance(expr, ast.Dict):
        for value in expr.values:
            yield from _bare(value)
    elif isinstance(expr, ast.BinOp):
        yield from _bare(expr.left)
        yield from _bare(expr.right)


def _word(expr: ast.expr) -> str:
    """The last word of ``x``, ``self.x`` and ``x["a"]``: what the same object is called elsewhere."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    return expr.attr if isinstance(expr, ast.Attribute) else expr.id if isinstance(expr, ast.Name) else ""


def _words(expr: ast.expr) -> str:
    return ast.unparse(expr).lower()


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires for a container without a bound that holds many tensors with a graph, or large graphs."""
    for process in tree.processes:
        for holding in process.holdings:
            if holding.graph_more and holding.graph_bytes >= SOME_BYTES:
                name = holding.path.removesuffix(".grad_fn")
                yield rule.finding(
                    f"{name} keeps {holding.note}: {format_size(holding.graph_bytes)} or more",
                    severity="warning",
                    location=f"{process.pid}: {holding.path}",
                    remedy="detach what goes on from step to step, such as the hidden state of a recurrent network: "
                    "hidden = tuple(part.detach() for part in hidden)",
                    costs_bytes=holding.resident_bytes,
                )
                continue
            if not holding.keeps_graphs or (holding.graphs < SOME and holding.graph_bytes < SOME_BYTES):
                continue
            is_large = holding.graphs >= MANY or holding.graph_bytes >= MANY_BYTES
            size = f": {format_size(holding.graph_bytes)}" if holding.graph_bytes else ""
            where = f" where it is added to ({holding.added_at})" if holding.added_at else ""
            yield rule.finding(
                f"{holding.path} holds {format_count(holding.graphs)} tensors with the graphs they came from{size}",
                severity="warning" if is_large else "info",
                location=f"{process.pid}: {holding.path}",
                remedy=f"keep .item() or .detach(){where}; a graph holds every tensor its operation saved",
                costs_bytes=holding.resident_bytes,
            )
