"""The training in a script: the models it builds, and the environments with their workers, factories and wrappers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rlmem.scripts.names import Name
from rlmem.scripts.script import Script
from rlmem.scripts.values import UNKNOWN
from rlmem.scripts.walk import FUNCTIONS, Function

SB3 = ("stable_baselines3", "sb3_contrib", "sbx")
GYM = ("gymnasium", "gym")
OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG", "QRDQN", "TQC", "CrossQ")
ON_POLICY = ("PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO")
IMAGE_POLICIES = ("CnnPolicy", "CnnLstmPolicy")
#: Vector environments by their class, and how their members run.
_VECTORS = {
    "DummyVecEnv": "dummy",
    "SubprocVecEnv": "subproc",
    "SyncVectorEnv": "sync",
    "AsyncVectorEnv": "async",
    "SerialEnv": "sync",
    "ParallelEnv": "parallel",
}
#: Kinds whose members are processes of their own.
WORKERS = ("subproc", "async", "parallel")
#: A wrapper whose name cannot be read.
UNREAD = "?"
_DEEP = 12
#: More environments than this are a slip, or a joke.
_MOST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """An algorithm of SB3 or sb3-contrib, built in a script."""

    script: Script
    call: ast.Call
    algorithm: str
    learns: tuple[ast.Call, ...] = ()

    @property
    def off_policy(self) -> bool:
        """Whether it has a replay buffer."""
        return self.algorithm in OFF_POLICY

    @property
    def policy(self) -> Any:
        """The policy: its name, the name of a class, or ``UNKNOWN``."""
        given = self.script.argument(self.call, "policy", 0)
        if given is None:
            return UNKNOWN
        value = self.script.value(given)
        dotted = self.script.qualified(given) if value is UNKNOWN else None
        return Name(dotted).leaf if dotted else value

    @property
    def env(self) -> ast.expr | None:
        """The environment as it is given."""
        return self.script.argument(self.call, "env", 1)

    @property
    def environment(self) -> Environment | None:
        """The environment as far as it is known; a name given as text is made by the model itself."""
        given = self.env
        named = self.script.value(given)
        if isinstance(named, str):
            return Environment(call=self.call, kind="dummy", id=named, n_envs=1)
        return environment_of(self.script, given)

    def argument(self, name: str) -> ast.expr | None:
        """An argument of the constructor by its name."""
        return self.script.argument(self.call, name)

    def value(self, name: str) -> Any:
        """The value of an argument: ``None`` when it is not given, ``UNKNOWN`` when it cannot be known."""
        given = self.argument(name)
        if given is None:
            return UNKNOWN if self.script.has_unknown_arguments(self.call) else None
        return self.script.value(given)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Environment:
    """One construction of an environment, or of a vector of them.

    ``kind`` is single, dummy, subproc, sync, async or parallel; ``id`` the name it is registered under; ``factories`` the
    functions, lambdas and classes of the script that make its members; ``wrappers`` the names of what is around them,
    outermost first, and ``layers`` the calls, where they are written as calls.
    """

    call: ast.Call
    kind: str
    id: str | None = None
    n_envs: int | None = None
    factories: tuple[ast.AST, ...] = ()
    wrappers: tuple[str, ...] = ()
    layers: tuple[ast.Call, ...] = ()

    @property
    def has_workers(self) -> bool:
        """Whether its members are processes of their own."""
        return self.kind in WORKERS


def algorithm_of(script: Script, call: ast.Call) -> str | None:
    """The algorithm a call builds: SB3's own class, or a class of the script derived from one."""
    name = script.called(call)
    if name is None or not name.leaf[:1].isupper():
        return None
    known = (*OFF_POLICY, *ON_POLICY)
    if name.root in SB3 and name.leaf in known:
        return name.leaf
    if name.root == "":
        for node in script.classes:
            if node.name == name.leaf:
                bases = [Name(dotted) for dotted in script.class_bases(node)]
                return next((base.leaf for base in bases if base.root in SB3 and base.leaf in known), None)
    return None


@lru_cache(maxsize=8)
def models(script: Script) -> tuple[Model, ...]:
    """Every model that is built, with the ``learn`` calls on it."""
    built = [(call, algorithm) for call in script.calls if (algorithm := algorithm_of(script, call))]
    if not built:
        return ()
    learns: dict[ast.AST, list[ast.Call]] = {}
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "learn":
            learns.setdefault(script.definition(call.func.value), []).append(call)
    return tuple(
        Model(script=script, call=call, algorithm=algorithm, learns=tuple(learns.get(call, ())))
        for call, algorithm in built
    )


