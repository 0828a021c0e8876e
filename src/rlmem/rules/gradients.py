"""Which calls run a network with gradients on, and whether what they give may reach a ``backward()``; shared by rules."""

from __future__ import annotations

import ast
from typing import TypeAlias

from rlmem.rules.graphs import without_gradients
from rlmem.rules.syntax import leaf, method_calls, methods
from rlmem.scripts import Script
from rlmem.scripts.sinks import FILLING
from rlmem.scripts.walk import Function

_OFF = {"no_grad", "inference_mode", "set_grad_enabled"}
#: What takes a value out of its graph.
_DETACHING = {"detach", "item", "numpy", "tolist", "detach_"}
#: Parameters that are called like this, and called, are networks.
_NETWORKS = {
    "policy", "actor", "critic", "policy_net", "value_net", "actor_critic", "q_net", "q_network", "value_network",
    "policy_network", "actor_net", "critic_net", "agent", "net", "network",
}  # fmt: skip
#: Statements that do nothing unseen with what they are given.
_KNOWN = FILLING | {"print", "clear", "backward", "add_scalar", "log"}
_ROUNDS = 6
#: The identity of a scope and a name in it; 0 for attributes of objects.
Variable: TypeAlias = tuple[int, str]


def in_no_grad(script: Script, node: ast.AST) -> bool:
    """Whether a node runs without gradients: by a ``with`` or a decorator, its own or that of every caller."""
    if without_gradients(script, node):
        return True
    function = script.function_of(node)
    callers = script.callers(function) if function is not None else ()
    return bool(callers) and all(without_gradients(script, call) for call in callers)


def is_network_call(script: Script, call: ast.Call) -> bool:
    """``net(x)`` or ``net.method(x)`` of a torch network, whose method does not itself leave gradients behind."""
    func = call.func
    if isinstance(func, ast.Name) or (isinstance(func, ast.Attribute) and _is_own(func)):
        network = _network_class(script, func)
        if network is not None:
            return not _leaves_gradients(methods(network).get("forward"))
        made = script.made_by(func)
        if made is not None and made.dotted.startswith("torch."):
            return made.dotted.startswith("torch.nn.")
        if _has_parameters(script, func):
            return True
        if made is not None:
            return False
        word = func.id if isinstance(func, ast.Name) else func.attr
        return word in _NETWORKS and script.definition(func) is func and script.qualified(func) is None
    if isinstance(func, ast.Attribute):
        network = _network_class(script, func.value)
        method = methods(network).get(func.attr) if network is not None else None
        return method is not None and not _leaves_gradients(method)
    return False


def _has_parameters(script: Script, func: ast.expr) -> bool:
    """Whether an optimizer is given ``net.parameters()``: a network, wherever its class comes from."""
    text = ast.unparse(func)
    calls = method_calls(script, "parameters")
    return any(isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text for call in calls)


def _is_own(func: ast.Attribute) -> bool:
    return isinstance(func.value, ast.Name) and func.value.id == "self"


def _network_class(script: Script, expr: ast.expr) -> ast.ClassDef | None:
    """The network class of this file that an object is made of."""
    made = script.made_by(expr)
    found = next((node for node in script.classes if made is not None and node.name == made.dotted), None)
    return found if found is not None and script.is_module(found) else None


def _leaves_gradients(method: ast.AST | None) -> bool:
    """Whether a method gives values without their graph somewhere: then nothing is known of its results."""
    if method is None:
        return False
    return any(
        (isinstance(node, (ast.Attribute,)) and node.attr in (*_DETACHING, *_OFF, "data"))
        or (isinstance(node, ast.Name) and node.id in _OFF)
        for node in ast.walk(method)
    )


