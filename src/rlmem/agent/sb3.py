"""Stable-Baselines3 and sb3-contrib: meet ``learn()`` before it collects, describe the model, rehearse a little of it."""

import functools
import inspect
import sys

from .describe import describe_model, describe_request
from .rehearse import Measured, Rehearsed
from .stops import describe


class SB3:
    """Patches the base class when it is imported; subclasses are met when they are constructed."""

    def __init__(self, state, arrays, loop):
        self.state, self.arrays, self.loop = state, arrays, loop
        self.learning = False

    def watch(self, module):
        """``stable_baselines3.common.base_class`` is there."""
        base = module.BaseAlgorithm
        original = base.__init__
        owner = self

        @functools.wraps(original)
        def init(model, *args, **kwargs):
            if not owner.state.forked:
                owner.loop.imported()
                owner.state.building = True
                owner.meet(type(model))
                owner.request(model, original, args, kwargs)
            original(model, *args, **kwargs)

        base.__init__ = init
        self._constructors(base)
        self._device(module)
        from .imports import After

        for finder in sys.meta_path:
            if isinstance(finder, After):
                finder.add("stable_baselines3.common.vec_env.subproc_vec_env", self._subproc)
                finder.add("stable_baselines3.common.env_util", self._env_util)

    def _constructors(self, base):
        """Changes asked for (``--vary``, ``--set``) replace constructor arguments, whatever the script passes."""
        changes = self.state.job.get("changes") or {}
        owner = self

        def subclass(cls, **kwargs):
            super(base, cls).__init_subclass__(**kwargs)
            if "__init__" in vars(cls):
                owner.change(cls, changes)

        if changes:
            base.__init_subclass__ = classmethod(subclass)

    def change(self, cls, changes):
        """Wrap one class's constructor so that it takes the values asked for."""
        original = cls.__init__
        signature = inspect.signature(original)
        owner = self

        @functools.wraps(original)
        def init(model, *args, **kwargs):
            known = {name: value for name, value in changes.items() if name in signature.parameters}
            if known:
                bound = signature.bind_partial(model, *args, **kwargs)
                for name, value in known.items():
                    bound.arguments[name] = value
                    owner.state.facts.setdefault("changed", {})[name] = value
                args, kwargs = bound.args[1:], bound.kwargs
            original(model, *args, **kwargs)

        cls.__init__ = init

    def _device(self, module):
        """A learner meant for a GPU that is not here is rehearsed on the CPU, and that is remembered."""
        torch = sys.modules["torch"]
        if torch.cuda.is_available():
            return
        original = module.get_device
        owner = self

        def get_device(device="auto"):
            if str(device).startswith("cuda"):
                owner.state.facts["wanted_device"] = "cuda"
                return torch.device("cpu")
            return original(device)

        for name, other in list(sys.modules.items()):
            if name.startswith(("stable_baselines3", "sb3_contrib")) and getattr(other, "get_device", None) is original:
                other.get_device = get_device

    def _subproc(self, module):
        """Many worker processes would fill the machine: start a few, the others are counted as they are."""
        cls = module.SubprocVecEnv
        original = cls.__init__
        state = self.state
        most = state.job.get("workers")

        @functools.wraps(original)
        def init(env, env_fns, *args, **kwargs):
            state.building = True  # workers import everything once more: that takes its time
            asked = len(env_fns)
            if most and asked > most and not state.forked:
                env_fns = env_fns[:most]
            env.rlmem_workers = (asked, len(env_fns))
            original(env, env_fns, *args, **kwargs)

        cls.__init__ = init

    def _env_util(self, module):
        """``make_vec_env(n_envs=…)`` is where the number of environments is decided."""
        changes = self.state.job.get("changes") or {}
        original = module.make_vec_env
        owner = self

        @functools.wraps(original)
        def make_vec_env(*args, **kwargs):
            owner.loop.imported()
            if "n_envs" in changes:
                bound = inspect.signature(original).bind_partial(*args, **kwargs)
                bound.arguments["n_envs"] = changes["n_envs"]
                owner.state.facts.setdefault("changed", {})["n_envs"] = changes["n_envs"]
                args, kwargs = bound.args, bound.kwargs
            return original(*args, **kwargs)

        module.make_vec_env = make_vec_env

    def request(self, model, original, args, kwargs):
        """What was asked for, before anything can fail: a GPU that is missing still leaves a description."""
        try:
            bound = inspect.signature(original).bind(model, *args, **kwargs).arguments
        except TypeError:
            return
        self.state.facts["request"] = describe_request(model, bound)
        self.state.save(".so-far")

    def meet(self, cls):
        """Put ourselves before every ``learn`` that a class and its parents define."""
        for parent in cls.__mro__:
            function = vars(parent).get("learn")
            if function is not None and not hasattr(function, "rlmem") and callable(function):
                parent.learn = self._met(function)

    def _met(self, function):
        @functools.wraps(function)
        def learn(model, *args, **kwargs):
            if self.learning or self.state.forked:
                return function(model, *args, **kwargs)
            self.learning = True
            return self.learn(model, function, args, kwargs)

        learn.rlmem = True
        return learn

    def learn(self, model, function, args, kwargs):
        """The point everything leads to."""
        self.loop.held = True
        state = self.state
        state.building = False
        state.phase("build")
        asked = inspect.signature(function).bind_partial(model, *args, **kwargs).arguments
        state.facts["model"] = describe_model(model, asked, self.learner_device(model))
        self.workers(model)
        state.save(".so-far")
        if state.unheeded():
            state.leave("learn")
        kind = Measured if state.job["mode"] == "measure" else Rehearsed
        try:
            kind(state, self.arrays, model, function, asked).go()
        except Exception as error:  # the script's own handlers would take it for theirs, and train on
            state.leave(None, describe(error, "raised"))
        state.leave("learn")

    def workers(self, model):
        """How many worker processes the model's own environment asked for, and how many were started."""
        env = getattr(model, "env", None)
        while env is not None:
            if hasattr(env, "rlmem_workers"):
                asked, started = env.rlmem_workers
                self.state.facts["workers_asked"] = asked
                if started < asked:
                    self.state.facts["workers_started"] = started
            env = getattr(env, "venv", None)

    def learner_device(self, model):
        """``cuda`` when the learner is there, asked for it, or would choose it on the machine the plan is for."""
        facts = self.state.facts
        request = facts.get("request", {}).get("device", "auto")
        if str(model.device).startswith("cuda") or facts.get("wanted_device") == "cuda":
            return "cuda"
        return "cuda" if self.state.job.get("device") == "cuda" and request in ("auto", "cuda") else "cpu"
