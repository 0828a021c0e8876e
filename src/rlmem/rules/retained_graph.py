"""A graph is retained, or grows by every step, without need.

``backward()`` frees what the graph saved as it goes. With ``retain_graph=True`` it stays until the loss itself goes: the
next forward pass runs beside the old graph, and activations are held twice. It is needed when a second ``backward()`` goes
through the same graph; often it is there because an error message suggested it.

```python
for batch in batches:
    loss = criterion(model(batch.x), batch.y)
    loss.backward(retain_graph=True)
```

``history = torch.cat((history, model(x)))`` in a loop is the other way to it: each round copies the whole history and adds a
layer of graph beneath it.

Use instead: ``loss.backward()``; for several losses of one forward pass, add them up and call it once. For a history, a
list that is stacked once, or a tensor that is made once and filled under ``torch.no_grad()``.

Fix: unsafe: ``retain_graph=True`` is taken away.

Reference: ray-project/ray#7238; pytorch/pytorch#5353; real-stanford/umi-on-legs#8.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.graphs import Graphs, own_nodes, without_gradients
from rlmem.rules.syntax import leaf, method_calls, names_in, receiver
from rlmem.scripts import Script


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for the only ``backward()`` of a function, on a graph that is made anew each time, and for growing histories."""
    if "torch" not in script.text:
        return
    if "retain_graph" in script.text:
        yield from _retained(rule, script)
    if ".cat(" in script.text or ".concat(" in script.text:
        yield from _histories(rule, script)


def _retained(rule: Rule, script: Script) -> Iterator[Finding]:
    calls = list(method_calls(script, "backward"))
    scopes = [script.function_of(call) or script.tree for call in calls]
    for call, scope in zip(calls, scopes, strict=True):
        keyword = next((each for each in call.keywords if each.arg == "retain_graph"), None)
        if keyword is None or script.value(keyword.value) is not True or scopes.count(scope) > 1:
            continue
        if any(leaf(each) == "grad" for each in own_nodes(scope) if isinstance(each, ast.Call)):
            continue  # torch.autograd.grad may go through it again
        if not _made_anew(script, Graphs(script, scope), call):
            continue
        yield rule.finding(
            f"{ast.unparse(call.func)}(retain_graph=True) keeps a graph that no other backward() uses",
            place=script.place(keyword),
            remedy="backward() without retain_graph: the graph is freed as it is used",
            fix=Fix(
                title="let backward() free the graph", edits=(script.remove_argument(call, keyword),), safety="unsafe"
            ),
        )


def _made_anew(script: Script, graphs: Graphs, call: ast.Call) -> bool:
    """Whether all that the loss is computed from, with gradients, is computed in the same round of the same loop."""
    loss, loop = receiver(call), script.loop_of(call)
    if not isinstance(loss, ast.Name) or isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
        return False
    if loop is None and script.function_of(call) is None:
        return False
    seen: set[str] = set()
    waiting = [loss.id]
    forward = False
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node, value in graphs.definitions.get(name, ()):
            if loop is not None and loop not in script.ancestors(node):
                if not isinstance(value, ast.Constant) and name in graphs.names:
                    return False  # it was computed before the loop, and is gone through in every round
                continue
            if name in names_in(value):
                return False  # carried on from round to round
            forward = forward or any(isinstance(part, ast.Call) and _forwards(script, part) for part in ast.walk(value))
            waiting += [part for part in graphs.parts(value) if part not in seen]
    given = {argument.arg for argument in _arguments(graphs.scope)}
    return forward and not (seen & given - {loss.id}) and loss.id not in given


def _forwards(script: Script, call: ast.Call) -> bool:
    """Whether a call runs something that computes: an object of its own, or a method of one."""
    if isinstance(call.func, ast.Name):
        name = script.called(call)
        return name is None or (not name.root and name.leaf not in dir(builtins))
    owner = receiver(call)
    return isinstance(owner, ast.Name) and owner.id == "self"


def _arguments(scope: ast.AST) -> list[ast.arg]:
    """Parameters that may bring a graph along: not those that are only called, or asked for an attribute."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    plain = {
        id(node.func if isinstance(node, ast.Call) else node.value)
        for node in ast.walk(scope)
        if isinstance(node, (ast.Call, ast.Attribute))
    }
    used = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and id(node) not in plain}
    data = {
        name for node in ast.walk(scope) if isinstance(node, ast.Call) for each in node.args for name in names_in(each)
    }
    return [each for each in (*scope.args.args, *scope.args.kwonlyargs) if each.arg in used and each.arg not in data]


def _histories(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("cat", "concat", "concatenate", "vstack", "hstack", roots=("torch",)):
        statement, loop = script.statement_of(call), script.loop_of(call)
        if loop is None or not isinstance(statement, ast.Assign) or statement.value is not call or not call.args:
            continue
        target, parts = statement.targets[0], call.args[0]
        if not isinstance(target, ast.Name) or not isinstance(parts, (ast.Tuple, ast.List)) or len(parts.elts) < 2:
            continue
        if not any(isinstance(part, ast.Name) and part.id == target.id for part in parts.elts):
            continue
        if without_gradients(script, call) or _starts_again(script, target.id, statement, loop):
            continue
        scope = script.function_of(call) or script.tree
        graphs = Graphs(script, scope)
        added = [part for part in parts.elts if not (isinstance(part, ast.Name) and part.id == target.id)]
        if any(graphs.holds(part) for part in added):
            yield rule.finding(
                f"{target.id} is copied and gets another layer of graph in every round of the loop",
                place=script.place(statement),
                remedy=f"append to a list and torch.cat it once after the loop, or detach what {target.id} keeps",
            )


def _starts_again(script: Script, name: str, statement: ast.stmt, loop: ast.AST) -> bool:
    """Whether the loop gives the variable another value as well: cut to a length, begun again, or taken out of its graph."""
    return any(
        isinstance(node, ast.Assign)
        and node is not statement
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        for node in ast.walk(loop)
    )
