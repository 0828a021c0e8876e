"""What a name means at a place: the import behind it, the expression that gave it its value, who made it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlmem.scripts import arguments
from rlmem.scripts.names import Name
from rlmem.scripts.walk import FUNCTIONS, LOOPS, Binding, Function, Scope

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

#: A chain of definitions longer than this is somebody's joke.
_DEPTH = 24
_SELF = ("self", "cls")
#: Methods that give back the object they were called on.
_SAME = ("learn", "to", "eval", "train", "unwrapped")


class Meaning:
    """Answers about one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._definitions: dict[ast.expr, ast.expr] = {}
        self._callers: dict[str, list[ast.Call]] | None = None
        self._bases: dict[ast.ClassDef, frozenset[str]] = {}

    # Names.

    def lookup(self, name: str, node: ast.AST) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name as seen from a node, and how."""
        first = self.script.scope_of(node)
        scope: Scope | None = first
        while scope is not None:
            if name in scope.bindings and (scope is first or not scope.is_class):
                return scope, scope.bindings[name]
            scope = scope.parent
        return None

    def binding(self, node: ast.Name) -> Binding | None:
        """The one binding that reaches a name; ``None`` when several may."""
        found = self.lookup(node.id, node)
        if found is None:
            return None
        scope, bindings = found
        if all(b.kind in ("import", "class", "function") for b in bindings):
            return bindings[0]  # try: import gymnasium except ImportError: import gym
        if len(bindings) == 1:
            return None if bindings[0].kind == "augment" else bindings[0]
        if scope is not self.script.scope_of(node):
            return None
        return self._reaching(node, bindings)

    def _reaching(self, node: ast.Name, bindings: list[Binding]) -> Binding | None:
        """The last binding before a use, when every way to the use passes it."""
        above = [node, *self.script.ancestors(node)]
        holders = set(above)
        here = self.script.span(self.script.statement_of(node))[0]
        latest: Binding | None = None
        for binding in bindings:
            if binding.kind == "parameter":
                latest = latest or binding
                continue
            if binding.node in holders:
                if binding.kind == "loop":
                    latest = binding
                continue  # ``env = Monitor(env)`` reads the one before
            if self._start(binding) < here:
                latest = binding
            elif any(isinstance(loop, LOOPS) and loop in set(self.script.ancestors(binding.node)) for loop in above):
                return None  # a later one comes round again
        if latest is None or latest.kind == "augment":
            return None
        if latest.kind in ("parameter", "loop") or self._passes(latest.node, above):
            return latest
        return None

    def _start(self, binding: Binding) -> int:
        """Where a binding stands; the generator of a comprehension has no place of its own."""
        node = binding.node if hasattr(binding.node, "lineno") else self.script.statement_of(binding.node)
        return self.script.span(node)[0]

    def candidates(self, node: ast.Name) -> list[ast.expr]:
        """The values a name may have when several branches give it one; nothing when one of them is not known."""
        found = self.lookup(node.id, node)
        if found is None or found[0] is not self.script.scope_of(node):
            return []
        above = [node, *self.script.ancestors(node)]
        here = self.script.span(self.script.statement_of(node))[0]
        before = [b for b in found[1] if b.node not in above and b.kind != "parameter"]
        before = [b for b in before if self._start(b) < here]
        values: list[ast.expr] = []
        for binding in reversed(before):
            if binding.kind != "assign" or binding.value is None or binding.index is not None:
                return []
            values.append(binding.value)
            if self._passes(binding.node, above):
                break
        return values

    def _passes(self, statement: ast.AST, above: list[ast.AST]) -> bool:
        """Whether a statement stands in a block that leads to a use."""
        if not isinstance(statement, ast.stmt):
            statement = self.script.statement_of(statement)
        parent = self.script.parent(statement)
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return any(node in block for node in above)
        return False

    def qualified(self, expr: ast.expr) -> str | None:
        """The dotted name through imports; a name of this file or a built-in one is itself."""
        if isinstance(expr, ast.Attribute):
            base = self.qualified(expr.value)
            return f"{base}.{expr.attr}" if base else None
        if not isinstance(expr, ast.Name):
            return None
        found = self.lookup(expr.id, expr)
        if found is None:
            stars = self.script.walked.stars
            return f"{stars[0]}.{expr.id}" if len(stars) == 1 and expr.id[:1].isupper() else expr.id
        binding = self.binding(expr)
        if binding is None:
            return None
        if binding.kind == "import":
            return binding.dotted
        if binding.kind in ("function", "class"):
            return expr.id
        if binding.kind == "assign" and isinstance(binding.value, (ast.Name, ast.Attribute)) and binding.index is None:
            return self.qualified(binding.value) if binding.value is not expr else None
        return None

    # Definitions.

    def definition(self, expr: ast.expr, depth: int = 0) -> ast.expr:
        """Follow names, attributes, items and simple functions as far as there is one answer."""
        if depth == 0 and expr in self._definitions:
            return self._definitions[expr]
        found = expr
        for _ in range(_DEPTH):
            step = self._step(found, depth)
            if step is None or step is found or depth > _DEPTH:
                break
            found = step
        if depth == 0:
            self._definitions[expr] = found
        return found

    def _step(self, expr: ast.expr, depth: int) -> ast.expr | None:
        if isinstance(expr, ast.Name):
            binding = self.binding(expr)
            return self._bound(binding, depth) if binding else None
        if isinstance(expr, ast.Attribute):
            return self._attribute(expr, depth)
        if isinstance(expr, ast.Subscript):
            return self._item(expr, depth)
        if isinstance(expr, ast.Call):
            return self._call(expr, depth)
        return None

    def _bound(self, binding: Binding, depth: int) -> ast.expr | None:
        if binding.kind in ("assign", "with"):
            if binding.index is None:
                return binding.value
            first = isinstance(binding.value, ast.Call) and arguments.is_parse(binding.value) and binding.index == 0
            return binding.value if first else None
        if binding.kind == "parameter":
            return self._given(binding)
        return None

    def _given(self, binding: Binding) -> ast.expr | None:
        """What a parameter gets: from the only call that gives it, else its default when none does."""
        function = self.script.parent(self.script.parent(binding.node) or binding.node)
        if not isinstance(function, FUNCTIONS) or not isinstance(binding.node, ast.arg):
            return binding.value
        method = isinstance(self.script.parent(function), ast.ClassDef)
        name = binding.node.arg
        positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        position = positional.index(name) if name in positional else None
        if method:
            position = None if position is None else position - 1
            calls = self._constructions(function)
        else:
            calls = self.callers(function)
        given = [found for call in calls if (found := self.argument(call, name, position)) is not None]
        if any(self.has_unknown_arguments(call) for call in calls):
            return None
        if len(given) == 1 and len(calls) == 1:
            return given[0]
        return binding.value if not given else None

    def _constructions(self, function: Function) -> tuple[ast.Call, ...]:
        """For ``__init__``, the calls of its class."""
        owner = self.script.parent(function)
        if isinstance(owner, ast.ClassDef) and getattr(function, "name", "") == "__init__":
            return tuple(self._calls_by_name().get(owner.name, ()))
        return ()

    def _attribute(self, expr: ast.Attribute, depth: int) -> ast.expr | None:
        if isinstance(expr.value, ast.Name) and expr.value.id in _SELF:
            return self._own(expr)
        written = self._assigned_attribute(expr)
        if written is not None:
            return written
        base = self.definition(expr.value, depth + 1)
        if isinstance(base, ast.Call):
            if arguments.is_parse(base):
                return arguments.default(self.script, expr.attr)
            given = next((item.value for item in base.keywords if item.arg == expr.attr), None)
            owner = self._class_made(base)
            if owner is not None or arguments.is_namespace(base):
                return given or (self._class_value(owner, expr.attr) if owner else None)
            return None
        owner = self._class_named(base)
        return self._class_value(owner, expr.attr) if owner else None

    def _own(self, expr: ast.Attribute) -> ast.expr | None:
        """The only value of ``self.name`` in its class, but for a ``None`` it begins with."""
        owner = self.script.class_of(expr)
        if owner is None:
            return None
        values: list[ast.expr | None] = [
            binding.value if binding.index is None else None
            for target, binding in self.script.walked.attribute_values.get(expr.attr, ())
            if isinstance(target.value, ast.Name) and target.value.id in _SELF and self.script.class_of(target) is owner
        ]
        scope = self.script.walked.scopes.get(owner)
        values += [binding.value for binding in (scope.bindings.get(expr.attr, ()) if scope else ())]
        kept = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
        return kept[0] if len(kept) == 1 else None

    def _assigned_attribute(self, expr: ast.Attribute) -> ast.expr | None:
        """``args.buffer_size = …`` where it is written once, before the use."""
        if not isinstance(expr.value, ast.Name):
            return None
        same = [
            (target, binding)
            for target, binding in self.script.walked.attribute_values.get(expr.attr, ())
            if isinstance(target.value, ast.Name) and target.value.id == expr.value.id and target is not expr
        ]
        if len(same) != 1 or same[0][1].kind != "assign":
            return None
        target, binding = same[0]
        if self.script.function_of(target) is not self.script.function_of(expr):
            return None
        before = self.script.span(target)[0] < self.script.span(expr)[0]
        passes = self._passes(binding.node, [expr, *self.script.ancestors(expr)])
        return binding.value if before and passes else None

    def assigned_elsewhere(self, expr: ast.Attribute) -> bool:
        """Whether some statement writes the same attribute of the same name."""
        return any(
            isinstance(target.value, ast.Name) and isinstance(expr.value, ast.Name) and target.value.id == expr.value.id
            for target, _ in self.script.walked.attribute_values.get(expr.attr, ())
        )

    def _item(self, expr: ast.Subscript, depth: int) -> ast.expr | None:
        if not isinstance(expr.slice, ast.Constant):
            return None
        return self._in_dict(expr.value, expr.slice.value, expr, depth)

    def _in_dict(self, holder: ast.expr, key: object, use: ast.expr, depth: int) -> ast.expr | None:
        """The value under a key of a known dict that nobody writes to elsewhere."""
        found = self.definition(holder, depth + 1)
        written = [
            target
            for target, _ in self.script.walked.item_values.get(key, ())
            if target is not use and ast.dump(target.value) == ast.dump(holder)
        ]
        return None if written else dict(self.items(found, depth + 1) or ()).get(key)

    def items(self, expr: ast.expr, depth: int = 0) -> list[tuple[object, ast.expr]] | None:
        """Keys and values of a dict display or ``dict(…)``; ``None`` when some of it cannot be known."""
        found = self.definition(expr, depth + 1)
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "dict":
            pairs: list[tuple[ast.expr | None, ast.expr]] = [
                (ast.Constant(item.arg) if item.arg else None, item.value) for item in found.keywords
            ]
            pairs = [*((None, given) for given in found.args), *pairs]
        elif isinstance(found, ast.Dict):
            pairs = list(zip(found.keys, found.values, strict=True))
        else:
            return None
        out: list[tuple[object, ast.expr]] = []
        for key, value in pairs:
            if key is None:
                inner = self.items(value, depth + 1) if depth < _DEPTH else None
                if inner is None:
                    return None
                out += inner
            elif isinstance(key, ast.Constant):
                out.append((key.value, value))
        return out

    def _call(self, call: ast.Call, depth: int) -> ast.expr | None:
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "get"
            and call.args
            and isinstance(call.args[0], ast.Constant)
        ):
            if arguments.is_environ(self, func.value):
                return call.args[1] if len(call.args) > 1 else None
            items = self.items(func.value, depth + 1)
            if items is not None:
                known = dict(items)
                return known.get(call.args[0].value, call.args[1] if len(call.args) > 1 else None)
            return None
        if self.qualified(func) == "os.getenv":
            return call.args[1] if len(call.args) > 1 else None
        function = self.function_called(call)
        if function is None or isinstance(function, ast.AsyncFunctionDef):
            return None
        return self.returned(function)

    # Functions and classes of this file.

    def _calls_by_name(self) -> dict[str, list[ast.Call]]:
        if self._callers is None:
            self._callers = {}
            for call in self.script.calls:
                if isinstance(call.func, ast.Name):
                    self._callers.setdefault(call.func.id, []).append(call)
        return self._callers

    def callers(self, function: Function) -> tuple[ast.Call, ...]:
        """The calls of a function by its name."""
        if isinstance(function, ast.Lambda):
            return ()
        calls = self._calls_by_name().get(function.name, ())
        return tuple(call for call in calls if self.function_called(call) is function)

    def function_called(self, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function behind a plain name."""
        if not isinstance(call.func, ast.Name):
            return None
        binding = self.binding(call.func)
        node = binding.node if binding and binding.kind == "function" else None
        return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def returned(self, function: Function) -> ast.expr | None:
        """The one expression a function gives back."""
        if isinstance(function, ast.Lambda):
            return function.body
        found = [node.value for node in self.script.walked.returns.get(function, ()) if node.value is not None]
        return found[0] if len(found) == 1 else None

    def _class_made(self, call: ast.Call) -> ast.ClassDef | None:
        """The class of this file that a call makes: ``Args()``, ``tyro.cli(Args)``."""
        name = self.qualified(call.func) or ""
        if name.rsplit(".", maxsplit=1)[-1] in ("cli", "parse", "parse_config") and call.args:
            return self._class_named(call.args[0])
        return self._class_named(call.func)

    def _class_named(self, expr: ast.expr) -> ast.ClassDef | None:
        binding = self.binding(expr) if isinstance(expr, ast.Name) else None
        return binding.node if binding and isinstance(binding.node, ast.ClassDef) else None

    def _class_value(self, owner: ast.ClassDef, name: str) -> ast.expr | None:
        scope = self.script.walked.scopes.get(owner)
        found = scope.bindings.get(name, []) if scope else []
        if not found:
            own = [
                binding.value
                for target, binding in self.script.walked.attribute_values.get(name, ())
                if self.script.class_of(target) is owner
            ]
            return own[0] if len(own) == 1 else None
        value = found[0].value if len(found) == 1 else None
        return arguments.field_default(value) if value is not None else None

    def class_bases(self, node: ast.ClassDef) -> frozenset[str]:
        """Transitive, through this file and the files it imports from."""
        if node not in self._bases:
            self._bases[node] = frozenset()  # a class that is its own ancestor ends here
            found = set()
            for base in node.bases:
                dotted = self.qualified(base)
                if dotted is None:
                    continue
                found.add(dotted)
                local = self._class_named(base)
                if local is not None:
                    found |= self.class_bases(local)
                elif (abroad := self.abroad(dotted)) is not None and isinstance(abroad[1].node, ast.ClassDef):
                    found |= abroad[0].class_bases(abroad[1].node)
            self._bases[node] = frozenset(found)
        return self._bases[node]

    def abroad(self, dotted: str) -> tuple[Script, Binding] | None:
        """A name of another file of the project."""
        project = self.script.project
        return project.symbol(self.script, dotted) if project else None

    # Objects.

    def made_by(self, expr: ast.expr, depth: int = 0) -> Name | None:
        """The call behind an object, through methods that give back the object itself and functions elsewhere."""
        found = self.definition(expr)
        if not isinstance(found, ast.Call) or depth > _DEPTH:
            return None
        dotted = self.qualified(found.func)
        if dotted is None:
            same = isinstance(found.func, ast.Attribute) and found.func.attr in _SAME
            return self.made_by(found.func.value, depth + 1) if same and isinstance(found.func, ast.Attribute) else None
        abroad = self.abroad(dotted)
        if abroad is not None and isinstance(abroad[1].node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            other, binding = abroad
            assert isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            given_back = other.returned(binding.node)
            made = other.made_by(given_back) if given_back is not None else None
            return made or Name(dotted)
        return Name(dotted)

    def uses(self, expr: ast.expr) -> tuple[ast.expr, ...]:
        """The loads of the variable an expression names, its own included when it is one."""
        if isinstance(expr, ast.Name):
            found = self.lookup(expr.id, expr)
            if found is None:
                return ()
            return tuple(
                node
                for node in self.script.walked.loads.get(expr.id, ())
                if (other := self.lookup(node.id, node)) is not None and other[0] is found[0]
            )
        if isinstance(expr, ast.Attribute):
            return tuple(self._same_attribute(expr))
        return ()

    def _same_attribute(self, expr: ast.Attribute) -> Iterator[ast.Attribute]:
        base, owner = ast.dump(expr.value), self.script.class_of(expr)
        for node in self.script.walked.attributes.get(expr.attr, ()):
            if ast.dump(node.value) == base and self.script.class_of(node) is owner:
                yield node

    # Arguments.

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
        """By keyword, from a known dict that is unpacked, or by position."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        for keyword in call.keywords:
            if keyword.arg is None:
                known = dict(self.items(keyword.value) or ())
                if name in known:
                    return known[name]
        if position is not None and 0 <= position < len(call.args):
            before = call.args[: position + 1]
            if not any(isinstance(given, ast.Starred) for given in before):
                return call.args[position]
        return None

    def has_unknown_arguments(self, call: ast.Call) -> bool:
        """``*args``, or ``**kwargs`` of something that is not a known dict."""
        if any(isinstance(given, ast.Starred) for given in call.args):
            return True
        return any(keyword.arg is None and self.items(keyword.value) is None for keyword in call.keywords)
