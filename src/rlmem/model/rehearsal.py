"""The rehearsal: the order every run goes through, with hooks for what a framework does at each point."""

from __future__ import annotations

from rlmem.core.ledger import Ledger
from rlmem.core.quantity import Quantity, total
from rlmem.core.spec import RunSpec
from rlmem.model.autograd import Autograd
from rlmem.model.constants import Constants
from rlmem.model.learner import VALUE_BYTES, Learner
from rlmem.model.runtime import Runtime
from rlmem.model.storage import Store
from rlmem.model.tape import Block, Tape
from rlmem.model.workers import Envs

#: Component groups whose tensors come and go within an update.
TRANSIENT = (
    "batch.",
    "learner.activations",
    "learner.backward",
    "learner.conv",
    "learner.loss",
    "learner.step",
    "learner.hessian",
    "rollout.graph",
)


class Rehearsal:
    """Plays one run on a tape. Frameworks subclass it and fill in what they build, collect and update.

    Collection and update are played twice: optimizer state and gradients appear in the first update and are there
    in every collection after it, as in a real run.
    """

    #: Packages the training process imports, in order.
    packages: tuple[str, ...] = ("numpy", "torch")
    #: Whether building the networks runs them once, which brings the kernels in early.
    warm_at_build = False

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        self.spec, self.constants = spec, constants
        self.tape = Tape(watch=TRANSIENT)
        self.device = "vram" if spec.get("device", "cpu") == "cuda" else "ram"
        self.runtime = Runtime(self.tape, constants, device=self.device)
        optimizer = str(spec.get("optimizer", "adam"))
        self.learner = Learner(
            self.tape, device=self.device, optimizer=optimizer, optimizer_origin=spec.origin("optimizer")
        )
        value_bytes = VALUE_BYTES[str(spec.get("precision", "float32"))]
        self.autograd = Autograd(self.tape, device=self.device, value_bytes=value_bytes)
        self.stores: list[Store] = []
        #: What the last batch still holds while the next is gathered, and arrays a store keeps for batches.
        self.previous: list[Block] = []
        self.batches: list[Block] = []

    def play(self) -> Ledger:
        """The whole run, phase by phase."""
        with self.tape.phase("import"):
            torch = "torch-cuda" if self.device == "vram" else "torch"
            packages = (torch if package == "torch" else package for package in self.packages)
            self.runtime.imports((*packages, *self.env_imports()))
        with self.tape.phase("build"):
            self.build()
        for round_ in range(2):
            with self.tape.phase("collect"):
                self.collect()
            self.settle()
            with self.tape.phase("update"):
                if round_ == 0 and not self.warm_at_build:
                    self.runtime.warm_up(self.kernels())
                half = self.learner.half_weights(self.spec.get("precision", "float32"))
                self.update()
                self.tape.free(*half)
            if round_ == 0:
                self.runtime.slack(self.tape.watched_at_most("update", self.device))
        if self.spec.get("eval.n_envs", 0) and self.spec.get("eval.attached", True):
            with self.tape.phase("evaluate"):
                self.evaluate()
        with self.tape.phase("checkpoint"):
            self.checkpoint()
        if self.spec.get("resume.replay_buffer", "none") != "none":
            self.before_resume()
            with self.tape.phase("resume"):
                self.resume()
        return self.tape.ledger()

    def env_imports(self) -> tuple[str, ...]:
        """Environment packages the training process imports itself."""
        in_workers = self.spec.get("vec_env") == "subproc" and not self.spec.get("eval.n_envs", 0)
        return () if in_workers else tuple(self.spec.get("env.imports", ()))

    def build(self) -> None:
        """Context, networks, stores, environments."""
        self.runtime.cuda(self.kernels())
        self.runtime.built()
        if "threads" in self.spec:
            self.runtime.threads(self.spec.q("threads"))
        self.build_networks()
        if self.warm_at_build:
            self.runtime.warm_up(self.kernels())
        self.build_stores()
        for store in self.stores:
            store.build()
        imports = tuple(self.spec.get("env.imports", ()))
        Envs(self.tape, self.spec, self.constants).build(imports)
        if self.spec.get("eval.n_envs", 0):
            evaluation = Envs(self.tape, self.spec, self.constants, group="eval")
            evaluation.build(imports)

    def settle(self) -> None:
        """Between collection and update: stores are full."""
        for store in self.stores:
            store.settle()

    def kernels(self) -> str:
        """Which kernels a first update loads: ``mlp`` or ``conv``."""
        return "mlp"

    def build_networks(self) -> None:
        """Parameters of networks and targets."""
        raise NotImplementedError

    def build_stores(self) -> None:
        """Append the replay buffer or the rollout to :attr:`stores`."""
        raise NotImplementedError

    def collect(self) -> None:
        """Fill the stores; play the policy's forward pass on one step of all environments."""
        for store in self.stores:
            store.fill()

    def update(self) -> None:
        """One update with everything it gathers, converts, computes and frees."""
        raise NotImplementedError

    def evaluate(self) -> None:
        """Evaluation steps its own environments; the networks are the same."""

    def checkpoint(self) -> None:
        """Saving a model: one state dict at a time goes through a buffer."""
        amount = self.constants.quantity("checkpoint.model")
        self.tape.free(self.tape.alloc("checkpoint.buffers", amount, basis="measured"))

    def before_resume(self) -> None:
        """A new model's own arrays were never written: reserved, not resident, and dropped after loading."""
        if self.spec.get("resume.replay_buffer") == "into-new":
            self.tape.free(*(block for store in self.replay for block in (*store.blocks.values(), *store.beyond)))

    def resume(self) -> None:
        """Loading a replay buffer: unpickling makes the whole capacity resident, beside a live one if there is one."""
        if self.replay:
            amount = total(store.amount for store in self.replay).named("whole replay buffer")
            self.tape.alloc("resume.replay-buffer", amount, basis="exact")

    @property
    def replay(self) -> list[Store]:
        """The stores that are replay buffers."""
        return [store for store in self.stores if store.group == "replay"]

    def batch(self) -> Quantity:
        """Samples per gradient step."""
        return self.spec.q("batch_size")
