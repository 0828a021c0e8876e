"""A run of RLlib played on the tape, role by role: driver, EnvRunners, learners, aggregators, evaluation, Ray itself.

Read from RLlib 2.60 (new API stack) and measured by role. What a configuration does not show:

- An EnvRunner keeps every chunk of an episode that is not over, for its metrics (``_ongoing_episodes_for_metrics``): with
  fragments of one step that is four observations and 2 KB a step. Numpy reads episodes in the object store without a copy.
- A learner's connectors copy: every episode with one more step (``AddOneTsToEpisodesAndTruncate``), the batch, and, where it is
  shuffled, the batch again. PPO's value pass over the *whole* train batch runs with gradients on, so it keeps its graph.
- Replay buffers live in the driver and copy episodes out of the object store; every episode brings a copy of its space, a
  prioritised one two trees of Python lists, made for the next power of two.
- With learner actors everything passes the object store once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from rlmem.core.ledger import Ledger
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import Box, leaves
from rlmem.core.spec import RunSpec
from rlmem.frameworks.rllib.counts import (
    DRIVER,
    EVALUATION,
    LEARNER,
    RAY,
    RUNNER,
    STORE,
    counts,
)
from rlmem.frameworks.rllib.defaults import FLOAT, module_floats
from rlmem.model.constants import Constants
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.tape import Block

#: Ray starts this many workers before anybody asks; actors take them over.
PRESTARTED = 2


class ClusterRun(Rehearsal):
    """What all algorithms share: processes, modules, episodes; subclasses say what an update holds."""

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        self.counts = counts(spec)
        self.learners = self.counts.get(LEARNER, 0)
        #: Where learning happens, and how many times.
        self.home = LEARNER if self.learners else DRIVER
        self.replicas = max(1, self.learners)
        origin = spec.origin("observation")
        raw = sum(leaf.nbytes for leaf in leaves(spec.need("observation"), ""))
        seen = sum(leaf.nbytes for leaf in spec.observation_leaves)
        actions = leaves(spec.need("action"), "action")
        # As episodes hold them: discrete actions int32, rewards float64, the number of the weights int64.
        action = sum(FLOAT * prod(leaf.shape) for leaf in actions)
        logits = sum(leaf.width for leaf in actions) * (2 if isinstance(spec.need("action"), Box) else 1)
        outputs = 0 if spec.text("algorithm") == "dqn" else FLOAT * (logits + 1)
        beside = action + outputs + 8 + 8
        # Connectors may write other observations into episodes, and a recurrent module its state.
        raw = int(spec.get("rllib.observation_bytes", raw))
        kept = raw + int(spec.get("rllib.beside_bytes", beside))
        self.raw = Quantity.of(raw, "observation bytes", origin)
        self.row = Quantity.of(kept, "bytes of a step", f"observation, action, reward, module outputs; {origin}")
        self.info = Quantity.of(
            int(spec.get("rllib.info_bytes", 64)), "bytes of a step's info", spec.origin("rllib.info_bytes")
        )
        self.seen = Quantity.of(
            int(spec.get("rllib.seen_bytes", seen)) + beside,
            "bytes of a batch's row",
            f"observation as the module sees it, frames stacked; {origin}",
        )

    # ------------------------------------------------------------ helpers
    def hold(self, role: str, component: str, amount: Quantity, basis: str = "derived", **more: str) -> Block:
        """A block of every actor of a role, the driver's included."""
        count = self.counts.get(role, 1)
        each = Quantity.of(count, f"{role}s", "the configuration") * amount if count > 1 else amount
        return self.tape.alloc(component, each, process=role, basis=basis, **more)

    def learn(self, component: str, amount: Quantity, basis: str = "derived") -> Block:
        """A block of the learner, wherever it is, on its device."""
        return self.hold(self.home, component, amount, basis, device=self.device)

    def on_gpu(self, role: str) -> bool:
        """Whether the module of an EnvRunner is on a GPU: RLlib puts it there where a runner asks Ray for a part of one."""
        return role in (RUNNER, EVALUATION) and float(self.spec.get("rllib.runner_gpus", 0)) > 0

    def cuda(self, role: str) -> None:
        """What CUDA takes of a GPU and of RAM before a process has put anything there."""
        for name in ("context", "workspace"):
            self.hold(role, f"runtime.cuda-{name}", self.constants.quantity(f"cuda.{name}"), "measured", device="vram")
        self.constant(role, "runtime.cuda-host", "cuda.host-mlp")

    def constant(self, role: str, component: str, name: str) -> None:
        """A measured constant of every actor of a role."""
        amount = self.constants.quantity(name)
        if amount.high:
            self.hold(role, component, amount, "measured")

    def known(self, field: str, constant: str) -> Quantity:
        """What the configuration's own interpreter showed, else the shipped constant."""
        if field in self.spec:
            found = self.spec.count(field)
            return Quantity.of(found, field, self.spec.origin(field), low=round(0.97 * found), high=round(1.05 * found))
        return self.constants.quantity(constant)

    # ------------------------------------------------------------ the run
    def play(self) -> Ledger:
        """Import, build, then two rounds of collection and update, evaluation beside the last."""
        with self.tape.phase("import"):
            for role in self.counts:
                self.hold(role, "runtime.imports", self.known("rllib.imported_bytes", "rllib.imported"), "measured")
            self.daemons()
        with self.tape.phase("build"):
            self.build()
        for round_ in range(2):
            with self.tape.phase("collect"):
                held = self.collected()
            with self.tape.phase("update"):
                if round_ == 0:
                    self.first_update()
                self.update()
            if round_ == 0:
                self.slack(self.tape.watched_at_most("update", self.device))
                self.tape.free(*held)
        if self.evaluates and (EVALUATION in self.counts or self.evaluates_here):
            with self.tape.phase("evaluate"):
                self.evaluated()
        with self.tape.phase("checkpoint"):
            self.checkpoint()
        return self.tape.ledger()

    def daemons(self) -> None:
        """Ray's own processes of one node, the pages of libraries that all processes share, workers nobody took over."""
        self.constant(RAY, "runtime.ray", "ray.daemons")
        shared = self.known("rllib.file_bytes", "rllib.files") + self.constants.quantity("ray.binaries")
        self.hold(RAY, "runtime.shared", shared, "measured")
        actors = sum(count for role, count in self.counts.items() if role != DRIVER)
        idle = max(0, PRESTARTED - actors)
        if idle:
            amount = Quantity.of(idle, "idle workers", "started before they are asked for")
            self.hold(RAY, "runtime.idle-workers", amount * self.constants.quantity("ray.idle-worker"), "measured")

    def build(self) -> None:
        """Actors, modules, environments."""
        for role in self.counts:
            own = {DRIVER: "ray.driver", LEARNER: "ray.learner"}.get(role, "ray.actor")
            self.constant(role, "runtime.ray", own)
        module = self.known("rllib.module_bytes", "rllib.module")
        values = self.spec.q("rllib.runner_parameters") * FLOAT
        # The driver has a local EnvRunner: its module takes part in saving and restoring, with or without environments.
        for role in (RUNNER, EVALUATION, DRIVER):
            if role in self.counts:
                self.hold(role, "runner.module", module, "measured")
                on_gpu = self.on_gpu(role)
                self.hold(role, "runner.parameters", values, "exact", device="vram" if on_gpu else "ram")
                if on_gpu:
                    self.cuda(role)
        self.environments(RUNNER if RUNNER in self.counts else DRIVER, self.spec.q("n_envs"))
        if self.evaluates_here:  # a second EnvRunner in the driver, with environments of its own
            self.hold(DRIVER, "runner.evaluating", values, "exact")
            self.environments(DRIVER, self.spec.q("rllib.eval_envs"))
        if EVALUATION in self.counts:
            self.environments(EVALUATION, self.spec.q("rllib.eval_envs"))
        if self.home == LEARNER:
            self.hold(LEARNER, "runner.module", module, "measured")
        trained, targets = self.spec.q("rllib.parameters"), self.spec.q("rllib.target_parameters")
        if self.device == "vram":
            self.cuda(self.home)
        self.learn("learner.parameters", trained * FLOAT, "exact")
        if targets.value:
            self.learn("learner.targets", targets * FLOAT, "exact")
        optimizer = self.known("rllib.optimizer_bytes", "rllib.optimizer")
        self.hold(self.home, "runtime.optimizer", optimizer, "measured")
        self.build_stores()

    def environments(self, role: str, envs: Quantity) -> None:
        """Environments of one EnvRunner, and the packages they bring; each may have a process of its own."""
        if "rllib.env_once_bytes" in self.spec:
            once = self.spec.q("rllib.env_once_bytes")
            self.hold(role, "workers.imports", once, "measured")
        if self.spec.text("vec_env") == "subproc":
            self.hold(role, "workers.processes", envs * self.constants.quantity("rllib.env-process"), "measured")
        if "env.bytes" in self.spec:
            each = Quantity.of(self.spec.get("env.bytes"), "env.bytes", self.spec.origin("env.bytes"))
            self.hold(role, "workers.simulator", (envs * each).between(0.5, 2.0, "measured once"), "measured")
        else:
            self.hold(role, "workers.simulator", envs * self.constants.quantity("env.small"), "measured")
        for package in self.spec.get("env.imports", ()) if "rllib.imported_bytes" not in self.spec else ():
            self.constant(role, "runtime.imports", f"import.{package}")
        self.hold(role, "workers.observation-copies", 3 * envs * self.raw)

    def build_stores(self) -> None:
        """Replay, where there is one."""

    # ------------------------------------------------------------ collection
    def request(self) -> Quantity:
        """Steps of one request to an EnvRunner, over all its environments."""
        envs = self.spec.q("n_envs")
        if self.spec.flag("rllib.complete_episodes"):
            return self.episode() * envs
        return self.spec.q("rllib.fragment") * envs

    def episode(self) -> Quantity:
        """Steps of one episode; where the environment does not say, a guess with a wide range."""
        if "episode_length" not in self.spec:
            return Quantity.of(500, "steps of an episode", "not known: 50 to 2000 assumed", low=50, high=2000)
        steps = self.spec.count("episode_length")
        most = min(int(self.spec.get("rllib.longest_episode", steps)), 4 * steps)
        origin = self.spec.origin("episode_length")
        return Quantity.of(steps, "steps of an episode", origin, low=min(50, steps), high=max(steps, most))

    def collected(self) -> list[Block]:
        """Episodes in EnvRunners, and in the object store on their way."""
        held = []
        home = RUNNER if RUNNER in self.counts else DRIVER
        held += self.sampled(home, self.request())
        held.append(self.hold(home, "rollout.ongoing", self.ongoing()))
        if EVALUATION in self.counts and self.evaluates:
            held += self.sampled(EVALUATION, self.evaluated_steps())
        weights = self.spec.q("rllib.runner_parameters") * FLOAT
        amount = (self.versions() * weights).between(0.3, 1.7, "when objects are let go")
        held.append(self.hold(STORE, "store.weights", amount))
        in_store = self.stored_steps()
        if in_store.value:
            amount = (in_store * (self.row + self.info)).between(0.7, 1.5, "when objects are let go")
            held.append(self.hold(STORE, "store.episodes", amount))
        return held

    def sampled(self, role: str, steps: Quantity) -> list[Block]:
        """Episodes of so many steps in an EnvRunner, the last of which are made into arrays."""
        objects = self.constants.quantity("rllib.step-in-runner")
        return [
            self.hold(role, "rollout.episodes", steps * (self.row + self.info + objects)),
            self.hold(role, "rollout.to-arrays", _least(self.episode(), steps) * self.raw),
        ]

    @property
    def evaluates(self) -> bool:
        """Whether anything is ever evaluated: EnvRunners for it are started all the same."""
        return self.spec.count("rllib.eval_duration") > 0

    @property
    def evaluates_here(self) -> bool:
        """Whether the driver evaluates, which it does where no EnvRunner is there for it."""
        return self.spec.flag("rllib.eval_in_driver") and EVALUATION not in self.counts

    def evaluated_steps(self) -> Quantity:
        """Steps an EnvRunner has at once when it evaluates: all episodes of its share, and those its other environments began."""
        runners = max(1, self.counts.get(EVALUATION, 0))
        share = -(-self.spec.count("rllib.eval_duration") // runners)
        origin = self.spec.origin("rllib.eval_duration")
        if self.spec.text("rllib.eval_unit") == "timesteps":
            return Quantity.of(share, "steps of an evaluation", origin)
        count = max(share, self.spec.count("rllib.eval_envs"))
        return Quantity.of(count, "episodes of an evaluation, by EnvRunner", origin) * self.episode()

    def ongoing(self) -> Quantity:
        """Chunks of unfinished episodes: each ends with an observation of its own, the one before it, and the last again."""
        if self.spec.flag("rllib.complete_episodes"):
            return Quantity.literal(0)
        fragment = self.spec.count("rllib.fragment")
        chunk = self.constants.quantity("rllib.chunk")
        more = Quantity.of(
            3 * self.raw.value // fragment + chunk.value // fragment,
            "bytes of a chunk, by step",
            f"3 observations and {chunk.value:,} B for every {fragment:,} steps",
        )
        whole = self.episode()
        before = Quantity.of(
            max(0, whole.value - fragment),
            "steps of earlier chunks",
            f"an episode of {whole.value:,} in chunks of {fragment:,}",
            low=max(0, whole.low - fragment),
            high=max(0, whole.high - fragment),
        )
        return self.spec.q("n_envs") * before * (self.row + self.info + more)

    def versions(self) -> int:
        """Weights in the object store at once: what was put, what is being read."""
        return 3

    def stored_steps(self) -> Quantity:
        """Steps whose episodes lie in the object store at once."""
        runners = self.counts.get(RUNNER, 0)
        if not runners:
            return Quantity.literal(0)
        amount = Quantity.of(runners, "env-runners", self.spec.origin("rllib.num_env_runners")) * self.request()
        return amount * self.spec.q("rllib.in_flight")

    # ------------------------------------------------------------ update
    def first_update(self) -> None:
        """Gradients and Adam's state appear with the first update and stay."""
        trained = self.spec.q("rllib.parameters")
        self.learn("learner.gradients", trained * FLOAT, "exact")
        self.learn("learner.optimizer", 2 * (trained * FLOAT), "exact")

    def padded(self, batch: Quantity) -> Quantity:
        """Rows that a recurrent module learns from: episodes are cut into sequences, and the last of each is filled up."""
        if "rllib.sequence" not in self.spec:
            return batch
        steps, episode = self.spec.count("rllib.sequence"), self.episode()

        def percent(length: int) -> int:
            return 100 + 50 * steps // max(1, length)  # half a sequence an episode

        rows = Quantity.of(
            percent(episode.value),
            "percent of the steps",
            f"sequences of {steps:,} of an episode of {episode.value:,}",
            low=100,
            high=percent(min(episode.low, 50)),
        )
        return rows.percent_of(batch)

    def forward(self, batch: Quantity, field: str, component: str) -> Block:
        """A forward pass that keeps its graph: saved tensors without the input, which is counted as the batch."""
        saved = self.spec.count(field) if field in self.spec else 0
        inputs = FLOAT * module_floats(self.spec)
        own = saved - inputs if saved > inputs else saved
        return self.learn(component, batch * Quantity.of(own, f"{field} without the input", self.spec.origin(field)))

    def backward(self, saved: Block) -> None:
        """Gradients flow back: about half of what was saved lives beside it for a moment."""
        half = Quantity.of(50, "percent of what was saved", "the gradients of a layer's input and output, at a time")
        amount = half.percent_of(saved.amount)
        self.tape.free(self.tape.alloc("learner.backward", amount, process=self.home, device=self.device))

    def update(self) -> None:
        """One update of the learner."""
        raise NotImplementedError

    def evaluated(self) -> None:
        """Episodes of EnvRunners that evaluate are counted when others collect, which may be at the same time."""
        if self.evaluates_here:
            self.tape.free(*self.sampled(DRIVER, self.evaluated_steps()))

    def checkpoint(self) -> None:
        """Saving: one state at a time goes through a buffer."""
        amount = self.constants.quantity("checkpoint.model")
        self.tape.free(self.tape.alloc("checkpoint.buffers", amount, process=DRIVER, basis="measured"))

    def slack(self, blocks: Iterable[Block]) -> None:
        """What the allocator keeps of an update's tensors, in the process that updates."""
        self.runtime.slack(blocks, process=self.home)


def _least(one: Quantity, other: Quantity) -> Quantity:
    return one if one.value <= other.value else other
