"""DQN, SAC, TD3 and their kin: a replay buffer, two observations a sample, several passes an update."""

from __future__ import annotations

from math import prod

from rlmem.core.layers import Chain
from rlmem.core.quantity import Quantity
from rlmem.frameworks.sb3 import networks
from rlmem.frameworks.sb3.batches import Features, gather
from rlmem.frameworks.sb3.on_policy import packages
from rlmem.frameworks.sb3.storage import action_leaf, replay_arrays
from rlmem.model.autograd import Pass
from rlmem.model.learner import Network
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.storage import Store
from rlmem.model.tape import Block

#: Pairwise tensors of the quantile Huber loss that live at once, forward and backward together: differences, absolute,
#: squared and halved, shifted, chosen, signs, weights, product, and the gradients on the way back.
QUANTILE_TENSORS = 7


class OffPolicy(Rehearsal):
    """An off-policy SB3 run."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed through unchanged
        self.algorithm = self.spec.text("algorithm")
        self.packages = packages(self.spec)
        self.features = networks.extractor(self.spec)
        self.nets = {network.name: network for network in networks.networks(self.spec)}
        # An extractor with convolutions runs once when it is built, to learn its output size.
        self.warm_at_build = self.features.convolves

    def kernels(self) -> str:
        """Convolutions bring their own kernels."""
        return "conv" if self.features.convolves else "mlp"

    def build_networks(self) -> None:
        """Trained networks and targets."""
        self.learner.build(*self.nets.values())

    def build_stores(self) -> None:
        """The replay buffer: address space at build, memory as it fills."""
        self.stores.append(Store(self.tape, "replay", replay_arrays(self.spec, self.constants)))

    def collect(self) -> None:
        """Fill the buffer; one forward pass a step."""
        super().collect()
        self._act(self.spec.q("n_envs"))

    def evaluate(self) -> None:
        """The same pass on the evaluation environments."""
        self._act(self.spec.q("eval.n_envs"))

    def _act(self, batch: Quantity) -> None:
        self._features(batch, grad=False).drop()

    def update(self) -> None:
        """`train()`: one or more gradient steps; a batch lives until the next is sampled."""
        for _ in range(min(2, self.spec.get("gradient_steps", 1))):
            extra = prod(action_leaf(self.spec).shape) + 2
            held = gather(self, self.batch(), observations=2, extra_floats=extra, dtypes={})
            self.tape.free(*self.previous)
            self.previous = held
            if "q_net" in self.nets:
                self._value_step()
            else:
                self._actor_critic_step()
        self.tape.free(*self.previous)
        self.previous = []

    def _features(self, batch: Quantity, *, grad: bool) -> Features:
        features = Features(self.autograd, batch, self.features)
        return features.forward(grad=grad, normalise=self.spec.flag("normalize_images"))

    def _heads(self, network: Network, batch: Quantity, *, grad: bool) -> list[Pass]:
        """The network's heads in order; the inputs of Q heads are features and actions side by side."""
        return [
            self.autograd.forward(chain, batch, grad=grad, source=self._joined(name, chain, batch))
            for name, chain in network.chains.items()
            if not name.startswith("extractor")
        ]

    def _joined(self, name: str, chain: Chain, batch: Quantity) -> Block | None:
        if name != "q0" or self.algorithm in ("dqn", "qrdqn"):
            return None
        return self.autograd.tensor("learner.activations", batch, prod(chain.in_shape), "features and actions")

    def _without_grad(self, network: Network) -> None:
        batch = self.batch()
        features = self._features(batch, grad=False)
        heads = self._heads(network, batch, grad=False)
        for head in heads:
            self.autograd.drop(head)
        features.drop()

    def _backward(
        self, network: Network, features: Features | None, heads: list[Pass], *, weights: bool = True
    ) -> None:
        created: list[Block] = []
        for head in reversed(heads):
            created += self.autograd.backward(head, input_grad=True, weights=weights)
        if features is not None:
            created += features.backward()
        if weights:
            self.learner.keep_gradients(network, created)
        else:
            self.tape.free(*created)

    def _value_step(self) -> None:
        batch, online = self.batch(), self.nets["q_net"]
        self._without_grad(self.nets["q_net_target"])
        features = self._features(batch, grad=True)
        heads = self._heads(online, batch, grad=True)
        loss = self._quantile_loss(batch)
        self.learner.zero_grad(online)
        self._backward(online, features, heads)
        self.tape.free(*loss)
        self.learner.step(online)

    def _quantile_loss(self, batch: Quantity) -> list[Block]:
        """Every quantile against every target quantile: n² values a sample, several tensors at once."""
        if "network.n_quantiles" not in self.spec:
            return []
        own = self.spec.count("network.n_quantiles")
        targets = own
        if self.algorithm == "tqc":
            targets = own * self.spec.count("network.n_critics") - 2 * self.spec.count("network.n_critics")
            own *= self.spec.count("network.n_critics")
        # One block each: whether the heap or the kernel serves a tensor depends on its own size.
        return [
            self.autograd.tensor("learner.loss", batch, own * targets, "pairwise quantiles")
            for _ in range(QUANTILE_TENSORS)
        ]

    def _actor_critic_step(self) -> None:
        batch, actor, critic = self.batch(), self.nets["actor"], self.nets["critic"]
        stochastic = self.algorithm in ("sac", "tqc", "crossq")
        shared = self.spec.flag("network.share_features_extractor")
        # SAC samples actions for the current observations first and keeps that graph until the actor's step.
        early = (self._features(batch, grad=True), self._heads(actor, batch, grad=True)) if stochastic else None
        self._without_grad(self.nets.get("actor_target", actor))
        self._without_grad(self.nets.get("critic_target", critic))
        # CrossQ has no target critic: current and next observations go through the critic as one batch.
        joint = 2 * batch if self.algorithm == "crossq" else batch
        features = self._features(joint, grad=not shared)
        heads = self._heads(critic, joint, grad=True)
        loss = self._quantile_loss(batch)
        self.learner.zero_grad(critic)
        if shared:
            features.drop()
        self._backward(critic, None if shared else features, heads)
        self.tape.free(*loss)
        self.learner.step(critic)
        self._actor_step(batch, actor, critic, early)

    def _actor_step(
        self, batch: Quantity, actor: Network, critic: Network, early: tuple[Features, list[Pass]] | None
    ) -> None:
        actor_features, actor_heads = early or (self._features(batch, grad=True), self._heads(actor, batch, grad=True))
        features = self._features(batch, grad=True)
        heads = self._heads(critic, batch, grad=True)
        self.learner.zero_grad(actor)
        self._backward(critic, None, heads, weights=False)
        features.drop()
        self._backward(actor, actor_features, actor_heads)
        self.learner.step(actor)
