"""The protocol between a user's interpreter and ours: every fact that travels, as types. Its version is ``PROTOCOL``.

Facts travel as JSON, on four ways:

* a dry run: a :class:`Job` goes in as a file, :class:`Facts` come out as one. What it did to files stands in lines of
  :class:`JournalRow`; a process of its own makes :class:`Sized` of the observations in :class:`Sample`;
* the agent's socket in a running process: a :class:`Question` in, one of the answers named in :data:`ANSWERS` out;
* the folder of ``rlmem run``: :class:`DeathNote` and what else a process leaves there (:data:`LEFT_BEHIND`);
* the programs of ``rlmem/programs``: a case in, :class:`ProgramAnswer` and :class:`ProgramStatus` out;
  ``rllib_run.py`` answers with :class:`RLlibDescription` or :class:`RLlibMeasurement`.

The version stands in every job and result of a dry run, every question and answer of a socket, every answer of a program
and in the facts that a recorded run keeps; :mod:`rlmem.process.protocol` checks it. Facts without one were written before
there was a number, and are read as version 1.

Plain Python 3.8 that imports nothing of rlmem. Nothing that runs in a user's interpreter imports it there.
"""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict, Union

from . import PROTOCOL as PROTOCOL

Shape = List[int]
#: A Gymnasium space in the words of a run file: its ``type``, and what spaces of that type have (``shape``, ``n``, ``spaces`` …).
Space = Dict[str, Any]


# ---------------------------------------------------------------- a dry run: what goes in
class TargetJob(TypedDict, total=False):
    """What to run: a ``script`` by ``path``, a ``module`` by ``name``, a ``factory`` by ``module`` and ``name``."""

    kind: str
    path: str
    name: str
    module: str
    args: List[str]


class Job(TypedDict):
    """What a dry run is told; the file that ``agent/entry.py`` is started with."""

    protocol: int
    #: ``trace`` (small and quick) or ``measure`` (real sizes, buffers filled).
    mode: str
    target: TargetJob
    folder: str
    scratch: str
    result: str
    #: The file that says what happens now.
    status: str
    time_s: float
    memory_bytes: int
    #: The most worker processes; None for as many as asked for.
    workers: int | None
    #: Constructor arguments in place of the script's own.
    changes: Dict[str, Any]
    updates: int | None
    #: Whether ``total_timesteps`` of the script is all that the run makes.
    whole_run: bool
    device: str | None


# ---------------------------------------------------------------- a dry run: what comes out
class OtherProcess(TypedDict):
    """A process of the tree beside the main one; ``bytes`` is its share, ``private`` what it has for itself."""

    pid: int
    #: ``worker``, ``forkserver``, ``tracker`` or ``program``.
    role: str
    bytes: int
    private: int


class Reading(TypedDict):
    """The process tree when a phase closed: bytes in all, shared pages once, without the pages of mapped files."""

    tree: int
    rss: int
    others: List[OtherProcess]
    files: int
    #: The most there was since the phase before closed.
    peak: int
    at_s: float


class StopFacts(TypedDict, total=False):
    """Why a target did not get as far as an update; of a killed child written by the parent."""

    kind: str
    message: str
    where: str | None
    line: str | None
    code: int | None
    by_library: bool


class ArrayRow(TypedDict, total=False):
    """A big array that was made in the dry run; of one in a worker ``pid`` says which, and there is no ``path``."""

    address: int
    nbytes: int
    shape: Shape
    dtype: str
    made_by: str
    #: ``file:line`` of the program that made it.
    where: str
    #: Whether its constructor writes all of it.
    whole: bool
    resident: int
    #: Bytes the run will have written at its end; None where that is not known.
    written: int | None
    path: str | None
    pid: int


class ContainerRow(TypedDict, total=False):
    """A container that can or did grow; bytes are those that an element adds."""

    id: int
    kind: str
    length: int
    #: Elements there is room for; None without a bound.
    capacity: int | None
    bytes_each: int
    least_each: int
    most_each: int
    #: Addresses of big arrays that are its elements'.
    arrays: List[int]
    path: str | None
    # Of one that was seen to grow:
    name: str | None
    file: str | None
    grown: int
    #: Whether its newest elements keep the graph they were computed by; whether they are numbers.
    graph: bool
    plain: bool
    #: Whether the source makes it shorter somewhere.
    shortened: bool
    #: Whether its bound is its own (of a deque, a cache).
    sized: bool


