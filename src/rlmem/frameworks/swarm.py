"""A swarm of agents in one vectorised environment: PPO with an autoencoder over a sliding history.

The rollout holds whole windows. As the run was first written, observations are cloned into a list and stacked, the
graph of every collection step is kept, and the update is one batch over all steps of all agents; each of these is a
field of the description, so that a plan can be made with and without it. With ``storage=stream`` it is the small version of the
same run (:mod:`rlmem.frameworks.stream`).
"""

from __future__ import annotations

from math import prod

from rlmem.core.layers import Chain, Layer, infer, parse_layers
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import DTYPES, Window
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.base import Adapter
from rlmem.frameworks.chunks import Chunks
from rlmem.frameworks.stream import FIELDS, is_stream, notes, resolve_stream, stream_arrays
from rlmem.model.autograd import Pass, saved_floats
from rlmem.model.constants import Constants
from rlmem.model.learner import Network
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.storage import Array, Store
from rlmem.model.tape import Block

#: Values a rollout keeps per sample beside observations and actions: reward, value, log-probability.
SCALARS = 3
#: Tensors of one value per sample made before the update: returns and advantages.
PREPARED = 2


def resolve(spec: RunSpec) -> RunSpec:
    """The swarm's own defaults."""
    spec = spec.filled(
        {
            "agents": 1,
            "n_envs": 1,
            "vec_env": "batched",
            "n_epochs": 1,
            "device": "cpu",
            "precision": "float32",
            "optimizer": "adam",
            "storage": "plain",
        },
        "swarm default",
    )
    window = spec.observation
    if not isinstance(window, Window):
        raise SpecError(
            "observation.type", "a swarm observes a window; describe it with type: window and history: LENGTH"
        )
    # Without a stream, what a description says about it has no meaning.
    spec = resolve_stream(spec, window) if is_stream(spec) else spec.having(dict.fromkeys(FIELDS), "")
    spec = spec.filled({"rollout.store": "array", "rollout.keeps_graph": False}, "swarm default")
    samples = spec.count("n_steps") * spec.count("n_envs") * spec.count("agents")
    return spec.filled({"batch_size": samples}, "swarm default: one batch over all steps of all agents")


def chains(spec: RunSpec) -> dict[str, Chain]:
    """Encoder over the window, decoder, policy on latent and extra values, value head off the policy's trunk.

    Without a ``decoder`` among the modules it is the encoder's mirror image.
    """
    modules = dict(spec.need("network.modules"))
    window = spec.window
    assert window is not None
    for name in ("encoder", "policy", "value"):
        if name not in modules:
            raise SpecError("network.modules", f"a swarm needs a module called {name!r}")
    encoder = _placed(modules, "encoder", (window.sample, window.length))
    if "decoder" in modules:
        decoder = _placed(modules, "decoder", encoder.out_shape)
    else:
        decoder = infer(mirror(encoder), encoder.out_shape, "network.modules.decoder")
    policy = _placed(modules, "policy", (encoder.out_floats + window.extra,))
    trunk = policy.ops[-1].in_shape
    return {"encoder": encoder, "decoder": decoder, "policy": policy, "value": _placed(modules, "value", trunk)}


def _placed(modules: dict[str, tuple[str, ...]], name: str, shape: tuple[int, ...]) -> Chain:
    path = f"network.modules.{name}"
    return infer(parse_layers(modules[name], path), shape, path)


def mirror(encoder: Chain) -> tuple[Layer, ...]:
    """A decoder that undoes an encoder layer by layer: linear for linear, transposed convolution for convolution."""
    words: list[str] = []
    last = next(i for i, op in enumerate(encoder.ops) if op.parameters)
    for index in range(len(encoder.ops) - 1, -1, -1):
        op = encoder.ops[index]
        layer = op.layer
        if layer.kind == "linear":
            words += [f"linear {op.in_floats}", "relu"]
        elif layer.kind == "flatten":
            words.append(f"unflatten {op.in_shape[0]}")
        elif layer.kind == "conv1d":
            reached = (op.out_shape[1] - 1) * layer.stride - 2 * layer.padding + layer.kernel
            words.append(
                f"convt1d {op.in_shape[0]} k{layer.kernel} s{layer.stride} p{layer.padding} o{op.in_shape[1] - reached}"
            )
            if index != last:
                words.append("relu")
    return parse_layers(words, "network.modules.decoder")


