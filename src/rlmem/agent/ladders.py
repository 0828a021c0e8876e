"""How each kind of learner climbs to its real sizes, in place of its own collection and update."""

import time

from . import stores
from .describe import arrays_of
from .filling import extend, fill
from .sampling import Recorder, sample

#: Two small batch sizes at which every op is recorded.
RECORDED = (8, 16)
#: Environment steps of the first, tiny collection.
TINY = 16
#: Steps a compact store is given for real before its rows are added again, and what a rollout's may take.
REAL, KEPT = 1000, 8 << 20
#: A step that may take longer than this may not end: what it would be extended from is recorded before it.
RISKY_S = 2.0


class Done(BaseException):
    """Leaves ``learn()`` from within; not an ``Exception``, so that the script's own handlers let it pass."""


class OffPolicy:
    """SAC, TD3, DQN and their like: collect a few steps, then climb to the real batch."""

    def __init__(self, run):
        self.run, self.model = run, run.model
        self.batch = self.model.batch_size
        self.size = min(self.batch, 8) if not run.fill_replay else self.batch
        self.tries, self.done, self.filled = 0, 0, False
        steps = self.model.gradient_steps
        self.steps = max(1, min(steps if steps > 0 else 4, 4))

    def install(self):
        """In place of the model's own methods."""
        model = self.model
        model.learning_starts = 0
        model.collect_rollouts = self.collect
        model.train = self.train

    def collect(
        self, env, callback, train_freq, replay_buffer, action_noise=None, learning_starts=0, log_interval=None
    ):
        """A few real steps; the first time enough that a batch can be drawn."""
        kind = type(train_freq)
        unit = type(train_freq.unit)("step")
        first = not self.done and self.tries == 0
        # Random actions: what a run begins with.
        self.more = lambda steps: self.run.collect(
            env,
            train_freq=kind(steps, unit),
            action_noise=action_noise,
            callback=callback,
            learning_starts=1 << 60,
            replay_buffer=replay_buffer,
            log_interval=log_interval,
        )
        while True:
            steps = TINY if first else 1
            if first:
                self.run.state.expect(steps * env.num_envs)
            result = self.run.collect(
                env,
                train_freq=kind(steps, unit),
                action_noise=action_noise,
                callback=callback,
                learning_starts=TINY * env.num_envs if first else 0,
                replay_buffer=replay_buffer,
                log_interval=log_interval,
            )
            if self.ready(replay_buffer):
                break
            if self.run.time_left() < 0:
                self.run.state.note("no episode ended in the time of the dry run: no update was seen")
                raise Done
        if first:
            self.run.state.phase("collect")
            self.run.state.status("updating")
            if self.run.fill_replay and not self.filled:
                self.filled = True
                if stores.is_compact(replay_buffer):
                    self.fill_compact(replay_buffer)
                else:
                    fill(replay_buffer, self.rows(replay_buffer))
                self.run.state.phase("collect")
        return result

    def rows(self, buffer):
        """Rows that the run comes to: all, unless the steps it asks for are known to be all there will be."""
        steps = self.run.asked.get("total_timesteps")
        if not self.run.state.job.get("whole_run") or not isinstance(steps, int):
            return buffer.buffer_size
        return max(buffer.pos, min(buffer.buffer_size, -(-steps // buffer.n_envs)))

    def fill_compact(self, buffer):
        """Real steps first, for as long as they take a fifth of the time; then their rows again and again."""
        run, rows = self.run, self.rows(buffer)
        until = 0.8 * run.time_left()
        while not buffer.full and buffer.pos < min(REAL, rows) and run.time_left() > until:
            self.more(TINY)
        if not stores.fill(buffer, rows, lambda: run.time_left() - 5.0):
            share = 100.0 * buffer.pos / buffer.buffer_size
            run.state.note("there was time to fill %.0f %% of the replay buffer" % share)

    def sample(self):
        """Some hundred transitions more, to see what they are like."""
        if getattr(self, "more", None):
            buffer = self.model.replay_buffer
            sample(self.run, buffer, buffer.buffer_size, self.more)

    @staticmethod
    def ready(buffer):
        """Hindsight replay draws from finished episodes only."""
        lengths = getattr(buffer, "ep_length", None)
        return lengths is None or bool((lengths > 0).any())

    def train(self, gradient_steps, batch_size):
        """One rung of the ladder."""
        run = self.run
        seconds, transient, _ = run.timed(run.train, gradient_steps=self.steps, batch_size=self.size)
        run.state.phase("update")
        self.tries += 1
        self.done = self.done + self.steps if self.size == self.batch else 0
        run.complete({"batch_size": self.size, "updates": self.done or self.tries * self.steps})
        if self.size < self.batch:
            if self.tries >= 2:
                self.climb(seconds, transient)
        elif self.done >= run.updates or run.time_left() < seconds:
            self.finish()

    def climb(self, seconds, transient):
        """To the next size, if it is sure to fit."""
        run = self.run
        size = min(self.batch, self.size * 8)
        factor = size / self.size
        # The transient of a small batch contains what does not grow with it: the estimate is on the safe side. Its time
        # is mostly overhead, and grows by far less than the factor.
        later = seconds * factor * 0.3
        if max(transient, 1 << 18) * factor > run.room() or later > run.time_left():
            self.finish()
        if later > RISKY_S:
            self.record()
        self.size, self.tries = size, 0

    def record(self):
        """The ops of two updates at two small sizes."""
        run = self.run
        if run.fill_replay or run.facts["recordings"]:
            return
        # Two updates: the second begins with the gradients of the first in place.
        steps = 2 * max(1, int(getattr(self.model, "policy_delay", 1) or 1))
        for size in RECORDED:
            run.record(size, lambda size=size: run.train(gradient_steps=steps, batch_size=size))

    def finish(self):
        """Enough was seen."""
        self.record()
        raise Done


class OnPolicy:
    """PPO, A2C, TRPO and their like: two tiny rollouts, then real ones."""

    def __init__(self, run):
        self.run, self.model = run, run.model
        self.steps = self.model.n_steps
        self.batch = getattr(self.model, "batch_size", None)
        self.rounds, self.real, self.minibatches = 0, 0, 0
        self.climbed = self.short = False
        self.rate = 0.0
        self.length = self.steps if run.fill_replay else min(self.steps, TINY)
        self.epochs = min(getattr(self.model, "n_epochs", 1), 2)

    def install(self):
        """In place of the model's own methods."""
        model = self.model
        model.collect_rollouts = self.collect
        model.train = self.train
        if hasattr(model, "n_epochs"):
            model.n_epochs = self.epochs

    def resize(self, steps):
        """Let the rollout buffer hold so many steps from its next reset on."""
        buffer = self.model.rollout_buffer
        self.model.n_steps = buffer.buffer_size = steps
        shape = getattr(buffer, "hidden_state_shape", None)
        if shape is not None:
            buffer.hidden_state_shape = (steps, *tuple(shape)[1:])

    def collect(self, env, callback, rollout_buffer, n_rollout_steps, *args, **kwargs):
        """A rollout of the length of this round; what there is no time to step is filled with what was stepped."""
        run = self.run
        self.callback, self.more = callback, (args, kwargs)
        steps = self.length
        if self.rate and not run.fill_replay:
            steps = max(min(TINY, steps), min(steps, int(max(0.0, run.time_left()) * 0.4 / self.rate)))
        self.resize(steps)
        run.state.expect(steps * env.num_envs)
        began = time.monotonic()
        rows = []
        if steps < self.length and stores.is_compact(rollout_buffer):
            with Recorder(rollout_buffer, calls=True, most=KEPT) as recorder:
                result = run.collect(env, callback, rollout_buffer, steps, *args, **kwargs)
            rows = recorder.rows
        else:
            result = run.collect(env, callback, rollout_buffer, steps, *args, **kwargs)
        if self.rounds:
            self.rate = max(1e-6, (time.monotonic() - began) / steps)
        if steps < self.length:
            run.state.note(
                "{:,} of {:,} steps of a rollout were stepped; the rest is filled with the same data".format(
                    steps, self.length
                )
            )
            self.resize(self.length)
            if rows:
                stores.refill(rollout_buffer, rows, self.length)
            else:
                extend(rollout_buffer, self.length)
        run.state.phase("collect")
        run.state.status("updating")
        return result

    def train(self):
        """One update; then the next size."""
        run = self.run
        self.limit()
        self.rounds += 1
        seconds, transient, _ = run.timed(run.train)
        run.state.phase("update")
        batch = min(self.model.batch_size, self.samples()) if self.batch else None
        self.real += self.length == self.steps and not self.short
        run.complete({"n_steps": self.length, "batch_size": batch, "updates": self.real or self.rounds})
        if not self.climbed and (self.length < self.steps or run.fill_replay is False):
            if self.rounds >= 2:
                self.climb(seconds, transient)
            return
        most = 2 if run.fill_replay or self.short else 4
        if self.rounds >= most + 2 * self.climbed or run.time_left() < 2 * seconds:
            self.finish()

    def sample(self):
        """Some hundred steps more, to see what they are like."""
        if not hasattr(self, "more"):
            return
        model, (args, kwargs) = self.model, self.more

        def collect(steps):
            self.resize(min(steps, self.steps))
            self.run.collect(model.env, self.callback, model.rollout_buffer, model.n_steps, *args, **kwargs)

        sample(self.run, model.rollout_buffer, self.steps, collect)

    def samples(self):
        """Samples of a rollout now."""
        return self.length * self.model.n_envs

    def climb(self, seconds, transient):
        """To the real length and batch, or as far as memory and time are sure to last."""
        run, model = self.run, self.model
        self.climbed = True
        envs = model.n_envs
        per_step = sum(row["nbytes"] for row in arrays_of(model.rollout_buffer)) / max(1, self.length)
        if stores.is_compact(model.rollout_buffer):
            per_step += stores.row_bytes(model.rollout_buffer)
        small = min(self.batch or self.samples(), self.samples())
        each = max(transient, 1 << 18) / small
        # A rollout and its flattened copy, beside the update's tensors.
        room = max(0.0, run.room() - each * small)
        length = min(self.steps, int(room / (2.2 * per_step)))
        length = max(self.length, length)
        if self.batch is None and length < self.steps:
            length = min(length, int(0.5 * run.room() / (each * envs)) or self.length)
        room = run.room() - 2.2 * per_step * length
        batch = min(self.batch or length * envs, length * envs)
        seconds /= max(1, self.minibatches)
        while batch > small and (each * batch > room or 0.5 * seconds * batch / small > run.time_left() / 4):
            batch //= 2
        if self.batch is None:  # one batch of the whole rollout
            length = max(self.length, min(length, batch // envs))
        else:
            model.batch_size = max(batch, 1)
        self.short = length < self.steps or (self.batch is not None and batch < min(self.batch, self.steps * envs))
        if self.short or seconds * batch / small > RISKY_S:
            self.record()
        if length == self.length and batch <= small and self.short:
            self.finish()
        self.length = length

    def limit(self):
        """At most as many minibatches as there is time for."""
        buffer, run = self.model.rollout_buffer, self.run
        original = type(buffer).get
        self.minibatches = 0

        def get(*args, **kwargs):
            began = time.monotonic()
            for count, item in enumerate(original(buffer, *args, **kwargs)):
                self.minibatches += 1
                yield item
                if count >= 2 and time.monotonic() - began > max(0.5, run.time_left() * 0.3):
                    return

        if not run.fill_replay:
            buffer.get = get

    def record(self):
        """The ops of two updates of one minibatch at two small sizes; then everything as it was."""
        run, model = self.run, self.model
        if run.fill_replay or run.facts["recordings"]:
            return
        buffer = model.rollout_buffer
        original, kept = type(buffer).get, (getattr(model, "batch_size", None), getattr(model, "n_epochs", None))

        def one(*args, **kwargs):
            for item in original(buffer, *args, **kwargs):
                yield item
                return

        steps = max(1, -(-RECORDED[-1] // model.n_envs))
        if kept[1]:
            model.n_epochs = 1
        for factor in (1, 2):
            self.resize(steps * factor)
            args, kwargs = self.more
            run.collect(model.env, self.callback, buffer, steps * factor, *args, **kwargs)
            size = steps * factor * model.n_envs
            if kept[0]:
                model.batch_size = size
            buffer.get = one
            run.record(size, lambda: (run.train(), run.train()))
        if kept[0]:
            model.batch_size = kept[0]
        if kept[1]:
            model.n_epochs = kept[1]

    def finish(self):
        """Enough was seen."""
        self.record()
        raise Done


class Other:
    """Learners without a buffer (ARS): a small population, once or twice."""

    def __init__(self, run):
        self.run, self.model = run, run.model

    def sample(self):
        """Nothing is stored."""

    def install(self):
        """Fewer candidates; each is evaluated for real."""
        model, run = self.model, self.run
        if hasattr(model, "n_delta"):
            model.n_delta = min(model.n_delta, 2)
            model.n_top = min(model.n_top, model.n_delta)
            model.pop_size = 2 * model.n_delta
        name = "_do_one_update" if hasattr(model, "_do_one_update") else "train"
        original = getattr(model, name)

        def update(*args, **kwargs):
            original(*args, **kwargs)
            run.state.phase("update")
            run.complete({"updates": run.facts["reached"].get("updates", 0) + 1})
            if run.facts["reached"]["updates"] >= 2 or run.time_left() < 0:
                raise Done

        setattr(model, name, update)
