"""Run a little of ``learn()`` for real: real environments, real data, real updates, at sizes that cost little.

Sizes grow rung by rung towards the real ones for as long as the next rung is sure to fit into the memory and the time
the dry run has. Most runs reach their real batch that way, and nothing needs extending; what stopped short is written
down together with op-by-op recordings at two small sizes, from which the parent extends.
"""

import time

from . import proc
from .describe import arrays_of, held, learner_bytes, networks, optimizers
from .ladders import Done, OffPolicy, OnPolicy, Other
from .stores import describe_store, is_compact

#: Gradient steps after which the heap has settled; with fewer, QR-DQN and CrossQ were seen still growing.
SETTLED = 40
#: Arguments of ``learn()`` that only report.
NOT_PASSED = ("callback", "progress_bar", "tb_log_name", "total_timesteps", "log_interval", "eval_env", "eval_log_path")
#: Seconds a rehearsal takes: the first even when a slow import has used up the job's time.
LEAST_S, MOST_S = 6.0, 10.0
#: Share of the dry run's own memory that its update may take.
SHARE = 0.8


class Rehearsed:
    """The dry run of one model."""

    fill_replay = False
    updates = SETTLED

    def __init__(self, state, arrays, model, function, asked):
        self.state, self.arrays, self.model, self.function = state, arrays, model, function
        self.asked = asked
        self.deadline = time.monotonic() + max(LEAST_S, min(MOST_S, state.left() - 3.0))
        state.rehearsed_until = self.deadline + 5.0
        self.facts = {"reached": {}, "recordings": []}
        state.facts["rehearsal"] = self.facts
        state.closers.append(self.close)

    def close(self):
        """Addresses of what the model holds at the end, which has names of its own."""
        model = self.model
        buffers = [getattr(model, name, None) for name in ("replay_buffer", "rollout_buffer")]
        addresses = {row["address"] for buffer in buffers if buffer is not None for row in arrays_of(buffer)}
        addresses |= {tensor.untyped_storage().data_ptr() for tensor in held(model, optimizers(model))}
        self.facts["held"] = sorted(addresses)

    def go(self):
        """``learn()`` with our own collection and update in place of the model's, until enough was seen."""
        model = self.model
        if self.asked.get("callback") is not None:
            self.state.note("callbacks are not run: " + ", ".join(self.state.facts["model"]["callbacks"]))
        self.quiet()
        self.collect, self.train = getattr(model, "collect_rollouts", None), getattr(model, "train", None)
        if hasattr(model, "replay_buffer") and model.replay_buffer is not None:
            part = OffPolicy(self)
        elif hasattr(model, "rollout_buffer"):
            part = OnPolicy(self)
        else:
            part = Other(self)
        try:
            part.install()
            self.function(model, **self.arguments())
        except Done:
            pass
        if "buffers" not in self.facts:
            self.complete({})
        part.sample()

    def arguments(self):
        """The script's own arguments of ``learn()``, without what reports, and with no end."""
        import inspect

        known = inspect.signature(self.function).parameters
        first = next(iter(known))
        own = {name: value for name, value in self.asked.items() if name != first and name not in NOT_PASSED}
        for name, kind in ((name, parameter.kind) for name, parameter in known.items()):
            if kind is inspect.Parameter.VAR_KEYWORD:
                own.update(own.pop(name, {}))
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                own.pop(name, None)
        for name in ("total_timesteps", "log_interval"):
            if name in known:
                own[name] = 1 << 60
        return own

    def complete(self, sizes):
        """An update at these sizes is done: what it left and what the phases were so far, should a larger one not end."""
        model = self.model
        self.facts["reached"] = sizes
        self.facts["learner"] = learner_bytes(model)
        self.facts["networks"] = networks(model)
        self.facts["buffers"] = {
            name: arrays_of(getattr(model, name))
            for name in ("replay_buffer", "rollout_buffer")
            if getattr(model, name, None) is not None
        }
        self.facts["stores"] = {
            name: describe_store(getattr(model, name))
            for name in self.facts["buffers"]
            if is_compact(getattr(model, name))
        }
        self.facts["phases"] = dict(self.state.facts["phases"])

    def quiet(self):
        """No logs: a logger without outputs, no TensorBoard, no progress bar, no monitor files."""
        import sys

        model = self.model
        logger = sys.modules["stable_baselines3.common.logger"]
        model.verbose, model.tensorboard_log = 0, None
        model.set_logger(logger.Logger(folder=None, output_formats=[]))
        env = getattr(model, "env", None)
        for item in getattr(getattr(env, "unwrapped", env), "envs", ()):
            layer = item
            while layer is not None:
                if getattr(layer, "results_writer", None) is not None:
                    layer.results_writer = None
                layer = getattr(layer, "env", None)

    def time_left(self):
        """Seconds the rehearsal may still take."""
        return self.deadline - time.monotonic()

    def room(self):
        """Bytes an update may still take."""
        return SHARE * self.state.job["memory_bytes"] - proc.rss()

    def timed(self, function, *args, **kwargs):
        """``(seconds, transient bytes)`` of a call."""
        proc.reset_peak()
        before, began = proc.rss(), time.monotonic()
        result = function(*args, **kwargs)
        return time.monotonic() - began, max(0, proc.peak() - before), result

    def record(self, size, function):
        """One update with every op written down; as on a GPU when the learner is meant for one."""
        import contextlib

        from .ops import OpRecorder, as_on_cuda

        model = self.model
        chosen = optimizers(model)
        device = getattr(model.device, "type", "cpu")
        meant = device == "cpu" and self.state.facts["model"]["learner_device"] == "cuda"
        try:
            with as_on_cuda(chosen) if meant else contextlib.nullcontext():
                with OpRecorder(tensors=held(model, chosen), device=device) as recorder:
                    function()
        except Exception as error:
            self.state.note("ops could not be recorded: %s: %s" % (type(error).__name__, error))
            return
        self.facts["recordings"].append({"batch": size, **recorder.recording()})


class Measured(Rehearsed):
    """The same at the real sizes, with the replay buffer filled."""

    fill_replay = True

    def __init__(self, state, arrays, model, function, asked):
        super().__init__(state, arrays, model, function, asked)
        self.deadline = time.monotonic() + max(LEAST_S, state.left() - 2.0)
        state.rehearsed_until = self.deadline + 5.0
        self.updates = state.job.get("updates") or 100

    def room(self):
        """Whatever it takes: the cap is held from outside."""
        return float("inf")
