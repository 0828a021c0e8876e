"""What a model of a script observes and what its replay buffer keeps of it, as far as the text tells; shared by rules."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from rlmem.core.edits import Fix
from rlmem.core.spaces import DTYPES, Box
from rlmem.model.constants import Constants
from rlmem.rules.lengths import learned_steps, run_steps
from rlmem.rules.shapes import BoxCall, boxes, dtype_of, is_image, known, number
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.training import GYM, IMAGE_POLICIES, SB3, Environment, Model, environment_of, models
from rlmem.scripts.walk import LOOPS
from rlmem.sources.environments import find_environment
from rlmem.units import MIB

#: Less than this is not worth a word; from here on it is worth a warning.
WORTH_BYTES, WARN_BYTES = 16 * MIB, 64 * MIB
#: What rlmem's buffers bring into a process themselves: numba with LLVM, and compiled code.
COMPACT_BYTES = sum(Constants().quantity(name).value for name in ("import.numba", "import.rlmem.sb3"))
#: SB3's off-policy algorithms take this many rows where nobody says.
DEFAULT_ROWS = 1_000_000
#: The smallest image that SB3's convolutions take: 36 × 36 pixels of one byte.
SMALLEST_IMAGE_BYTES = 36 * 36
ATARI_STACK_BYTES = 84 * 84 * 4
#: SB3's own classes, which keep next observations in an array of their own.
_PLAIN_CLASSES = {"ReplayBuffer", "DictReplayBuffer", "HerReplayBuffer", "NStepReplayBuffer"}
_STACKS = {"VecFrameStack": "n_stack", "FrameStackObservation": "stack_size", "FrameStack": "num_stack"}
_FRAMES = {"AtariWrapper": (84, 84, 1), "WarpFrame": (84, 84, 1), "AtariPreprocessing": (84, 84)}
_GREY = {"GrayscaleObservation", "GrayScaleObservation"}
#: Arguments of environments that decide what they observe: ``obs_type``, ``exclude_current_positions_from_observation``.
_CHOOSES = re.compile(r"obs|pixel|image|width|height|size|resol|gr[ae]y|screen|exclude|include|stack", re.IGNORECASE)
_NEUTRAL = {
    "Monitor", "VecMonitor", "RecordEpisodeStatistics", "TimeLimit", "VecTransposeImage", "DummyVecEnv", "SubprocVecEnv",
    "NoopResetEnv", "MaxAndSkipEnv", "EpisodicLifeEnv", "FireResetEnv", "ClipRewardEnv", "ClipReward", "RecordVideo",
    "OrderEnforcing", "PassiveEnvChecker", "VecVideoRecorder", "TransformReward", "NormalizeReward", "Autoreset",
    "make_vec_env", "StickyActionEnv", "ClipAction", "RescaleAction", "RecordEpisodeStatisticsV0", "VecCheckNan",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One observation: its shape and dtype where they are known, and how many frames lie stacked in it."""

    shape: tuple[int, ...] | None = None
    dtype: str = ""
    stack: int = 1
    stack_known: bool = True  # or "at least so many"
    image: bool = False
    known_bytes: int = 0  # of the parts that are known, where the whole is not

    @property
    def nbytes(self) -> int | None:
        """Bytes of one observation."""
        return prod(self.shape) * DTYPES[self.dtype] if self.shape and self.dtype else None

    @property
    def least_bytes(self) -> int:
        """What one observation takes at least; an image through SB3's convolutions has a smallest size."""
        if self.nbytes is not None:
            return self.nbytes
        return max(self.known_bytes, SMALLEST_IMAGE_BYTES if self.image else 0) * self.stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay buffer of SB3 that a script builds, by a model or by hand: its rows, and how it keeps observations."""

    call: ast.Call
    owner: str  # the algorithm, or the class of the buffer
    seen: Observed
    rows: int | None
    given: ast.expr | None
    twice: bool | None  # whether next observations have an array of their own; None: not known
    model: Model | None = None
    steps: int | None = None  # of the whole run

    @property
    def filled(self) -> int | None:
        """The rows that the run can write; pages of the others are never touched."""
        return self.rows if self.rows is None or self.steps is None else min(self.rows, self.steps)

    @property
    def is_default(self) -> bool:
        """Whether nobody said how many rows."""
        return self.given is None and self.rows is not None

    def spot(self, script: Script) -> ast.expr:
        """Where the number of rows stands, or the constructor when that is elsewhere."""
        inside = self.given is not None and script.parent(self.given) is not None
        return self.given if self.given is not None and inside else self.call

    @property
    def instead(self) -> str:
        """How a program asks for rlmem's buffer in its place."""
        if self.model is None:
            return f"CompactReplayBuffer of rlmem.sb3 in place of {self.owner}"
        return "replay_buffer_class=CompactReplayBuffer of rlmem.sb3"

    def gains(self, nbytes: int) -> int:
        """What is left of a saving with rlmem's buffer in place; 0 where it is not worth a word."""
        left = nbytes - COMPACT_BYTES
        return left if left >= WORTH_BYTES else 0

    def sized(self, nbytes: int) -> int | None:
        """Bytes, where the observations are really known and not only their least."""
        return nbytes if self.seen.nbytes is not None or self.seen.known_bytes else None

    @property
    def copies(self) -> int:
        """How often an observation is kept."""
        return 2 if self.twice else 1


