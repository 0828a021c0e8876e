"""Data for training is collected for ever: the store has no capacity.

A replay memory that is a list without a bound, a dict of episodes to which every episode is added, a dataset that
grows with every round of DAgger: each runs until the memory is full, and then the run is killed::

    self.buffer.append((state, action, reward, next_state, done))   # and nothing ever leaves it
    episodes[name] = episode                                        # random.choice(list(episodes)) below

So does a list that gets the observation of every step and is made once, before the loop::

    frames = []
    while True:
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        frames.append(obs)                                          # 27 KB a step in CarRacing: 10 GB after 390,000

Use instead: ``deque(maxlen=…)``; remove the oldest when a limit is reached; arrays of a fixed size; or files on disk
that are read when a batch needs them; a list that is made anew with every episode.

It is found where a list, a deque without ``maxlen`` or a dict is drawn from at random or trained on in the same loop that
fills it, and nothing in the file takes anything out of it, compares its length with a limit or starts it anew; and
where a store is made with ``capacity=None``, ``dataset_size=0`` or the like. Lists beside ``env.step()`` are found in
loops without an end, in loops of 100 rounds and more that train on them, and in loops of 10,000 steps and more that make
them large; numbers such as rewards are not, nor is code that evaluates, plays or records, nor what is saved to a file.

Fix: unsafe; an empty ``deque()`` that is drawn from gets ``maxlen=1_000_000``, a number to be looked at.

Reference: HumanCompatibleAI/imitation#401; jsikyoon/dreamer-torch#8; danijar/dreamerv2#40; XuGW-Kevin/DrM#3.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding, Place
from rlmem.rules.appended_steps import TRAINS, check_appends
from rlmem.rules.base import Rule
from rlmem.rules.memories import DATA, Memory, dotted, memories
from rlmem.rules.shapes import known, number
from rlmem.scripts import Script

_LIMITS = ("capacity", "dataset_size", "max_size", "buffer_size", "replay_size", "max_episodes", "limit")
_STORES = re.compile(r"replay|dataset|buffer|storage|load_episodes|memory", re.IGNORECASE)
_MANY_ROUNDS = 100
_LOADS = re.compile(r"_*(load|read|parse|init|setup|build|preload|from_)", re.IGNORECASE)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Containers that only grow, and stores that are told to have no limit."""
    said: set[Place] = set()
    for memory in memories(script):
        if memory.bounded:
            continue
        put = next((put for put in memory.puts if _again(script, memory, put)), None)
        if put is None:
            continue
        if memory.is_replay or (memory.sampled and (memory.kind == "dict" or DATA.search(memory.text))):
            said.add(script.place(put))
            yield rule.finding(
                f"{memory.text} is drawn from and added to, and nothing ever leaves it",
                place=script.place(put),
                remedy="give it a capacity: deque(maxlen=…), or remove the oldest when it is reached",
                fix=_bound(script, memory),
            )
        elif DATA.search(memory.text) and _aggregates(script, memory, put):
            said.add(script.place(put))
            yield rule.finding(
                f"{memory.text} grows in every round of the loop that trains on it",
                place=script.place(put),
                remedy="keep the newest rounds, or keep the data on disk and read what a batch needs",
            )
    yield from _told(rule, script)
    yield from (finding for finding in check_appends(rule, script) if finding.place not in said)


def _again(script: Script, memory: Memory, put: ast.AST) -> bool:
    """Whether a put happens again and again for as long as the container is used, not once to load something."""
    function = script.function_of(put)
    if function is not script.function_of(memory.made):
        return not _LOADS.match(getattr(function, "name", ""))
    loop = _outermost(script, put)
    if loop is None or loop in script.ancestors(memory.made):
        return False
    return not memory.draws or any(loop in script.ancestors(draw) for draw in memory.draws)


def _bound(script: Script, memory: Memory) -> Fix | None:
    if memory.kind != "deque" or not isinstance(memory.made, ast.Call) or memory.made.args or memory.made.keywords:
        return None
    edit = script.add_argument(memory.made, "maxlen=1_000_000")
    return Fix(title="bound the deque", edits=(edit,), safety="unsafe")


def _aggregates(script: Script, memory: Memory, put: ast.AST) -> bool:
    """Whether the loop that fills a container has no end in sight and trains on the whole of it."""
    loop = _outermost(script, put)
    if loop is None or not _is_long(script, loop) or loop in script.ancestors(memory.made):
        return False
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and node is not put:
            leaf = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if TRAINS.search(leaf) and any(dotted(argument) == memory.text for argument in node.args):
                return True
    return False


def _is_long(script: Script, loop: ast.AST) -> bool:
    """Whether a loop has no end in sight: ``while``, or a range of a hundred rounds or more."""
    if isinstance(loop, ast.While):
        return True
    counted = loop.iter if isinstance(loop, ast.For) else None
    if not isinstance(counted, ast.Call) or not isinstance(counted.func, ast.Name) or not counted.args:
        return False
    return counted.func.id in {"range", "trange"} and (number(script, counted.args[-1]) or 0) >= _MANY_ROUNDS


def _outermost(script: Script, node: ast.AST) -> ast.AST | None:
    around = [above for above in script.ancestors(node) if isinstance(above, (ast.For, ast.While))]
    inside = script.function_of(node)
    same = [loop for loop in around if script.function_of(loop) is inside]
    return same[-1] if same else None


def _told(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "add_argument":
            yield from _option(rule, script, call)
        if not _STORES.search(name):
            continue
        for keyword in call.keywords:
            if keyword.arg not in _LIMITS:
                continue
            value = known(script, keyword.value)
            if value is None or (keyword.arg == "dataset_size" and value == 0 and value is not False):
                yield rule.finding(
                    f"{name} is given {keyword.arg}={value}: no limit",
                    place=script.place(keyword),
                    remedy="give it a limit that fits the memory there is",
                )


def _option(rule: Rule, script: Script, call: ast.Call) -> Iterator[Finding]:
    first = call.args[0] if call.args else None
    default = script.argument(call, "default")
    if not isinstance(first, ast.Constant) or str(first.value).lstrip("-").replace("-", "_") != "dataset_size":
        return
    if default is not None and script.value(default) == 0:
        yield rule.finding(
            "dataset_size is 0 by default: the dataset has no limit",
            place=script.place(default),
            remedy="give it a limit that fits the memory there is",
        )
