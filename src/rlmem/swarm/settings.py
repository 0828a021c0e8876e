"""What a swarm is trained with, and the ladder from the assessed algorithm to the small one."""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.errors import UsageError, did_you_mean

#: Samples of the window, values of a sample (three accelerations, three rates), targets, samples a step.
HISTORY, SAMPLE, TARGETS, SUBSTEPS = 300, 6, 4, 10
ACTIONS = 4
EPISODE = 100
LATENT = 20
SIGMA = 0.5
GAMMA = 0.99
CLIP = 0.2
#: Names of what ``Settings`` takes.
HISTORIES = ("reset", "carry")
ENCODINGS = ("sequence", "window")
COMPUTES = ("float32", "bfloat16")
IMUS = ("float16", "int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One version of the algorithm: each row of the ladder changes one thing of the row before."""

    name: str
    title: str
    #: Collection runs with gradients on, and every step's graph stays until the update.
    keeps_graph: bool = False
    #: ``list`` (clones, stacked later), ``array`` (whole windows) or ``stream`` (every sample once).
    store: str = "stream"
    #: The update takes all samples at once instead of a chunk of agents at a time.
    whole_batch: bool = False
    half: bool = True
    in_place_returns: bool = True
    derived_gyro: bool = True
    resimulated: bool = False
    #: The network sees the very numbers that it saw on the rung before.
    lossless: bool = True


RUNGS: tuple[Rung, ...] = (
    Rung(
        name="naive",
        title="as assessed: graphs kept, a list, a stack, one batch",
        keeps_graph=True,
        store="list",
        whole_batch=True,
        half=False,
        in_place_returns=False,
        derived_gyro=False,
    ),
    Rung(
        name="no-grad",
        title="collect without gradients",
        store="list",
        whole_batch=True,
        half=False,
        in_place_returns=False,
        derived_gyro=False,
    ),
    Rung(
        name="preallocated",
        title="one tensor, written step by step",
        store="array",
        whole_batch=True,
        half=False,
        in_place_returns=False,
        derived_gyro=False,
    ),
    Rung(
        name="chunked",
        title="the update a chunk of agents at a time, gradients added up",
        store="array",
        half=False,
        in_place_returns=False,
        derived_gyro=False,
    ),
    Rung(
        name="stream",
        title="every IMU sample once, windows cut per chunk",
        half=False,
        in_place_returns=False,
        derived_gyro=False,
    ),
    Rung(
        name="half",
        title="IMU samples in 16 bits",
        in_place_returns=False,
        derived_gyro=False,
        lossless=False,
    ),
    Rung(name="in-place", title="returns over rewards, advantages over values", derived_gyro=False),
    Rung(name="gyro", title="rates read from the actions instead of stored"),
    Rung(name="resimulated", title="accelerations flown again from the actions", resimulated=True),
)
BY_NAME = {rung.name: rung for rung in RUNGS}
DEFAULT_RUNG = "gyro"


def find_rung(name: str) -> Rung:
    """The row of the ladder, or an error that names them all."""
    if name not in BY_NAME:
        raise UsageError(f"rung: {name!r} is not one of {', '.join(BY_NAME)}{did_you_mean(name, BY_NAME)}")
    return BY_NAME[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One training run. ``minibatches`` decides what is learnt, ``chunk`` only how much is in memory at once."""

    agents: int = 20_000
    steps: int = EPISODE
    iterations: int = 50
    epochs: int = 1
    #: Optimizer steps an epoch; each takes an equal share of the agents with all their steps. 1 is as assessed.
    minibatches: int = 20
    #: Agents whose samples are in the network at once; gradients of the chunks of a minibatch add up.
    chunk: int = 32
    rung: str = DEFAULT_RUNG
    #: What the window holds after a reset: zeros, or the history of the episode before.
    history: str = "reset"
    #: One pass over the stream of a chunk, or every window by itself. Whole windows are always encoded by themselves.
    encoding: str = "sequence"
    imu: str = "float16"
    compute: str = "float32"
    #: Share of the windows that the autoencoder learns from; 1 is as assessed.
    ae_share: float = 0.1
    learning_rate: float = 1e-3
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("agents", "steps", "iterations", "epochs", "minibatches", "chunk"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.minibatches > self.agents:
            raise UsageError(f"minibatches: {self.minibatches} need as many agents, there are {self.agents}")
        if not 0 < self.ae_share <= 1:
            raise UsageError(f"ae_share: expected a share above 0 and up to 1, got {self.ae_share}")
        if not self.learning_rate > 0:
            raise UsageError(f"learning_rate: expected more than 0, got {self.learning_rate}")
        for name, known in (("history", HISTORIES), ("encoding", ENCODINGS), ("imu", IMUS), ("compute", COMPUTES)):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(known)}")
        if self.ladder.resimulated and self.history == "carry":
            raise UsageError(
                "history: 'carry' needs the samples of the episode before, which the rung 'resimulated' does not keep; "
                "use rung gyro, or history reset"
            )

    @property
    def ladder(self) -> Rung:
        """The rung this run stands on."""
        return find_rung(self.rung)