class Look(TypedDict):
    """A look at what grows: rounds, steps, bytes written of big arrays, and ``[name, value, end]`` of every loop."""

    rounds: int
    steps: int
    arrays: int
    progress: List[List[Any]]


class LevelFacts(TypedDict):
    """What a loop held after each round: ``[round, steps, bytes]``."""

    per: str
    points: List[List[int]]
    looks: List[Look]
    containers: List[ContainerRow]


class FileRow(TypedDict, total=False):
    """A file that the process maps; ``in_ram``: one that lies in memory."""

    file: str
    address: int
    end: int
    nbytes: int
    resident: int
    in_ram: bool
    path: str | None


class LoopFacts(TypedDict):
    """How far a loop of the target's own came."""

    cycles: int
    updates: int
    env_steps: int


class VramFacts(TypedDict):
    """What torch's allocator and the driver say; ``device`` is the whole GPU's."""

    allocated: int
    reserved: int
    device: int


class PythonFacts(TypedDict):
    """The interpreter."""

    version: str
    executable: str


class StoreKey(TypedDict):
    """One key of the observations in a compact buffer."""

    obs_bytes: int
    stack: int
    codec: str
    nbytes: int
    resident: int


class StoreFacts(TypedDict, total=False):
    """A buffer of rlmem's own; of a recorded run only what a description is made of."""

    rows: int
    n_envs: int
    paired: bool
    full: bool
    index_bytes: int
    options: Dict[str, Any]
    n_steps: int
    prioritised_bytes: int
    keys: Dict[str, StoreKey]


class BufferArray(TypedDict, total=False):
    """An array of a buffer; of a recorded run the name alone."""

    name: str
    shape: Shape
    dtype: str
    nbytes: int
    resident: int
    address: int


#: A replay or rollout buffer of a model; ``store`` of a compact one.
BufferFacts = TypedDict("BufferFacts", {"class": str, "arrays": List[BufferArray], "store": StoreFacts}, total=False)


class ModelFacts(TypedDict, total=False):
    """A Stable-Baselines3 model, as it was built (``model``) or as it was asked for (``request``)."""

    algorithm: str
    package: str
    policy: str
    policy_kwargs: Dict[str, Any]
    device: str
    observation: Space
    action: Space
    #: The vector environment's wrappers, the outermost first; frames in a stack by key (``""``: all).
    env: List[str]
    stacks: Dict[str, int]
    # Only of one as it was asked for: numbers that were passed, classes of buffers.
    given: Dict[str, Any]
    stores: List[str]
    n_envs: int
    # Only of one that was built:
    bases: List[str]
    settings: Dict[str, Any]
    networks: Dict[str, int]
    optimizers: List[str]
    buffers: Dict[str, BufferFacts]
    #: Where its learner is meant to be: ``cuda`` or ``cpu``.
    learner_device: str
    total_timesteps: int | None
    callbacks: List[str]


class RecordingFacts(TypedDict):
    """The operations of updates at one batch size; see ``agent/ops.py`` for the events."""

    batch: int
    before: List[List[int]]
    events: List[List[Any]]


class Reached(TypedDict, total=False):
    """The sizes of the last update that a rehearsal came to the end of."""

    n_steps: int
    batch_size: int | None
    updates: int


class RehearsalFacts(TypedDict, total=False):
    """A little of ``learn()``, run for real."""

    reached: Reached
    recordings: List[RecordingFacts]
    #: Bytes of gradients and optimizer state.
    learner: Dict[str, int]
    networks: Dict[str, int]
    buffers: Dict[str, List[BufferArray]]
    stores: Dict[str, StoreFacts]
    phases: Dict[str, Reading]
    #: Addresses of what the model holds.
    held: List[int]


class SampleFacts(TypedDict):
    """That a sample of observations was written to the job's folder."""

    transitions: int


