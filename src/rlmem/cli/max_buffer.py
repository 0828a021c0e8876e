"""``rlmem max-buffer``."""

from __future__ import annotations

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, in_typed_unit, output_options, read_share, set_option
from rlmem.errors import UsageError


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
    out: Output,
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
    from rlmem.app.max_buffer import MaxBufferRequest, max_buffer

    if env.endswith(".py"):
        raise UsageError(
            f"{env} is a script, not an environment: 'rlmem capacity {env} --vary buffer_size' reads its own"
        )
    if algo is None:
        raise UsageError("--algo is missing: an algorithm with a replay buffer, such as --algo sac")
    request = MaxBufferRequest(
        env=env,
        algorithm=algo,
        ram=ram,
        n_envs=n_envs,
        margin=read_share(margin, "--margin"),
        python=python,
        sets=sets,
    )
    out.show(max_buffer(request))
    return 0
