"""``rlmem bench``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.common import chosen_format, emit, output_options, set_option
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.plan import Budget
    from rlmem.programs.bench import Benched, BenchOptions
    from rlmem.runner.sampler import Sample
    from rlmem.sources.profiles import Profile
    from rlmem.spec import RunSpec


@click.command("bench")
@click.argument("target")
@click.option("--timesteps", required=True, metavar="N", help="Environment steps to train each profile, such as 25k.")
@click.option(
    "--profiles",
    "choice",
    default="all",
    show_default=True,
    metavar="all|NAME,NAME|FILE",
    help="Built-in profiles, or a YAML file that maps names to settings.",
)
@click.option("--env", "env_id", metavar="ID", help="A Gymnasium environment to train on, or 'random' for noise.")
@click.option("--ram", metavar="SIZE", help="Judge full buffers against this. Default: what may really be used here.")
@click.option("--machine", metavar="NAME", help="Judge full buffers against a machine ('rlmem machines').")
@click.option(
    "--cap", metavar="SIZE", help="End a profile that needs more. Default: what may really be used, minus 10 %."
)
@click.option("--timeout", type=click.FloatRange(min=1), metavar="SECONDS", help="End a profile that takes longer.")
@click.option("--python", metavar="PATH", help="The run's own interpreter, which need not have rlmem.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of environment and networks."
)
@click.option("--csv", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows as CSV too.")
@set_option
@output_options
def command(
    target: str,
    timesteps: str,
    choice: str,
    env_id: str | None,
    ram: str | None,
    machine: str | None,
    cap: str | None,
    timeout: float | None,
    python: str | None,
    seed: int,
    csv: Path | None,
    sets: tuple[str, ...],
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Train named profiles of an SB3 run, each in a fresh process: steps/s, mean reward, peak memory.

    TARGET is a preset or a run file. The pidog presets train on Gymnasium's Ant-v5, a quadruped with eight actuators: the
    vector is its 27 positions and velocities with zeros after them, the image what MuJoCo renders (zeros where it cannot).
    Other runs train on --env, or on noise of the described shapes.

    \b
    Examples:
      rlmem bench pidog-sac --timesteps 25000 --profiles all
      rlmem bench pidog-sac --timesteps 2k --profiles fast,balanced --ram 30GB
      rlmem bench run.yaml --timesteps 10k --env Hopper-v5 --profiles mine.yaml

    A profile file maps names to settings: fields of the run ('rlmem schema run'), learning_rate, train_freq, gamma, tau …

    Exits 1 when a profile did not end well. 130 after Ctrl-C; finished profiles are kept ('rlmem runs').
    """
    from rlmem.budget import cap_bytes, make_budget
    from rlmem.programs.bench import ENVIRONMENTS, BenchOptions, check_target, packages
    from rlmem.programs.launch import training_python
    from rlmem.sources import load
    from rlmem.sources.profiles import load_profiles
    from rlmem.units import parse_count

    wanted = chosen_format(format_, output, as_json=as_json)
    steps = _positive(parse_count(timesteps))
    profiles = load_profiles(choice)
    spec = load(target, sets)
    env = None if env_id == "random" else env_id or ENVIRONMENTS.get(spec.name)
    cases = check_target(spec, profiles, env)
    options = BenchOptions(
        timesteps=steps,
        env=env,
        python=training_python(python, packages(cases[0], env)),
        budget=make_budget(ram=ram, machine=machine),
        cap_bytes=cap_bytes(cap),
        time_limit_s=timeout,
        seed=seed,
    )
    return _bench(target, spec, profiles, options, wanted, output, csv)


def _positive(steps: int) -> int:
    if steps < 1:
        raise UsageError("--timesteps: give at least one step, such as 25k")
    return steps