class DescribedFacts(TypedDict, total=False):
    """What the description of a run is made of: of a dry run, of a running process, of one that was recorded."""

    protocol: int
    model: ModelFacts
    request: ModelFacts
    versions: Dict[str, str]
    #: A GPU was asked for that is not here.
    wanted_device: str
    #: Worker processes that the environment asked for, and how many were started where that is fewer.
    workers_asked: int
    workers_started: int
    phases: Dict[str, Reading]
    sized: Sized


class Facts(DescribedFacts, total=False):
    """What a dry run learned. A run that was killed has what was on disk by then."""

    notes: List[str]
    #: ``learn``, ``loop``, ``update``, ``time``, ``end``; None for less.
    met: str | None
    stop: StopFacts | None
    python: PythonFacts
    wall_s: float
    #: What the agent itself takes.
    overhead_bytes: int
    arrays: List[ArrayRow]
    worker_arrays: List[ArrayRow]
    containers: List[ContainerRow]
    files: List[FileRow]
    levels: LevelFacts
    loop: LoopFacts
    #: Stores of compact buffers in a loop of the target's own.
    loop_stores: List[StoreFacts]
    rehearsal: RehearsalFacts
    sample: SampleFacts | None
    #: Changes that a constructor took.
    changed: Dict[str, Any]
    #: Environment steps that were made, and those of the whole run.
    env_steps: int
    steps: int
    #: Whether the target came to an end of its own, and whether well: False is an end too.
    ended: bool
    #: Optimizer steps of processes that the target started, by process.
    learners: Dict[str, int]
    #: Bytes of parameters whose optimizer never stepped; of JAX's arrays.
    pending_bytes: int
    jax_bytes: int
    vram: VramFacts
    gpu_unused: bool
    # Added by the parent:
    #: The largest the tree was seen from outside.
    tree_peak: int


class SampleKey(TypedDict):
    """One key of a sample."""

    name: str
    shape: Shape
    dtype: str


class Sample(TypedDict):
    """What ``sizing.py`` is told of the arrays beside it (``now-0.npy``, ``after-0.npy`` …)."""

    rows: int
    n_envs: int
    keys: List[SampleKey]
    options: Dict[str, Any]
    paired: bool


class SizedKey(TypedDict, total=False):
    """Bytes of a stored unit of one key; ``block`` and a range only where a codec is worth it."""

    stack: int
    unit_bytes: int
    codec: str
    constant: bool
    block: int
    low: int
    expected: int
    high: int


class Sized(TypedDict, total=False):
    """How small a sample gets as the buffer is made (``keys``) and with the best codec (``auto``), or why that is unknown."""

    keys: Dict[str, SizedKey]
    auto: Dict[str, SizedKey]
    transitions: int
    #: The share of rows whose observation is not the next one of the row before.
    ends: float | None
    #: A package that is not there; what went wrong.
    missing: str
    problem: str


class SpacesAnswer(TypedDict, total=False):
    """What ``environment.py`` prints: the spaces of an environment or its ``problem``, and the release of SB3 there."""

    observation: Space
    action: Space
    n_envs: int
    problem: str
    sb3: str


class JournalRow(TypedDict, total=False):
    """Something that a dry run is about to do to a path: ``made``, ``changed``, ``link``, ``emptied`` or ``moved``."""

    #: A path that was not there.
    made: str
    #: A path that is changed or removed, and where a copy of it is.
    changed: str
    copy: str
    #: A symbolic link that leads to ``to``; a folder that is removed empty; a path that gets the name ``to``.
    link: str
    emptied: str
    moved: str
    to: str


# ---------------------------------------------------------------- the agent's socket
class Question(TypedDict, total=False):
    """What is asked: one line. ``ask`` is a name of :data:`ANSWERS`; of the others each has what it needs."""

    protocol: int
    ask: str
    #: Of ``walk``: seconds the program may stand still, seconds until its main thread comes to it, objects.
    seconds: float
    wait: float
    objects: int
    #: Of ``checkpoint``: where to; without it the question is how the last one stands.
    folder: str


class Answer(TypedDict, total=False):
    """What every answer may have."""

    protocol: int
    #: What went wrong; then there is nothing else.
    error: str


