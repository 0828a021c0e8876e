"""One profile of a benchmark: a described SB3 run trained for some timesteps in a fresh process, beside its plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from rlmem.agent.protocol import ProgramAnswer, ProgramStatus
from rlmem.core.ledger import Peak
from rlmem.core.plan import Budget, verdict_of
from rlmem.core.points import Point, PredictedPeak
from rlmem.core.spec import RunSpec
from rlmem.documents.bench import BenchRow, bench_prediction
from rlmem.errors import UsageError
from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.process.calibration import read_calibration
from rlmem.process.sampler import Sample
from rlmem.programs.cases import FOLDER, Case, make_case
from rlmem.programs.launch import Answer, launch
from rlmem.programs.points import make_point
from rlmem.sources.profiles import Profile

PROGRAM = FOLDER / "bench_run.py"
#: Real environments for the presets. Ant is a quadruped with eight actuators, as the robot of pidog-sac is.
ENVIRONMENTS = {"pidog-sac": "Ant-v5", "pidog-td3": "Ant-v5", "pidog-sac-vector": "Ant-v5"}
#: Packages that a real environment needs, by the start of its id; only to say so before a run is started.
NEEDS = {"Ant-": ("mujoco",), "HalfCheetah-": ("mujoco",), "Hopper-": ("mujoco",), "Walker2d-": ("mujoco",)}

Tick = Callable[[Sample, ProgramStatus], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How profiles are run: the same for all of them."""

    timesteps: int
    env: str | None
    python: str
    budget: Budget
    cap_bytes: int | None = None
    time_limit_s: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benched:
    """What a profile came to; the point has its memory."""

    profile: Profile
    point: Point
    steps: int | None = None
    steps_per_s: float | None = None
    mean_reward: float | None = None
    episodes: int | None = None
    reward_per_step: float | None = None
    image: str | None = None
    #: What the plan of a full buffer expects.
    full: PredictedPeak | None = None
    verdict: str = "unknown"

    @property
    def row(self) -> BenchRow:
        """The result as documents have it."""
        point = self.point
        return BenchRow(
            profile=self.profile.name,
            settings=self.profile.settings,
            status=point.status,
            steps=self.steps,
            steps_per_s=self.steps_per_s,
            mean_reward=self.mean_reward,
            episodes=self.episodes,
            reward_per_step=self.reward_per_step,
            image=self.image,
            peak_bytes=point.peak_bytes,
            predicted=bench_prediction(point.predicted),
            predicted_full=bench_prediction(self.full),
            verdict=self.verdict,
            wall_s=point.wall_s,
            note=point.note,
            versions=point.versions,
            node=point.node,
        )


def check_target(spec: RunSpec, profiles: tuple[Profile, ...], env: str | None) -> tuple[Case, ...]:
    """The cases of all profiles, before the first one runs; an error names the profile it is about."""
    adapter = find_adapter(spec)
    if adapter.name != "sb3":
        raise UsageError(
            f"{spec.name}: rlmem bench trains with Stable-Baselines3, and this run is described for {adapter.name}"
        )
    if spec.get("replay.kind", "plain") == "her" and env is not None:
        raise UsageError(f"{spec.name}: rlmem bench does not train with hindsight on {env}")
    if resolve(spec).get("vec_env") == "subproc" and env is not None:
        raise UsageError("vec_env: rlmem bench steps a real environment in one process; pass --set vec_env=dummy")
    cases = []
    for profile in profiles:
        try:
            idle = [path for path in profile.fields if path not in resolve(spec.having(profile.fields, profile.name))]
        except UsageError as error:
            raise UsageError(f"profile {profile.name}: {error}") from None
        if idle:
            algorithm = spec.text("algorithm")
            raise UsageError(
                f"profile {profile.name} sets {', '.join(idle)}, which {algorithm} does not have; give a profile file"
            )
        cases.append(make_case(spec.having(profile.fields, f"profile {profile.name}")))
    return tuple(cases)


def packages(case: Case, env: str | None) -> tuple[str, ...]:
    """What the interpreter must have."""
    return (
        *case.packages,
        *(name for start, names in NEEDS.items() if (env or "").startswith(start) for name in names),
    )


def bench_profile(spec: RunSpec, profile: Profile, options: BenchOptions, on_tick: Tick | None = None) -> Benched:
    """Train one profile in a fresh process."""
    described = spec.having(profile.fields, f"profile {profile.name}")
    case = make_case(described)
    arguments = {k: v for k, v in case.body["model_kwargs"].items() if k != "learning_starts"}
    for name in ("learning_starts", "n_epochs"):  # a benchmark trains as described, a measurement as little as it may
        if name in described:
            arguments[name] = described.get(name)
        elif name == "n_epochs":
            arguments.pop(name, None)
    body = {
        **case.body,
        "model_kwargs": arguments,
        "training": dict(profile.training),
        "timesteps": options.timesteps,
        "env": options.env,
        "seed": options.seed,
        "eval": None,
    }
    answer = launch(
        PROGRAM,
        body,
        options.python,
        cap_bytes=options.cap_bytes,
        time_limit_s=options.time_limit_s,
        on_tick=on_tick,
    )
    return benched(described, profile, answer, options, Case(program=PROGRAM.name, body=body, packages=()))


def benched(spec: RunSpec, profile: Profile, answer: Answer, options: BenchOptions, case: Case) -> Benched:
    """What came out, beside the plan as far as the buffer was filled and the plan of a full one."""
    body = cast("ProgramAnswer", answer.body)
    constants = read_calibration(options.python)
    resolved = resolve(spec)
    # What the environment holds is measured: a description cannot know what a renderer takes.
    if (env_bytes := body.get("env_bytes")) is not None:
        spec = spec.having({"env.bytes": env_bytes // resolved.count("n_envs")}, "measured here")
    spec = spec.having({"total_timesteps": None}, "--timesteps")  # it trains for --timesteps, however long the run is
    full = predict(resolve(spec), constants)
    filled = as_filled(spec, options.timesteps)
    ledger = full if filled is spec else predict(resolve(filled), constants)
    point = make_point(
        {"profile": profile.name}, answer, ledger, case, options.cap_bytes, dict(body.get("versions", {}))
    )
    top = _top(full.peaks(options.budget.limits))
    return Benched(
        profile=profile,
        point=point,
        steps=body.get("steps"),
        steps_per_s=body.get("steps_per_s"),
        mean_reward=body.get("mean_reward"),
        episodes=body.get("episodes"),
        reward_per_step=body.get("reward_per_step"),
        image=body.get("image"),
        full=PredictedPeak.of(top),
        verdict=verdict_of(top),
    )


def as_filled(spec: RunSpec, timesteps: int) -> RunSpec:
    """The run with a buffer no larger than so many steps fill."""
    resolved = resolve(spec)
    if "buffer_size" not in resolved:
        return spec
    held = max(min(timesteps, resolved.count("buffer_size")), resolved.count("n_envs"))
    return spec.having({"buffer_size": held}, "--timesteps")


def _top(peaks: tuple[Peak, ...]) -> Peak:
    return next(peak for peak in peaks if peak.device == "ram" and peak.is_peak)
