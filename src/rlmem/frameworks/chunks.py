"""What a chunk of agents needs beside the store, in collection and in the update, tensor by tensor.

Two ways to the codes of a chunk's windows. ``window``: windows are cut out and go through the encoder one by one. ``sequence``:
the encoder's convolutions run once over the stream, and only the ends of every window, which see padding, are computed for
each; this is written for the drones' own window and encoder (``rlmem.swarm``), and counted here as that code makes and drops
its tensors.
"""

from __future__ import annotations

from math import ceil

from rlmem.core.layers import Chain
from rlmem.core.quantity import Quantity
from rlmem.core.spaces import Window
from rlmem.core.spec import RunSpec
from rlmem.model.autograd import Autograd
from rlmem.model.tape import Block

#: The run whose windows can be encoded in one pass: its window, and the layers of its encoder.
DRONES = Window(sample=6, extra=4, step=10, length=300)
ENCODER = (
    "conv1d 16 k5 s2 p2", "relu", "conv1d 32 k5 s2 p2", "relu", "conv1d 64 k5 s3 p1", "relu", "flatten", "linear 20", "tanh",
)  # fmt: skip
#: Channels of the three convolutions; the inner positions that a window picks of the third's; values of a window's two
#: ends: 16 and 16 at the first layer, 64 and 32 at the second, 64 and 64 at the third.
CHANNELS, INNER, ENDS = (16, 32, 64), 23, 256
LATENT = 20
#: Agents that fly together for one in the update, by device, and steps whose windows are decoded at once.
COLLECTED, PIECE = {"ram": 16, "vram": 4}, 10
#: Values of an agent in flight: four actions and three scalars a step, its state, targets and accelerations.
_FLOWN, _STATE = 7, 46
#: Steps more than their share of them that a piece has by chance.
_LUCK = 2
#: Values of a sample in the losses of policy and value: differences, squares, ratios and their products.
_LOSS = 30
STREAM, WINDOWS, FLIGHT = "batch.stream", "batch.device", "batch.flight"
ACTIVATIONS, BACKWARD, LOSS = "learner.activations", "learner.backward", "learner.loss"


def is_drones(spec: RunSpec, window: Window) -> bool:
    """Whether this is the run that ``rlmem.swarm`` trains."""
    return window == DRONES and tuple(dict(spec.get("network.modules", {})).get("encoder", ())) == ENCODER


def layer_values(samples: int) -> tuple[int, int, int]:
    """Values of the encoder's three layers over a stream of samples: the second and third at every position of the first.

    >>> layer_values(300)
    (2368, 4608, 8704)
    """
    first = (samples - 5) // 2 + 1
    return first * CHANNELS[0], (first - 4) * CHANNELS[1], (first - 12) * CHANNELS[2]


