"""What a name means at a place: the import behind it, the expression that gave it its value, who made it."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlmem.scripts import arguments
from rlmem.scripts.containers import Containers
from rlmem.scripts.names import Name
from rlmem.scripts.walk import FUNCTIONS, LOOPS, Binding, Function, Scope

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

#: A chain of definitions longer than this is somebody's joke.
_DEPTH = 24
_LONGEST = 200
_SELF = ("self", "cls")
#: Bindings that hold in the body of their own statement.
_BODIES = ("loop", "with", "other")
#: Decorators that leave the arguments of a function as they are.
_HARMLESS = ("staticmethod", "classmethod", "abstractmethod", "override", "no_grad", "inference_mode", "property")
#: Methods that give back the object they were called on.
_SAME = ("learn", "to", "eval", "train", "unwrapped")
#: Where a name that is not called is taken along.
_HANDED_ON = (
    ast.ClassDef,
    ast.Assign,
    ast.Dict,
    ast.List,
    ast.Tuple,
    ast.keyword,
    ast.Return,
    ast.arguments,
    ast.Lambda,
)


class Meaning:
    """Answers about one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.containers = Containers(script)
        self._definitions: dict[ast.expr, ast.expr] = {}
        self._starts: dict[int, list[int]] = {}
        self._all_own: dict[int, bool] = {}
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
        if all(b.kind == "import" for b in bindings):
            return bindings[0]  # try: import gymnasium except ImportError: import gym
        if id(bindings) not in self._all_own:
            self._all_own[id(bindings)] = all(self._is_own(scope, b) for b in bindings)
        if not self._all_own[id(bindings)]:
            return None  # a function writes it through ``global``
        if len(bindings) == 1:
            return None if bindings[0].kind == "augment" else bindings[0]
        if scope is not self.script.scope_of(node):
            return None
        return self._reaching(node, bindings)

    def _is_own(self, scope: Scope, binding: Binding) -> bool:
        """Whether a binding is made where its scope is, and not by another function."""
        if not isinstance(scope.node, (*FUNCTIONS, ast.Module)):
            return True
        owner = scope.node if isinstance(scope.node, FUNCTIONS) else None
        return binding.kind in ("parameter", "other") or self.script.function_of(binding.node) is owner

    def _reaching(self, node: ast.Name, bindings: list[Binding]) -> Binding | None:
        """The last binding before a use, when every way to the use passes it."""
        above = [node, *self.script.ancestors(node)]
        holders = set(above)
        here = self.script.span(self.script.statement_of(node))[0]
        starts = self._starts_of(bindings)
        first_after = bisect_left(starts, here)
        latest: Binding | None = None
        again: list[ast.AST] = []  # bindings that a loop may bring round to the use
        for binding in reversed(bindings[:first_after]):
            if binding.node not in holders or (binding.kind in _BODIES and self._is_inside(binding.node, above)):
                latest = binding
                break
            again.append(binding.node)
        loops = [holder for holder in above if isinstance(holder, LOOPS)]
        if loops:
            end = self.script.span(loops[-1])[1]
            again += [binding.node for binding in bindings[first_after : bisect_left(starts, end)]]
        if latest is None or latest.kind == "augment":
            return None
        inside = {latest.node, *self.script.ancestors(latest.node)}
        for other in again:
            if any(loop in holders and loop not in inside for loop in self._loops_around(other)):
                return None
        if latest.kind == "parameter" or latest.node in holders or self._passes(latest.node, above):
            return latest
        return None

    def _loops_around(self, node: ast.AST) -> Iterator[ast.AST]:
        return (above for above in self.script.ancestors(node) if isinstance(above, LOOPS))

    def _starts_of(self, bindings: list[Binding]) -> list[int]:
        """Where the bindings of a name stand, in their order; parameters come before everything."""
        key = id(bindings)
        if key not in self._starts:
            self._starts[key] = [-1 if b.kind == "parameter" else self._start(b) for b in bindings]
        return self._starts[key]

    def _is_inside(self, holder: ast.AST, above: list[ast.AST]) -> bool:
        """Whether a use stands in the body of a statement that binds, and not in its head."""
        walked = self.script.walked
        return any(walked.parents.get(node) is holder and walked.blocks.get(node) == "body" for node in above)

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
        walked = self.script.walked
        parent, block = walked.parents.get(statement), walked.blocks.get(statement)
        return any(walked.parents.get(node) is parent and walked.blocks.get(node) == block for node in above)

    def qualified(self, expr: ast.expr, depth: int = 0) -> str | None:
        """The dotted name through imports; a name of this file or a built-in one is itself."""
        if isinstance(expr, ast.Attribute):
            base = self.qualified(expr.value, depth + 1) if depth < _LONGEST else None
            return f"{base}.{expr.attr}" if base else None
        if not isinstance(expr, ast.Name) or depth > _LONGEST:
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
            return self.qualified(binding.value, depth + 8)
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
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(binding.node, ast.arg):
            return None
        calls = self._all_calls(function)
        if calls is None or any(self.has_unknown_arguments(call) for call in calls):
            return None
        name = binding.node.arg
        positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        position = positional.index(name) if name in positional else None
        if isinstance(self.script.parent(function), ast.ClassDef) and position is not None and not _is_static(function):
            position -= 1
        given = [found for call in calls if (found := self.argument(call, name, position)) is not None]
        if len(given) == 1 and len(calls) == 1:
            return given[0]
        return binding.value if not given else None

    def _all_calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.Call, ...] | None:
        """Every call of a function as far as this file tells; ``None`` when it may be called in other ways."""
        if any(_leaf(decorator) not in _HARMLESS for decorator in function.decorator_list):
            return None
        owner = self.script.parent(function)
        if not isinstance(owner, ast.ClassDef):
            calls = self.callers(function)
            named = [
                name for name in self.script.walked.loads.get(function.name, ()) if self._is_name_of(name, function)
            ]
            return calls if len(named) == len(calls) else None
        if function.name == "__init__":
            inside = any(isinstance(node, ast.Name) and node.id == "cls" for node in ast.walk(owner))
            if inside or self.is_handed_on(owner.name):
                return None
            return tuple(self._calls_by_name().get(owner.name, ()))
        named_so = self.script.walked.attributes.get(function.name, ())
        calls_so = [
            parent
            for node in named_so
            if isinstance(parent := self.script.parent(node), ast.Call) and parent.func is node
        ]
        return tuple(calls_so) if len(calls_so) == len(named_so) else None

    def _is_name_of(self, name: ast.Name, function: ast.AST) -> bool:
        binding = self.binding(name)
        return binding is None or binding.node is function

    def is_handed_on(self, name: str) -> bool:
        """Whether a function or class is passed, stored, returned or derived from: whoever calls it may give anything."""
        for use in self.script.walked.loads.get(name, ()):
            above = self.script.parent(use)
            if isinstance(above, ast.Call) and use is not above.func:
                if _leaf(above.func) not in ("isinstance", "issubclass"):
                    return True
            elif isinstance(above, ast.AnnAssign):
                if use is above.value:
                    return True
            elif isinstance(above, _HANDED_ON):
                return True
        return False

    def _attribute(self, expr: ast.Attribute, depth: int) -> ast.expr | None:
        if isinstance(expr.value, ast.Name) and expr.value.id in _SELF:
            return self._own(expr)
        written = self._assigned_attribute(expr)
        if written is not None:
            return written
        if self.assigned_elsewhere(expr):
            return None
        base = self.definition(expr.value, depth + 1)
        if isinstance(base, ast.Call):
            if arguments.is_parse(base):
                known = arguments.is_untouched(self, base, expr)
                return arguments.default(self.script, expr.attr) if known else None
            if arguments.is_namespace(base):
                return next((item.value for item in base.keywords if item.arg == expr.attr), None)
            owner = self._class_made(base)
            return self._of_instance(owner, base, expr.attr) if owner is not None else None
        owner = self._class_named(base)
        return self._class_value(owner, expr.attr) if owner else None

    def _of_instance(self, owner: ast.ClassDef, call: ast.Call, name: str) -> ast.expr | None:
        """An attribute of an object that a call of its class made."""
        methods = self.script.methods(owner)
        if "__post_init__" in methods:
            return None
        if "__init__" in methods or self._class_named(call.func) is not owner:  # or made by tyro.cli(Args)
            return self._class_value(owner, name)
        fields = [
            item.target.id
            for item in owner.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        if self.has_unknown_arguments(call) or (call.args and name not in fields):
            return None
        given = self.argument(call, name, fields.index(name) if name in fields else None)
        return given if given is not None else self._class_value(owner, name)

    def _own(self, expr: ast.Attribute) -> ast.expr | None:
        """The only value of ``self.name`` in its class; where it begins as ``None``, only an object that is made later."""
        owner = self.script.class_of(expr)
        if owner is None or self._is_overridden(owner, expr.attr):
            return None
        written = self.script.walked.attribute_values.get(expr.attr, ())
        values: list[ast.expr | None] = [
            binding.value if binding.index is None else None
            for target, binding in written
            if isinstance(target.value, ast.Name) and target.value.id in _SELF and self.script.class_of(target) is owner
        ]
        scope = self.script.walked.scopes.get(owner)
        values += [binding.value for binding in (scope.bindings.get(expr.attr, ()) if scope else ())]
        kept = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
        if len(kept) != 1 or (len(kept) < len(values) and not isinstance(kept[0], ast.Call)):
            return None
        return kept[0]

    def _is_overridden(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether a class of this file derived from another binds the name too, or somebody writes it on the class."""
        for cls in self.script.classes:
            if any(isinstance(base, ast.Name) and base.id == owner.name for base in cls.bases):
                scope = self.script.walked.scopes.get(cls)
                own = self.script.walked.attribute_values.get(name, ())
                if (scope and name in scope.bindings) or any(self.script.class_of(target) is cls for target, _ in own):
                    return True
        outside = self.script.walked.attribute_values.get(name, ())
        if any(not (isinstance(target.value, ast.Name) and target.value.id in _SELF) for target, _ in outside):
            return True
        for call in self._calls_by_name().get("setattr", ()):
            key = call.args[1] if len(call.args) > 1 else None
            if not isinstance(key, ast.Constant) or key.value == name:
                return True
        return False

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
        if isinstance(expr.value, ast.Call) and arguments.is_parse(expr.value) and expr.slice.value == 0:
            return expr.value  # parser.parse_known_args()[0]
        return self._in_dict(expr.value, expr.slice.value, expr, depth)

    def _in_dict(self, holder: ast.expr, key: object, use: ast.expr, depth: int) -> ast.expr | None:
        """The value under a key of a known dict that nobody writes to elsewhere."""
        written = self.containers.written(holder)
        if written is None or key in written:
            return None
        found = self.definition(holder, depth + 1)
        return dict(self._pairs(found, depth + 1) or ()).get(key)

    def items(self, expr: ast.expr, depth: int = 0) -> list[tuple[object, ast.expr]] | None:
        """Keys and values of a dict display or ``dict(…)``; ``None`` when some of it cannot be known."""
        written = self.containers.written(expr)
        if written is None or written:
            return None
        return self._pairs(self.definition(expr, depth + 1), depth)

    def _pairs(self, found: ast.expr, depth: int) -> list[tuple[object, ast.expr]] | None:
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
            else:
                return None
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
            key = call.args[0].value
            written = self.containers.written(func.value)
            items = self._pairs(self.definition(func.value, depth + 1), depth + 1)
            if items is None or written is None or key in written:
                return None
            return dict(items).get(key, call.args[1] if len(call.args) > 1 else None)
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
        """The one expression a function gives back, whatever happens in it."""
        if isinstance(function, ast.Lambda):
            return function.body
        found = self.script.walked.returns.get(function, ())
        if len(found) != 1 or function.decorator_list or function in self.script.walked.generators:
            return None
        last = function.body[-1]
        while isinstance(last, ast.With):
            last = last.body[-1]
        return found[0].value if last is found[0] else None

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
        if self._is_overridden(owner, name) or any("Enum" in base for base in self.class_bases(owner)):
            return None
        scope = self.script.walked.scopes.get(owner)
        found = scope.bindings.get(name, []) if scope else []
        own = [
            binding.value
            for target, binding in self.script.walked.attribute_values.get(name, ())
            if self.script.class_of(target) is owner
        ]
        if not found:
            return own[0] if len(own) == 1 else None
        value = found[0].value if len(found) == 1 and not own else None
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


def _leaf(expr: ast.expr) -> str:
    if isinstance(expr, ast.Call):
        expr = expr.func
    return expr.attr if isinstance(expr, ast.Attribute) else expr.id if isinstance(expr, ast.Name) else ""


def _is_static(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_leaf(decorator) == "staticmethod" for decorator in function.decorator_list)
