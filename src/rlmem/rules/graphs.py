"""Which variables of a function hold tensors with an autograd graph, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.rules.definitions import Definition, Definitions
from rlmem.rules.syntax import leaf, method_calls, methods, receiver
from rlmem.scripts import Script

#: Methods and functions whose result has no graph.
CUTS = {
    "detach", "detach_", "item", "numpy", "tolist", "argmax", "argmin", "long", "int", "bool", "size", "dim", "float32",
    "numel", "no_grad", "tensor", "from_numpy", "zeros", "ones", "zeros_like", "ones_like", "empty", "full", "arange",
    "rand", "randn", "randint", "eye", "multinomial", "len", "str", "repr", "isnan", "isfinite", "sample", "eq", "ne",
}  # fmt: skip
_CUT_ATTRIBUTES = {"data", "shape", "device", "dtype", "grad", "requires_grad", "ndim"}
_NO_GRAD = {"no_grad", "inference_mode"}
_PLAIN = {"float", "int", "bool", "len", "str", "round", "min", "max", "abs", "print", "range"}


def without_gradients(script: Script, node: ast.AST) -> bool:
    """Whether a node runs inside ``torch.no_grad()``, by a ``with`` or by a decorator."""
    for above in script.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            if any(_is_no_grad(item.context_expr) for item in above.items):
                return True
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(map(_is_no_grad, above.decorator_list)):
            return True
    return False


def _is_no_grad(expr: ast.expr) -> bool:
    call = expr if isinstance(expr, ast.Call) else None
    func = call.func if call else expr
    word = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if word == "set_grad_enabled" and call and call.args:
        return isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return word in _NO_GRAD


class Graphs:
    """The variables of one function (or of the module's own lines) that hold a graph for certain."""

    def __init__(self, script: Script, scope: ast.AST) -> None:
        self.script, self.scope = script, scope
        self.definitions: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        self.assignments: list[ast.Assign | ast.AugAssign] = []
        self.cut: set[str] = set()  # names that are a plain number, or detached, at some place
        self._collect()
        self.backward: dict[str, list[ast.Call]] = {}
        for call in method_calls(script, "backward"):
            if isinstance(owner := receiver(call), ast.Name) and self._is_here(call):
                self.backward.setdefault(owner.id, []).append(call)
        self._reaching: Definitions | None = None
        self._driven: dict[str, dict[Definition, list[ast.Call]]] = {}
        self.names: set[str] = set()
        #: Those that a ``backward()`` of this function has gone through: nobody needs their graph after it.
        self.spent: set[str] = set()
        self._spread()

    def _is_here(self, node: ast.AST) -> bool:
        return (self.script.function_of(node) or self.script.tree) is self.scope

    def _collect(self) -> None:
        for node in own_nodes(self.scope):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                self.assignments.append(node)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value, node)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._bind(node.target, node.value, node)

    def _bind(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            self.definitions.setdefault(target.id, []).append((node, value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            paired = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            values = value.elts if paired and isinstance(value, (ast.Tuple, ast.List)) else None
            for index, element in enumerate(target.elts):
                self._bind(element, values[index] if values else value, node)

    def _spread(self) -> None:
        """From what is called backward on, down to what it was computed from; and from networks up."""
        for _ in range(4):
            before = len(self.names) + len(self.cut)
            for name, given in self.definitions.items():
                told = [value for node, value in given if not isinstance(value, ast.Constant)]
                held = [self.holds(value) and not without_gradients(self.script, value) for value in told]
                if any(self._cuts(value) for value in told) or (any(held) and not all(held)):
                    self.cut.add(name)
                elif held and all(held):
                    self.names.add(name)
            if len(self.names) + len(self.cut) == before:
                break
        waiting = [name for name in self.backward if name not in self.cut]
        while waiting:
            name = waiting.pop()
            self.spent.add(name)
            for _, value in self.definitions.get(name, ()):
                waiting += [part for part in self.parts(value) if part not in self.spent and self._feeds(part)]
        self.names = (self.names | self.spent) - self.cut

    @property
    def reaching(self) -> Definitions:
        """Which definitions of a variable a use of it sees."""
        if self._reaching is None:
            self._reaching = Definitions(self.script, self.scope)
        return self._reaching

    def may_hold(self, use: ast.Name) -> bool:
        """Whether one of the values that a variable may have here has a graph, as far as can be seen."""
        seen = self.reaching.reaching(use)
        return not seen or any(self._may_give(use.id, each) for each in seen)

    def _may_give(self, name: str, given: Definition) -> bool:
        value = given.value
        if value is None or given in self._driven_through(name):
            return True
        if isinstance(value, ast.Constant) or self._cuts(value) or without_gradients(self.script, value):
            return False
        again = isinstance(value, ast.Call) and any(
            isinstance(part, ast.Name) and part.id == name for part in value.args
        )
        return not (again and isinstance(value, ast.Call) and not self.holds(value))

    def _driven_through(self, name: str) -> dict[Definition, list[ast.Call]]:
        """The definitions of a variable whose ``backward()`` is called here, with these calls."""
        if name not in self._driven:
            found = self._driven[name] = {}
            for call in self.backward.get(name, ()):
                owner = receiver(call)
                for each in self.reaching.reaching(owner) if isinstance(owner, ast.Name) else ():
                    found.setdefault(each, []).append(call)
        return self._driven[name]

    def is_spent(self, use: ast.Name) -> bool:
        """Whether the ``backward()`` of just this value has run, or is sure to, and has freed its graph."""
        seen = self.reaching.reaching(use)
        calls = self._driven_through(use.id).get(seen[0], ()) if seen else ()
        return any(_frees(call) and self._leads(call, use, seen) for call in calls)

    def _leads(self, call: ast.Call, use: ast.Name, seen: tuple[Definition, ...]) -> bool:
        """Whether a call stands in the same block as a use or one around it, with no other value given in between."""
        at = self.script.parent(call)
        if not isinstance(at, ast.Expr):
            return False
        place, flow = self.script.statement_of(use), self.reaching
        if flow.follows(place, at):
            return not flow.replaced_between(place, at, use.id)
        before: list[ast.stmt] = [at]
        while isinstance(above := self.script.parent(before[-1]), (ast.With, ast.AsyncWith)):
            before.append(above)
        around = (place, *self.script.ancestors(place))
        return all(_position(each.node) < _position(call) for each in seen) and any(
            flow.follows(one, other) for one in before for other in around
        )

    def parts(self, value: ast.expr) -> Iterator[str]:
        """The variables whose gradients flow into an expression."""
        if isinstance(value, ast.Name):
            yield value.id
        elif isinstance(value, ast.Call):
            if leaf(value) not in CUTS | _PLAIN and not without_gradients(self.script, value):
                for part in (*value.args, *([value.func.value] if isinstance(value.func, ast.Attribute) else [])):
                    yield from self.parts(part)
        elif isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript)):
            for child in ast.iter_child_nodes(value):
                if isinstance(child, ast.expr) and not (isinstance(value, ast.Subscript) and child is value.slice):
                    yield from self.parts(child)

    def _feeds(self, name: str) -> bool:
        """Whether a variable that a loss is computed from has a graph itself: it is a loss, or comes from an object's call."""
        given = [value for _, value in self.definitions.get(name, ()) if not isinstance(value, ast.Constant)]
        return bool(given) and name not in self.cut and all(self._computed(value) for value in given)

    def _computed(self, value: ast.expr) -> bool:
        if self.holds(value):
            return True
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and not without_gradients(self.script, node):
                name = self.script.called(node)
                if name is not None and name.root == "torch" and name.leaf.endswith("loss"):
                    return True
                if isinstance(node.func, ast.Name) and name is None:
                    return True  # an object that is called, in a function that computes gradients: a network or a loss
                if self._own_object(node):
                    return True
        return False

    def _own_object(self, call: ast.Call) -> bool:
        func, cls = call.func, self.script.class_of(call)
        if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"):
            return False
        return cls is not None and func.attr not in methods(cls) and self.script.made_by(func) is not None

    def consumed(self) -> set[str]:
        """Variables and attributes that some ``backward()`` here takes its gradients through."""
        found: set[str] = set()
        waiting: list[ast.expr] = []
        for call in method_calls(self.script, "backward"):
            if self._is_here(call):
                waiting += [owner] if (owner := receiver(call)) is not None else []
        while waiting:
            for node in ast.walk(waiting.pop()):
                word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
                if word and word not in found:
                    found.add(word)
                    waiting += [value for _, value in self.definitions.get(word, ())]
        return found

    def _cuts(self, value: ast.expr) -> bool:
        """``loss = loss.item()`` and the like: the same name is a number afterwards."""
        return isinstance(value, ast.Call) and leaf(value) in {"item", "detach", "numpy", "tolist", "float"}

    def holds(self, expr: ast.expr) -> bool:
        """Whether the value of an expression has a graph."""
        if isinstance(expr, ast.Name):
            return expr.id in self.names and expr.id not in self.cut
        if isinstance(expr, ast.Call):
            return self._call_holds(expr)
        if isinstance(expr, ast.Attribute):
            return (
                expr.attr not in _CUT_ATTRIBUTES
                and isinstance(expr.value, (ast.Name, ast.Call))
                and self.holds(expr.value)
            )
        if isinstance(expr, ast.BinOp):
            return self.holds(expr.left) or self.holds(expr.right)
        if isinstance(expr, ast.UnaryOp):
            return self.holds(expr.operand)
        if isinstance(expr, ast.Subscript):
            return self.holds(expr.value)
        if isinstance(expr, (ast.Tuple, ast.List)):
            return any(self.holds(element) for element in expr.elts)
        return False

    def _call_holds(self, call: ast.Call) -> bool:
        word = leaf(call)
        if word in CUTS or word in _PLAIN or without_gradients(self.script, call):
            return False
        if self.is_network(call):
            return True
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        name = self.script.called(call)
        if name is not None and name.root == "torch":
            return any(self.holds(argument) for argument in arguments)
        owner = receiver(call)
        if owner is not None and name is None:
            return self.holds(owner)
        return False

    def is_network(self, call: ast.Call) -> bool:
        """Whether a call is the forward pass of a network, or of a loss object: something with state that is called."""
        func = call.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            cls = self.script.class_of(call)
            made = self.script.made_by(func)
            return (
                cls is not None and func.attr not in methods(cls) and made is not None and self._is_module(made.dotted)
            )
        made = self.script.made_by(func) if isinstance(func, ast.Name) else None
        return made is not None and self._is_module(made.dotted)

    def _is_module(self, dotted: str) -> bool:
        if dotted.startswith("torch.nn."):
            return "utils" not in dotted
        return any(cls.name == dotted and self.script.is_module(cls) for cls in self.script.classes)


def _frees(call: ast.Call) -> bool:
    """Whether a ``backward()`` leaves nothing for another one."""
    keeps = {"retain_graph", "create_graph", None}
    return len(call.args) < 2 and not any(keyword.arg in keeps for keyword in call.keywords)


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module, without those of functions and classes inside it, in source order."""
    stack = list(reversed(list(ast.iter_child_nodes(scope))))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def training_scopes(script: Script) -> Iterator[Graphs]:
    """The functions that call ``backward()``, and the module when its own lines do; in source order."""
    seen = set()
    for call in method_calls(script, "backward"):
        scope = script.function_of(call) or script.tree
        if scope not in seen:
            seen.add(scope)
            yield Graphs(script, scope)
