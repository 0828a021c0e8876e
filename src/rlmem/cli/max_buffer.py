"""``rlmem max-buffer``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, in_typed_unit, output_options, read_share, set_option
from rlmem.errors import SpecError, UsageError

if TYPE_CHECKING:
    from rlmem.app.max_buffer import Largest
    from rlmem.report.view import View
    from rlmem.spec import RunSpec

MAX_BUFFER_SCHEMA = "rlmem.max-buffer/1"


@click.command("max-buffer")
@click.argument("env")
@click.option("--algo", metavar="NAME", help="An algorithm with a replay buffer: sac, td3, dqn, qrdqn, …  [required]")
@click.option(
    "--ram",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory for the run, such as 16GB. Default: the limit of this process's cgroup, else the machine's memory.",
)
@click.option("--n-envs", type=click.IntRange(1), default=1, show_default=True, help="Environments stepped together.")
@click.option(
    "--margin", default="10%", show_default=True, metavar="SHARE", help="What stays free, such as 10% or 0.1."
)
@click.option(
    "--python", metavar="PATH", shell_complete=completion.files, help="The interpreter that has the environment."
)
@set_option
@output_options
def command(
    env: str,
    algo: str | None,
    ram: str | None,
    n_envs: int,
    margin: str,
    python: str | None,
    sets: tuple[str, ...],
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """The largest replay buffer that fits an environment and an algorithm of Stable-Baselines3.

    ENV is a Gymnasium id, package:ID for one that a package registers, or package.module:callable for what makes one. It is
    made once, in a process of its own, to read its spaces. The figure holds for the upper bound of the plan, with the margin
    left free; wrappers that stack frames or change the observation are told with --set frame_stack=4.

    \b
    Examples:
      rlmem max-buffer Pendulum-v1 --algo sac --ram 16GB
      rlmem max-buffer ALE/Pong-v5 --algo dqn --ram 16GB --set frame_stack=4
      rlmem max-buffer Humanoid-v5 --algo td3 --ram 8GB --n-envs 4 --margin 20% --json
      rlmem max-buffer mypkg.envs:make_robot --algo sac --python ~/envs/train/bin/python

    Exits 3 when the environment cannot be made, or when not even a small buffer fits.
    """
    from rlmem.app.max_buffer import algorithm_name, describe, largest_buffer, read_environment
    from rlmem.report.render import render_view
    from rlmem.sources.overrides import parse_set
    from rlmem.trace.target import find_python

    wanted = chosen_format(format_, output, as_json=as_json)
    if env.endswith(".py"):
        raise UsageError(
            f"{env} is a script, not an environment: 'rlmem capacity {env} --vary buffer_size' reads its own"
        )
    if algo is None:
        raise UsageError("--algo is missing: an algorithm with a replay buffer, such as --algo sac")
    share = read_share(margin, "--margin")
    found_python, _ = find_python(None, Path.cwd(), python, os.environ)
    found = read_environment(env, found_python)
    values: dict[str, Any] = {"n_envs": found["n_envs"] if found["n_envs"] > 1 else n_envs}
    if found.get("sb3"):
        values["framework.version"] = found["sb3"]
    values |= dict(parse_set(item) for item in sets)
    try:
        spec = describe(found, algorithm_name(algo), values)
    except SpecError as error:
        raise error.located(env) from None
    plain = largest_buffer(spec, ram, margin=share, python=found_python)
    document = _document(env, spec, plain, share, _compact(spec, plain, ram, share, found_python))
    emit(render_view(document, _view, wanted, output), output)
    return 0


def _compact(spec: RunSpec, plain: Largest, ram: str | None, share: float, python: str) -> Largest | None:
    """The same with rlmem's own buffer, where the run has none yet and more fits."""
    from rlmem.app.max_buffer import largest_buffer
    from rlmem.errors import RlmemError

    if "storage" in spec:
        return None
    try:
        found = largest_buffer(spec.having({"storage": "compact"}, "compared"), ram, margin=share, python=python)
    except RlmemError:
        return None
    return found if found.buffer_size > plain.buffer_size else None  # numba takes more than small observations leave


def _document(env: str, spec: RunSpec, plain: Largest, margin: float, compact: Largest | None) -> dict[str, Any]:
    top = plain.plan.top("ram")
    return {
        "schema": MAX_BUFFER_SCHEMA,
        "env": env,
        "algorithm": spec.text("algorithm"),
        "n_envs": plain.plan.spec.count("n_envs"),
        "ram_bytes": plain.ram_bytes,
        "margin": margin,
        "limit_bytes": plain.limit_bytes,
        "buffer_size": plain.buffer_size,
        "expected_bytes": top.expected_bytes if top else None,
        "high_bytes": top.high_bytes if top else None,
        "compact_buffer_size": compact.buffer_size if compact else None,
        "spec": plain.plan.spec.to_dict(),
    }


def _view(document: dict[str, Any]) -> View:
    from rlmem.report.view import Section, View
    from rlmem.units import format_count, format_size

    size = format_count(document["buffer_size"])
    what = f"{document['algorithm']} on {document['env']}, {document['n_envs']} environment(s)"
    lines = [
        f"needs {format_size(document['expected_bytes'])}, at most {format_size(document['high_bytes'])}, of "
        f"{format_size(document['limit_bytes'])}: {format_size(document['ram_bytes'])} less a margin of {document['margin']:.0%}",
    ]
    if document["compact_buffer_size"]:
        lines.append(f"with CompactReplayBuffer of rlmem.sb3: {format_count(document['compact_buffer_size'])}")
    notes = ("Closed form of the environment's spaces with SB3's defaults; 'rlmem plan train.py' knows your script.",)
    return View(
        title=what,
        verdict=((f"buffer_size = {size}", "good"),),
        sections=(Section(title="Why", lines=tuple(lines)),),
        notes=notes,
    )