@lru_cache(maxsize=2)
def replays(script: Script) -> tuple[Replay, ...]:
    """Every replay buffer of SB3 in a script."""
    return (
        *(replay(script, model) for model in models(script) if model.off_policy),
        *(_direct(script, call) for call in script.calls_of(*_PLAIN_CLASSES, roots=(*SB3, "cleanrl_utils"))),
    )


def _direct(script: Script, call: ast.Call) -> Replay:
    """A buffer built by hand, as CleanRL does: its space is that of an environment of the script."""
    given = script.argument(call, "buffer_size", 0)
    space = script.argument(call, "observation_space", 1)
    environment = environment_of(script, space.value) if isinstance(space, ast.Attribute) else None
    shared = script.argument(call, "optimize_memory_usage")
    value = script.value(shared) if shared is not None else UNKNOWN if script.has_unknown_arguments(call) else False
    name = script.called(call)
    return Replay(
        call=call,
        owner=name.leaf if name else "ReplayBuffer",
        seen=of_environment(script, environment) if environment else Observed(),
        rows=number(script, given),
        given=given,
        twice=None if value is UNKNOWN else not value,
        steps=run_steps(script),
    )


def observed(script: Script, model: Model) -> Observed:
    """What a model observes: by its environment, and at least that it is an image where its policy says so."""
    environment = model.environment
    seen = of_environment(script, environment) if environment else Observed()
    if model.policy in IMAGE_POLICIES:
        seen = replace(seen, image=True)
    return seen


def replay(script: Script, model: Model) -> Replay:
    """The replay buffer an off-policy model builds."""
    given = model.argument("buffer_size")
    unknown = script.has_unknown_arguments(model.call) or _set_by_key(script)
    rows = number(script, given) if given is not None else None if unknown else DEFAULT_ROWS
    return Replay(
        call=model.call,
        owner=model.algorithm,
        seen=observed(script, model),
        rows=rows,
        given=given,
        twice=_twice(script, model, unknown=unknown),
        model=model,
        steps=learned_steps(script, model),
    )


def _set_by_key(script: Script) -> bool:
    """Whether ``kwargs["replay_buffer_class"] = …`` stands somewhere: under a condition, any argument may be there."""
    names = ("replay_buffer_class", "optimize_memory_usage", "buffer_size")
    return any(name in script.walked.item_values for name in names)


def compact_fix(script: Script, model: Model | None) -> Fix | None:
    """rlmem's buffer in place of SB3's, where a model names no class; it needs rlmem where the script trains."""
    if model is None or model.argument("replay_buffer_class") is not None or script.has_unknown_arguments(model.call):
        return None
    imported = script.add_import("from rlmem.sb3 import CompactReplayBuffer")
    edits = [script.add_argument(model.call, "replay_buffer_class=CompactReplayBuffer")]
    return Fix(
        title="keep every observation once", edits=tuple([*edits, imported] if imported else edits), safety="unsafe"
    )


def severity(nbytes: int) -> str:
    """Warning where it matters, information below."""
    return "warning" if nbytes >= WARN_BYTES else "info"


def _twice(script: Script, model: Model, *, unknown: bool) -> bool | None:
    shared = model.value("optimize_memory_usage")
    chosen = model.argument("replay_buffer_class")
    if shared is UNKNOWN or (unknown and (shared is None or chosen is None)):
        return None
    if shared is True:
        return False
    if chosen is None or (isinstance(chosen, ast.Constant) and chosen.value is None):
        return True
    dotted = script.qualified(chosen) or ""
    return True if dotted.rsplit(".", maxsplit=1)[-1] in _PLAIN_CLASSES else None


