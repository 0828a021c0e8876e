"""A CleanRL-like loop of one's own: torch tensors for rollouts, SB3's replay buffer for the rest, explicit networks.

Read from CleanRL's ppo.py, ppo_atari.py, dqn.py, dqn_atari.py, sac_continuous_action.py and td3_continuous_action.py.
Networks are the description's ``network.modules`` (``network`` is a shared trunk, the other names are heads); without
them the scripts' own defaults are used.
"""

from __future__ import annotations

from math import prod
from typing import Any

from rlmem.core.layers import Chain, infer, parse_layers
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import DTYPES, Box, Leaf
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.base import Adapter, Swap
from rlmem.frameworks.sb3 import compact
from rlmem.frameworks.sb3.defaults import channels_first
from rlmem.frameworks.sb3.networks import NATURE, NATURE_WIDTH
from rlmem.frameworks.sb3.storage import action_leaf, keyed, replay_arrays
from rlmem.model.autograd import Pass
from rlmem.model.constants import Constants
from rlmem.model.learner import Network
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.storage import Array, Store
from rlmem.model.tape import Block

ON_POLICY = ("ppo",)
_OFF = {"buffer_size": 1_000_000, "batch_size": 256}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {"n_envs": 4, "n_steps": 128, "n_epochs": 4},
    "dqn": {"buffer_size": 10_000, "batch_size": 128},
    "sac": _OFF,
    "td3": _OFF,
    "ddpg": _OFF,
}
#: What the Atari scripts set otherwise.
IMAGE_DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {"n_envs": 8},
    "dqn": {"buffer_size": 1_000_000, "batch_size": 32, "optimize_memory_usage": True},
}
#: Modules an algorithm cannot do without.
NEEDED = {
    "ppo": ("actor", "critic"),
    "dqn": ("q_network",),
    "sac": ("actor", "qf1"),
    "td3": ("actor", "qf1"),
    "ddpg": ("actor", "qf1"),
}
TRUNK = "network"


