"""The one walk over a parsed file: parents, scopes, what is bound where, and the nodes that rules look at, in order."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True, eq=False)
class Binding:
    """One way a name gets a value.

    ``kind`` is assign, augment, loop, with, import, function, class, parameter or other; ``value`` is the expression
    where one gives the value, ``index`` its place in a tuple that is unpacked, ``dotted`` the name of an import.
    """

    kind: str
    node: ast.AST
    value: ast.expr | None = None
    index: int | None = None
    dotted: str = ""


@dataclass(slots=True, eq=False)
class Scope:
    """A module, a class, a function or a comprehension, and the names bound in it."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, bool] = field(default_factory=dict)  # names declared nonlocal, or (True) global

    @property
    def is_class(self) -> bool:
        """Names of a class body are not seen in its methods."""
        return isinstance(self.node, ast.ClassDef)

    def bind(self, name: str, binding: Binding) -> None:
        """One more way a name gets a value; one that is declared global is the module's, nonlocal the function's around."""
        scope = self
        if name in self.outer:
            while scope.parent is not None and (self.outer[name] or scope is self or scope.is_class):
                scope = scope.parent
        scope.bindings.setdefault(name, []).append(binding)


#: Fields that hold no node worth a visit: contexts and operators are the same objects everywhere, the rest is text.
_PASSED = {
    "ctx",
    "op",
    "ops",
    "id",
    "attr",
    "name",
    "asname",
    "names",
    "kind",
    "type_comment",
    "level",
    "module",
    "n",
    "s",
}


#: The fields to visit of each kind of node, last first, so that a stack gives them back in the order of the text.
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in reversed(kind._fields) if name not in _PASSED)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


_BLOCKS = (ast.stmt, ast.ExceptHandler)