def of_environment(script: Script, environment: Environment) -> Observed:
    """The observations of an environment: a known id or a class of the script, then its wrappers from the inside."""
    seen = _base(script, environment)
    for leaf in reversed(environment.wrappers):
        seen = _wrapped(script, seen, leaf)
    return replace(seen, dtype="") if _recast(script) else seen


def _recast(script: Script) -> bool:
    """Whether a script sets the dtype of a space itself, as CleanRL does: ``envs.single_observation_space.dtype = …``."""
    targets = [target.value for target, _ in script.walked.attribute_values.get("dtype", ())]
    return any(isinstance(owner, ast.Attribute) and owner.attr.endswith("observation_space") for owner in targets)


def _base(script: Script, environment: Environment) -> Observed:
    name = script.called(environment.call)
    if name is not None and name.leaf == "make_atari_env":
        return Observed(shape=(84, 84, 1), dtype="uint8", image=True)
    seen = of_id(environment.id) if environment.id and not _chosen(script, environment.call) else None
    if seen is not None:
        return seen
    inner = env_class(script, environment)
    return of_class(script, inner) if inner else _made_inside(script, environment)


def _made_inside(script: Script, environment: Environment) -> Observed:
    """What the factories make, when all their branches name the same environment, through the wrappers they put on it."""
    inside = {node for factory in environment.factories for node in ast.walk(factory) if isinstance(node, ast.Call)}
    made = [call for call in script.calls_of("make", roots=GYM) if call in inside and call.args]
    ids = {
        value if isinstance(value := known(script, call.args[0]), str) and not _chosen(script, call) else None
        for call in made
    }
    only = ids.pop() if len(ids) == 1 else None
    seen = (of_id(only) if isinstance(only, str) else None) or Observed()
    if environment.call in made:  # its wrappers are known, and follow
        return seen
    chain: set[ast.AST] = set(made)
    names: set[str] = set()
    for call in sorted(inside, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)):
        if call not in chain:
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if not any(part in chain or (isinstance(part, ast.Name) and part.id in names) for part in given):
                continue
            if isinstance(script.parent(call), ast.Expr):  # check_env(env)
                continue
            chain.add(call)
            seen = _around(script, seen, call)
        statement = script.statement_of(call)
        if isinstance(statement, ast.Assign) and statement.value is call:
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return seen


def _chosen(script: Script, call: ast.Call) -> bool:
    """Whether an environment is made with arguments that choose what it observes."""
    maker = script.called(call)
    if maker is None or not maker.leaf.startswith("make"):
        return False  # a model that is given the id
    options = script.argument(call, "env_kwargs")
    found = script.definition(options) if options is not None else None
    names = [keyword.arg or "" for each in (call, found) if isinstance(each, ast.Call) for keyword in each.keywords]
    if isinstance(found, ast.Dict):
        names += [str(key.value) if isinstance(key, ast.Constant) else "" for key in found.keys]
    return any(_CHOOSES.search(name) for name in names)


def _around(script: Script, seen: Observed, call: ast.Call) -> Observed:
    """What a call in a factory makes of an observation; one that is only made on a condition may make anything."""
    name = script.called(call)
    sometimes = any(isinstance(above, (ast.If, ast.IfExp, *LOOPS)) for above in script.ancestors(call))
    if name is None or (sometimes and not _is_neutral(script, name.leaf)):
        return Observed()
    return _wrapped(script, seen, name.leaf)


def _is_neutral(script: Script, leaf: str) -> bool:
    """Whether a wrapper leaves observations as they are: a known one, or one of the script that has no say in them."""
    if leaf in _NEUTRAL:
        return True
    node = next((node for node in script.classes if node.name == leaf), None)
    if node is None or not script.is_wrapper(node):
        return False
    bases = {dotted.rsplit(".", maxsplit=1)[-1] for dotted in script.class_bases(node)}
    return "ObservationWrapper" not in bases and "observation_space" not in script.segment(node)


def of_id(text: str) -> Observed | None:
    """The observations of an environment by its id."""
    spaces = find_environment(text)
    space = spaces[0] if spaces else None
    if isinstance(space, Box):
        image = len(space.shape) == 3 and space.dtype == "uint8" and is_image(space.shape)
        return Observed(shape=space.shape, dtype=space.dtype, image=image)
    return None


