"""The largest replay buffer that fits an environment and an algorithm: ``rlmem.max_buffer_size(env, SAC, ram="16GB")``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from rlmem import agent
from rlmem.agent.describe import space
from rlmem.agent.environment import read, spaces_of
from rlmem.agent.protocol import SpacesAnswer
from rlmem.budget import make_budget
from rlmem.capacity import largest
from rlmem.core.plan import Plan
from rlmem.core.spec import RunSpec
from rlmem.documents.max_buffer import MaxBufferDocument
from rlmem.errors import AnalysisError, RlmemError, SpecError, UsageError, did_you_mean
from rlmem.frameworks import find_adapter
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.process.interpreters import find_python
from rlmem.runner.child import run_child
from rlmem.sources.overrides import parse_set
from rlmem.trace.describe import ALGORITHMS
from rlmem.units import format_size

#: Of the memory given, this share stays free: other programs, a longer log, what a plan does not know of an environment.
MARGIN = 0.1
#: Seconds in which an environment has to be made in another interpreter.
TIME_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxBufferRequest:
    """An environment and an algorithm whose largest replay buffer is asked for.

    Attributes:
        env: a Gymnasium id, ``package:ID``, or ``package.module:callable``.
        algorithm: an algorithm of SB3 with a replay buffer, such as ``sac``.
        ram: memory for the run, such as ``16GB``; by default what may really be used here.
        n_envs: environments stepped together; a vector environment says it itself.
        margin: the share of the memory that stays free.
        python: the interpreter that has the environment; looked for when ``None``.
        sets: further fields of a run file, as ``path=value``.
    """

    env: str
    algorithm: str
    ram: str | None = None
    n_envs: int = 1
    margin: float = MARGIN
    python: str | None = None
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The largest buffer, the plan it was found with, and the limit it had to stay under."""

    buffer_size: int
    plan: Plan
    ram_bytes: int
    ram_source: str
    limit_bytes: int


def max_buffer(request: MaxBufferRequest) -> MaxBufferDocument:
    """Find the largest replay buffer with which training fits, and the largest of rlmem's own.

    Args:
        request: the environment, the algorithm and the memory there is.

    Returns:
        The size, with the peak of its plan and the limit it stays under.

    Raises:
        UsageError: the algorithm keeps no replay buffer, or a setting is none.
        AnalysisError: the environment cannot be made, or not even a small buffer fits.
    """
    python, _ = find_python(None, Path.cwd(), request.python, os.environ)
    spaces = read_environment(request.env, python)
    values: dict[str, Any] = {"n_envs": spaces["n_envs"] if spaces["n_envs"] > 1 else request.n_envs}
    if spaces.get("sb3"):
        values["framework.version"] = spaces["sb3"]
    values |= dict(parse_set(item) for item in request.sets)
    try:
        spec = describe(spaces, algorithm_name(request.algorithm), values)
    except SpecError as error:
        raise error.located(request.env) from None
    plain = largest_buffer(spec, request.ram, margin=request.margin, python=python)
    compact = _compact(spec, plain, request, python)
    top = plain.plan.top("ram")
    return MaxBufferDocument(
        env=request.env,
        algorithm=spec.text("algorithm"),
        n_envs=plain.plan.spec.count("n_envs"),
        ram_bytes=plain.ram_bytes,
        margin=request.margin,
        limit_bytes=plain.limit_bytes,
        buffer_size=plain.buffer_size,
        expected_bytes=top.expected_bytes if top else None,
        high_bytes=top.high_bytes if top else None,
        compact_buffer_size=compact.buffer_size if compact else None,
        spec=plain.plan.spec.to_dict(),
        limit_source=plain.ram_source,
    )


def _compact(spec: RunSpec, plain: Largest, request: MaxBufferRequest, python: str) -> Largest | None:
    """Return the same with rlmem's own buffer, where the run has none yet and more fits."""
    if "storage" in spec:
        return None
    changed = spec.having({"storage": "compact"}, "compared")
    try:
        compact = largest_buffer(changed, request.ram, margin=request.margin, python=python)
    except RlmemError:
        return None
    # numba takes more than small observations leave
    return compact if compact.buffer_size > plain.buffer_size else None