class HelloAnswer(Answer):
    """Who this is."""

    pid: int
    python: str
    implementation: str
    asks: List[str]
    argv: List[str]


class WalkRow(TypedDict):
    """A path from a variable, and the memory beneath it; ``extents`` are addresses and sizes in turn."""

    path: str
    kind: str
    type: str
    nbytes: int
    #: Of ``nbytes``, what has extents.
    covered: int
    extents: List[int]
    #: Bytes of objects up to 512 B, which are Python's own allocator's, and of larger ones.
    small: int
    medium: int
    vram: int
    filled: int | None
    capacity: int | None
    #: Whether its elements are steps of an environment; None where that was not looked at.
    transitions: bool | None
    estimated: bool
    #: By how much an estimate may be too high and too low.
    less: int
    more: int
    #: Tensors that keep their graph, and what the graphs hold; ``graph_more``: at least so much.
    graphs: int
    graph_bytes: int
    graph_more: bool
    note: str


class _Progress(TypedDict):
    step: int
    total: int | None
    #: The class that counts them, or ``global_step``.
    source: str


class ProgressFacts(_Progress, total=False):
    """How far a run has come."""

    n_envs: int


class CudaFacts(TypedDict):
    """What torch's allocator holds on one GPU."""

    gpu: str
    allocated: int
    reserved: int


class WalkAnswer(Answer, total=False):
    """What a process can name; nothing of it of one that has no agent."""

    rows: List[WalkRow]
    progress: ProgressFacts | None
    phase: str | None
    cuda: List[CudaFacts]
    objects: int
    #: Whether it came to its end before its limits.
    complete: bool
    notes: List[str]
    #: Seconds that the program stood still, slice by slice.
    pauses_s: List[float]
    wall_s: float


class PhaseAnswer(Answer):
    """Which part of a run the main thread is in; None when that cannot be told."""

    phase: str | None


class CountsAnswer(Answer):
    """Numbers that no walk can tell; each is None where it cannot be had."""

    open_figures: int | None
    models_alive: int | None
    pauses_s: List[float]
    free_heap_bytes: int | None


class DescribeAnswer(DescribedFacts, total=False):
    """The model that is trained and the versions; neither without one, or when the main thread did not come to it."""

    error: str
    pauses_s: List[float]


class TrimAnswer(Answer):
    """Resident bytes before the C library handed back what is free, and after."""

    before: int
    after: int


class CheckpointAnswer(Answer, total=False):
    """How a checkpoint stands; also a file in the run's folder once it is settled."""

    #: ``idle``, ``nobody``, ``asked``, ``saving``, ``saved`` or ``failed``.
    state: str
    folder: str
    message: str
    seconds: float
    step: int
    algorithm: str
    files: List[str]
    versions: Dict[str, str]


#: What can be asked, and the answer to it.
ANSWERS = {
    "hello": HelloAnswer,
    "walk": WalkAnswer,
    "phase": PhaseAnswer,
    "counts": CountsAnswer,
    "describe": DescribeAnswer,
    "trim": TrimAnswer,
    "checkpoint": CheckpointAnswer,
}


# ---------------------------------------------------------------- the folder of a run
class _Death(TypedDict):
    pid: int
    type: str
    #: The names of its type and of its bases.
    kinds: List[str]
    message: str
    where: str | None
    line: str | None
    remote: str | None
    thread: str
    worker: str | None
    phase: str
    step: int | None
    limits: Dict[str, int]
    at: float


class DeathNote(_Death, total=False):
    """An exception that nobody caught; ``kernel`` of a MemoryError."""

    kernel: Dict[str, int]


class LimitNote(TypedDict):
    """A resource limit on memory that a process set itself."""

    pid: int
    limits: Dict[str, int]


class ExitNote(TypedDict):
    """A child that a signal ended, as its parent saw it."""

    pid: int
    signal: int
    parent: int
    at: float


class KillNote(TypedDict):
    """A deadly signal that a process of the run sent."""

    pid: int
    sender: int


#: What processes leave in the run's folder, ``KIND-PID-TIME.json``.
LEFT_BEHIND = {
    "death": DeathNote,
    "limit": LimitNote,
    "exit": ExitNote,
    "kill": KillNote,
    "checkpoint": CheckpointAnswer,
}


