"""A script as rules see it: its nodes in order, who encloses whom, what names mean, and where things stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlmem.core.edits import Edit
from rlmem.core.findings import Place
from rlmem.scripts import changes
from rlmem.scripts.meaning import Meaning
from rlmem.scripts.names import Name
from rlmem.scripts.source import Source
from rlmem.scripts.values import Values
from rlmem.scripts.walk import COMPREHENSIONS, FUNCTIONS, LOOPS, Function, Scope, Walked

if TYPE_CHECKING:
    from rlmem.scripts.reading import Project

_ENV_BASES = {"Env", "GoalEnv", "VecEnv", "VectorEnv", "MujocoEnv", "ParallelEnv", "AECEnv", "MultiAgentEnv", "EnvBase"}
_GYMS = {"gym", "gymnasium", "stable_baselines3", "pettingzoo", "ray", "torchrl"}


class Script:
    """One file, parsed once and walked once; every question after that is answered from what the walk left."""

    def __init__(self, source: Source, tree: ast.Module, project: Project | None = None) -> None:
        self.source, self.tree, self.project = source, tree, project
        self.path, self.text = source.path, source.text
        walked = Walked(tree)
        self.walked = walked
        self.calls = tuple(walked.calls)
        self.functions = tuple(walked.functions)
        self.classes = tuple(walked.classes)
        self.loops = tuple(walked.loops)
        self.withs = tuple(walked.withs)
        self.assigns = tuple(walked.assigns)
        self.augassigns = tuple(walked.augassigns)
        self.imports_nodes = tuple(walked.imports)
        self.meaning = Meaning(self)
        self.values = Values(self)
        self._called: dict[ast.Call, Name | None] = {}
        self._by_leaf: dict[str, list[tuple[str, ast.Call]]] | None = None

    # Who encloses whom.

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that directly holds another."""
        return self.walked.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything around a node, nearest first."""
        above = self.walked.parents.get(node)
        while above is not None:
            yield above
            above = self.walked.parents.get(above)

    def function_of(self, node: ast.AST) -> Function | None:
        """The nearest function or lambda around a node."""
        return next((above for above in self.ancestors(node) if isinstance(above, FUNCTIONS)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The nearest class around a node."""
        return next((above for above in self.ancestors(node) if isinstance(above, ast.ClassDef)), None)

    def loop_of(self, node: ast.AST) -> ast.AST | None:
        """The nearest loop or comprehension whose body runs a node again and again, within the same function."""
        below = node
        for above in self.ancestors(node):
            if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
                return None
            if isinstance(above, ast.While) or (isinstance(above, LOOPS) and below in above.body):
                return above
            if isinstance(above, COMPREHENSIONS) and below is not above.generators[0]:
                return above
            below = above
        return None

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement a node belongs to."""
        if isinstance(node, ast.stmt):
            return node
        return next(above for above in self.ancestors(node) if isinstance(above, ast.stmt))

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which the names of a node are looked up."""
        below = node
        for above in self.ancestors(node):
            scope = self.walked.scopes.get(above)
            outside = isinstance(above, (*FUNCTIONS, ast.ClassDef)) and not (
                isinstance(below, ast.stmt) or (isinstance(above, ast.Lambda) and below is above.body)
            )
            if scope is not None and not outside:
                return scope
            below = above
        return self.walked.module

    # What names mean.

    def qualified(self, expr: ast.expr) -> str | None:
        """The dotted name behind an expression, through imports; ``None`` for a variable."""
        return self.meaning.qualified(expr)

    def called(self, call: ast.Call) -> Name | None:
        """Who is called, when that is a name rather than a value's method."""
        if call not in self._called:
            dotted = self.meaning.qualified(call.func)
            self._called[call] = Name(dotted) if dotted else None
        return self._called[call]

    def calls_of(self, *leaves: str, roots: tuple[str, ...] | None = None) -> Iterator[ast.Call]:
        """Calls of any of these names, from any of these packages."""
        if self._by_leaf is None:
            self._by_leaf = {}
            for call in self.calls:
                if (name := self.called(call)) is not None:
                    self._by_leaf.setdefault(name.leaf, []).append((name.root, call))
        found = [pair for leaf in leaves for pair in self._by_leaf.get(leaf, ())]
        if len(leaves) > 1:
            found.sort(key=lambda pair: (pair[1].lineno, pair[1].col_offset))
        return (call for root, call in found if roots is None or root in roots)

    def definition(self, expr: ast.expr) -> ast.expr:
        """The expression that gave a name, an attribute or an item its value; itself where there is no single one."""
        return self.meaning.definition(expr)

    def made_by(self, expr: ast.expr) -> Name | None:
        """What call made the object that an expression names."""
        return self.meaning.made_by(expr)

    def value(self, expr: ast.expr | None) -> Any:
        """The value of an expression, or ``UNKNOWN``."""
        return self.values.value(expr)

    def literal(self, expr: ast.expr) -> ast.expr | None:
        """The literal in this file that decides a value: where an edit would have to be made."""
        found = self.meaning.definition(expr)
        plain = isinstance(found, ast.Constant) or (
            isinstance(found, (ast.UnaryOp, ast.BinOp, ast.Call))
            and not any(isinstance(node, (ast.Attribute, ast.Subscript)) for node in ast.walk(found))
            and all(node.id in ("int", "float") for node in ast.walk(found) if isinstance(node, ast.Name))
        )
        return found if plain and found in self.walked.parents else None

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
        """An argument by keyword, out of an unpacked dict that is known, or by position."""
        return self.meaning.argument(call, name, position)

    def has_unknown_arguments(self, call: ast.Call) -> bool:
        """Whether arguments are unpacked from something that is not known: any of them may be there."""
        return self.meaning.has_unknown_arguments(call)

    def uses(self, expr: ast.expr) -> tuple[ast.expr, ...]:
        """Every place that reads the same variable or the same attribute of ``self``."""
        return self.meaning.uses(expr)

    def function_called(self, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function of this file that a call calls, where it is a plain name."""
        return self.meaning.function_called(call)

    def callers(self, function: Function) -> tuple[ast.Call, ...]:
        """The calls of a function of this file by its plain name."""
        return self.meaning.callers(function)

    def returned(self, function: Function) -> ast.expr | None:
        """The only thing a function returns; ``None`` when it returns several or nothing."""
        return self.meaning.returned(function)

    # Classes.

    def class_bases(self, node: ast.ClassDef) -> frozenset[str]:
        """The dotted names of a class's bases, theirs included as far as the project holds them."""
        return self.meaning.class_bases(node)

    def _derives(self, node: ast.ClassDef, leaves: set[str] | None, ending: str = "") -> bool:
        names = [Name(dotted) for dotted in self.class_bases(node)]
        return any(name.leaf in (leaves or ()) or (ending and name.leaf.endswith(ending)) for name in names)

    def methods(self, node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """The methods a class defines itself."""
        return {item.name: item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}

    def is_wrapper(self, node: ast.ClassDef) -> bool:
        """Whether a class wraps environments."""
        return self._derives(node, {"VecEnvWrapper"}, "Wrapper")

    def is_env(self, node: ast.ClassDef) -> bool:
        """Whether a class is an environment: by a base of a known package, or by its methods and its bases' names."""
        if self.is_wrapper(node):
            return False
        names = [Name(dotted) for dotted in self.class_bases(node)]
        if any(name.root in _GYMS and (name.leaf in _ENV_BASES or name.leaf.endswith("Env")) for name in names):
            return True
        named = node.name.endswith("Env") or any(name.leaf.endswith(("Env", "Environment")) for name in names)
        return named and {"step", "reset"} <= set(self.methods(node))

    def is_env_abroad(self, name: Name) -> bool:
        """Whether a name is that of an environment's class in another file of the project."""
        found = self.meaning.abroad(name.dotted) if name.leaf[:1].isupper() else None
        return found is not None and isinstance(found[1].node, ast.ClassDef) and found[0].is_env(found[1].node)

    def is_callback(self, node: ast.ClassDef) -> bool:
        """Whether a class is a callback of a training framework."""
        return self._derives(node, None, "Callback") or self._derives(node, None, "Callbacks")

    def is_module(self, node: ast.ClassDef) -> bool:
        """Whether a class is a network of torch."""
        dotted = self.class_bases(node)
        return any(name in {"torch.nn.Module", "nn.Module"} or name.endswith("LightningModule") for name in dotted)

    # Where things stand, and how to change them.

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First character and the one after the last."""
        located: Any = node
        start = self.source.offset(located.lineno, located.col_offset)
        return start, self.source.offset(located.end_lineno, located.end_col_offset)

    def segment(self, node: ast.AST) -> str:
        """The text of a node as it is written."""
        start, end = self.span(node)
        return self.text[start:end]

    def place(self, node: ast.AST) -> Place:
        """The place of a node; in a notebook, lines count from the top of the cell."""
        start, end = self.span(node)
        cell = self.source.cell_at(start)
        (line, column), (end_line, end_column) = self.source.position(start), self.source.position(end)
        above = self.source.position(cell.start)[0] - 1 if cell else 0
        return Place(
            path=self.path,
            line=line - above,
            column=column,
            end_line=end_line - above,
            end_column=end_column,
            cell=cell.number if cell else None,
        )

    def edit(self, node: ast.AST, text: str) -> Edit:
        """Other text in place of a node."""
        start, end = self.span(node)
        return Edit(start=start, end=end, text=text)

    def add_argument(self, call: ast.Call, text: str) -> Edit:
        """One more argument at the end of a call, written like the others."""
        return changes.add_argument(self, call, text)

    def remove_statement(self, statement: ast.stmt) -> Edit:
        """A statement taken away with its line; ``pass`` where a block would be empty."""
        return changes.remove_statement(self, statement)

    def remove_argument(self, call: ast.Call, keyword: ast.keyword) -> Edit:
        """A keyword argument taken away with its comma."""
        return changes.remove_argument(self, call, keyword)

    def insert_before(self, statement: ast.stmt, text: str) -> Edit:
        """A line before a statement, indented like it."""
        return changes.insert_before(self, statement, text)

    def add_import(self, text: str) -> Edit | None:
        """An import after the others; ``None`` when the script has it."""
        return changes.add_import(self, text)
