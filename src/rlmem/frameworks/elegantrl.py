"""ElegantRL's single-process training, read from the sources of 0.3.1, 0.3.3 and 0.3.6 (0.3.5 is identical to 0.3.6).

Rollouts are preallocated torch tensors from 0.3.5 on, a list of tuples of small tensors in 0.3.3, numpy arrays before.
PPO has no target networks in any version (the attributes are aliases), and ``buffer_size`` counts rows per
environment: stored transitions are ``buffer_size × n_envs``.
"""

from __future__ import annotations

from math import prod
from typing import Any

from rlmem.core.layers import Chain, infer, parse_layers
from rlmem.core.quantity import Quantity
from rlmem.core.schedule import reached
from rlmem.core.spaces import Discrete, leaves
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.base import Adapter
from rlmem.frameworks.sb3.defaults import version
from rlmem.model.constants import Constants
from rlmem.model.learner import Network
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.storage import Array, Store
from rlmem.model.tape import Block

LATEST = "0.3.6"
#: Preallocated torch rollouts; AdamW; the widths in ``net_dims``.
TENSORS_SINCE = (0, 3, 5)
#: Lists of tuples between these two.
LISTS_SINCE = (0, 3, 2)
_ON = {"n_steps": 2048, "batch_size": 128, "n_epochs": 8}
_OFF = {"buffer_size": 1_000_000, "batch_size": 64}
DEFAULTS: dict[str, dict[str, Any]] = {"ppo": _ON, "dqn": _OFF, "ddpg": _OFF, "td3": _OFF, "sac": _OFF}
ON_POLICY = ("ppo",)
#: The critic values a rollout in chunks of this many steps.
VALUE_CHUNK = 1024


def resolve(spec: RunSpec) -> RunSpec:
    """Fill in the release's defaults."""
    if spec.get("agents", 1) > 1:
        raise SpecError("agents", "ElegantRL has one agent per environment; set n_envs to the number of agents in all")
    spec = spec.filled({"framework.version": LATEST}, "newest version rlmem has read")
    release = version(spec)
    origin = f"elegantrl {spec.text('framework.version')} default"
    store = "array" if release >= TENSORS_SINCE or release < LISTS_SINCE else "list-of-tuples"
    width = (64, 32) if release >= TENSORS_SINCE else (512, 512, 512)
    return spec.filled(
        {
            **DEFAULTS[spec.text("algorithm")],
            "agents": 1,
            "n_envs": 1,
            "vec_env": "batched",
            "device": "cpu",
            "precision": "float32",
            "optimizer": "adamw" if release >= TENSORS_SINCE else "adam",
            "rollout.store": store,
            "rollout.sampling": "with-replacement",
            "replay.kind": "plain",
            "network.net_arch": width,
            "network.activation": "relu",
        },
        origin,
    )


class Agent(Rehearsal):
    """What both kinds of agent share: dimensions and networks."""

    packages = ("numpy", "torch", "elegantrl")

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        self.state_dim = sum(leaf.width for leaf in spec.observation_leaves)
        action = leaves(spec.need("action"), "action")
        self.discrete = isinstance(spec.need("action"), Discrete)
        self.action_dim = sum(leaf.width for leaf in action)
        self.stored_action = 1 if self.discrete else sum(prod(leaf.shape) for leaf in action)
        self.nets = self._networks()

    def _mlp(self, inputs: int, outputs: int) -> Chain:
        arch = self.spec.need("network.net_arch")
        words = [word for width in arch for word in (f"linear {width}", self.spec.text("network.activation"))]
        return infer(parse_layers([*words, f"linear {outputs}"], "network.net_arch"), (inputs,), "network.net_arch")

    def _networks(self) -> dict[str, Network]:
        """Actor and critic; frozen normalisation values are part of the parameters but get no gradient."""
        frozen = 2 * self.state_dim
        algorithm = self.spec.text("algorithm")
        if algorithm == "dqn":
            return {"act": Network(name="act", chains={"q": self._mlp(self.state_dim, self.action_dim)}, loose=frozen)}
        actor = Network(
            name="act", chains={"pi": self._mlp(self.state_dim, self.action_dim)}, loose=frozen + self.action_dim
        )
        if algorithm == "ppo":
            return {
                "act": actor,
                "cri": Network(name="cri", chains={"v": self._mlp(self.state_dim, 1)}, loose=frozen + 2),
            }
        heads = 1 if algorithm == "ddpg" else 2
        q = self._mlp(self.state_dim + self.stored_action, 1)
        return {"act": actor, "cri": Network(name="cri", chains={f"q{i}": q for i in range(heads)}, loose=frozen)}

    def build_networks(self) -> None:
        """PPO's targets are aliases; off-policy agents copy what their algorithm needs."""
        self.learner.build(*self.nets.values())
        targets = {"dqn": ("act",), "ddpg": ("act", "cri"), "td3": ("act", "cri"), "sac": ("cri",)}
        for name in targets.get(self.spec.text("algorithm"), ()):
            self.learner.build(Network(name=f"{name} target", chains=self.nets[name].chains, trained=False))

    def step(self, network: Network, batch: Quantity) -> None:
        """One network's forward, backward and step; the normalised state is made anew and kept by the graph."""
        passes = []
        for chain in network.chains.values():
            source = self.autograd.tensor("learner.activations", batch, prod(chain.in_shape), "normalised state")
            passes.append(self.autograd.forward(chain, batch, grad=True, source=source))
        self.learner.zero_grad(network)
        created: list[Block] = []
        for run in reversed(passes):
            created += self.autograd.backward(run)
        self.learner.keep_gradients(network, created)
        self.learner.step(network)

    def gathered(self, batch: Quantity, values: int) -> Block:
        """An indexed copy of the batch on the learner's device."""
        row = Quantity.of(values * 4, "sampled row bytes", "states, actions and scalars")
        return self.tape.alloc("batch.device", batch * row, device=self.device)