def max_buffer_size(
    env: Any, algo: Any, ram: str | int | None = None, *, n_envs: int = 1, margin: float = MARGIN, **settings: Any
) -> int:
    """The largest ``buffer_size`` with which training fits into RAM, the upper bound of its plan included.

    :param env: a Gymnasium environment, an SB3 or Gymnasium vector environment, or the id of one.
    :param algo: ``"sac"``, ``SAC`` or a class derived from it.
    :param ram: memory for the whole process, such as ``"16GB"``; by default what may really be used here.
    :param n_envs: environments stepped together; a vector environment says it itself.
    :param margin: the share of ``ram`` that stays free.
    :param settings: further fields of a run file, such as ``batch_size=512``, ``storage="compact"`` or, with two
        underscores for a dot, ``network__net_arch=[400, 300]``.
    """
    found = read(env, space) if isinstance(env, str) else spaces_of(env, space)
    values = {"n_envs": found["n_envs"] if found["n_envs"] > 1 else n_envs}
    values |= {name.replace("__", "."): value for name, value in settings.items()}
    with suppress(metadata.PackageNotFoundError):
        values.setdefault("framework.version", metadata.version("stable-baselines3"))
    described = describe(found, algorithm_name(algo), values)
    return largest_buffer(
        described, ram if ram is None or isinstance(ram, str) else f"{ram}B", margin=margin
    ).buffer_size


def algorithm_name(algo: Any) -> str:
    """An algorithm as a run file has it, from its name or its class."""
    if isinstance(algo, str):
        return algo.strip().lower().replace("-", "_")
    bases = [cls.__name__ for cls in getattr(algo, "__mro__", ())]
    found = next((ALGORITHMS[name] for name in bases if name in ALGORITHMS), None)
    if found is None:
        raise UsageError(
            f"{getattr(algo, '__name__', algo)!r} is not an algorithm rlmem knows; known: {', '.join(ALGORITHMS)}"
        )
    return found


def describe(found: SpacesAnswer, algorithm: str, values: Mapping[str, Any]) -> RunSpec:
    """The run: an environment's spaces, an algorithm of SB3, and what else was asked for."""
    base = {"framework.name": "sb3", "algorithm": algorithm}
    spaces = {"observation": found["observation"], "action": found["action"]}
    spec = RunSpec().having(base, "asked for").having(spaces, "the environment's spaces").having(values, "asked for")
    adapter = find_adapter(spec)
    if spec.text("algorithm") in adapter.on_policy:
        off = [name for name in adapter.algorithms if name not in adapter.on_policy]
        hint = did_you_mean(algorithm, off)
        raise UsageError(f"{algorithm} keeps no replay buffer{hint}; these do: {', '.join(off)}")
    for refusal in adapter.refusals(adapter.resolve(spec)):
        if refusal.severity == "error":
            raise SpecError(refusal.location, f"{refusal.reason}; {refusal.remedy}")
    return spec


def largest_buffer(spec: RunSpec, ram: str | None, *, margin: float = MARGIN, python: str | None = None) -> Largest:
    """The largest buffer of a described run, and its plan."""
    if not 0 <= margin < 1:
        raise UsageError(f"margin {margin:g} is not a share that stays free: at least 0 and below 1, such as 0.1")
    budget = make_budget(ram=ram)
    if budget.ram_bytes is None:
        raise AnalysisError("how much memory there is cannot be read here; say it, such as ram='16GB'")
    limit = round(budget.ram_bytes * (1 - margin))
    limits = replace(budget, ram_bytes=limit, vram_bytes=None, unified=False)
    subject = ClosedForm(read_calibration(python)).subject(spec, limits)
    found = largest(spec, "buffer_size", subject.plan_of)
    n_envs = found.plan.spec.count("n_envs") if found.plan else 1
    size = (found.value or 0) // n_envs * n_envs
    if found.plan is None or size < 1:
        if found.unlimited:
            raise AnalysisError("no buffer is too large for this run: its observations take no memory")
        need = found.plan.top("ram") if found.plan else None
        least = f" ({format_size(need.expected_bytes)} as described)" if need else ""
        raise AnalysisError(
            f"not even a small buffer fits into {format_size(limit)}: the rest of the run takes more{least}"
        )
    return Largest(
        buffer_size=size, plan=found.plan, ram_bytes=budget.ram_bytes, ram_source=budget.ram_source, limit_bytes=limit
    )


def read_environment(name: str, python: str) -> SpacesAnswer:
    """Return the spaces of an environment, asked of another interpreter."""
    program = Path(agent.__file__).parent / "environment.py"
    outcome = run_child([python, str(program), name], env=dict(os.environ), time_limit_s=TIME_S)
    lines = outcome.stdout.strip().splitlines()
    try:
        found: SpacesAnswer = json.loads(lines[-1]) if lines else {}
    except ValueError:
        found = {}
    if "problem" in found:
        raise AnalysisError(
            f"{name}: {found['problem']}; it was made with {python}, --python PATH names another interpreter"
        )
    if not found:
        raise AnalysisError(f"{name}: {python} could not make it: {outcome.describe()}")
    return found