@lru_cache(maxsize=8)
def environments(script: Script) -> tuple[Environment, ...]:
    """Every construction of an environment; wrappers around one are not constructions of their own."""
    return tuple(found for call in script.calls if (found := _constructed(script, call, 0)) is not None)


def environment_of(script: Script, expr: ast.expr | None, depth: int = 0) -> Environment | None:
    """The environment an expression names, through wrappers."""
    if not isinstance(expr, (ast.Call, ast.Name, ast.Attribute, ast.Subscript)) or depth > _DEEP:
        return None
    if isinstance(expr, ast.Call) and (made := _constructed(script, expr, depth)):
        return made
    found = script.definition(expr)
    if isinstance(found, ast.Name):
        return _from_branches(script, found, depth)
    if not isinstance(found, ast.Call):
        return None
    made = _constructed(script, found, depth)
    return made or _wrapped(script, found, depth)


def _from_branches(script: Script, name: ast.Name, depth: int) -> Environment | None:
    """The environment of a name that several branches set, where they differ in nothing that matters here."""
    made = [environment_of(script, value, depth + 1) for value in script.meaning.candidates(name)]
    known = [found for found in made if found is not None]
    if not known or len(known) < len(made):
        return None
    same = {(found.id, found.kind, found.n_envs, found.wrappers) for found in known}
    return known[0] if len(same) == 1 else None


def _wrapped(script: Script, call: ast.Call, depth: int) -> Environment | None:
    """A wrapper: a class that gets an environment first."""
    name = script.called(call)
    inner = next((script.argument(call, word, 0) for word in ("env", "venv") if script.argument(call, word, 0)), None)
    if name is None or inner is None or not (name.leaf[:1].isupper() or "wrap" in name.leaf):
        return None
    found = environment_of(script, inner, depth + 1)
    if found is None:
        return None
    return replace(found, wrappers=(name.leaf, *found.wrappers), layers=(call, *found.layers))


def _constructed(script: Script, call: ast.Call, depth: int) -> Environment | None:
    name = script.called(call)
    if name is None:
        return None
    if name.leaf == "make" and name.root in GYM and name.owner != "vector":
        return Environment(call=call, kind="single", id=_text(script, script.argument(call, "id", 0)), n_envs=1)
    if name.leaf in ("make_vec", "make") and name.root in GYM:
        mode = script.value(script.argument(call, "vectorization_mode", 2))
        kind = "sync" if mode in (None, "sync") or (name.leaf == "make_vec" and mode is UNKNOWN) else "async"
        count = _count(script, script.argument(call, "num_envs", 1), 1)
        return Environment(call=call, kind=kind, id=_text(script, script.argument(call, "id", 0)), n_envs=count)
    if name.leaf in ("make_vec_env", "make_atari_env") and name.root in SB3:
        return _made(script, call, name, depth)
    if name.leaf in _VECTORS and name.root in (*SB3, *GYM, "torchrl"):
        return _vector(script, call, _VECTORS[name.leaf], depth)
    if name.root == "":
        for node in script.classes:
            if node.name == name.leaf and script.is_env(node):
                return Environment(call=call, kind="single", n_envs=1, factories=(node,))
        return None
    elsewhere = name.leaf.endswith("Env") and name.leaf[:1].isupper() and name.leaf not in _VECTORS
    if not elsewhere and not script.is_env_abroad(name):
        return None
    if call.args and environment_of(script, call.args[0], depth + 1) is not None:
        return None  # SB3's ClipRewardEnv(env) is a wrapper
    return Environment(call=call, kind="single", n_envs=1)


def _made(script: Script, call: ast.Call, name: Name, depth: int) -> Environment:
    """``make_vec_env`` and ``make_atari_env``."""
    cls = script.argument(call, "vec_env_cls", 6)
    dotted = script.qualified(cls) if cls is not None else None
    kind = _VECTORS.get(Name(dotted).leaf, "dummy") if dotted else "dummy"
    wrapper = script.argument(call, "wrapper_class", 5)
    wrappers = ("AtariWrapper",) if name.leaf == "make_atari_env" else ()
    if wrapper is not None and not (isinstance(wrapper, ast.Constant) and wrapper.value is None):
        wrappers = (*wrappers, *_named_wrappers(script, wrapper))
    given = script.argument(call, "env_id", 0)
    inner = _from_factory(script, given, call, depth) if given is not None else None
    return Environment(
        call=call,
        kind=kind,
        id=_text(script, given) or (inner.id if inner else None),
        n_envs=_count(script, script.argument(call, "n_envs", 1), 1),
        factories=inner.factories if inner else (),
        wrappers=(*wrappers, *(inner.wrappers if inner else ())),
        layers=inner.layers if inner else (),
    )