class Taint:
    """What is computed from the contents of a container, by the names it goes through in this file."""

    def __init__(self, script: Script, container: ast.expr, place: tuple[int, int] | None = None) -> None:
        """``place`` is which element of how many, where a tuple is stored."""
        self.script, self.container, self.place = script, _variable(script, container), place
        self.names: set[Variable] = {self.container}
        self.on_object = isinstance(container, ast.Attribute)
        self.cleansed = _cleansed(script)
        self.escapes = False
        for _ in range(_ROUNDS):
            before = len(self.names)
            self._spread()
            if len(self.names) == before:
                break

    @property
    def reaches_backward(self) -> bool:
        """Whether some ``backward()`` may go through it, or it goes where nobody can follow."""
        losses = list(method_calls(self.script, "backward"))
        differentiated = any(
            isinstance(call.func, ast.Attribute) and self._mentions(call.func.value) for call in losses
        )
        passed = any(
            any(self._mentions(given) for given in (*call.args, *(item.value for item in call.keywords)))
            for call in (*self.script.calls_of("backward", "grad", roots=("torch",)), *losses)
        )
        unseen = self.on_object and not losses  # another file may differentiate what an object keeps
        return self.escapes or differentiated or passed or unseen

    def _spread(self) -> None:
        script = self.script
        for assign in (*script.assigns, *script.augassigns):
            if assign.value is not None and self._mentions(assign.value):
                targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
                self.names |= {each for target in targets for each in self._unpacked(target, assign.value)}
        for loop in script.loops:
            if isinstance(loop, (ast.For, ast.AsyncFor)) and self._mentions(loop.iter):
                self.names |= self._unpacked(loop.target, loop.iter)
        for call in script.calls:
            given = [*call.args, *(item.value for item in call.keywords)]
            if any(self._mentions(each) for each in given):
                self._given(call)
        for function, returns in script.walked.returns.items():
            if any(each.value is not None and self._mentions(each.value) for each in returns):
                self._returned(function)

    def _unpacked(self, target: ast.expr, value: ast.expr) -> set[Variable]:
        """The names a target gets; of a tuple that was stored, the one element, where it is unpacked as it was packed."""
        inner = value.args[0].value if _is_zipped(value) else value  # type: ignore[attr-defined]
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        if self.place is not None and len(parts) == self.place[1] and self._key(inner) == self.container:
            return {self._key(parts[self.place[0]])}
        return {self._key(each) for each in _parts(target)}

    def _key(self, expr: ast.expr) -> Variable:
        return _variable(self.script, expr)

    def _given(self, call: ast.Call) -> None:
        """Into a function or a method of this file by its name; a statement elsewhere may do anything with it."""
        word = leaf(call)
        inside = [
            each
            for each in self.script.functions
            if getattr(each, "name", None) == word or (word and self._is_class(each, word))
        ]
        for function in inside:
            self.names |= self._parameters(call, function)
        alone = isinstance(self.script.parent(call), ast.Expr)
        if alone and not inside and word not in _KNOWN:
            self.escapes = True
        if word in FILLING and isinstance(call.func, ast.Attribute):
            self.names.add(self._key(call.func.value))

    def _parameters(self, call: ast.Call, function: Function) -> set[Variable]:
        """The parameters that get it; all of them where arguments are unpacked."""
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        if positional[:1] in (["self"], ["cls"]):
            positional = positional[1:]
        if any(isinstance(each, ast.Starred) for each in call.args) or any(item.arg is None for item in call.keywords):
            found = set(positional)
        else:
            found = {name for name, given in zip(positional, call.args, strict=False) if self._mentions(given)}
            found |= {item.arg for item in call.keywords if item.arg and self._mentions(item.value)}
        scope = id(self.script.walked.scopes[function])
        return {(scope, name) for name in found}

    def _is_clean(self, node: ast.Name | ast.Attribute) -> bool:
        """Whether the name was given a detached value before, in the same function."""
        at, function = self.script.span(node)[0], self.script.function_of(node)
        return any(end <= at and function is where for end, where in self.cleansed.get(self._key(node), ()))

    def _is_class(self, function: ast.AST, word: str) -> bool:
        owner = self.script.parent(function)
        return getattr(function, "name", "") == "__init__" and isinstance(owner, ast.ClassDef) and owner.name == word

    def _returned(self, function: ast.AST) -> None:
        name = getattr(function, "name", "")
        calls = [call for call in self.script.calls if leaf(call) == name] if name else []
        if not calls:
            self.escapes = True
        for call in calls:
            holder = self.script.statement_of(call)
            if isinstance(holder, ast.Assign):
                self.names |= {self._key(each) for target in holder.targets for each in _parts(target)}
            elif not isinstance(holder, ast.Expr):
                self.escapes = True

    def _mentions(self, expr: ast.expr) -> bool:
        """Whether an expression has one of the names in it, and not only detached."""
        waiting: list[ast.AST] = [expr]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and leaf(node) in (*_DETACHING, "float", "len", "int"):
                continue
            if isinstance(node, ast.Attribute) and node.attr in {"data", "shape", "device", "dtype"}:
                continue
            if isinstance(node, (ast.Name, ast.Attribute)) and self._key(node) in self.names:
                if self._is_clean(node) or in_no_grad(self.script, node):
                    continue
                return True
            waiting += ast.iter_child_nodes(node)
        return False


def _cleansed(script: Script) -> dict[Variable, list[tuple[int, Function | None]]]:
    """Names that get a detached value (``values = torch.cat(values).detach()``), where, and in which function."""
    found: dict[Variable, list[tuple[int, Function | None]]] = {}
    for assign in script.assigns:
        if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Call) and leaf(assign.value) in _DETACHING:
            for target in assign.targets:
                found.setdefault(_variable(script, target), []).append(
                    (script.span(assign)[1], script.function_of(assign))
                )
    return found


def _is_zipped(value: ast.expr) -> bool:
    """``zip(*stored)``."""
    call = value if isinstance(value, ast.Call) else None
    return call is not None and leaf(call) == "zip" and len(call.args) == 1 and isinstance(call.args[0], ast.Starred)


def _variable(script: Script, expr: ast.expr) -> Variable:
    """A variable by its scope and name; an attribute by its last word, ``logprobs`` of ``memory.logprobs[0]``."""
    while isinstance(expr, (ast.Subscript, ast.Starred)):
        expr = expr.value
    if isinstance(expr, ast.Attribute):
        return 0, expr.attr
    found = script.meaning.lookup(expr.id, expr) if isinstance(expr, ast.Name) else None
    return (id(found[0]) if found else 0), expr.id if isinstance(expr, ast.Name) else ""


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    return [target]
