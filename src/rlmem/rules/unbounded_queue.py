"""A queue between those who collect and the one who learns has no bound.

Workers put experience into a queue faster than the learner takes it out, and what waits there is memory: in the learner's
process, or in the feeder threads of the workers. A list of Ray's object references keeps all those objects alive likewise.

```python
queue = mp.Queue()

def actor(queue):
    while True:
        queue.put(collect_batch())
```

Use instead: ``mp.Queue(maxsize=8)``: ``put()`` then waits. With Ray, take finished references out with ``ray.wait``.

Fix: none: how many may wait depends on their size.

Reference: ray-project/ray#26691, #23769; PrimeIntellect-ai/prime-rl#1936; alex-petrenko/sample-factory#120.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, loops, method_calls, names_in, receiver, rounds, self_attribute
from rlmem.scripts import Script

_PACKAGES = ("multiprocessing", "torch", "queue", "threading", "billiard", "multiprocess")
_DATA = (
    "batch", "rollout", "traj", "transition", "exper", "obs", "state", "sample", "episode", "frame", "data", "memory", "seg",
    "collect", "grad",
)  # fmt: skip
_QUEUES = ("Queue", "JoinableQueue", "SimpleQueue", "LifoQueue")
#: What makes a producer wait for the consumer.
_WAITS = {"get", "recv", "wait", "acquire", "qsize", "join", "full", "barrier", "poll", "get_nowait"}
MANY = 10_000


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for a queue without a size that a worker's endless loop fills with experience."""
    if "Queue(" in script.text:
        yield from _queues(rule, script)
    if ".remote(" in script.text:
        yield from _references(rule, script)


def _queues(rule: Rule, script: Script) -> Iterator[Finding]:
    puts = [call for call in method_calls(script, "put", "put_nowait") if _produces(script, call)]
    if not puts:
        return
    for call in _made(script):
        if script.has_unknown_arguments(call):
            continue
        size = script.argument(call, "maxsize", 0)
        bound = 0 if size is None else script.value(size)
        if not isinstance(bound, int) or bound > 0:
            continue
        names = _names(script, call)
        put = next((each for each in puts if _queue_word(each) in names), None)
        if put is not None:
            yield rule.finding(
                f"{leaf(call)}() has no maxsize, and line {script.place(put).line} fills it as fast as it can",
                place=script.place(call),
                costs_per="batch",
                remedy="give it a maxsize of a few batches, so that put() waits for the learner",
            )


def _made(script: Script) -> Iterator[ast.Call]:
    """Queues of the known packages, also of their contexts and managers."""
    for call in script.calls_of(*_QUEUES):
        name = script.called(call)
        if name is not None and name.root in _PACKAGES:
            yield call
    for call in method_calls(script, *_QUEUES):
        owner = receiver(call)
        made = script.made_by(owner) if script.called(call) is None and owner is not None else None
        if made is not None and made.leaf in {"Manager", "get_context", "SyncManager"}:
            yield call


def _produces(script: Script, call: ast.Call) -> bool:
    """Whether a worker's loop without an end puts experience, and waits for nobody."""
    function = script.function_of(call)
    if function is None or isinstance(function, ast.Lambda) or not call.args or not _is_worker(script, function):
        return False
    around = next(iter(loops(script, call)), None)
    if around is None or (isinstance(around, ast.For) and (rounds(script, around) or 0) < MANY):
        return False
    if any(isinstance(node, ast.Call) and leaf(node) in _WAITS and node.args == [] for node in ast.walk(around)):
        return False
    words = {name.lower() for name in names_in(call.args[0])}
    words |= {node.attr.lower() for node in ast.walk(call.args[0]) if isinstance(node, ast.Attribute)}
    return any(part in word for word in words for part in _DATA)


def _is_worker(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """The target of a process or a thread, or ``run()`` of a class of theirs."""
    cls = script.class_of(function)
    if cls is not None and function.name == "run":
        return any(base.rsplit(".", 1)[-1] in {"Process", "Thread"} for base in script.class_bases(cls))
    for call in script.calls_of("Process", "Thread", "spawn"):
        target = script.argument(call, "target", 1) or script.argument(call, "fn", 0)
        word = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
        if word == function.name:
            return True
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "Process" and _targets(call, function.name)
               for call in method_calls(script, "Process"))  # fmt: skip


def _targets(call: ast.Call, name: str) -> bool:
    return any(k.arg == "target" and isinstance(k.value, (ast.Name, ast.Attribute)) and ast.unparse(k.value).split(".")[-1] == name
               for k in call.keywords)  # fmt: skip


def _names(script: Script, call: ast.Call) -> set[str]:
    """What a queue is called: by its variable, and by the parameters it is passed on as."""
    statement = script.statement_of(call)
    found: set[str] = set()
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = list(statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(targets[0], ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = zip(statement.value.elts, targets[0].elts, strict=False)
            targets = [target for value, target in pairs if value is call]
        for target in targets:
            word = self_attribute(target) or (target.id if isinstance(target, ast.Name) else None)
            found |= {word} if word else set()
    for other in script.calls:
        started = next((k.value for k in other.keywords if k.arg in {"target", "fn"}), None)
        args = next((k.value for k in other.keywords if k.arg == "args"), None)
        if isinstance(started, ast.Name) and isinstance(args, (ast.Tuple, ast.List)):
            function = next((f for f in script.functions if getattr(f, "name", None) == started.id), None)
            parameters = [each.arg for each in function.args.args] if function else []
            passed = zip(parameters, args.elts, strict=False)
            found |= {name for name, value in passed if isinstance(value, ast.Name) and value.id in found}
    return found


def _queue_word(call: ast.Call) -> str:
    owner = receiver(call)
    if owner is None:
        return ""
    return self_attribute(owner) or (owner.id if isinstance(owner, ast.Name) else "")


def _references(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in method_calls(script, "append"):
        owner = receiver(call)
        if not call.args or not (isinstance(call.args[0], ast.Call) and leaf(call.args[0]) == "remote"):
            continue
        if not isinstance(owner, ast.Name) or not _piles_up(script, call, owner.id):
            continue
        yield rule.finding(
            f"{owner.id} keeps the reference of every remote call, and with it the result",
            place=script.place(call),
            costs_per="call",
            remedy=f"take finished ones out: done, {owner.id} = ray.wait({owner.id})",
        )


def _piles_up(script: Script, call: ast.Call, name: str) -> bool:
    """Whether one of the loops around an append runs on and on, or all together do, and none of them empties the list."""
    times = 1
    for around in loops(script, call):
        if _taken_out(around, name):
            return False
        if isinstance(around, ast.While) and not _counts(around.test, name):
            return True
        times *= (rounds(script, around) or 1) if isinstance(around, (ast.For, ast.AsyncFor)) else 1
        if times >= MANY:
            return True
    return False


def _counts(test: ast.expr, name: str) -> bool:
    """``while len(refs) < n``."""
    calls = [node for node in ast.walk(test) if isinstance(node, ast.Call) and leaf(node) == "len"]
    return any(name in names_in(call) for call in calls)


def _taken_out(loop: ast.AST, name: str) -> bool:
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and any(name in names_in(target) for target in node.targets):
            return True
        if isinstance(node, ast.Call) and leaf(node) in {"pop", "clear", "remove", "popleft", "wait"}:
            return True
    return False