# ---------------------------------------------------------------- programs
class PhaseChild(TypedDict):
    """A process of a program's tree when a phase ended."""

    role: str
    rss: int
    pss: int
    uss: int


class _PhaseRow(TypedDict):
    rss_before: int
    rss: int
    hwm: int
    tree: int
    seconds: float


class PhaseRow(_PhaseRow, total=False):
    """A phase of a program: resident before and after, the most of this process and of its tree."""

    children: List[PhaseChild]


class TrainingProgress(TypedDict):
    """How far a benchmark is."""

    done: int
    of: int
    seconds: float


class ProgramStatus(TypedDict, total=False):
    """What a program says while it runs, in the file named by ``RLMEM_STATUS``."""

    phase: str | None
    done: bool
    #: The tree's peak of each phase so far.
    peaks: Dict[str, int]
    versions: Dict[str, str]
    progress: TrainingProgress


class ProgramAnswer(TypedDict, total=False):
    """What a program of a described run answers: ``error``, or what it measured."""

    protocol: int
    error: str
    case: Dict[str, Any]
    phases: Dict[str, PhaseRow]
    #: Bytes by component; ``cuda.allocated`` and ``cuda.reserved`` are torch's own peaks.
    components: Dict[str, int]
    notes: List[str]
    versions: Dict[str, str]
    # Of sb3_run.py: the buffer's arrays, parameters, and what a checkpoint takes.
    buffer: Dict[str, Any]
    params: Dict[str, Any]
    model_file_bytes: int
    replay_file_bytes: int
    # Of swarm_run.py:
    parameters: int
    # Of elegantrl_run.py: whether targets are networks of their own.
    act_target_is_act: bool
    cri_target_is_cri: bool
    # Of bench_run.py:
    steps: int
    train_seconds: float
    updates: int
    steps_per_s: float
    episodes: int
    mean_reward: float | None
    reward_per_step: float
    #: Where images come from: ``rendered``, ``zeros``, ``no images``, ``noise``.
    image: str
    env_bytes: int | None


class RLlibEvaluation(TypedDict):
    """EnvRunners of the evaluation as they differ from the others."""

    num_envs: int
    duration: Union[int, str]
    unit: str


class RLlibStep(TypedDict):
    """What a step leaves in an episode: its observation, and what is beside it."""

    observation_bytes: int
    beside_bytes: int


class RLlibNetwork(TypedDict, total=False):
    """The modules as an EnvRunner and as a Learner hold them; parameters are counts, not bytes."""

    module_observation: Space
    #: What the configuration's own code refused.
    notes: List[str]
    modules: int
    layers: Dict[str, List[str]]
    runner_parameters: int
    runner_bytes: int
    parameters: int
    largest_parameter: int
    target_parameters: int
    #: Steps that a recurrent module learns from at a time; None for any other.
    sequence: int | None
    #: Bytes a sample's forward pass keeps for the backward pass; None where it was refused.
    saved_bytes: int | None
    value_bytes: int | None
    learner_bytes: int


class RLlibDescription(TypedDict, total=False):
    """What an RLlib configuration says of itself."""

    protocol: int
    error: str
    algorithm: str
    versions: Dict[str, str]
    env: str
    config: Dict[str, Any]
    fragment: int
    is_multi_agent: bool
    imported_bytes: int
    file_bytes: int
    env_bytes: int
    env_once_bytes: int
    info_bytes: int
    observation: Space
    action: Space
    #: The longest episode that the environment's registration allows, and the longest that was seen.
    episode_length: int | None
    episode_steps: int | None
    env_packages: List[str]
    network: RLlibNetwork
    evaluation: RLlibEvaluation | None
    step: RLlibStep | None


class RLlibMeasurement(TypedDict, total=False):
    """What training an RLlib configuration came to; roles, owners and titles are by process."""

    protocol: int
    error: str
    phases: Dict[str, PhaseRow]
    roles: Dict[str, str]
    owners: Dict[str, str]
    titles: Dict[str, str]
    iterations: int
    #: Rows of the replay buffer that are used, and that there are.
    rows: int
    capacity: int | None
    versions: Dict[str, str]