class Swarm(Rehearsal):
    """The run as described."""

    def __init__(self, spec: RunSpec, constants: Constants) -> None:
        super().__init__(spec, constants)
        self.chains = chains(spec)
        self.window = spec.window or Window(sample=1)
        self.autoencoder = Network(name="autoencoder", chains={k: self.chains[k] for k in ("encoder", "decoder")})
        self.policy = Network(name="policy", chains={k: self.chains[k] for k in ("policy", "value")})
        self.samples = spec.q("n_steps") * spec.q("agents")
        if spec.count("n_envs") > 1:
            self.samples = self.samples * spec.q("n_envs")
        self.streams = is_stream(spec)
        self.chunks = Chunks(spec, self.window, self.chains, self.autograd) if self.streams else None

    def kernels(self) -> str:
        """One-dimensional convolutions."""
        return "conv"

    def build_networks(self) -> None:
        """Two networks, each with an optimizer of its own."""
        self.learner.build(self.autoencoder, self.policy)

    def build_stores(self) -> None:
        """Whole windows, or the stream once; actions and scalars beside them."""
        self.graph: list[Block] = []
        actions = self.chains["policy"].out_floats
        if self.streams:
            arrays = stream_arrays(self.spec, self.window, actions, self.samples)
        else:
            floats = self.window.length * self.window.sample + self.window.extra
            how = "cloned into a list" if self._listed else "one tensor"
            kept = (
                ("observations", floats, self.window.dtype, how),
                ("actions", actions, "float32", "action space"),
                ("scalars", SCALARS, "float32", "reward, value, log-probability"),
            )
            arrays = [
                Array(name=name, rows=self.samples, row_values=values, dtype=dtype, why=why)
                for name, values, dtype, why in kept
            ]
        # torch.zeros, which a stream's store is made with, writes its zeros.
        lazy = self.device == "ram" and not self.streams
        self.stores.append(Store(self.tape, "rollout", arrays, device=self.device, lazy=lazy))

    @property
    def _listed(self) -> bool:
        return bool(self.spec.get("rollout.store") == "list-then-stack")

    def collect(self) -> None:
        """One forward pass a step; with gradients on, what each pass saves stays until the update is over."""
        super().collect()
        if self.chunks is not None:
            self.chunks.collect()
            return
        agents = self.spec.q("agents") * self.spec.q("n_envs")
        step = [self.autograd.forward(self.chains["encoder"], agents, grad=False)]
        self._drop(step)
        if self.spec.flag("rollout.keeps_graph"):
            floats = self._policy_inputs() + sum(_saved(self.chains[name]) for name in ("encoder", "policy", "value"))
            self.graph = [self.autograd.tensor("rollout.graph", self.samples, floats, "saved by a collection step")]

    def _policy_inputs(self) -> int:
        return prod(self.chains["policy"].in_shape)

    def update(self) -> None:
        """Stack, prepare, then one batch or minibatches through autoencoder and policy."""
        if self.chunks is not None:
            self._update_chunks(self.chunks)
            return
        held = [self.tape.alloc("rollout.returns", PREPARED * self.samples * 4, device=self.device)]
        if self._listed:
            held.append(self.stores[0].copy("observations", "rollout.stacked"))
            held.append(self.stores[0].copy("actions", "rollout.stacked"))
        batch = self.batch()
        whole = batch.value >= self.samples.value
        batch = self.samples if whole else batch
        if not whole:
            floats = self.window.length * self.window.sample + self.window.extra + 2 * SCALARS + 1
            row = Quantity.of(floats, "gathered values", "observation, action, scalars")
            held.append(self.tape.alloc("batch.device", batch * row * DTYPES["float32"], device=self.device))
        self._learn(batch)
        self.tape.free(*held, *self.graph)
        self.graph = []

    def _update_chunks(self, chunks: Chunks) -> None:
        """Returns and advantages, then a chunk of agents; gradients add up until the optimizers' steps."""
        held = []
        if not self.spec.flag("rollout.in_place_returns"):
            held.append(self.tape.alloc("rollout.returns", PREPARED * self.samples * 4, device=self.device))
        for network in (self.policy, self.autoencoder):
            self.learner.zero_grad(network)
            created = [
                self.autograd.gradient(op) for chain in network.chains.values() for op in chain.ops if op.parameters
            ]
            self.learner.keep_gradients(network, created)
        chunks.learn()
        self.learner.step(self.policy)
        self.learner.step(self.autoencoder)
        self.tape.free(*held)

    def _learn(self, batch: Quantity) -> None:
        autoencoder = [self.autograd.forward(self.chains[name], batch, grad=True) for name in ("encoder", "decoder")]
        joined = self.autograd.tensor("learner.activations", batch, self._policy_inputs(), "latent and extra")
        policy = [self.autograd.forward(self.chains["policy"], batch, grad=True, source=joined)]
        policy.append(self.autograd.forward(self.chains["value"], batch, grad=True))
        self.learner.zero_grad(self.policy)
        self.learner.zero_grad(self.autoencoder)
        for network, passes in ((self.policy, policy), (self.autoencoder, autoencoder)):
            created: list[Block] = []
            for run in reversed(passes):
                created += self.autograd.backward(run, input_grad=run is not autoencoder[0])
            self.learner.keep_gradients(network, created)
        self.learner.step(self.policy)
        self.learner.step(self.autoencoder)

    def _drop(self, passes: list[Pass]) -> None:
        for run in passes:
            self.autograd.drop(run)


def _saved(chain: Chain) -> int:
    """What a pass keeps beyond its input, which belongs to somebody else."""
    own = saved_floats(chain)
    first = chain.ops[0]
    own -= first.in_floats if first.kind.saves_input else 0
    return own + (0 if chain.ops[-1].kind.saves_output else chain.out_floats)


ADAPTER = Adapter(name="swarm", algorithms=("ppo",), on_policy=("ppo",), resolve=resolve, rehearsal=Swarm, notes=notes)
