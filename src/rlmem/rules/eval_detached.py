"""A callback is created and never used.

It is not passed to ``learn``, so that what it should do never happens: no evaluation, no checkpoints, no early stop. An
evaluation callback costs memory all the same: its environment is built and kept for the whole run.

In a script, the rule follows the callback through names, lists, ``CallbackList``, ``append`` and conditions. It is silent as
soon as the callback may reach something: a call, a return, an attribute of an object.

Example::

    eval_callback = EvalCallback(make_vec_env(make_env, n_envs=4))
    checkpoint_callback = CheckpointCallback(save_freq=10_000, save_path="models")
    model.learn(1_000_000, callback=checkpoint_callback)        # eval_callback is not there

Use instead: add the callback to the list that ``learn`` gets, or delete it and its environment.

Fix: unsafe (the callback then runs), where there is one ``learn`` and its ``callback`` is written out.

Reference: found in a public PPO project whose author took the evaluation for granted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Edit, Fix
from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, method_calls, names_in
from rlmem.scripts import Script
from rlmem.scripts.sinks import sinks

_ROOTS = {"stable_baselines3", "sb3_contrib", "wandb", "rl_zoo3"}
_GROUPS = {"CallbackList", "list", "tuple", "set"}
#: What becomes of a callback that does nothing.
_NOTHING = {"dropped", "tested", "read", "filled"}
_LOOKUPS = {"locals", "globals", "vars", "eval", "exec"}


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the description says the callback is not attached."""
    if not subject.spec.get("eval.n_envs", 0) or subject.spec.get("eval.attached", True):
        return
    changes = {"eval.n_envs": 0}
    saves = subject.saving(changes)
    yield rule.finding(
        "the evaluation callback is created but never passed to learn(): no evaluation happens",
        saves_bytes=saves or None,
        location="eval.attached",
        remedy="add it to the callback list, or remove it with its environment",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Every callback of SB3, or of a class built on it, that reaches nothing."""
    made = [call for call in script.calls if _is_callback(script, call)]
    if not made or not any(True for _ in method_calls(script, "learn")):
        return
    if any(leaf(call) in _LOOKUPS and isinstance(call.func, ast.Name) for call in script.calls):
        return

    def through(call: ast.Call) -> bool:
        name = script.called(call)
        return call in made or (name is not None and name.leaf in _GROUPS)

    for call in made:
        if _expected_to_fail(script, call) or _exported(script, call):
            continue
        found = sinks(script, call, through=through)
        replaced = _replaced(script, call)
        if replaced or all(sink.kind in _NOTHING for sink in found):
            yield _finding(rule, script, call, replaced=replaced)


def _finding(rule: Rule, script: Script, call: ast.Call, *, replaced: bool) -> Finding:
    target = _target(script, call)
    what = f"{target.id} ({leaf(call)})" if target else leaf(call)
    happens = {"EvalCallback": "no evaluation happens", "CheckpointCallback": "no checkpoint is saved"}
    why = happens.get(leaf(call), "it never runs")
    end = "is replaced before it is used" if replaced else "is created and never passed to learn()"
    return rule.finding(
        f"{what} {end}: {why}",
        place=script.place(call),
        remedy="add it to the callbacks that learn() gets, or remove it with what was built for it",
        fix=None if replaced or target is None else _fix(script, call, target),
    )


def _is_callback(script: Script, call: ast.Call) -> bool:
    word = leaf(call)
    if not (word.endswith(("Callback", "CallbackList")) or word.startswith("StopTraining") or word[:1].isupper()):
        return False
    name = script.called(call)
    if name is None:
        return False
    if name.root in _ROOTS:
        return name.leaf.endswith(("Callback", "CallbackList")) or name.leaf.startswith(("StopTraining", "EveryN"))
    local = next((node for node in script.classes if node.name == name.dotted), None)
    if local is None:
        return False
    return any(base.split(".")[0] in _ROOTS for base in script.class_bases(local)) and script.is_callback(local)


def _target(script: Script, call: ast.Call) -> ast.Name | None:
    """The name the callback is given."""
    parent = script.parent(call)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if isinstance(parent, ast.AnnAssign):
        target = parent.target
    return target if isinstance(target, ast.Name) else None


def _expected_to_fail(script: Script, call: ast.Call) -> bool:
    """Inside ``with pytest.raises(…)`` and the like a callback is made to see what happens."""
    return any(isinstance(above, (ast.With, ast.Try)) for above in script.ancestors(call) if _tests(above))


def _tests(above: ast.AST) -> bool:
    return isinstance(above, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and leaf(item.context_expr) in {"raises", "warns", "assertRaises"}
        for item in above.items
    )


def _exported(script: Script, call: ast.Call) -> bool:
    """A name of a module that others may import: one without any code of its own that runs."""
    target = _target(script, call)
    if target is None or script.function_of(call) is not None or script.class_of(call) is not None:
        return False
    return all(script.function_of(learn) is not None for learn in method_calls(script, "learn")) and not _guarded(
        script
    )


def _guarded(script: Script) -> bool:
    return any(
        isinstance(node, ast.If) and "__name__" in names_in(node.test) for node in script.tree.body
    ) or script.path.endswith(".ipynb")


def _replaced(script: Script, call: ast.Call) -> bool:
    """Whether the next thing that happens to its name, in the same block, is that it gets another value."""
    target, statement = _target(script, call), script.parent(call)
    if target is None or script.path.endswith(".ipynb"):  # the cells of a notebook run in any order
        return False
    block = _block(script, statement)
    after = block[block.index(statement) + 1 :] if statement in block else []
    for following in after:
        if any(
            isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load) for n in ast.walk(following)
        ):
            return False
        if isinstance(following, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == target.id for each in following.targets
        ):
            return True
        if isinstance(following, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Return, ast.Raise)):
            return False
    return False


def _block(script: Script, statement: ast.AST | None) -> list[ast.AST]:
    parent = script.parent(statement) if statement is not None else None
    for name in ("body", "orelse", "finalbody"):
        items = getattr(parent, name, None)
        if isinstance(items, list) and statement in items:
            return items
    return []


def _fix(script: Script, call: ast.Call, target: ast.Name) -> Fix | None:
    """The callback added to the only ``learn`` of its function, when that comes later."""
    scope = script.function_of(call)
    learns = [each for each in method_calls(script, "learn") if script.function_of(each) is scope]
    conditional = script.statement_of(call) not in _block(script, script.statement_of(call)) or any(
        isinstance(above, (ast.If, ast.Try, ast.For, ast.While)) and above not in script.ancestors(learns[0])
        for above in script.ancestors(call)
        if learns
    )
    if len(learns) != 1 or conditional or script.span(learns[0])[0] < script.span(call)[1]:
        return None
    edit = _added(script, learns[0], target.id, script.span(call)[1])
    return Fix(title=f"pass {target.id} to learn()", edits=(edit,), safety="unsafe") if edit else None


def _added(script: Script, learn: ast.Call, name: str, made_at: int) -> Edit | None:
    if script.has_unknown_arguments(learn):
        return None
    given = script.argument(learn, "callback", 1)
    if given is None:
        return script.add_argument(learn, f"callback={name}")
    if isinstance(given, ast.Constant) and given.value is None:
        return script.edit(given, name)
    found = script.definition(given)
    if isinstance(found, ast.Call) and leaf(found) == "CallbackList" and len(found.args) == 1:
        found = found.args[0]
    if isinstance(found, ast.List) and found.elts and script.span(found)[0] > made_at:
        end = script.span(found.elts[-1])[1]
        return Edit(start=end, end=end, text=f", {name}")
    if isinstance(given, ast.Name) and isinstance(found, ast.Call) and _is_callback(script, found):
        return script.edit(given, f"[{given.id}, {name}]")
    return None