def _named_wrappers(script: Script, wrapper: ast.expr) -> tuple[str, ...]:
    """The wrappers that ``wrapper_class`` puts around an environment, outermost first; ``UNREAD`` for what is not read."""
    if not isinstance(wrapper, ast.Lambda):
        dotted = script.qualified(wrapper)
        return (Name(dotted).leaf if dotted else UNREAD,)
    leaves: list[str] = []
    inside: ast.expr = wrapper.body
    while isinstance(inside, ast.Call):
        name, inner = script.called(inside), script.argument(inside, "env", 0)
        if name is None or inner is None:
            return (UNREAD,)
        leaves.append(name.leaf)
        inside = inner
    given = [argument.arg for argument in wrapper.args.args]
    return tuple(leaves) if isinstance(inside, ast.Name) and inside.id in given else (UNREAD,)


def _vector(script: Script, call: ast.Call, kind: str, depth: int) -> Environment:
    """A vector class around a list of factories (TorchRL: a count and a factory)."""
    if kind == "parallel" or (call.args and isinstance(script.value(call.args[0]), int)):
        count = _count(script, script.argument(call, "num_workers", 0), None)
        made = script.argument(call, "create_env_fn", 1)
        elements = [made] if made is not None else []
    else:
        given = script.argument(call, "env_fns", 0)
        elements, count = _elements(script, given) if given is not None else ([], None)
    inner = next((found for item in elements if (found := _from_factory(script, item, call, depth))), None)
    return Environment(
        call=call,
        kind=kind,
        id=inner.id if inner else None,
        n_envs=count,
        factories=inner.factories if inner else (),
        wrappers=inner.wrappers if inner else (),
        layers=inner.layers if inner else (),
    )


def _elements(script: Script, expr: ast.expr) -> tuple[list[ast.expr], int | None]:
    """The factories of a list, and how many there are."""
    found = script.definition(expr)
    if isinstance(found, ast.List):
        return list(found.elts), len(found.elts)
    if isinstance(found, ast.ListComp):
        return [found.elt], _repeated(script, found)
    if isinstance(found, ast.BinOp) and isinstance(found.op, ast.Mult):
        for items, times in ((found.left, found.right), (found.right, found.left)):
            if isinstance(items, ast.List):
                count = script.value(times)
                return list(items.elts), count * len(items.elts) if isinstance(count, int) else None
    return [], None


def _repeated(script: Script, comprehension: ast.ListComp) -> int | None:
    if len(comprehension.generators) != 1 or comprehension.generators[0].ifs:
        return None
    over = comprehension.generators[0].iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
        bounds = [script.value(bound) for bound in over.args]
        if bounds and all(isinstance(bound, int) and abs(bound) < _MOST for bound in bounds):
            return len(range(*bounds))
    known = script.value(over)
    return len(known) if isinstance(known, (list, tuple)) else None


def _from_factory(script: Script, expr: ast.expr, call: ast.Call, depth: int) -> Environment | None:
    """The environment that a factory makes for a vector, and the factory itself."""
    if depth > _DEEP:
        return None
    function = _function(script, expr)
    if function is not None:
        given = script.returned(function)
        made = environment_of(script, given, depth + 1)
        if (
            made is None
            and given is not None
            and (inner := _function(script, given)) is not None
            and inner is not function
        ):
            made = _from_factory(script, given, call, depth + 1)
        base = made or Environment(call=call, kind="single")
        return replace(base, factories=(function, *base.factories))
    dotted = script.qualified(expr)
    for node in script.classes:
        if dotted == node.name:
            return Environment(call=call, kind="single", factories=(node,))
    return None


def _function(script: Script, expr: ast.expr) -> Function | None:
    """The function behind a factory: a lambda, a name, a call of a function that gives back a function."""
    if isinstance(expr, ast.Lambda):
        return expr
    if isinstance(expr, ast.Call):
        name = script.called(expr)
        if name is not None and name.leaf == "partial" and expr.args:
            return _function(script, expr.args[0])
        return script.function_called(expr)
    if isinstance(expr, ast.Name):
        return next((node for node in _bound(script, expr) if isinstance(node, FUNCTIONS)), None)
    return None


def _bound(script: Script, expr: ast.Name) -> Iterator[ast.AST]:
    binding = script.meaning.binding(expr)
    if binding is not None:
        yield binding.node
        if isinstance(binding.value, ast.Lambda):
            yield binding.value


def _text(script: Script, expr: ast.expr | None) -> str | None:
    value = script.value(expr)
    return value if isinstance(value, str) else None


def _count(script: Script, expr: ast.expr | None, default: int | None) -> int | None:
    if expr is None:
        return default
    value = script.value(expr)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
