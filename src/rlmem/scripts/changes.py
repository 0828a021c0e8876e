"""Small edits to a script that leave everything around them as it was written."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rlmem.core.edits import Edit

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

_QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def add_argument(script: Script, call: ast.Call, text: str) -> Edit:
    """After the last argument: on a line of its own where the others are, with a trailing comma where they have one."""
    end = script.span(call)[1] - 1  # the closing parenthesis
    arguments = _arguments(call)
    if not arguments:
        return Edit(start=end, end=end, text=text)
    last = max(script.span(node)[1] for node in arguments)
    at, comma = _last_token(script.source.code[last:end])
    at += last
    indent = _own_line(script, call, arguments)
    if indent is None:
        return Edit(start=at, end=at, text=f" {text}" if comma else f", {text}")
    newline = "\r\n" if "\r\n" in script.text else "\n"
    comment = _comment_after(script.source.code[at:end])  # stays beside the argument it is about
    written = f"{'' if comma else ','}{comment}{newline}{indent}{text}{',' if comma else ''}"
    return Edit(start=at, end=at + len(comment), text=written)


def _arguments(call: ast.Call) -> list[ast.AST]:
    return [*call.args, *call.keywords]


def _own_line(script: Script, call: ast.Call, arguments: list[ast.AST]) -> str | None:
    """The indentation of arguments that stand on lines of their own; ``None`` when they share lines."""
    last = max(script.span(node)[0] for node in arguments)
    line = script.source.position(last)[0]
    start = script.source.starts[line - 1]
    before = script.text[start:last]
    return before if not before.strip() and start > script.span(call.func)[1] else None


def _comment_after(tail: str) -> str:
    line = tail.splitlines()[0] if tail else ""
    return line.rstrip() if line.lstrip().startswith("#") else ""


def _last_token(text: str) -> tuple[int, bool]:
    """The offset after the last closing parenthesis or comma in a tail, and whether it was a comma."""
    end, comma = 0, False
    starts = _line_starts(text)
    for token in _tokens(text):
        if token.type not in _QUIET:
            end = starts[token.end[0] - 1] + token.end[1]
            comma = token.string == ","
    return end, comma


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a piece of code, as far as they go: a tail with closing parentheses is no whole text."""
    with suppress(tokenize.TokenError, IndentationError, SyntaxError):
        yield from tokenize.generate_tokens(io.StringIO(text, newline="").readline)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in io.StringIO(text, newline=""):
        starts.append(starts[-1] + len(line))
    return starts


def remove_argument(script: Script, call: ast.Call, keyword: ast.keyword) -> Edit:
    """With the comma and the blanks before it; the first argument with the comma after it."""
    start, end = script.span(keyword)
    others = [script.span(node) for node in _arguments(call) if node is not keyword]
    before = max((stop for _, stop in others if stop <= start), default=None)
    following = _comma(script.source.code[end : script.span(call)[1]])
    if before is not None and "#" in script.source.code[before:start]:
        return Edit(start=start, end=end + following + 1 if following is not None else end, text="")
    if before is not None:
        return Edit(start=before + (_comma(script.source.code[before:start]) or 0), end=end, text="")
    after = min((begin for begin, _ in others if begin >= end), default=None)
    return Edit(start=start, end=after if after is not None else end, text="")


def _comma(tail: str) -> int | None:
    """The offset of the comma after an argument; there is none after the last one as a rule."""
    starts = _line_starts(tail)
    for token in _tokens(tail):
        if token.type not in _QUIET and token.string != ")":
            return starts[token.start[0] - 1] + token.start[1] if token.string == "," else None
    return None


def remove_statement(script: Script, statement: ast.stmt) -> Edit:
    """Its lines; ``pass`` where others share them or nothing else is in its block."""
    start, end = script.span(statement)
    line = script.source.starts[script.source.position(start)[0] - 1]
    following = script.text.find("\n", end)
    after = len(script.text) if following < 0 else following + 1
    alone = not script.text[line:start].strip() and not script.text[end:after].split("#", maxsplit=1)[0].strip()
    parent = script.parent(statement)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((items for items in blocks if isinstance(items, list) and statement in items), [])
    if not alone or (len(block) == 1 and not isinstance(parent, ast.Module)):
        return Edit(start=start, end=end, text="pass")
    return Edit(start=line, end=after, text="")


def insert_before(script: Script, statement: ast.stmt, text: str) -> Edit:
    """At the beginning of the statement's line; behind a semicolon, before the statement itself."""
    start = script.span(statement)[0]
    line = script.source.starts[script.source.position(start)[0] - 1]
    indent = script.text[line:start]
    if indent.strip():
        return Edit(start=start, end=start, text=f"{text}; ")
    newline = "\r\n" if "\r\n" in script.text else "\n"
    return Edit(start=line, end=line, text=f"{indent}{text}{newline}")


def add_import(script: Script, text: str) -> Edit | None:
    """After the last import of the first block of imports; after the docstring when there is none."""
    wanted = ast.parse(text).body[0]
    assert isinstance(wanted, (ast.Import, ast.ImportFrom))
    for node in script.imports_nodes:
        same = type(node) is type(wanted) and getattr(node, "module", None) == getattr(wanted, "module", None)
        have = {(alias.name, alias.asname) for alias in node.names}
        if same and have >= {(alias.name, alias.asname) for alias in wanted.names} and node in script.tree.body:
            return None
    after: ast.stmt | None = None
    for statement in script.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            after = statement
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and after is None:
            after = statement  # the docstring
        elif not isinstance(statement, ast.Try):
            break  # what follows may use it already
    newline = "\r\n" if "\r\n" in script.text else "\n"
    if after is None:
        first = script.span(script.tree.body[0])[0] if script.tree.body else 0
        at = script.source.starts[script.source.position(first)[0] - 1]
        return Edit(start=at, end=at, text=f"{text}{newline}")
    end = script.span(after)[1]
    following = script.text.find("\n", end)
    if following < 0:
        return Edit(start=len(script.text), end=len(script.text), text=f"{newline}{text}{newline}")
    return Edit(start=following + 1, end=following + 1, text=f"{text}{newline}")