def resolve(spec: RunSpec) -> RunSpec:
    """Fill in what the scripts do."""
    algorithm = spec.text("algorithm")
    image = len(spec.observation_leaves) == 1 and spec.observation_leaves[0].is_image
    origin = f"CleanRL's {algorithm}{'_atari' if image else ''} script"
    if image:
        spec = spec.filled(IMAGE_DEFAULTS.get(algorithm, {}), origin)
    spec = spec.filled(
        {
            "n_envs": 1,
            **DEFAULTS[algorithm],
            "agents": 1,
            "vec_env": "dummy",
            "device": "cpu",
            "optimizer": "adam",
            "precision": "float32",
            "normalize_images": True,
            "framework.version": "1.0",
            "replay.kind": "plain",
            "handle_timeout_termination": False,
            # gymnasium.vector.AsyncVectorEnv uses the platform's default, which forks on Linux up to Python 3.13.
            "env.start_method": "fork" if spec.get("vec_env") == "subproc" else None,
            "env.shared_memory": True if spec.get("vec_env") == "subproc" else None,
            "optimize_memory_usage": False,
        },
        origin,
    )
    if algorithm in ON_POLICY:
        rollout = spec.count("n_steps") * spec.count("n_envs") * spec.count("agents")
        spec = spec.filled({"batch_size": max(rollout // 4, 1)}, f"{origin}: four minibatches")
    return spec.filled({"network.modules": _modules(spec)}, origin)


def _modules(spec: RunSpec) -> dict[str, tuple[str, ...]]:
    algorithm, action = spec.text("algorithm"), action_leaf(spec)
    leaf = spec.observation_leaves[0]
    if algorithm == "ppo":
        hidden = () if leaf.is_image else ("linear 64", "tanh", "linear 64", "tanh")
        heads = {"actor": (*hidden, f"linear {action.width}"), "critic": (*hidden, "linear 1")}
    elif algorithm == "dqn":
        hidden = () if leaf.is_image else ("linear 120", "relu", "linear 84", "relu")
        heads = {"q_network": (*hidden, f"linear {action.width}")}
    else:
        hidden = ("linear 256", "relu", "linear 256", "relu")
        width = prod(action.shape) * (2 if algorithm == "sac" else 1)
        heads = {"actor": (*hidden, f"linear {width}"), "qf1": (*hidden, "linear 1")}
        if algorithm != "ddpg":
            heads["qf2"] = (*hidden, "linear 1")
    return ({TRUNK: (*NATURE, f"linear {NATURE_WIDTH}", "relu")} if leaf.is_image else {}) | heads


def place(spec: RunSpec) -> dict[str, Chain]:
    """The modules on their inputs: the trunk on the observation, heads on the trunk, Q heads on features and actions."""
    modules: dict[str, tuple[str, ...]] = dict(spec.need("network.modules"))
    algorithm = spec.text("algorithm")
    for name in NEEDED[algorithm]:
        if name not in modules:
            raise SpecError(
                "network.modules", f"{algorithm} needs a module called {name!r}; given: {', '.join(modules)}"
            )
    if TRUNK in modules and algorithm not in ("ppo", "dqn"):
        problem = "a shared trunk is planned for ppo and dqn only; give actor and critics layers of their own"
        raise SpecError(
            "network.modules", f"{algorithm} on images: {problem}" if "network.modules" not in spec else problem
        )
    shape = _input_shape(spec)
    chains: dict[str, Chain] = {}
    if TRUNK in modules:
        path = f"network.modules.{TRUNK}"
        chains[TRUNK] = infer(parse_layers(modules.pop(TRUNK), path), shape, path)
        shape = chains[TRUNK].out_shape
    for name, layers in modules.items():
        path = f"network.modules.{name}"
        takes_action = name.startswith("qf")
        own = (prod(shape) + prod(action_leaf(spec).shape),) if takes_action else shape
        chains[name] = infer(parse_layers(layers, path), own, path)
    return chains


def _input_shape(spec: RunSpec) -> tuple[int, ...]:
    leaves = spec.observation_leaves
    if len(leaves) == 1:
        return channels_first(leaves[0]) if leaves[0].is_image else leaves[0].shape
    return (sum(leaf.width for leaf in leaves),)


class Loop(Rehearsal):
    """What both kinds of loop share."""

    packages: tuple[str, ...] = ("numpy", "torch", "gymnasium")

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        self.chains = place(spec)
        if compact.is_compact(spec) and "buffer_size" in spec:
            self.packages = (*self.packages, "sb3", *compact.PACKAGES)

    def kernels(self) -> str:
        """Convolutions bring their own kernels."""
        convolves = any(op.layer.kind.startswith("conv") for chain in self.chains.values() for op in chain.ops)
        return "conv" if convolves else "mlp"

    def source(self, batch: Quantity) -> Block | None:
        """Images are divided by 255 on the learner, which makes one float tensor; float32 is used as it is."""
        leaf = self.spec.observation_leaves[0]
        if leaf.is_image and self.spec.flag("normalize_images"):
            return self.autograd.tensor("batch.normalised", batch, prod(leaf.shape), "image")
        return None

    def forward(self, batch: Quantity, names: tuple[str, ...], *, grad: bool) -> list[Pass]:
        """The trunk, then the named heads."""
        trunk = [TRUNK] if TRUNK in self.chains else []
        source = self.source(batch)
        passes: list[Pass] = []
        for name in (*trunk, *names):
            passes.append(self.autograd.forward(self.chains[name], batch, grad=grad, source=source))
            source = None
        return passes

    def backward(self, passes: list[Pass]) -> list[Block]:
        """All passes from the end."""
        created: list[Block] = []
        for index, run in reversed(list(enumerate(passes))):
            created += self.autograd.backward(run, input_grad=index > 0 and TRUNK in self.chains)
        return created

    def act(self) -> None:
        """One step of all environments through the trunk, or through the first head without one."""
        heads = () if TRUNK in self.chains else (next(iter(self.chains)),)
        for run in self.forward(self.spec.q("n_envs"), heads, grad=False):
            self.autograd.drop(run)


class OnPolicyLoop(Loop):
    """PPO with preallocated torch tensors on the learner's device."""

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        loose = action_leaf(spec).width if isinstance(spec.need("action"), Box) else 0
        self.agent = Network(name="agent", chains=self.chains, loose=loose)

    def build_networks(self) -> None:
        """One agent."""
        self.learner.build(self.agent)

    def build_stores(self) -> None:
        """``torch.zeros`` writes its zeros: resident at once, float32 whatever the space says."""
        slots = self.spec.q("n_steps") * self.spec.q("n_envs")
        if self.spec.count("agents") > 1:
            slots = slots * self.spec.q("agents")
        why = "torch.zeros without a dtype is float32"
        arrays = [
            Array(
                name=keyed(self.spec, "observations", leaf),
                rows=slots,
                row_values=_stored_values(self.spec, leaf),
                dtype="float32",
                why=why,
            )
            for leaf in self.spec.observation_leaves
        ]
        arrays.append(
            Array(name="actions", rows=slots, row_values=prod(action_leaf(self.spec).shape), dtype="float32", why=why)
        )
        arrays += [
            Array(name=name, rows=slots, row_values=1, dtype="float32", why=why)
            for name in ("logprobs", "rewards", "dones", "values")
        ]
        self.stores.append(Store(self.tape, "rollout", arrays, device=self.device, lazy=False))

    def collect(self) -> None:
        """A forward pass a step."""
        super().collect()
        self.act()

    def update(self) -> None:
        """Advantages and returns beside the rollout; each minibatch is an indexed copy on the device."""
        slots = self.spec.q("n_steps") * self.spec.q("n_envs") * self.spec.q("agents")
        returns = self.tape.alloc("rollout.returns", 2 * slots * 4, device=self.device)
        batch = self.batch()
        floats = sum(prod(leaf.shape) for leaf in self.spec.observation_leaves)
        gathered = self.tape.alloc(
            "batch.device", batch * Quantity.of(floats, "observation values", "observation") * 4, device=self.device
        )
        heads = tuple(name for name in self.chains if name != TRUNK)
        passes = self.forward(batch, heads, grad=True)
        loss = self.autograd.tensor("learner.loss", batch, 6 * action_leaf(self.spec).width + 12, "loss")
        self.learner.zero_grad(self.agent)
        self.learner.keep_gradients(self.agent, self.backward(passes))
        self.tape.free(loss, gathered)
        self.learner.step(self.agent)
        self.tape.free(returns)


class OffPolicyLoop(Loop):
    """DQN, SAC, TD3 or DDPG with SB3's replay buffer."""

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        trunk = {name: chain for name, chain in self.chains.items() if name == TRUNK}
        self.nets = {
            name: Network(name=name, chains=trunk | {name: chain})
            for name, chain in self.chains.items()
            if name != TRUNK
        }

    def build_networks(self) -> None:
        """Every head, and a target for every value head (TD3 and DDPG have one for the actor as well)."""
        self.learner.build(*self.nets.values())
        for name, net in self.nets.items():
            if name != "actor" or self.spec.text("algorithm") in ("td3", "ddpg"):
                self.learner.build(Network(name=f"target {name}", chains=net.chains, trained=False))

    def build_stores(self) -> None:
        """CleanRL carries a copy of SB3's buffer."""
        self.stores.append(Store(self.tape, "replay", replay_arrays(self.spec, self.constants)))

    def collect(self) -> None:
        """A forward pass a step."""
        super().collect()
        self.act()

    def update(self) -> None:
        """Two observations a sample; targets without gradients; one backward pass per optimizer."""
        batch = self.batch()
        row = (
            sum(leaf.nbytes for leaf in self.spec.observation_leaves) * 2 + (prod(action_leaf(self.spec).shape) + 2) * 4
        )
        amount = batch * Quantity.of(row, "sampled row bytes", "observation, next observation, action, reward, done")
        host = self.tape.alloc("batch.host", amount)
        gathered = self.tape.alloc("batch.device", amount, device=self.device)
        self.tape.free(host)
        for run in self.forward(batch, tuple(self.nets), grad=False):
            self.autograd.drop(run)
        for name, net in self.nets.items():
            passes = self.forward(batch, (name,), grad=True)
            self.learner.zero_grad(net)
            self.learner.keep_gradients(net, self.backward(passes))
            self.learner.step(net)
        self.tape.free(gathered)


def _stored_values(spec: RunSpec, leaf: Leaf) -> int:
    """Values of one observation in a rollout's tensors: all of it, or what a store of your own keeps once."""
    if not compact.is_compact(spec):
        return prod(leaf.shape)
    if spec.window:
        return sum(key.unit_bytes for key in compact.observation_keys(spec)) // DTYPES[leaf.dtype]
    return prod(leaf.shape) // compact.depths(spec).get(compact.named(leaf), 1)


def swap(spec: RunSpec) -> Swap | None:
    """CleanRL's buffer is SB3's, and so can be the same one in its place; its rollouts are plain tensors."""
    if spec.text("algorithm") in ON_POLICY or compact.is_compact(spec):
        return None
    store = "CompactReplayBuffer"
    return Swap(store=store, change=f"{store}(…) where the script makes its ReplayBuffer(…)")


def rehearsal(spec: RunSpec, constants: Constants) -> Rehearsal:
    """The loop for the run's algorithm."""
    return (OnPolicyLoop if spec.text("algorithm") in ON_POLICY else OffPolicyLoop)(spec, constants)


ADAPTER = Adapter(
    name="cleanrl",
    algorithms=tuple(DEFAULTS),
    on_policy=ON_POLICY,
    resolve=resolve,
    rehearsal=rehearsal,
    swap=swap,
    notes=compact.notes,
)
