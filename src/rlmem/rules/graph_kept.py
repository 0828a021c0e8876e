"""Collection keeps the autograd graph.

Log-probabilities and values kept from a forward pass with gradients on hold the whole graph of that pass: every
activation of every step stays until the rollout is dropped, for gradients nobody asks for.

In a script, the rule looks for a network called in a loop that steps an environment, outside ``no_grad``, whose result
is put into a list or a tensor as it is; a list that is later joined and detached, ``torch.cat(values).detach()``, is
proof enough without an environment. It is silent when something that is stored may reach a ``backward()``: REINFORCE
and A2C need that graph. What is given to a buffer of another file is mentioned for information: the buffer may detach
it.

Example::

    for _ in range(n_steps):
        value = critic(obs)
        values.append(value)                    # with the graph of this forward pass
        obs, reward, done, _, _ = env.step(act(obs))
    advantages = returns - torch.stack(values).detach()

Use instead: ``with torch.no_grad():`` around collection, or ``.detach()`` on what is kept.

Fix: unsafe, ``.detach()`` on what is stored.

Reference: ray-project/ray#6962; oxwhirl/pymarl#73; Kaixhin/Rainbow#33.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.gradients import Taint, in_no_grad, is_network_call
from rlmem.rules.graphs import CUTS, Graphs
from rlmem.rules.syntax import imports_any, leaf, method_calls, receiver
from rlmem.scripts import Script

_ENV = re.compile(r"env", re.IGNORECASE)
_FILLS = {"append", "appendleft"}
_JOINS = {"cat", "stack", "concat", "concatenate", "vstack", "hstack"}
#: Methods of a buffer that keep what they are given.
_GIVES = {"add", "store", "push", "insert", "store_transition", "remember"}
_ROUNDS = 4
#: Expressions up to this many characters are named in a title.
_SHORT = 40


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the description says so."""
    if not subject.spec.flag("rollout.keeps_graph"):
        return
    changes = {"rollout.keeps_graph": False}
    yield rule.finding(
        "collection runs with gradients on and keeps the graph of every step",
        saves_bytes=subject.saving(changes) or None,
        location="rollout.keeps_graph",
        remedy="wrap collection in torch.no_grad()",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Results of a network that are stored, with their graph, in a loop that steps an environment."""
    if not imports_any(script, "torch"):
        return
    loops = {id(loop): loop for step in method_calls(script, "step") if (loop := _collecting(script, step)) is not None}
    for loop in loops.values():
        outputs = _outputs(script, loop)
        stores = list(_stores(script, loop, outputs))
        differentiated = Graphs(script, script.function_of(loop) or script.tree).consumed() if stores else set()
        if any(isinstance(stored, ast.Name) and stored.id in differentiated for stored, *_ in stores):
            continue  # MEM601 has it
        if not any(Taint(script, where, place).reaches_backward for _, where, place in stores):
            yield from (_finding(rule, script, stored) for stored, *_ in stores)
        yield from (_finding(rule, script, stored, severity="info") for stored in _given_away(script, loop, outputs))
    yield from _joined(rule, script, loops)


def _joined(rule: Rule, script: Script, seen: Collection[int]) -> Iterator[Finding]:
    """Results in lists that are joined and detached afterwards, wherever they come from."""
    detached = [receiver(call) for call in method_calls(script, "detach")]
    joined = {
        ast.unparse(call.args[0])
        for call in detached
        if isinstance(call, ast.Call) and leaf(call) in _JOINS and len(call.args) >= 1
    }
    fills = [call for call in method_calls(script, *_FILLS) if joined and ast.unparse(receiver(call) or call) in joined]
    for call in fills:
        loop = script.loop_of(call)
        if loop is None or id(loop) in seen:
            continue
        outputs = _outputs(script, loop)
        for stored, where, place in _stores(script, loop, outputs):
            if where is receiver(call) and not Taint(script, where, place).reaches_backward:
                yield _finding(rule, script, stored)


def _given_away(script: Script, loop: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """Such values that are given to a buffer whose class is elsewhere."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call) or leaf(node) not in _GIVES or in_no_grad(script, node):
            continue
        owner = receiver(node)
        if owner is None or "replay" in ast.unparse(owner).lower():
            continue  # MEM601 has it
        if any(getattr(function, "name", None) == leaf(node) for function in script.functions):
            continue
        values = [part for value in (*node.args, *(k.value for k in node.keywords)) for part in _elements(value)]
        held = [part for part in values if _holds(script, part, names - _acted(script, loop))]
        if held and not Taint(script, owner).reaches_backward:
            yield held[0]


def _acted(script: Script, loop: ast.AST) -> set[str]:
    """Variables that an environment takes as they are: no tensors with a graph, whatever the network is."""
    steps = [call for call in method_calls(script, "step") if script.loop_of(call) is loop]
    return {each.id for call in steps for each in call.args if isinstance(each, ast.Name)}


def _elements(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]


def _finding(rule: Rule, script: Script, stored: ast.expr, *, severity: str | None = None) -> Finding:
    text = script.segment(stored)
    what = text if len(text) <= _SHORT else "a result of the network"
    detached = script.edit(stored, f"{text}.detach()")
    return rule.finding(
        f"{what} is stored at every step with the graph of its forward pass"
        + (", and nothing differentiates it" if severity is None else ""),
        severity=severity or rule.severity,
        place=script.place(stored),
        remedy="collect inside torch.no_grad(), or store it with .detach()",
        fix=Fix(title="store it without its graph", edits=(detached,), safety="unsafe"),
    )


def _collecting(script: Script, step: ast.Call) -> ast.AST | None:
    """The loop in which an environment is stepped."""
    owner = receiver(step)
    if owner is None or not _ENV.search(ast.unparse(owner)) or not step.args:
        return None
    return script.loop_of(step)


def _outputs(script: Script, loop: ast.AST) -> set[str]:
    """Variables of a loop that hold what a network gave, gradients and all; none that is given anything else as well."""
    assigns = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
    found: set[str] = set()
    for _ in range(_ROUNDS):
        held = [node for node in assigns if _holds(script, node.value, found) and not in_no_grad(script, node)]
        spoilt = {name for node in assigns if node not in held for target in node.targets for name in _names(target)}
        now = {name for node in held for target in node.targets for name in _names(target)} - spoilt
        if now == found:
            break
        found = now
    return found


def _holds(script: Script, expr: ast.expr, names: set[str]) -> bool:
    """Whether the value of an expression has the graph of a network's forward pass."""
    if isinstance(expr, ast.Name):
        return expr.id in names
    if isinstance(expr, ast.Call):
        if is_network_call(script, expr):
            return True
        called, owner = script.called(expr), receiver(expr)
        if leaf(expr) in CUTS:
            return False
        if called is not None and called.root == "torch":
            return any(_holds(script, given, names) for given in (*expr.args, *(item.value for item in expr.keywords)))
        return called is None and owner is not None and _holds(script, owner, names)
    if isinstance(expr, ast.BinOp):
        return _holds(script, expr.left, names) or _holds(script, expr.right, names)
    return isinstance(expr, ast.Subscript) and _holds(script, expr.value, names)


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in _names(element)]
    return [target.id] if isinstance(target, ast.Name) else []


def _stores(
    script: Script, loop: ast.AST, names: set[str]
) -> Iterator[tuple[ast.expr, ast.expr, tuple[int, int] | None]]:
    """Such values that are put, as they are, into a list or a row of a tensor; into which, and where in a tuple."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and leaf(node) in _FILLS and len(node.args) == 1:
            given, where = node.args[0], receiver(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            given, where = node.value, node.targets[0].value
            made = script.made_by(where)
            if made is None or made.root != "torch":
                continue
        else:
            continue
        parts = given.elts if isinstance(given, (ast.Tuple, ast.List)) else None
        for index, part in enumerate(parts or [given]):
            if where is not None and _holds(script, part, names) and not in_no_grad(script, node):
                yield part, where, (index, len(parts)) if parts else None