def env_class(script: Script, environment: Environment) -> ast.ClassDef | None:
    """The class of this file that an environment is made of."""
    classes = {node.name: node for node in script.classes if script.is_env(node)}
    inside = [
        environment.call,
        *(call for f in environment.factories for call in ast.walk(f) if isinstance(call, ast.Call)),
    ]
    for factory in environment.factories:
        if isinstance(factory, ast.ClassDef) and factory.name in classes:
            return factory
    for call in inside:
        for part in (call.func, *call.args):
            if isinstance(part, ast.Name) and part.id in classes:
                return classes[part.id]
    return None


def space_of(script: Script, node: ast.ClassDef) -> ast.expr | None:
    """What a class assigns to its ``observation_space``, when it does so once."""
    found = [
        assign.value
        for assign in script.assigns
        if assign.value is not None
        for target in (assign.targets if isinstance(assign, ast.Assign) else [assign.target])
        if (isinstance(target, ast.Attribute) and target.attr == "observation_space")
        or (isinstance(target, ast.Name) and target.id == "observation_space")
        if node in script.ancestors(assign)
    ]
    return script.definition(found[0]) if len(found) == 1 else None


def of_class(script: Script, node: ast.ClassDef) -> Observed:
    """The observations of an environment class of this file, when its space is a Box."""
    space = space_of(script, node)
    name = script.called(space) if isinstance(space, ast.Call) else None
    if name is not None and name.leaf == "Dict" and isinstance(space, ast.Call):
        return _of_dict(script, space)
    box = _box(script, space)
    return of_box(box) if box else Observed()


def _box(script: Script, expr: ast.expr | None) -> BoxCall | None:
    found = script.definition(expr) if expr is not None else None
    return next((box for box in boxes(script) if box.call is found), None)


def _of_dict(script: Script, space: ast.Call) -> Observed:
    """A Dict: what its Boxes take together, and whether one of them is an image."""
    first = space.args[0] if space.args else None
    entries = first.values if isinstance(first, ast.Dict) else [keyword.value for keyword in space.keywords]
    seen = [of_box(box) for entry in entries if (box := _box(script, entry))]
    return Observed(image=any(one.image for one in seen), known_bytes=sum(one.nbytes or 0 for one in seen))


def of_box(box: BoxCall) -> Observed:
    """A Box as an observation."""
    rank = len(box.shape) if box.shape else 0
    return Observed(shape=box.shape, dtype=box.dtype, image=rank == 3 and is_image(box.shape) and box.dtype == "uint8")


def _wrapped(script: Script, seen: Observed, leaf: str) -> Observed:
    """What a wrapper makes of an observation; its arguments are read where the script calls it once."""
    if _is_neutral(script, leaf):
        return seen
    calls = list(script.calls_of(leaf))
    call = calls[0] if len(calls) == 1 else None
    if leaf in _STACKS:
        depths = {number(script, script.argument(call, _STACKS[leaf], 1)) for call in calls}
        depth = depths.pop() if len(depths) == 1 else None
        if depth is None:
            return replace(seen, shape=None, stack=max(seen.stack, 2), stack_known=False)
        stacked = (*seen.shape, depth) if seen.shape else None
        return replace(seen, shape=stacked, stack=depth * seen.stack)
    if leaf in _FRAMES:
        plain = not calls or (call is not None and len(call.args) == 1 and not call.keywords)
        return Observed(shape=_FRAMES[leaf] if plain else None, dtype="uint8" if plain else "", image=True)
    if leaf in _GREY:
        return replace(seen, shape=seen.shape[:2] if seen.shape and len(seen.shape) == 3 else None)
    if leaf == "ResizeObservation" and call is not None:
        size = known(script, script.argument(call, "shape", 1))
        size = (size, size) if isinstance(size, int) else size
        fits = isinstance(size, (tuple, list)) and len(size) == 2 and seen.shape is not None
        return replace(seen, shape=(*size, *seen.shape[2:]) if fits and seen.shape else None)
    if leaf == "FlattenObservation":
        return replace(seen, shape=(prod(seen.shape),) if seen.shape else None)
    if leaf == "DtypeObservation" and call is not None:
        return replace(seen, dtype=dtype_of(script, script.argument(call, "dtype", 1)))
    return Observed()
