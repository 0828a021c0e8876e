"""Scripts with their own loop: watch environments step and optimizers step, and leave after full updates.

A *cycle* is a stretch of optimizer steps with environment steps on both sides: one full update. The first shows the
update's memory; a few dozen more let the heap settle. Between cycles nothing is changed about the run.
"""

import gc
import sys
import time

from .arrays import touch
from .horizon import Horizon
from .learners import Learner, seen
from .levels import Levels
from .stepping import Stepping
from .steps import Steps

#: After the first full update: this many more, or this long, whichever comes first.
CYCLES = 64
SETTLE_S = 6.0
#: Where environment steps are not seen, optimizer steps go on for this long at least.
UNSEEN_S = 3.0
#: Cycles with a full reading; between them only the kernel's own high-water mark runs on.
LOOKED_AT = (1, 2, 4, 8, 16, 32, 64)


class Loop:
    """Counts environment steps and optimizer steps of the target."""

    def __init__(self, state, arrays, containers):
        self.state, self.arrays = state, arrays
        self.levels = Levels(state, arrays, containers) if state.job["mode"] == "trace" else None
        self.env_steps = self.updates = self.cycles = self.since = 0
        self.first_update_s = None
        self.boundary = time.monotonic()
        self.built, self.importing = False, True
        self.learner = Learner(state.job["folder"])
        self.stepping = Stepping(self.imported, self.env_stepped)
        self.finder = Steps(state, self.environment_met, self.still_importing)
        self.horizon = Horizon()
        #: Set while a framework's own rehearsal runs: then nothing here ends the job.
        self.held = False
        state.closers[:0] = [self.steps_to_come, self.pending, self.close]

    def pending(self):
        """Bytes of the parameters that optimizers will step, when none of them has yet, and of JAX's arrays."""
        if "jax" in sys.modules:
            arrays = getattr(sys.modules["jax"], "live_arrays", list)()
            self.state.facts["jax_bytes"] = sum(array.nbytes for array in arrays)
        torch = sys.modules.get("torch")
        if self.updates or torch is None:
            return
        # By type: some proxies warn when they are asked for their class.
        found = [item for item in gc.get_objects() if issubclass(type(item), torch.optim.Optimizer)]
        tensors = [tensor for optimizer in found for group in optimizer.param_groups for tensor in group["params"]]
        self.state.facts["pending_bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @property
    def met(self):
        """How far the target's own loop got."""
        if self.cycles:
            return "loop"
        return "update" if self.updates else None

    def watch_torch(self, torch):
        """Be told of every optimizer step."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:
            self.state.note("this torch (before 2.0) does not tell of optimizer steps: the dry run goes by time only")
            return
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self.stepped())

    def watch_gym(self, module):
        """Be told of environments being made and stepped."""
        self.stepping.watch(module)

    def imported(self):
        """The first environment or model is about to be made: what is resident now are libraries."""
        if "import" not in self.state.facts["phases"]:
            self.state.phase("import")
        if self.importing:
            self.importing = False
            self.state.status("building")

    def still_importing(self):
        """A module was loaded: what was resident then are libraries, if nothing of the run follows before the next."""
        if self.importing:
            self.state.phase("import")

    def environment_met(self, owner):
        """The first step of an environment that is not Gymnasium's begins."""
        self.stepping.hook(owner)
        if not self.held:
            self.begin()

    def begin(self):
        """The first environment step or optimizer step: everything is built."""
        if not self.built:
            self.built = True
            self.imported()
            self.state.phase("build")

    def env_stepped(self):
        """An environment step; the first after optimizer steps ends a cycle."""
        if self.state.forked:
            return
        if self.held:
            self.state.count_step()
            return
        self.env_steps += 1
        self.state.count(self.env_steps, self.cycles)
        self.state.facts["env_steps"] = self.env_steps
        if not self.env_steps & (self.env_steps - 1):
            with self.state.own():
                self.horizon.seen(sys._getframe(2))
                self.arrays.look()
        if self.env_steps == 1:
            self.finder.stop()
            self.begin()
            self.state.status("stepping")
            self.boundary = time.monotonic()
        if self.since:
            self.since = 0
            self.cycle_done()
        elif self.levels is not None and not self.cycles:
            self.levels.after("step", self.env_steps, self.env_steps)

    def stepped(self):
        """An optimizer step."""
        if self.state.forked:
            self.learner.stepped()
        if self.held or self.state.forked:
            return
        self.begin()  # of a learner that has stored data, or whose environment is not seen
        if not self.since and self.cycles + 1 in LOOKED_AT:
            # Up to here the target collected; what follows is the update.
            self.state.phase("collect")
            self.state.status("updating")
        self.since += 1
        self.updates += 1
        if self.first_update_s is None:
            self.first_update_s = time.monotonic()
        if not self.env_steps:
            self.stepped_alone()

    def stepped_alone(self):
        """An optimizer step of a loop whose environment steps are not seen: leave after enough of them."""
        if self.levels is not None:
            self.levels.after("optimizer step", self.updates, self.updates)
        if self.updates < CYCLES or time.monotonic() - self.first_update_s < UNSEEN_S:
            return
        if self.levels is None or not self.levels.wants_more:
            self.state.phase("update")
            self.state.note("no environment step of this loop is seen: it was stopped after some optimizer steps")
            self.done()

    def cycle_done(self):
        """A full update is behind us: look, and leave when enough was seen."""
        self.cycles += 1
        now = time.monotonic()
        took, self.boundary = now - self.boundary, now
        # A long cycle is seen twice if there is time: the second update meets what the first one left on the heap.
        again = self.cycles < 2 and self.state.left() > 1.2 * took
        enough = self.cycles >= CYCLES or (now - self.first_update_s > SETTLE_S and not again)
        if self.levels is not None:
            self.levels.after("update", self.cycles, self.env_steps)
            enough = enough and not self.levels.wants_more
        if self.cycles in LOOKED_AT or enough:
            self.state.phase("update")
        if self.cycles == 1:
            self.horizon.seen(sys._getframe(3))
            if self.state.job["mode"] == "measure":
                self.fill()
                return
        if enough:
            self.done()

    def fill(self):
        """Touch what the run will write of its arrays."""
        self.steps_to_come()
        self.arrays.close()
        for row in self.state.facts["arrays"]:
            if row["address"]:
                touch(row["address"], row["nbytes"] if row["written"] is None else row["written"])

    def steps_to_come(self):
        """Environment steps of the whole run, as far as its loops say."""
        steps = self.horizon.steps
        if steps is not None and steps >= self.env_steps:
            self.state.facts["steps"] = steps

    def done(self):
        """Enough was seen."""
        self.state.leave("loop")

    def ended(self, well=True):
        """The target came to an end of its own: what its last phase held until then belongs to that phase."""
        if self.state.forked:
            return
        self.state.facts["ended"] = well
        if not self.held and self.updates:
            self.state.phase("update" if self.cycles or self.since else "collect")

    def close(self):
        """How far the loop came, however it ended, and its children's."""
        self.state.facts["learners"] = seen(self.state.job["folder"])
        if self.built and "model" not in self.state.facts:
            self.state.facts["loop"] = {"cycles": self.cycles, "updates": self.updates, "env_steps": self.env_steps}