class OnPolicyAgent(Agent):
    """AgentPPO."""

    def build_stores(self) -> None:
        """A rollout is made anew by every ``explore_env`` while the learner still holds the last one."""
        self.rollouts: list[list[Block]] = []

    def _rollout(self) -> list[Block]:
        slots = self.spec.q("n_steps") * self.spec.q("n_envs")
        why = "float32 tensors"
        sizes = {"states": self.state_dim, "actions": self.stored_action, "logprobs": 1, "rewards": 1, "undones": 1}
        listed = self.spec.get("rollout.store") == "list-of-tuples"
        if listed or version(self.spec) < TENSORS_SINCE:
            sizes = {
                "states": self.state_dim,
                "actions": self.stored_action,
                "noises": self.stored_action,
                "rewards": 1,
                "masks": 1,
            }
        arrays = [
            Array(name=name, rows=slots, row_values=values, dtype="float32", why=why) for name, values in sizes.items()
        ]
        stores = [Store(self.tape, "rollout", arrays, device=self.device, lazy=False)]
        if listed:  # the Python objects around the tensors are in RAM wherever their data is
            objects = Array(name="objects", rows=slots, measured=self.constants.quantity("list.transition"))
            stores.append(Store(self.tape, "rollout", [objects], lazy=False))
        for store in stores:
            store.build()
        return [block for store in stores for block in store.blocks.values()]

    def collect(self) -> None:
        """The new rollout beside the old one."""
        self.rollouts.append(self._rollout())

    def settle(self) -> None:
        """The learner's list now holds the new rollout; the old one is gone."""
        for blocks in self.rollouts[:-1]:
            self.tape.free(*blocks)
        del self.rollouts[:-1]

    def update(self) -> None:
        """Values in chunks, advantages beside the rollout, then critic and actor in turn for every minibatch."""
        slots = self.spec.q("n_steps") * self.spec.q("n_envs")
        held = [self.tape.alloc("rollout.advantages", 4 * slots * 4, device=self.device)]
        chunk = Quantity.of(min(VALUE_CHUNK, self.spec.count("n_steps")), "steps valued at once", "update_net")
        run = self.autograd.forward(self.nets["cri"].chains["v"], chunk, grad=False)
        self.autograd.drop(run)
        batch = self.batch()
        held.append(self.gathered(batch, self.state_dim + self.stored_action + 3))
        self.step(self.nets["cri"], batch)
        self.step(self.nets["act"], batch)
        self.tape.free(*held)


class OffPolicyAgent(Agent):
    """AgentDQN, AgentDDPG, AgentTD3 and AgentSAC."""

    def build_stores(self) -> None:
        """States once (the next state is the following row), float32 whatever the space says; rows per environment."""
        slots = self.spec.q("buffer_size") * self.spec.q("n_envs")
        comes_to = reached(self.spec, slots)
        sizes = {"states": self.state_dim, "actions": self.stored_action, "rewards": 1, "undones": 1}
        arrays = [
            Array(
                name=name, rows=slots, row_values=values, dtype="float32", why="torch.empty, float32", reached=comes_to
            )
            for name, values in sizes.items()
        ]
        if self.spec.get("replay.kind") == "prioritised":
            arrays.append(
                Array(name="sum-tree", rows=slots, row_values=2, dtype="float32", why="one tree per environment")
            )
        self.stores.append(Store(self.tape, "replay", arrays, device=self.device, lazy=self.device == "ram"))

    def update(self) -> None:
        """State and next state of a batch, targets without gradients, then critic and actor."""
        batch = self.batch()
        held = self.gathered(batch, 2 * self.state_dim + self.stored_action + 2)
        for network in self.nets.values():
            for chain in network.chains.values():
                self.autograd.drop(self.autograd.forward(chain, batch, grad=False))
        for network in reversed(self.nets.values()):
            self.step(network, batch)
        self.tape.free(held)


def rehearsal(spec: RunSpec, constants: Constants) -> Rehearsal:
    """The agent for the run's algorithm."""
    return (OnPolicyAgent if spec.text("algorithm") in ON_POLICY else OffPolicyAgent)(spec, constants)


ADAPTER = Adapter(
    name="elegantrl", algorithms=tuple(DEFAULTS), on_policy=ON_POLICY, resolve=resolve, rehearsal=rehearsal
)
