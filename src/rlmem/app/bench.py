"""Train named profiles of a run beside each other: one fresh process a profile, and one document of all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rlmem.agent.protocol import ProgramStatus
from rlmem.app.clusters import ClusterOptions
from rlmem.app.subjects import open_description
from rlmem.budget import cap_bytes, make_budget
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.documents.bench import BenchDocument, BenchRow, BenchTarget
from rlmem.process.sampler import Sample
from rlmem.programs.bench import (
    ENVIRONMENTS,
    Benched,
    BenchOptions,
    bench_profile,
    check_target,
    packages,
)
from rlmem.programs.bench_runs import BenchRunning, Execute, bench_key
from rlmem.programs.launch import training_python
from rlmem.runner.store import open_store
from rlmem.sources.profiles import Profile

#: Trains on noise of the described shapes.
RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What to train, and how.

    Attributes:
        target: a described run, or a script with an SB3 model, which is tried for a few seconds to be described.
        timesteps: environment steps to train each profile.
        profiles: settings of the run to train.
        env: a Gymnasium environment, or 'random' for noise; None is the one that a preset is meant for, else noise.
        ram: what full buffers are judged against, as it was typed; None is what may really be used.
        machine: a machine to judge full buffers against.
        cap_bytes: a profile that needs more is ended; None is most of what may really be used where it runs.
        timeout_s: a profile that takes longer is ended.
        seed: of environment and networks.
        fresh: train all profiles, also those an interrupted run has.
        cluster: where profiles are trained, several at once; None is one after another on this machine.
        command: how it was asked for, as the store keeps it.
    """

    target: Target
    timesteps: int
    profiles: tuple[Profile, ...]
    env: str | None = None
    ram: str | None = None
    machine: str | None = None
    cap_bytes: int | None = None
    timeout_s: float | None = None
    seed: int = 0
    fresh: bool = False
    cluster: ClusterOptions | None = None
    command: tuple[str, ...] = ()


class Listener(Protocol):
    """Hears how far a benchmark is; of profiles in a cluster only that they have ended."""

    def begin(self, name: str, /) -> None:
        """A profile starts."""

    def tick(self, sample: Sample, status: ProgramStatus, /) -> None:
        """Called about ten times a second while a profile runs."""

    def end(self, benched: Benched, /) -> None:
        """A profile is over."""


#: Is given the benchmark that starts, and gives what hears how far it is.
Watch = Callable[[BenchRunning], AbstractContextManager[Listener]]


class BenchInterruptedError(KeyboardInterrupt):
    """A benchmark was interrupted; profiles that had ended are kept, and the same request goes on with the others.

    ``document`` has them; None where there are none.
    """

    def __init__(self, document: BenchDocument | None, run: str) -> None:
        super().__init__(run)
        self.document, self.run = document, run


class Silent:
    """Hears how far a benchmark is, and says nothing."""

    def begin(self, name: str, /) -> None:
        """A profile starts."""

    def tick(self, sample: Sample, status: ProgramStatus, /) -> None:
        """Called about ten times a second while a profile runs."""

    def end(self, benched: Benched, /) -> None:
        """A profile is over."""


@contextmanager
def unwatched(running: BenchRunning) -> Iterator[Listener]:
    """Watch a benchmark without saying anything."""
    yield Silent()


def bench(
    request: BenchRequest,
    watch: Watch = unwatched,
    *,
    progress: ShowProgress = show_nothing,
    say: Callable[[str], None] = lambda text: None,
) -> BenchDocument:
    """Train profiles of a run, one fresh process a profile.

    Args:
        request: what to train, and how.
        watch: hears of profiles as they are trained.
        progress: shows what is being done while a script is tried.
        say: hears what goes on in a cluster.

    Returns:
        Speed, reward and peak of every profile, beside its plans.

    Raises:
        UsageError: the run does not take a profile or the environment.
        AnalysisError: it cannot be trained here, or the store cannot be written.
        BenchInterruptedError: Ctrl-C; what was trained is kept.
    """
    target = request.target
    spec = open_description(target, progress)
    options = _options(request, spec)
    with open_store(write=True) as store, ExitStack() as stack:
        place = _here(spec, options) if request.cluster is None else _there(request, spec, options, stack, say)
        running = BenchRunning(
            target.text,
            request.profiles,
            store,
            lambda rows, run: _document(spec, place.options, rows, run),
            key=bench_key(spec, options, target.python, (request.ram, request.machine)),
            command=request.command,
            fresh=request.fresh,
            machine=place.facts,
        )
        try:
            with watch(running) as listener, closing(running.results(place.execute(listener))) as results:
                for benched in results:
                    listener.end(benched)
        except KeyboardInterrupt:
            raise BenchInterruptedError(running.finish("interrupted"), running.run.id) from None
        document = running.finish()
    assert document is not None  # each profile gives a row
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where profiles are trained; ``facts`` are those of a cluster, None for this machine's own."""

    execute: Callable[[Listener], Execute]
    options: BenchOptions
    facts: Mapping[str, Any] | None = None


def _options(request: BenchRequest, spec: RunSpec) -> BenchOptions:
    env = None if request.env == RANDOM else request.env or ENVIRONMENTS.get(spec.name)
    cases = check_target(spec, request.profiles, env)
    remote, cap, python = request.cluster is not None, request.cap_bytes, request.target.python
    return BenchOptions(
        timesteps=request.timesteps,
        env=env,
        python=(python or "") if remote else training_python(python, packages(cases[0], env)),
        budget=make_budget(ram=request.ram, machine=request.machine),
        cap_bytes=cap_bytes(None) if cap is None and not remote else cap,  # there, what is free on each node
        time_limit_s=request.timeout_s,
        seed=request.seed,
    )


def _here(spec: RunSpec, options: BenchOptions) -> _Place:
    """One after another on this machine, with the steps of each."""

    def execute(listener: Listener) -> Execute:
        def train(profiles: Sequence[Profile]) -> Generator[Benched, None, None]:
            for profile in profiles:
                listener.begin(profile.name)
                yield bench_profile(spec, profile, options, listener.tick)

        return train

    return _Place(execute=execute, options=options)


def _there(
    request: BenchRequest, spec: RunSpec, options: BenchOptions, stack: ExitStack, say: Callable[[str], None]
) -> _Place:
    """As tasks of a cluster, for as long as the stack is open."""
    from rlmem.ray.sweeps import benching, cluster, cluster_facts, largest_budget

    assert request.cluster is not None
    ray = stack.enter_context(cluster(request.cluster.address))
    facts = cluster_facts(ray)
    say(f"training on {facts['system']}")
    if request.ram is None and request.machine is None:
        options = replace(options, budget=largest_budget(ray))

    def train(profiles: Sequence[Profile]) -> Generator[Benched, None, None]:
        return benching(ray, spec, profiles, options, request.target.python, say)

    return _Place(execute=lambda listener: train, options=options, facts=facts)


def _document(spec: RunSpec, options: BenchOptions, rows: tuple[BenchRow, ...], run: str | None) -> BenchDocument:
    return BenchDocument(
        run=run,
        target=BenchTarget(name=spec.name, about=spec.get("about")),
        timesteps=options.timesteps,
        env=options.env,
        limit_bytes=options.budget.ram_bytes,
        limit_source=options.budget.ram_source,
        profiles=rows,
    )
