"""Measured constants of the runtime, each with how, where and when it was measured.

They are the part of a prediction that depends on the machine and its packages. ``rlmem calibrate`` measures them
again here and now; a calibrated value replaces the row and says so in its origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rlmem.core.quantity import Quantity
from rlmem.units import MIB

MB = 10**6

REFERENCE = "2 cores, Linux 6.18, Python 3.11, numpy 2.4, torch 2.13 CPU, SB3 2.9.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A measured value with its range and provenance."""

    name: str
    low: int
    expected: int
    high: int
    how: str
    where: str = REFERENCE
    when: str = "2026-11-16"

    @property
    def origin(self) -> str:
        """Provenance in a line."""
        return f"measured: {self.how}; {self.where}; {self.when}"


def _row(
    name: str, low: float, expected: float, high: float, how: str, *, unit: int = MB, where: str = REFERENCE
) -> Constant:
    sizes = [round(value * unit) for value in (low, expected, high)]
    return Constant(name=name, low=sizes[0], expected=sizes[1], high=sizes[2], how=how, where=where)


_GPU = "one H200, driver 580, Linux 6.18, Python 3.12, torch 2.11 CUDA 13"
_IMPORT = "RSS added by importing it after gymnasium, median of 4 fresh processes"
TABLE: tuple[Constant, ...] = (
    _row("interpreter", 8.0, 9.0, 13.0, "RSS of a bare interpreter, 3.10 to 3.13, median of 4 fresh processes"),
    _row("import.numpy", 14.5, 16.8, 19.5, "RSS added by import numpy, median of 4 fresh processes"),
    _row("import.torch", 198, 202.8, 212, "RSS added by import torch (CPU build), median of 4 fresh processes"),
    _row("import.torch-cuda", 440, 483, 620, "RSS added by import torch (CUDA build)", where=_GPU),
    _row("import.torch-optim", 72, 76, 84, "RSS added by the first optimizer: it imports torch._dynamo and sympy"),
    _row(
        "import.torch-optim-cuda",
        120,
        130,
        150,
        "RSS added by the first optimizer: torch._dynamo, sympy, triton",
        where=_GPU,
    ),
    _row("import.gymnasium", 4, 4.7, 6, "RSS added by import gymnasium after torch"),
    _row(
        "import.sb3",
        18,
        19.2,
        23,
        "RSS added by import stable_baselines3 2.9 (brings cv2), median of 4 fresh processes",
    ),
    _row(
        "import.sb3-before-2.9",
        76,
        81.7,
        90,
        "RSS added by import stable_baselines3 2.7.1 (brings pandas and matplotlib)",
    ),
    _row("import.numba", 52, 53.6, 57, "RSS added by import numba 0.68 (with LLVM) after SB3, 6 fresh processes"),
    _row(
        "import.rlmem.sb3",
        56,
        58.5,
        146,
        "RSS added by importing CompactReplayBuffer and first use: compiled code read from numba's cache, 6 fresh processes; "
        "143 MB where it was compiled",
    ),
    _row("import.sb3-contrib", 0.6, 0.8, 1.5, "RSS added by import sb3_contrib"),
    _row("import.elegantrl", 2, 3.3, 5, "RSS added by import elegantrl 0.3.6"),
    _row("import.ale_py", 6, 7.3, 10, _IMPORT),
    _row("import.mujoco", 19, 21.5, 29, _IMPORT),
    _row("import.pyboy", 36, 39.6, 44, _IMPORT),
    _row("import.cv2", 15, 16.9, 20, _IMPORT),
    _row("import.pandas", 33, 36.1, 42, _IMPORT),
    _row("import.optuna", 7.5, 8.7, 12, "RSS added by importing it after pandas, 3 fresh processes"),
    _row("import.highway_env", 36, 39.8, 44, "RSS added by importing it after pandas, 3 fresh processes"),
    _row("import.minigrid", 0.9, 1.1, 2, "RSS added by importing it after pandas, 3 fresh processes"),
    _row("import.matplotlib", 18, 18.9, 36, _IMPORT),
    _row("import.pygame", 6, 7.0, 9, _IMPORT),
    _row("import.Box2D", 2.6, 3.1, 4.5, _IMPORT),
    _row("objects.model", 2, 6, 11, "RSS added by building PPO, A2C, DQN or SAC beyond arrays, parameters and imports"),
    _row("warm-up.mlp", 10, 12.5, 16, "RSS added by a first small MLP update beyond its tensors"),
    _row("warm-up.conv", 22, 30, 48, "RSS added by a first small convolutional update beyond its tensors"),
    _row(
        "warm-up.lstm", 30, 55, 75, "RSS added by a first small recurrent update beyond its tensors (hidden 32 to 256)"
    ),
    _row(
        "worker.learner-imports",
        154,
        164,
        168,
        "PSS one more SubprocVecEnv worker adds to the tree (forkserver, n = 1 to 8)",
    ),
    _row(
        "worker.learner-imports-cuda", 285, 294, 340, "PSS one more worker adds with a CUDA build of torch", where=_GPU
    ),
    _row("worker.forked", 4.3, 6, 60, "private bytes of a forked worker before training; copy-on-write lets it grow"),
    _row("worker.forkserver", 9, 11.6, 14, "private bytes of the forkserver and the resource tracker"),
    _row("env.small", 0.008, 0.1, 0.8, "RSS added by one small environment in a DummyVecEnv"),
    _row(
        "thread.stack",
        8_000,
        17_000,
        300_000,
        "RSS of an idle thread; an OpenMP thread of torch costs about 0.3 MB",
        unit=1,
    ),
    _row("checkpoint.model", 0, 0, 0.8, "VmHWM above RSS while model.save runs"),
    _row("her.info-slot", 160, 186, 195, "RSS of HerReplayBuffer's dict per slot, copy_info_dict=False", unit=1),
    _row(
        "list.transition",
        1100,
        1550,
        2300,
        "RSS beyond the data of a transition kept as a tuple of small tensors",
        unit=1,
    ),
    _row("allocator.percent", 0, 2, 7, "VmHWM above exact tensor bytes, large tensors (percent)", unit=1),
    _row(
        "allocator.small-percent",
        20,
        140,
        250,
        "heap kept beyond live tensors under 32 MiB, which glibc does not map (percent)",
        unit=1,
    ),
    _row("cuda.context-mlp", 350, 778, 800, "driver's figure minus torch's reserved bytes, 14 runs", where=_GPU),
    _row("cuda.context-conv", 370, 795, 820, "the same with cuDNN loaded, 11 runs", where=_GPU),
    _row("cuda.context", 350, 793, 850, "driver's per-process figure minus torch's reserved bytes, 3 runs", where=_GPU),
    _row("cuda.host-mlp", 620, 780, 900, "RSS added by CUDA with dense networks: runtime, cuBLAS, kernels", where=_GPU),
    _row(
        "cuda.host-conv", 760, 1000, 1250, "RSS added by CUDA with convolutions: cuDNN as well, 7 SB3 runs", where=_GPU
    ),
    _row("cuda.workspace", 8, 67, 70, "VRAM of cuBLAS workspaces (8 MB each before Hopper)", where=_GPU),
    _row(
        "cuda.percent",
        0,
        4,
        130,
        "rounding and holes; up to all that the allocator cached, 9 SB3 runs",
        unit=1,
        where=_GPU,
    ),
    _row(
        "cuda.cache-percent",
        0,
        75,
        110,
        "reserved above allocated, of an update's tensors, 9 SB3 runs",
        unit=1,
        where=_GPU,
    ),
)
_RAY = "2 cores, Linux 6.18, Python 3.11, numpy 2.4, torch 2.13 CPU, Ray 2.60.0"
RAY_TABLE: tuple[Constant, ...] = tuple(
    _row(name, low, expected, high, how, unit=unit, where=_RAY)
    for name, low, expected, high, how, unit in (
        ("rllib.imported", 255, 269.3, 300, "RssAnon after importing an algorithm's configuration and torch", MB),
        ("rllib.files", 150, 165, 215, "RssFile of a process that imported RLlib and torch", MB),
        ("rllib.module", 1.4, 1.8, 4, "RssAnon added by building a module and its first forward pass", MB),
        ("rllib.optimizer", 66, 70, 76, "RssAnon added by a first Adam step: torch._dynamo, sympy", MB),
        ("ray.actor", 6, 7.9, 12, "RssAnon of an EnvRunner actor beyond imports, module and episodes", MB),
        ("ray.learner", 14, 19, 30, "RssAnon of a Learner actor beyond imports, optimizer and tensors", MB),
        ("ray.driver", 15, 20, 30, "RssAnon of the driver beyond imports, module and learner", MB),
        (
            "ray.daemons",
            330,
            341,
            380,
            "RssAnon of gcs, raylet, monitor, agents and log monitor of a head node, summed",
            MB,
        ),
        ("ray.binaries", 30, 36, 60, "RssFile of gcs and raylet, once", MB),
        ("ray.idle-worker", 50, 56, 62, "RssAnon of a worker that waits for work", MB),
        ("ray.trial", 100, 120, 140, "RssAnon and RssFile of a Tune trial with SB3, beyond SB3 and an idle worker", MB),
        (
            "rllib.step-in-runner",
            0,
            300,
            700,
            "RssAnon an EnvRunner adds by step beyond its arrays, until they are arrays",
            1,
        ),
        (
            "rllib.env-process",
            12,
            23,
            40,
            "PSS that the process of one environment adds (gym_env_vectorize_mode async, forked; Hopper, n = 4)",
            MB,
        ),
        ("rllib.chunk", 1500, 2000, 4000, "RssAnon of an episode's chunk beyond its arrays", 1),
        (
            "rllib.step-objects",
            500,
            1200,
            3000,
            "RssAnon a learner adds by step of a train batch, small observations",
            1,
        ),
        ("rllib.sampled-step", 2000, 3000, 5000, "RssAnon of one sampled step: an episode of its own", 1),
        ("rllib.replay-step", 80, 96, 300, "RssAnon a replay buffer adds by step beyond its arrays and info: index", 1),
        (
            "rllib.replay-episode",
            3000,
            3800,
            6000,
            "RssAnon of an episode in a replay buffer beyond arrays and space",
            1,
        ),
        ("rllib.churn", 25, 42, 80, "RssAnon a driver with a replay buffer keeps beyond it, whatever its size", MB),
        ("rllib.tree-slot", 140, 151, 170, "RssAnon of a slot of the two trees of priorities, at construction", 1),
        ("rllib.priority", 120, 143, 180, "RssAnon a prioritised buffer adds by step", 1),
    )
)
_BY_NAME = {constant.name: constant for constant in (*TABLE, *RAY_TABLE)}


@dataclass(frozen=True, slots=True)
class Constants:
    """The table, with calibrated rows in place of the shipped ones."""

    calibrated: Mapping[str, Constant] = field(default_factory=dict)

    def find(self, name: str) -> Constant:
        """A row; a package nobody measured gets a wide assumed range, said as such."""
        if name in self.calibrated:
            return self.calibrated[name]
        if name in _BY_NAME:
            return _BY_NAME[name]
        kind, package = name.split(".", 1)
        if kind == "worker-import":
            # A worker's own pages of a package: its library text is shared with the others, most of the rest is not.
            whole = self.find(f"import.{package}")
            return replace(whole, name=name, low=whole.low // 2, how=f"{whole.how} (in a worker: half to all of it)")
        return Constant(
            name=name,
            low=0,
            expected=24 * MIB,
            high=120 * MIB,
            how=f"assumed, {package} was never measured; 'rlmem calibrate --import {package}' measures it",
            where="nowhere",
            when="never",
        )

    def quantity(self, name: str) -> Quantity:
        """A row as a quantity with its provenance."""
        constant = self.find(name)
        origin = constant.origin if constant.where != "nowhere" else constant.how
        return Quantity.of(constant.expected, name, origin, low=constant.low, high=constant.high)
