"""What a sample of a run's own observations says: how small they get in rlmem's stores, and of what they are made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlmem import agent
from rlmem.agent.protocol import DescribedFacts, Facts, Sized, SizedKey
from rlmem.core.spec import RunSpec
from rlmem.errors import RlmemError
from rlmem.frameworks import resolve
from rlmem.frameworks.sb3.storage import replay_arrays, rollout_arrays
from rlmem.model.compact import per_transition
from rlmem.model.constants import Constants
from rlmem.runner.child import run_child

#: Compiling takes about 25 s where nothing is in numba's cache yet; afterwards two or three are enough.
TIME_S = 75.0


def size_sample(folder: Path, python: str, *, env: Mapping[str, str]) -> Sized:
    """The sizes found by a process of the target's interpreter, or what it lacks."""
    program = Path(agent.__file__).parent / "sizing.py"
    outcome = run_child([python, str(program), str(folder)], env=env, time_limit_s=TIME_S)
    lines = outcome.stdout.strip().splitlines()
    try:
        found: Sized = json.loads(lines[-1]) if lines else {}
    except ValueError:
        found = {}
    return found if outcome.status == "ok" and found else {"problem": outcome.describe()}


def found_in(facts: DescribedFacts) -> dict[str, Any]:
    """Fields of a description that only the data can fill: stacks, keys that never change, what a codec makes of them."""
    sized = facts.get("sized") or {}
    keys: Mapping[str, SizedKey] = sized.get("auto", {})
    coded = {name: [key["low"], key["expected"], key["high"]] for name, key in keys.items() if not key["constant"]}
    values: dict[str, Any] = {
        "stacked": {name: key["stack"] for name, key in keys.items() if key["stack"] > 1},
        "constant_keys": [name for name, key in keys.items() if key["constant"]],
        "coded_bytes": coded,
    }
    return {name: value for name, value in values.items() if value}


def origin(facts: DescribedFacts) -> str:
    """Where those fields come from."""
    sized = facts.get("sized") or {}
    return f"a sample of {sized.get('transitions', 0):,} observations taken in the dry run"


def notes(facts: Facts, spec: RunSpec) -> tuple[str, ...]:
    """Bytes of a transition as it is stored now and in a compact buffer; or why that is not known."""
    sized = facts.get("sized")
    if not sized:
        return ()
    if "keys" not in sized:
        return (_unknown(facts, sized.get("missing"), sized.get("problem")),)
    try:
        return (_sentence(sized, resolve(spec)),)
    except RlmemError:
        return ()


def _unknown(facts: Facts, missing: str | None, problem: str | None) -> str:
    interpreter = facts.get("python")
    python = interpreter["executable"] if interpreter else "its interpreter"
    why = f"{python} has no {missing} (pip install 'rlmem[buffers]' there)" if missing else problem
    return f"what a compact buffer with a codec would take is not known: {why}"


def _sentence(sized: Sized, spec: RunSpec) -> str:
    now = _bytes(spec)
    plain = _bytes(spec.having({"storage": "compact", "codec": None}, "sample"))
    auto = _bytes(spec.having({"storage": "compact", "codec": "auto"}, "sample"))
    keys = ", ".join(f"{name} {_how(key)}" for name, key in sized["auto"].items())
    return (
        f"bytes a transition, from {sized['transitions']:,} real ones: {now[1]:,} as it is stored, {plain[1]:,} in a compact "
        f'buffer, {auto[1]:,} ({auto[0]:,} to {auto[2]:,}) with codec="auto" ({keys})'
    )


def _how(key: SizedKey) -> str:
    if key["constant"]:
        return "never changes"
    stack = f"a stack of {key['stack']}, " if key["stack"] > 1 else ""
    return f"{stack}{'no codec is worth it' if key['codec'] == 'none' else key['codec']}"


def _bytes(spec: RunSpec) -> tuple[int, int, int]:
    if "buffer_size" in spec:
        return per_transition(replay_arrays(spec, Constants()), spec.q("buffer_size"))
    return per_transition(rollout_arrays(spec), spec.q("n_steps") * spec.q("n_envs"))
