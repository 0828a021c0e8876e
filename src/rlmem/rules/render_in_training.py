"""Environments that only train are built to be rendered.

With a ``render_mode`` an environment may create a window or a GL context when it is built or at its first frame: 0.1 to 1 GB of
RAM or VRAM for each, in each worker. ``"human"`` draws every step as well. Some environments make nothing before ``render()``
is called, and then it only costs when somebody does.

The rule fires for ``render_mode="human"`` or ``"rgb_array"`` in an environment that a model learns in, or in the
factory of workers of a script that trains. It is silent when the script records videos, calls ``render()``, or renders
its observations. One single environment with frames in memory is mentioned for information only; ``"human"`` where a
model learns for 50,000 steps or more is a warning.

Example::

    env = make_vec_env("Hopper-v5", n_envs=8, vec_env_cls=SubprocVecEnv, env_kwargs=dict(render_mode="rgb_array"))
    PPO("MlpPolicy", env).learn(1_000_000)

Use instead: no ``render_mode`` for training; another environment for watching or recording.

Fix: unsafe, the argument is removed, where what gets it is known to do without.

Reference: huggingface/lerobot#3274; bulletphysics/bullet3#3285.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlmem.core.edits import Edit, Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.observed import env_class
from rlmem.rules.syntax import method_calls, trains
from rlmem.rules.workers import with_workers
from rlmem.scripts import Script
from rlmem.scripts.training import GYM, SB3, Environment, Model, environment_of, models
from rlmem.sources.environments import find_environment

_MODES = {"human", "rgb_array", "depth_array", "rgb_array_list"}
#: A training of fewer steps may be there to be watched.
LONG_STEPS = 50_000
#: Signs that somebody wants the frames.
_WANTED = re.compile(
    r"RecordVideo|VecVideoRecorder|VideoRecorder|Video\w*Callback|RenderObservation|PixelObservation|capture_video|"
    r"FromPixels|HumanRendering|imageio|\.mp4|\.gif|ToyText|RenderCollection|save_video|log_video|wandb\.Video|monitor_gym|minigrid|MiniGrid"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mode:
    """A render mode as it is written, and the edit that takes it away."""

    node: ast.expr
    text: str
    removal: Edit | None = None


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Render modes in what a model learns in, and in the factories of workers."""
    if "render_mode" not in script.text or not trains(script) or _WANTED.search(script.text):
        return
    if any(True for _ in method_calls(script, "render", "get_images")):
        return
    trained: list[tuple[Environment, bool]] = []
    for model in models(script):
        if model.learns and (found := environment_of(script, model.env)) is not None:
            trained.append((found, not _is_short(script, model)))
    seen: set[ast.AST] = set()
    for environment, long in (*trained, *((each, False) for each in _of_workers(script))):
        for call in _built(environment):
            mode = _mode(script, call, environment)
            if mode is not None and mode.node not in seen:
                seen.add(mode.node)
                yield _finding(rule, script, environment, mode, drawn=long and mode.text == "human")


def _is_short(script: Script, model: Model) -> bool:
    """Whether a model is known to learn for a few thousand steps only: somebody looks on."""
    steps = [script.value(script.argument(learn, "total_timesteps", 0)) for learn in model.learns]
    return all(isinstance(count, (int, float)) and count < LONG_STEPS for count in steps)


def _of_workers(script: Script) -> Iterator[Environment]:
    """Vector environments with workers that are not for evaluation by their name."""
    for environment in with_workers(script):
        statement = ast.unparse(script.statement_of(environment.call)).split("=", maxsplit=1)[0]
        if not re.search(r"eval|test|val|play|demo|record|video", statement, re.IGNORECASE):
            yield environment


def _built(environment: Environment) -> Iterator[ast.Call]:
    """The calls that build the members: the construction itself, and everything in its factories."""
    yield environment.call
    for factory in environment.factories:
        if not isinstance(factory, ast.ClassDef):
            yield from (node for node in ast.walk(factory) if isinstance(node, ast.Call))


def _mode(script: Script, call: ast.Call, environment: Environment) -> _Mode | None:
    """A render mode that is written as a keyword, or in ``env_kwargs``."""
    given = script.argument(call, "env_kwargs")
    options = script.definition(given) if given is not None else None
    if isinstance(options, ast.Dict):
        for key, item in zip(options.keys, options.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "render_mode" and (text := _known(script, item)):
                return _Mode(node=item, text=text)
    for holder in (call, options):
        if not isinstance(holder, ast.Call):
            continue
        for keyword in holder.keywords:
            if keyword.arg == "render_mode" and (text := _known(script, keyword.value)):
                removable = _may_go(script, call, environment)
                edit = script.remove_argument(holder, keyword) if removable else None
                return _Mode(node=keyword.value, text=text, removal=edit)
    return None


def _may_go(script: Script, call: ast.Call, environment: Environment) -> bool:
    """Whether what gets the argument is known to do without: a public environment, or a class of the script by its default."""
    name = script.called(call)
    node = env_class(script, environment)
    if node is None:
        return name is not None and name.root in (*GYM, *SB3) and find_environment(environment.id or "") is not None
    init = script.methods(node).get("__init__")
    if init is None:
        return False
    optional = init.args.args[len(init.args.args) - len(init.args.defaults) :]
    optional += [arg for arg, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True) if default]
    return any(argument.arg == "render_mode" for argument in optional)


def _known(script: Script, expr: ast.expr) -> str | None:
    value = script.value(expr)
    return value if isinstance(value, str) and value in _MODES else None


def _finding(rule: Rule, script: Script, environment: Environment, mode: _Mode, *, drawn: bool) -> Finding:
    several = environment.has_workers or (environment.n_envs or 0) > 1
    count = (
        f"each of the {environment.n_envs} training environments"
        if environment.n_envs
        else "every training environment"
    )
    fix = Fix(title="no render_mode", edits=(mode.removal,), safety="unsafe") if mode.removal else None
    return rule.finding(
        f'{count if several else "the training environment"} is built with render_mode="{mode.text}"',
        severity="warning" if drawn or (several and (mode.text == "human" or environment.has_workers)) else "info",
        place=script.place(mode.node),
        costs_per="environment",
        remedy="no render_mode for training; another environment for watching or recording",
        fix=fix,
    )