def _bench(
    target: str,
    spec: RunSpec,
    profiles: tuple[Profile, ...],
    options: BenchOptions,
    wanted: str,
    output: Path | None,
    csv: Path | None,
) -> int:
    from rlmem.programs.bench import bench_profile
    from rlmem.report.bench import bench_csv, bench_view
    from rlmem.report.render import render_view
    from rlmem.runner.store import open_store

    progress, done = Progress(profiles, options.timesteps), list[dict[str, Any]]()
    with open_store(write=True) as store:
        run = store.begin(
            "bench", target, command=("rlmem", *sys.argv[1:]), document=_document(spec, options, [], None)
        )
        interrupted = False
        try:
            for profile in profiles:
                progress.begin(profile.name)
                benched = bench_profile(spec, profile, options, progress.tick)
                store.add(run.id, benched.point)
                done.append(benched.to_dict())
                progress.end(benched)
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:  # told to end, or an error: what is finished stays
            if done:
                store.finish(run.id, "interrupted", _document(spec, options, done, run.id))
            else:
                store.delete(run.id)
            raise
        finally:
            progress.clear()
        if not done:
            store.delete(run.id)
            print("rlmem: interrupted; no profile was finished", file=sys.stderr)
            return 130
        ok = all(row["status"] == "ok" for row in done)
        document = _document(spec, options, done, run.id)
        store.finish(run.id, "interrupted" if interrupted else "ok" if ok else "partial", document)
    if csv is not None:
        emit(bench_csv(document), csv)
    emit(render_view(document, bench_view, wanted, output), output)
    if interrupted:
        print(f"rlmem: interrupted; {len(done)} of {len(profiles)} profiles are kept in run {run.id}", file=sys.stderr)
        return 130
    return 0 if ok else 1


def _document(spec: RunSpec, options: BenchOptions, rows: list[dict[str, Any]], run: str | None) -> dict[str, Any]:
    from rlmem.report.bench import bench_document

    budget: Budget = options.budget
    return bench_document(
        target={"name": spec.name, "about": spec.get("about")},
        timesteps=options.timesteps,
        env=options.env,
        limit_bytes=budget.ram_bytes,
        limit_source=budget.ram_source,
        rows=rows,
        run=run,
    )


class Progress:
    """A line that says how far a benchmark is and what is left of it: rewritten in a terminal, one a profile elsewhere."""

    def __init__(self, profiles: tuple[Profile, ...], timesteps: int) -> None:
        self.total, self.timesteps = len(profiles), timesteps
        self.index, self.name = 0, ""
        self.taken: list[float] = []
        self.start = 0.0
        self.live = sys.stderr.isatty()

    def begin(self, name: str) -> None:
        """A profile starts."""
        self.index, self.name, self.start = self.index + 1, name, time.monotonic()
        if self.live:
            self._line("starting")

    def tick(self, sample: Sample, status: Mapping[str, Any]) -> None:
        """Called about ten times a second while a profile runs."""
        if not self.live:
            return
        from rlmem.units import format_size

        told = status.get("progress")
        if not told or not told["seconds"]:
            self._line(str(status.get("phase", "starting")))
            return
        rate = told["done"] / told["seconds"]
        self._line(
            f"{told['done']:,} of {told['of']:,} steps, {rate:,.1f} steps/s, {format_size(sample.tree_bytes)}, "
            f"{left_text(self._left(told['done'] / told['of']))} left"
        )

    def end(self, benched: Benched) -> None:
        """A profile is over."""
        from rlmem.units import format_size

        self.taken.append(time.monotonic() - self.start)
        self.clear()
        point = benched.point
        speed = f"{benched.steps_per_s:,.1f} steps/s, " if benched.steps_per_s else ""
        peak = "" if point.peak_bytes is None else f"peak {format_size(point.peak_bytes)}, "
        ended = "" if point.is_ok else f"{point.status}: {point.note}, "
        more = self.total - self.index
        left = f"; {left_text(more * sum(self.taken) / len(self.taken))} left" if more else ""
        print(
            f"[{self.index}/{self.total}] {self.name}: {ended}{speed}{peak}{self.taken[-1]:,.0f} s{left}",
            file=sys.stderr,
        )

    def clear(self) -> None:
        """Take the line away."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _left(self, share: float) -> float:
        """Seconds left: this profile at its own pace, the others at the mean of those that are over, else at its."""
        spent = time.monotonic() - self.start
        whole = spent / max(share, 1e-6)
        others = sum(self.taken) / len(self.taken) if self.taken else whole
        return max(whole - spent, 0.0) + (self.total - self.index) * others

    def _line(self, text: str) -> None:
        print(f"\r\033[K[{self.index}/{self.total}] {self.name}: {text}", end="", file=sys.stderr, flush=True)


def left_text(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
