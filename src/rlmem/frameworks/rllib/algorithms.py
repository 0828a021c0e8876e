"""What an update of each algorithm of RLlib holds, and where: batches, graphs, replay buffers."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from rlmem.core.quantity import Quantity
from rlmem.core.schedule import reached
from rlmem.core.spaces import leaves
from rlmem.core.spec import RunSpec
from rlmem.frameworks.rllib.counts import AGGREGATOR, ASYNC, DRIVER, RUNNER
from rlmem.frameworks.rllib.defaults import FLOAT
from rlmem.frameworks.rllib.runs import ClusterRun
from rlmem.model.constants import Constants
from rlmem.model.rehearsal import Rehearsal
from rlmem.model.tape import Block


class Ppo(ClusterRun):
    """Synchronous: a whole train batch of episodes, a value pass over all of it, shuffled minibatches."""

    def gathered(self) -> Quantity:
        """Steps of one update, of each learner: whole episodes come in rounds, and all that the last one brings is learned from."""
        batch = self.spec.q("rllib.train_batch")
        if not self.spec.flag("rllib.complete_episodes"):  # RLlib refuses fragments that miss it by more than a tenth
            return batch
        runners, request = max(1, self.counts.get(RUNNER, 0)), self.request()

        def steps(of_a_request: int) -> int:
            whole = runners * max(1, of_a_request)
            return -(-(-(-batch.value * self.replicas // whole) * whole) // self.replicas)

        low, value, high = steps(request.low), steps(request.value), steps(request.high)
        return Quantity.of(
            value,
            "steps of an update, by learner",
            f"{batch.value:,} asked for, in rounds of {runners:,} × {request.value:,}",
            low=min(low, value, high),
            high=max(low, value, high),
        )

    def stored_steps(self) -> Quantity:
        """A train batch from remote EnvRunners; once more on the way to learner actors."""
        batch = Quantity.of(self.replicas, "learners", self.spec.origin("rllib.num_learners")) * self.gathered()
        times = (RUNNER in self.counts) + (self.learners > 0)
        return times * batch if times else Quantity.literal(0)

    def update(self) -> None:
        """Copies of the train batch, the value pass, then a minibatch."""
        batch, minibatch = self.gathered(), self.batch()
        rows = self.padded(batch)
        objects = self.constants.quantity("rllib.step-objects")
        held = [
            self.hold(self.home, "learner.episodes", batch * self.row),
            self.hold(self.home, "learner.objects", batch * (objects + self.info), "measured"),
            self.learn("learner.columns", rows * self.seen),
        ]
        if self.learners and RUNNER in self.counts:  # arrays stay in the store, Python objects do not
            whole = Quantity.of(self.learners, "learners", "the configuration") * batch
            amount = (4 * (whole * self.info)).between(
                0.25, 2, "read from the store, and written to it again for the learners"
            )
            held.append(self.hold(DRIVER, "rollout.infos", amount))
        stack = self.spec.get("frame_stack", 1)
        if stack > 1:
            self.tape.free(self.hold(self.home, "learner.stacked", batch * self.seen))
        value = self.forward(rows, "rllib.value_bytes", "learner.value-pass")
        self.backward(value)
        self.tape.free(value)
        shuffled = self.learn("learner.shuffled", rows * self.seen)
        minirows = self.padded(minibatch)
        gathered = self.learn("batch.minibatch", minirows * self.seen)
        saved = self.forward(minirows, "rllib.saved_bytes", "learner.activations")
        self.backward(saved)
        self.tape.free(gathered, saved, shuffled, *held)


class Async(ClusterRun):
    """IMPALA and APPO: requests in flight, batches queued for the learner, one batch learned from."""

    def versions(self) -> int:
        """The learner puts weights by itself; the state server and slow readers hold older ones."""
        return 4

    def stored_steps(self) -> Quantity:
        """Results of requests, the pack being built, and packs the learners were sent: up to three each."""
        batch = Quantity.of(self.replicas, "learners", self.spec.origin("rllib.num_learners")) * self.spec.q(
            "rllib.train_batch"
        )
        packs = Quantity.of(2, "packs of episodes", "one being built, those sent to learners", low=1, high=4)
        if AGGREGATOR in self.counts:
            packs = packs + Quantity.of(1, "batches of aggregators", "finished, on their way", low=0, high=6)
        return super().stored_steps() + packs * batch

    def update(self) -> None:
        """A batch as episodes and as columns, those that wait, and the pass."""
        batch = self.spec.q("rllib.train_batch")
        rows = self.padded(batch)
        maker = AGGREGATOR if AGGREGATOR in self.counts else self.home
        objects = self.constants.quantity("rllib.step-objects")
        held = [
            self.hold(maker, "learner.episodes", batch * self.row),
            self.hold(maker, "learner.objects", batch * (objects + self.info), "measured"),
        ]
        if maker == AGGREGATOR:
            held.append(self.hold(AGGREGATOR, "learner.columns", rows * self.seen))
            held.append(self.hold(AGGREGATOR, "learner.parameters", self.spec.q("rllib.parameters") * FLOAT, "exact"))
        # Tensors that come from an aggregator are the learner's own: Ray hands out numpy arrays without a copy, and no others.
        held.append(self.learn("learner.columns", (self.waiting() + 1) * (rows * self.seen)))
        saved = self.forward(rows, "rllib.saved_bytes", "learner.activations")
        self.backward(saved)
        self.tape.free(saved, *held)

    def waiting(self) -> Quantity:
        """Batches in the learner's queue, or in APPO's circular buffer: a learner that keeps up holds few of them."""
        kept = self.spec.count("rllib.old_batches")
        if kept:
            return Quantity.of(
                -(-kept // 2), "batches kept to use again", self.spec.origin("rllib.old_batches"), low=1, high=kept + 1
            )
        queue = self.spec.count("rllib.queue")
        return Quantity.of(min(1, queue), "batches waiting", self.spec.origin("rllib.queue"), low=0, high=queue + 1)


class OffPolicy(ClusterRun):
    """DQN and SAC: episodes in a replay buffer in the driver, small batches."""

    def build_stores(self) -> None:
        """Episodes as arrays, every observation once; objects around each step and each episode."""
        rows = self.spec.q("buffer_size")
        full = self._stored(rows)
        comes_to = reached(self.spec, rows)
        kept = full if comes_to is None else self._stored(comes_to)
        if self.spec.get("replay.kind") == "prioritised":
            slots = Quantity.of(1 << (rows.value - 1).bit_length(), "slots of the trees", "the next power of two")
            self.hold(DRIVER, "replay.trees", slots * self.constants.quantity("rllib.tree-slot"), "measured")
        self.replay_blocks = [
            self.tape.alloc(name, amount, process=DRIVER, basis=basis, residency="reserved")
            for name, (amount, basis) in kept.items()
        ]
        for name, (amount, basis) in full.items():
            if beyond := amount.value - kept[name][0].value:
                never = Quantity.of(beyond, f"{name} this run never writes", "the rows beyond its last step")
                self.tape.alloc(name, never, process=DRIVER, basis=basis, residency="reserved")

    def _stored(self, rows: Quantity) -> dict[str, tuple[Quantity, str]]:
        """What so many rows take, by component, and how that is known."""
        episodes = rows // self.episode()
        observed = leaves(self.spec.need("observation"), "")
        space = sum(prod(leaf.shape) * (2 * (leaf.nbytes // max(1, prod(leaf.shape))) + 2) for leaf in observed)
        each = Quantity.of(space, "bytes of a copied space", "bounds and whether there are any") + self.raw
        stores = {
            "replay.steps": (rows * self.row, "exact"),
            "replay.objects": (rows * (self.constants.quantity("rllib.replay-step") + self.info), "measured"),
            "replay.episodes": (episodes * (each + self.constants.quantity("rllib.replay-episode")), "derived"),
        }
        if self.spec.get("replay.kind") == "prioritised":
            stores["replay.priorities"] = (rows * self.constants.quantity("rllib.priority"), "measured")
        return stores

    def stored_steps(self) -> Quantity:
        """Results of the last requests, which the driver lets go late."""
        late = Quantity.of(6, "requests not let go yet", "2 to 14 seen", low=1, high=16)
        return super().stored_steps() * late if RUNNER in self.counts else Quantity.literal(0)

    def slack(self, blocks: Iterable[Block]) -> None:
        """Adding, sampling and evicting episodes step by step leaves holes, more than an update's tensors do."""
        self.constant(DRIVER, "runtime.allocator", "rllib.churn")

    def collected(self) -> list[Block]:
        """The buffer fills sooner or later."""
        self.tape.fill(*self.replay_blocks)
        return super().collected()

    def update(self) -> None:
        """Sampled steps with their next observations, as columns and as tensors, then the pass."""
        self.tape.settle(*self.replay_blocks)
        batch = self.spec.q("rllib.train_batch")
        held = [
            self.hold(DRIVER, "learner.objects", batch * self.constants.quantity("rllib.sampled-step"), "measured"),
            self.learn("batch.columns", 4 * (batch * self.seen)),
        ]
        saved = self.forward(batch, "rllib.saved_bytes", "learner.activations")
        self.backward(saved)
        self.tape.free(saved, *held)


def rehearsal(spec: RunSpec, constants: Constants) -> Rehearsal:
    """The run of the configuration's algorithm."""
    algorithm = spec.text("algorithm")
    kind = Ppo if algorithm == "ppo" else Async if algorithm in ASYNC else OffPolicy
    return kind(spec, constants)
