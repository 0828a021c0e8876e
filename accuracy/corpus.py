"""The corpus: what is planned and measured, read from ``corpus.yaml``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PATH = HERE / "corpus.yaml"
SCRIPTS = HERE / "scripts"
#: The first that matches names the family of an environment.
FAMILIES = (
    ("atari", r"NoFrameskip|^ALE/"),
    ("minigrid", r"^MiniGrid"),
    ("goal", r"^PointReach|^parking"),
    ("box2d", r"^LunarLander|^Bipedal|^CarRacing"),
    ("mujoco", r"^(HalfCheetah|Ant|Hopper|Walker2d|Humanoid|HumanoidStandup|Swimmer|Reacher|Inverted\w+)-v"),
    ("classic", r"^(CartPole|MountainCar|Pendulum|Acrobot)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run: an RL Zoo configuration, a script with its arguments, or a preset with settings."""

    id: str
    kind: str
    algorithm: str
    family: str
    subject: str
    args: tuple[str, ...] = field(default=())

    @property
    def command(self) -> str:
        """What a user would type, in short."""
        if self.kind == "zoo":
            algo, _, env = self.subject.partition("/")
            return shlex.join(["python", "-m", "rl_zoo3.train", "--algo", algo, "--env", env, *self.args])
        if self.kind == "script":
            return shlex.join(["python", self.subject, *self.args])
        return shlex.join(["rlmem", "measure", self.subject, *(part for each in self.args for part in ("--set", each))])

    def plan(self) -> list[str]:
        """Arguments of ``rlmem plan``."""
        if self.kind == "preset":
            return [self.subject, *(part for each in self.args for part in ("--set", each))]
        target = f"zoo:{self.subject}" if self.kind == "zoo" else str(SCRIPTS / self.subject)
        return [target, *(["--", *self.args] if self.args else [])]


def family(env: str) -> str:
    """The kind of an environment."""
    return next((name for name, pattern in FAMILIES if re.search(pattern, env)), "other")


def load(path: Path = PATH) -> tuple[Entry, ...]:
    """Every entry, in the order of the file; ids are unique."""
    document = yaml.safe_load(path.read_text())
    entries = [*_zoo(document["zoo"]), *_scripts(document["scripts"]), *_presets(document["presets"])]
    seen: set[str] = set()
    for entry in entries:
        if entry.id in seen:
            raise ValueError(f"{path.name}: {entry.id} is there twice")
        seen.add(entry.id)
    return tuple(entries)


def causes(path: Path = PATH) -> dict[str, str]:
    """Why an entry misses, by id or pattern of ids."""
    return dict(yaml.safe_load(path.read_text()).get("causes") or {})


def cause_of(entry_id: str, known: dict[str, str]) -> str:
    """The cause noted for an entry."""
    return next((text for pattern, text in known.items() if fnmatch(entry_id, pattern)), "")


def dropped(path: Path = PATH) -> dict[str, str]:
    """Configurations that do not start here, and why."""
    return dict(yaml.safe_load(path.read_text()).get("dropped") or {})


def _zoo(section: dict[str, list[Any]]) -> Iterable[Entry]:
    for algorithm, rows in section.items():
        for row in rows:
            env, args = (row, "") if isinstance(row, str) else (row["env"], row["args"])
            name = f"zoo:{algorithm}/{env}" if isinstance(row, str) else f"zoo:{algorithm}/{env} {row['name']}"
            yield Entry(
                id=name,
                kind="zoo",
                algorithm=algorithm,
                family=family(env),
                subject=f"{algorithm}/{env}",
                args=tuple(shlex.split(args)),
            )


def _scripts(section: list[dict[str, str]]) -> Iterable[Entry]:
    for row in section:
        args = tuple(shlex.split(row.get("args", "")))
        yield Entry(
            id=f"script:{row['name']}",
            kind="script",
            algorithm=row["algorithm"],
            family=family(row["env"]),
            subject=row["script"],
            args=args,
        )


def _presets(section: list[dict[str, Any]]) -> Iterable[Entry]:
    for row in section:
        yield Entry(
            id=f"preset:{row['name']}",
            kind="preset",
            algorithm=row["algorithm"],
            family="reference",
            subject=row["preset"],
            args=tuple(row.get("set", ())),
        )


def shard(entries: Sequence[Entry], text: str | None) -> tuple[Entry, ...]:
    """Part K of N, given as ``K/N``: every Nth entry, so that each part has a bit of everything."""
    if text is None:
        return tuple(entries)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{text}: a shard is written K/N, such as 1/6")
    return tuple(entries[int(match[1]) - 1 :: int(match[2])])


def only(entries: Sequence[Entry], pattern: str | None) -> tuple[Entry, ...]:
    """Entries whose id matches a pattern such as ``zoo:sac/*``."""
    return tuple(entry for entry in entries if pattern is None or fnmatch(entry.id, pattern))
