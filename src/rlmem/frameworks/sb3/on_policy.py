"""PPO, A2C and their kin: the rollout is flattened into a copy (unless it is compact), then taken apart in minibatches."""

from __future__ import annotations

from math import prod

from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec
from rlmem.frameworks.sb3 import compact, networks
from rlmem.frameworks.sb3.batches import Features, gather
from rlmem.frameworks.sb3.defaults import CONTRIB, LIGHT_IMPORTS_SINCE, ROLLOUT_DTYPE_SINCE, version
from rlmem.frameworks.sb3.storage import action_leaf, rollout_arrays
from rlmem.model.autograd import Pass, saved_floats
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.storage import Store
from rlmem.model.tape import Block

#: Arrays `get()` flattens; rewards stay as they are, and episode starts too unless the policy is recurrent.
FLATTENED = (
    "observations",
    "actions",
    "values",
    "log_probs",
    "advantages",
    "returns",
    "action_masks",
    "hidden",
    "cell",
)
#: Graph copies of the policy that TRPO's conjugate gradient keeps (fitted to one measured run).
HESSIAN_COPIES = 6


class OnPolicy(Rehearsal):
    """An on-policy SB3 run."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed through unchanged
        self.packages = packages(self.spec)
        self.features = networks.extractor(self.spec)
        (self.policy,) = networks.on_policy(self.spec)
        # An extractor with convolutions runs once when it is built, to learn its output size.
        self.warm_at_build = self.features.convolves
        typed = version(self.spec) >= ROLLOUT_DTYPE_SINCE or compact.is_compact(self.spec)
        self.stored = {} if typed else {leaf.name: "float32" for leaf in self.spec.observation_leaves}

    def kernels(self) -> str:
        """Convolutions and LSTMs bring their own kernels."""
        if self.spec.text("algorithm") == "recurrent_ppo":
            return "lstm"
        return "conv" if self.features.convolves else "mlp"

    def build_networks(self) -> None:
        """One policy, no targets."""
        self.learner.build(self.policy)

    def build_stores(self) -> None:
        """The rollout buffer, zeros until written; `reset()` allocates it anew before every rollout."""
        self.stores.append(Store(self.tape, "rollout", rollout_arrays(self.spec)))

    def collect(self) -> None:
        """Fill the rollout; one forward pass a step, without gradients."""
        super().collect()
        self._policy_step(self.spec.q("n_envs"))

    def evaluate(self) -> None:
        """The same pass on the evaluation environments."""
        self._policy_step(self.spec.q("eval.n_envs"))

    def _policy_step(self, batch: Quantity) -> None:
        features = Features(self.autograd, batch, self.features)
        features.forward(grad=False, normalise=self.spec.flag("normalize_images"))
        features.drop()

    def update(self) -> None:
        """`train()`: flatten, then minibatches; the last one's tensors live until the next is gathered."""
        self._flatten()
        for _ in range(2 if self._minibatches() > 1 else 1):
            self._minibatch()
        self.tape.free(*self.previous)
        self.previous = []

    def _minibatches(self) -> int:
        samples = self.spec.count("n_steps") * self.spec.count("n_envs")
        return -(-samples // self.spec.count("batch_size")) * int(self.spec.get("n_epochs", 1))

    def _flatten(self) -> None:
        """`swap_and_flatten` copies each array when n_envs > 1 (a view for one env); the old array goes right after.

        A compact rollout leaves its observations where they are.
        """
        if not self.spec.flag("rollout.flatten_copy"):
            return
        store = self.stores[0]
        for array in store.arrays:
            if array.name.startswith(FLATTENED) and array.whole is None:
                self.tape.free(store.copy(array.name, "rollout.flatten-copy"))

    def batch(self) -> Quantity:
        """A minibatch is never larger than the rollout; TRPO's policy step takes all of it."""
        samples = self.spec.q("n_steps") * self.spec.q("n_envs")
        batch = self.spec.q("batch_size")
        return batch if batch.value <= samples.value and self.spec.text("algorithm") != "trpo" else samples

    def _minibatch(self) -> None:
        batch = self.batch()
        extra = prod(action_leaf(self.spec).shape) + 4
        held = gather(self, batch, observations=1, extra_floats=extra, dtypes=self.stored)
        self.tape.free(*self.previous)
        self.previous = held
        self._learn(batch)

    def _learn(self, batch: Quantity) -> None:
        normalise = self.spec.flag("normalize_images")
        shared = self.spec.flag("network.share_features_extractor")
        features = [
            Features(self.autograd, batch, self.features, self.stored).forward(grad=True, normalise=normalise)
            for _ in range(1 if shared else 2)
        ]
        heads: list[Pass] = []
        for name, chain in self.policy.chains.items():
            if not name.startswith(("extractor", "vf-extractor")):
                heads.append(self.autograd.forward(chain, batch, grad=True))
        loss = self.autograd.tensor(
            "learner.loss", batch, 6 * networks.action_outputs(self.spec) + 12, "loss (6 × outputs + 12)"
        )
        if self.spec.text("algorithm") == "trpo":
            # Hessian-vector products differentiate the gradient: its own graph is kept, several copies deep.
            floats = HESSIAN_COPIES * saved_floats(self.policy.chains["pi"])
            self.tape.free(self.autograd.tensor("learner.hessian", batch, floats, "double backward"))
        self.learner.zero_grad(self.policy)
        gradients: list[Block] = []
        for head in reversed(heads):
            gradients += self.autograd.backward(head, input_grad=True)
        for part in features:
            gradients += part.backward()
        self.tape.free(loss)
        self.learner.keep_gradients(self.policy, gradients)
        self.learner.step(self.policy)


def packages(spec: RunSpec) -> tuple[str, ...]:
    """What a training process imports: before 2.9, SB3 brought pandas and matplotlib along."""
    own = "sb3" if version(spec) >= LIGHT_IMPORTS_SINCE else "sb3-before-2.9"
    base = ("numpy", "torch", "gymnasium", own)
    contrib = ("sb3-contrib",) if spec.text("algorithm") in CONTRIB else ()
    return (*base, *contrib, *(compact.PACKAGES if compact.is_compact(spec) else ()))