class Chunks:
    """Plays the passes of a run that keeps a stream."""

    def __init__(self, spec: RunSpec, window: Window, chains: dict[str, Chain], autograd: Autograd) -> None:
        self.spec, self.window, self.chains, self.autograd = spec, window, chains, autograd
        self.tape = autograd.tape
        self.steps = spec.count("n_steps")
        agents = spec.count("agents") * spec.count("n_envs")
        self.drones = is_drones(spec, window)
        self.in_sequence = spec.get("network.encoding") == "sequence"
        self.batch = spec.q("batch_size").at_most(agents * self.steps)
        together = spec.q("n_steps")
        if not self.in_sequence:
            together = Quantity.of(min(PIECE, self.steps), "steps at a time", "rlmem.swarm")
        self.chunk = (self.batch // together).at_least(1).at_most(agents).named("chunk of agents")
        flown = COLLECTED[autograd.device] * self.chunk if self.drones else self.batch
        self.collected = flown.at_most(agents).named("agents that fly together")
        self.samples = window.length + window.step * (self.steps - 1)
        self.width = window.length * window.sample
        self.decoded = int(spec.get("network.decoded_steps", self.steps))
        #: What stays of a flight that was captured as a graph.
        self._captured: list[Block] = []

    def take(self, component: str, count: Quantity, values: int, name: str, size: int = 4) -> Block:
        """``count × values × bytes`` on the learner's device."""
        amount = count * Quantity.of(values, f"{name} values", "tensor shapes") * size
        return self.tape.alloc(component, amount, device=self.autograd.device)

    def pass_by(self, component: str, count: Quantity, values: int, name: str, size: int = 4) -> None:
        """The same, for a moment."""
        self.tape.free(self.take(component, count, values, name, size))

    # ------------------------------------------------------------ collection
    def collect(self) -> None:
        """One step after the other of some agents; in sequence, with the layers of their streams so far.

        On a GPU the drones' episode is captured as a graph, whose tensors stay for the next one.
        """
        if self._captured:
            return
        agents, size = self.collected, self.autograd.value_bytes
        held = []
        if self.drones:
            samples = self.samples + self.window.step
            held.append(self.take(FLIGHT, agents, samples * self.window.sample, "stream"))
            held.append(self.take(FLIGHT, agents, self.steps * _FLOWN + _STATE, "actions, scalars and state"))
            layers = layer_values(samples) if self.in_sequence else ()
            held += [self.take(FLIGHT, agents, values, "layers of the stream", size) for values in layers]
        else:
            held.append(self.take(WINDOWS, agents, 2 * self.width, "windows, and beside their extra values"))
        if self.in_sequence:
            layers = layer_values(self.window.length)
            self.tape.free(
                *[self.take(FLIGHT, agents, values, "layers of the first window", size) for values in layers]
            )
        else:
            self.autograd.drop(self.autograd.forward(self.chains["encoder"], agents, grad=False))
        if self.drones and self.autograd.device == "vram":
            self._captured = held
        else:
            self.tape.free(*held)

    # ------------------------------------------------------------ update
    def learn(self) -> None:
        """The losses of one chunk and their gradients; those of the parameters are there already and are added to."""
        if self.spec.flag("rollout.resimulated"):
            self._fly_again()
        if self.in_sequence:
            self._learn_stream()
        else:
            self._learn_windows()

    def _fly_again(self) -> None:
        """The samples of an episode from its actions, and as they would be stored."""
        values = self.steps * self.window.step * (self.window.sample - self.spec.get("rollout.derived", 0))
        flown = self.take(STREAM, self.chunk, values, "samples flown again")
        size = 4 if self.spec.get("rollout.dtype", self.window.dtype) == "float32" else 2
        self.pass_by(STREAM, self.chunk, 2 * values, "the same as stored", size)
        self.tape.free(flown)

    def _learn_stream(self) -> None:
        """The order of ``EncodeStream`` and of ``Update`` in ``rlmem.swarm``."""
        agents, steps, size = self.chunk, self.steps, self.autograd.value_bytes
        picked = steps * INNER * CHANNELS[-1]
        layers = layer_values(self.samples)
        held = [self.take(STREAM, agents, self.samples * self.window.sample, "stream")]
        held += [self.take(ACTIVATIONS, agents, values, "layers of the stream", size) for values in layers]
        held.append(self.take(ACTIVATIONS, agents, steps * ENDS, "ends of windows", size))
        self.pass_by(ACTIVATIONS, agents, picked, "inner positions of windows", size)
        held.append(self.take(ACTIVATIONS, agents, steps * LATENT, "codes"))
        self._head(agents * steps)
        held.append(self.take(BACKWARD, agents, steps * LATENT, "gradient of codes"))
        windows = agents * Quantity.of(min(PIECE, self.decoded), "steps decoded at once", "rlmem.swarm")
        # Steps that are not neighbours are picked into one copy and turned round in another.
        copies = 1 if self.decoded == steps else 2
        self._decode(windows, self.take(WINDOWS, windows, copies * self.width, "windows to rebuild"))
        held.append(self.take(BACKWARD, agents, steps * LATENT, "gradient before tanh"))
        self.pass_by(BACKWARD, agents, picked, "inner positions of windows", size)
        spread = self.take(BACKWARD, agents, picked, "gradient of inner positions", size)
        third = self.take(BACKWARD, agents, layers[2], "gradient of the third layer", size)
        self.tape.free(spread)
        self.pass_by(BACKWARD, agents, layers[1], "gradient of the second layer", size)
        self.tape.free(third, *held)

    def _learn_windows(self) -> None:
        """A batch of windows cut out of the stream, each by itself through the encoder."""
        seen = self.take(WINDOWS, self.batch, self.width, "windows")
        self.pass_by(WINDOWS, self.batch, self.width, "windows, before their extra values are put beside them")
        encoder = self.autograd.forward(self.chains["encoder"], self.batch, grad=True)
        self._head(self.batch)
        # rlmem.swarm picks the steps that the autoencoder learns from, which copies; of a piece, chance has it how many.
        share = self.batch
        if self.decoded < self.steps:
            piece = min(PIECE, self.steps)
            most = min(piece, ceil(self.decoded * piece / self.steps) + _LUCK)
            share = self.chunk * Quantity.of(most, "steps decoded at once", "network.decoded_steps, by chance")
        self._decode(share, self.take(WINDOWS, share, self.width if self.drones else 0, "windows to rebuild"))
        self.autograd.backward(encoder, weights=False)
        self.tape.free(seen)

    def _head(self, samples: Quantity) -> None:
        """Policy and value on codes and extra values, forward and back."""
        policy, value = self.chains["policy"], self.chains["value"]
        joined = self.autograd.tensor(ACTIVATIONS, samples, policy.ops[0].in_floats, "codes and extra values")
        runs = [self.autograd.forward(policy, samples, grad=True, source=joined)]
        runs.append(self.autograd.forward(value, samples, grad=True))
        loss = self.autograd.tensor(LOSS, samples, _LOSS, "loss")
        for run in reversed(runs):
            self.autograd.backward(run, input_grad=True, weights=False)
        self.tape.free(loss)

    def _decode(self, windows: Quantity, wanted: Block) -> None:
        """The decoder on some codes, and its loss in float32: the difference, and what the gradient of its square makes."""
        run = self.autograd.forward(self.chains["decoder"], windows, grad=True)
        gap = self.take(LOSS, windows, self.width, "difference")
        made = [self.take(LOSS, windows, self.width, "gradient of a square") for _ in range(2)]
        out = self.take(BACKWARD, windows, self.width, "gradient of the difference")
        self.tape.free(*made, out)
        self.autograd.backward(run, input_grad=True, weights=False)
        self.tape.free(gap, wanted)
