"""Data that was loaded once is copied into every worker.

The factory of an environment that mentions a DataFrame or an array carries it along: to start a worker of ``SubprocVecEnv``
the factory is pickled, data and all, and every worker unpickles a copy of its own. Ten workers hold the data eleven times.

The rule follows what ``read_csv``, ``np.load``, ``pickle.load``, ``torch.load``, ``load_dataset`` and the like give, through slices and
methods, to a lambda, a function, ``functools.partial`` or ``env_kwargs`` of a vector environment with workers, and to ``.remote(…)``
of Ray in a loop. (``AsyncVectorEnv`` forks on Linux and shares the pages until they are written: for information only.)

Example::

    prices = pd.read_csv("prices.csv")
    env = SubprocVecEnv([lambda: TradingEnv(prices) for _ in range(8)])

Use instead: give workers the path, and open it there with ``np.load(path, mmap_mode="r")`` or Arrow, which all of them share;
``ray.put`` once for Ray; or ``DummyVecEnv``.

Fix: none.

Reference: hill-a/stable-baselines#455; DLR-RM/stable-baselines3#1990; ray-project/ray#3777.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import imports_any, leaf, method_calls, receiver
from rlmem.rules.workers import how_many, with_workers
from rlmem.scripts import Script
from rlmem.scripts.training import Environment

_READERS = {
    "read_csv", "read_parquet", "read_pickle", "read_feather", "read_hdf", "read_excel", "read_json", "load", "loadtxt",
    "genfromtxt", "load_dataset", "load_from_disk", "imread", "read_table", "loadmat",
}  # fmt: skip
_LIBRARIES = (
    "pandas",
    "numpy",
    "pickle",
    "torch",
    "datasets",
    "joblib",
    "polars",
    "scipy",
    "cloudpickle",
    "h5py",
    "minari",
)
#: What of a table is a number or a name rather than the table.
_SMALL = {
    "shape", "columns", "mean", "sum", "min", "max", "std", "item", "nunique", "unique", "dtypes", "size", "ndim", "keys",
    "len", "count", "median", "state_dict", "describe", "any", "all",
}  # fmt: skip


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Loaded data that the factories of workers mention, or that goes to Ray again and again."""
    vectors = with_workers(script)
    if not vectors and not imports_any(script, "ray"):
        return
    for environment in vectors:
        yield from _captured(rule, script, environment)
    for call in method_calls(script, "remote") if imports_any(script, "ray") else ():
        for given in (*call.args, *(item.value for item in call.keywords)):
            if script.loop_of(call) is not None and isinstance(given, ast.Name) and _is_data(script, given):
                yield rule.finding(
                    f"{given.id} goes into the object store again for every .remote() of the loop",
                    place=script.place(given),
                    remedy=f"reference = ray.put({given.id}) before the loop, and .remote(reference)",
                )


def _captured(rule: Rule, script: Script, environment: Environment) -> Iterator[Finding]:
    seen: set[str] = set()
    for name in _mentions(script, environment):
        text = ast.unparse(name)
        if text in seen or not _is_data(script, name):
            continue
        seen.add(text)
        few = environment.n_envs is not None and environment.n_envs < 2
        forked = environment.kind != "subproc"
        yield rule.finding(
            f"{text} is copied into every one of the {how_many(environment)}",
            severity="info" if few or forked else "warning",
            place=script.place(name),
            costs_per="worker",
            remedy="give workers the path and open it there as a memory map, or use DummyVecEnv",
        )


def _mentions(script: Script, environment: Environment) -> Iterator[ast.Name | ast.Attribute]:
    """Every variable that a factory uses and does not make itself, and every argument the vector is built with."""
    parts: list[ast.AST] = [environment.call]
    given = script.argument(environment.call, "env_fns", 0)
    parts += [script.definition(given)] if given is not None else []
    options = script.argument(environment.call, "env_kwargs")
    parts += [script.definition(options)] if options is not None else []
    parts += [factory for factory in environment.factories if not isinstance(factory, ast.ClassDef)]
    for part in parts:
        for node in ast.walk(part):
            variable = isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_self(node))
            if isinstance(node, (ast.Name, ast.Attribute)) and variable and not _own(script, node, part):
                yield node


def _own(script: Script, name: ast.Name | ast.Attribute, part: ast.AST) -> bool:
    """Whether a variable is made inside the factory (every worker loads it, nothing is sent), or is its parameter.

    What a parameter gets is an argument of the vector's construction, and found there.
    """
    if not isinstance(name.ctx, ast.Load):
        return True
    lookup = script.meaning.lookup(name.id, name) if isinstance(name, ast.Name) else None
    if lookup is not None and any(binding.kind == "parameter" for binding in lookup[1]):
        return True
    found = script.definition(name)
    return found is not name and part is not found and any(above is part for above in script.ancestors(found))


def _is_data(script: Script, expr: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is what a reader gave, or a part of it that is data as well."""
    if isinstance(expr, ast.Call):
        name = script.called(expr)
        if name is not None and name.leaf in _READERS and name.root in _LIBRARIES:
            return not _mapped(script, expr)
        if isinstance(expr.func, ast.Attribute) and leaf(expr) not in _SMALL:
            owner = receiver(expr)
            if owner is not None and script.qualified(owner) is None:
                return _is_data(script, owner, seen)
        if leaf(expr) in {"array", "asarray", "concat", "DataFrame", "train_test_split", "astype"} and expr.args:
            return _is_data(script, expr.args[0], seen)
        function = script.function_called(expr)
        back = script.returned(function) if function is not None and function.name not in seen else None
        return back is not None and function is not None and _is_data(script, back, seen | {function.name})
    if isinstance(expr, ast.Attribute):
        if _is_self(expr):
            found = script.definition(expr)
            return found is not expr and _is_data(script, found, seen)
        return expr.attr not in _SMALL and _is_data(script, expr.value, seen)
    if isinstance(expr, ast.Subscript):
        plain = isinstance(expr.slice, ast.Constant) and isinstance(expr.slice.value, int)
        return not plain and _is_data(script, expr.value, seen)
    if isinstance(expr, ast.Name) and expr.id not in seen:
        return any(_is_data(script, value, seen | {expr.id}) for value in _values(script, expr))
    return False


def _values(script: Script, name: ast.Name) -> list[ast.expr]:
    """What a variable is given: its only definition, or each of several."""
    found = script.definition(name)
    if found is not name:
        return [found]
    lookup = script.meaning.lookup(name.id, name)
    bindings = lookup[1] if lookup is not None else []
    return [binding.value for binding in bindings if binding.kind in ("assign", "with") and binding.value is not None]


def _mapped(script: Script, call: ast.Call) -> bool:
    """``np.load(path, mmap_mode="r")`` maps the file: workers share it."""
    given = script.argument(call, "mmap_mode", 1)
    return given is not None and script.value(given) is not None


def _is_self(expr: ast.Attribute) -> bool:
    return isinstance(expr.value, ast.Name) and expr.value.id == "self"
