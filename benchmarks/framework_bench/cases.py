"""What is run: one row of the tables each. The scripts are those of users, beside this folder or in accuracy/scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "benchmarks" / "framework_tasks"
LOOPS = ROOT / "accuracy" / "scripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A training by one framework in one set-up.

    ``proof`` is printed only after the last update; ``config`` names an RLlib configuration, which is planned instead of the
    script; ``said`` is the line of the document this replaces.
    """

    task: str
    name: str
    framework: str
    setup: str
    script: Path
    proof: str
    args: tuple[str, ...] = ()
    config: str = ""
    said: str = ""

    @property
    def id(self) -> str:
        """Unique."""
        return f"{self.task}:{self.name}"

    @property
    def plan_target(self) -> tuple[str, ...]:
        """What ``rlmem plan`` takes for it."""
        if self.config:
            return (f"rllib:{self.script}:{self.config}",)
        return (str(self.script), *(("--", *self.args) if self.args else ()))

    def is_done(self, output: str) -> bool:
        """Whether the output says that all updates were made."""
        return re.search(self.proof, output) is not None


SB3, CLEANRL, ELEGANTRL, RLLIB = "Stable-Baselines3", "CleanRL-like loop", "ElegantRL", "RLlib"
SAID_SB3, SAID_ELEGANTRL, SAID_RLLIB = "2–5 GB", "15–25 GB", "10–15 GB per worker"
_SB3_PROOF, _LOOP_PROOF, _ELEGANTRL_PROOF = r"iterations +\| {n} ", r"iteration {n}\b", r"UsedTime"


def _sb3(task: str, name: str, setup: str, count: int, *args: str, said: str = "") -> Case:
    return Case(
        task=task, name=name, framework=SB3, setup=setup, script=TASKS / f"sb3_{task}.py",
        args=("--iterations", str(count), *args), proof=_SB3_PROOF.format(n=count), said=said,
    )  # fmt: skip


def _elegantrl(task: str, name: str, setup: str, count: int, *args: str, said: str = "") -> Case:
    return Case(
        task=task, name=name, framework=ELEGANTRL, setup=setup, script=TASKS / f"elegantrl_{task}.py",
        args=("--iterations", str(count), *args), proof=_ELEGANTRL_PROOF, said=said,
    )  # fmt: skip


def _rllib(task: str, runners: int, count: int, config: str) -> Case:
    each = f", {8 // runners} environments each" if runners else ": 8 environments in the algorithm's process"
    return Case(
        task=task, name=f"rllib-{runners}", framework=RLLIB, setup=f"{runners or 'no'} env runners{each}",
        script=TASKS / f"rllib_{task}.py", args=("--iterations", str(count), "--runners", str(runners)),
        proof=_LOOP_PROOF.format(n=count), config=config, said=SAID_RLLIB if runners else "",
    )  # fmt: skip


def _loop(task: str, script: str, count: int, *args: str) -> Case:
    return Case(
        task=task, name="cleanrl", framework=CLEANRL, setup="`SyncVectorEnv`, 8", script=LOOPS / script,
        args=args, proof=_LOOP_PROOF.format(n=count),
    )  # fmt: skip


_C, _A = "continuous", "atari"
#: Rollouts and updates. RLlib keeps every step of an episode until it ends, so its games are played to their end: a game of
#: Pong takes about 1,000 steps, of which a rollout has 128.
_FIVE, _THREE, _WHOLE_GAMES = 5, 3, 12
CASES: tuple[Case, ...] = (
    _sb3(_C, "sb3-1", "one environment", _FIVE, "--envs", "1", said=SAID_SB3),
    _sb3(_C, "sb3-dummy", "`DummyVecEnv`, 8", _FIVE),
    _sb3(_C, "sb3-subproc", "`SubprocVecEnv`, 8", _FIVE, "--vec", "subproc"),
    _loop(_C, "ppo_continuous.py", _FIVE, "--num-envs", "8", "--num-steps", "256", "--num-minibatches", "8",
          "--hidden", "256", "--total-timesteps", str(2048 * _FIVE)),
    _elegantrl(_C, "elegantrl-vec", "`train_agent`, 8 environments", _FIVE),
    _elegantrl(_C, "elegantrl-3", "`train_agent_multiprocessing`, 3 workers beside learner and evaluator", _FIVE,
               "--workers", "3", said=SAID_ELEGANTRL),
    _rllib(_C, 0, _FIVE, "config"),
    _rllib(_C, 2, _FIVE, "two_runners"),
    _rllib(_C, 4, _FIVE, "four_runners"),
    _sb3(_A, "sb3-1", "one environment", _THREE, "--envs", "1", said=SAID_SB3),
    _sb3(_A, "sb3-dummy", "`DummyVecEnv`, 8", _THREE),
    _sb3(_A, "sb3-subproc", "`SubprocVecEnv`, 8", _THREE, "--vec", "subproc"),
    _loop(_A, "ppo_atari.py", _THREE, "--env-id", "ALE/Pong-v5", "--total-timesteps", str(1024 * _THREE)),
    _elegantrl(_A, "elegantrl-vec", "`train_agent`, 8 environments in one process; network and vectorised "
               "environment of our own", _THREE, said=SAID_ELEGANTRL),
    _rllib(_A, 0, _WHOLE_GAMES, "config"),
    _rllib(_A, 2, _WHOLE_GAMES, "two_runners"),
)  # fmt: skip