class Walked:
    """What the walk leaves behind."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}  # of the nodes that open one
        self.blocks: dict[ast.AST, str] = {}  # of statements: body, orelse, finalbody or handlers of their parent
        self.calls: list[ast.Call] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.loops: list[ast.For | ast.AsyncFor | ast.While] = []
        self.withs: list[ast.With | ast.AsyncWith] = []
        self.assigns: list[ast.Assign | ast.AnnAssign] = []
        self.augassigns: list[ast.AugAssign] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.returns: dict[ast.AST, list[ast.Return]] = defaultdict(list)
        self.loads: dict[str, list[ast.Name]] = defaultdict(list)
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        #: Assignments to ``object.name`` and ``object["name"]``, by that name.
        self.attribute_values: dict[str, list[tuple[ast.Attribute, Binding]]] = defaultdict(list)
        self.item_values: dict[object, list[tuple[ast.Subscript, Binding]]] = defaultdict(list)
        self.stars: list[str] = []
        self.generators: set[ast.AST] = set()
        self._walk(tree)

    def _walk(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(node, self.module) for node in reversed(tree.body)]
        parents = self.parents
        parents.update(dict.fromkeys(tree.body, tree))
        self.blocks.update(dict.fromkeys(tree.body, "body"))
        push = stack.append
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            handler = _HANDLERS.get(kind)
            inside = handler(self, node, scope) or scope if handler else scope
            for name in _FIELDS[kind]:
                child = getattr(node, name, None)
                if child is None:
                    continue
                if isinstance(child, list):
                    for item in reversed(child):
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            if isinstance(item, _BLOCKS):
                                self.blocks[item] = name
                            push((item, inside if inside is scope else _scope_of(node, item, scope, inside)))
                elif isinstance(child, ast.AST):
                    parents[child] = node
                    push((child, inside if inside is scope else _scope_of(node, child, scope, inside)))

    def open(self, node: ast.AST, scope: Scope) -> Scope:
        """A scope beneath another."""
        made = Scope(node, scope)
        self.scopes[node] = made
        return made

    def assign(self, target: ast.expr, value: ast.expr | None, node: ast.AST, scope: Scope, kind: str) -> None:
        """Bind a target; the elements of a tuple that is unpacked one by one."""
        if isinstance(target, ast.Name):
            scope.bind(target.id, Binding(kind, node, value))
        elif isinstance(target, ast.Attribute):
            self.attribute_values[target.attr].append((target, Binding(kind, node, value)))
        elif isinstance(target, ast.Subscript):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            self.item_values[key].append((target, Binding(kind, node, value)))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, None, node, scope, kind)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(element, ast.Starred) for element in target.elts)
            paired = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and not starred
            for index, element in enumerate(target.elts):
                if paired:
                    assert isinstance(value, (ast.Tuple, ast.List))
                    self.assign(element, value.elts[index], node, scope, kind)
                elif isinstance(element, ast.Name) and not starred:
                    scope.bind(element.id, Binding(kind, node, value, index))
                else:
                    self.assign(element, None, node, scope, kind)


def _scope_of(node: ast.AST, child: ast.AST, scope: Scope, inside: Scope) -> Scope:
    """Decorators, defaults, annotations and bases are read outside of what they belong to."""
    if isinstance(node, ast.Lambda):
        return inside if child is node.body else scope
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return inside if isinstance(child, ast.stmt) else scope
    return inside


def _call(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Call)
    walked.calls.append(node)


def _name(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Name)
    if isinstance(node.ctx, ast.Load):
        walked.loads[node.id].append(node)


def _attribute(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Attribute)
    if isinstance(node.ctx, ast.Load):
        walked.attributes[node.attr].append(node)


def _function(walked: Walked, node: ast.AST, scope: Scope) -> Scope:
    assert isinstance(node, FUNCTIONS)
    walked.functions.append(node)
    if not isinstance(node, ast.Lambda):
        scope.bind(node.name, Binding("function", node))
    inside = walked.open(node, scope)
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    defaults += given.defaults
    for argument, default in [
        *zip(positional, defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]:
        inside.bind(argument.arg, Binding("parameter", argument, default))
    for extra in (given.vararg, given.kwarg):
        if extra is not None:
            inside.bind(extra.arg, Binding("other", extra))
    return inside


def _class(walked: Walked, node: ast.AST, scope: Scope) -> Scope:
    assert isinstance(node, ast.ClassDef)
    walked.classes.append(node)
    scope.bind(node.name, Binding("class", node))
    return walked.open(node, scope)


def _comprehension(walked: Walked, node: ast.AST, scope: Scope) -> Scope:
    assert isinstance(node, COMPREHENSIONS)
    inside = walked.open(node, scope)
    for generator in node.generators:
        walked.assign(generator.target, None, generator, inside, "loop")
    return inside


def _assign(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Assign)
    walked.assigns.append(node)
    for target in node.targets:
        walked.assign(target, node.value, node, scope, "assign")


def _annotated(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.AnnAssign)
    walked.assigns.append(node)
    if node.value is not None or isinstance(scope.node, ast.ClassDef):
        walked.assign(node.target, node.value, node, scope, "assign")


def _augmented(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.AugAssign)
    walked.augassigns.append(node)
    walked.assign(node.target, None, node, scope, "augment")


def _walrus(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.NamedExpr)
    while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
        scope = scope.parent
    walked.assign(node.target, None, node, scope, "other")  # whether it was reached depends on what stands before it


def _capture(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping))
    name = node.rest if isinstance(node, ast.MatchMapping) else node.name
    if name:
        scope.bind(name, Binding("other", node))


def _yield(walked: Walked, node: ast.AST, scope: Scope) -> None:
    walked.generators.add(scope.node)


def _for(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, (ast.For, ast.AsyncFor))
    walked.loops.append(node)
    walked.assign(node.target, None, node, scope, "loop")


def _while(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.While)
    walked.loops.append(node)


def _with(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, (ast.With, ast.AsyncWith))
    walked.withs.append(node)
    for item in node.items:
        if item.optional_vars is not None:
            walked.assign(item.optional_vars, item.context_expr, node, scope, "with")


def _import(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Import)
    walked.imports.append(node)
    for alias in node.names:
        bound = alias.asname or alias.name.split(".", maxsplit=1)[0]
        scope.bind(bound, Binding("import", node, dotted=alias.name if alias.asname else bound))


def _import_from(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.ImportFrom)
    walked.imports.append(node)
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            walked.stars.append(module)
            continue
        dotted = f"{module}{alias.name}" if module.endswith(".") else f"{module}.{alias.name}"
        scope.bind(alias.asname or alias.name, Binding("import", node, dotted=dotted))


def _declared(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, (ast.Global, ast.Nonlocal))
    scope.outer.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))


def _except(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.ExceptHandler)
    if node.name:
        scope.bind(node.name, Binding("other", node))


def _return(walked: Walked, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Return)
    walked.returns[scope.node].append(node)


_HANDLERS = {
    ast.Call: _call,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    **dict.fromkeys(COMPREHENSIONS, _comprehension),
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.NamedExpr: _walrus,
    ast.MatchAs: _capture,
    ast.MatchStar: _capture,
    ast.MatchMapping: _capture,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: _declared,
    ast.Nonlocal: _declared,
    ast.ExceptHandler: _except,
    ast.Return: _return,
}
