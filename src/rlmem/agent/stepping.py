"""Environments made and stepped: a hook in every ``step`` of Gymnasium's and of the program's own environments.

Of an environment, its wrappers and the environments of a vector, the outermost step counts.
"""

import functools
import operator
import threading
import types

from .arrays import replace


class Stepping:
    """Tells of every environment that is made (``on_make``), and of every step of an outermost one (``on_step``)."""

    def __init__(self, on_make, on_step):
        self.on_make, self.on_step = on_make, on_step
        self.inside = threading.local()

    def watch(self, module):
        """Hook into ``gymnasium`` or ``gym``, and into the classes that will be derived from its own."""
        for name in ("make", "make_vec"):
            if hasattr(module, name):
                replace(module, name, self._making(getattr(module, name)))
        bases = (getattr(module, "Env", None), getattr(getattr(module, "vector", None), "VectorEnv", None))
        for base in bases:
            if base is not None:
                self._hook_all(base)
                self._hook_later(base)

    def _making(self, function):
        def make(*args, **kwargs):
            self.on_make()
            return function(*args, **kwargs)

        return make

    def hook(self, cls):
        """Hook into the class's own ``step``."""
        step = vars(cls).get("step")
        if isinstance(step, types.FunctionType):
            cls.step = Step(step, self)

    def _hook_all(self, base):
        self.hook(base)
        for cls in base.__subclasses__():
            self._hook_all(cls)

    def _hook_later(self, base):
        def derived(cls, **kwargs):
            super(base, cls).__init_subclass__(**kwargs)
            self.hook(cls)

        if "__init_subclass__" not in vars(base):
            base.__init_subclass__ = classmethod(derived)


class Step:
    """Stands for a ``step`` method; pickled, as a class of a script's is for its workers, it is the method itself."""

    def __init__(self, function, stepping):
        functools.update_wrapper(self, function)
        self._function, self._stepping = function, stepping

    def __get__(self, env, cls=None):
        return self if env is None else types.MethodType(self, env)

    def __call__(self, env, *args, **kwargs):
        inside = self._stepping.inside
        if getattr(inside, "now", False):
            return self._function(env, *args, **kwargs)
        inside.now = True
        try:
            result = self._function(env, *args, **kwargs)
        finally:
            inside.now = False
        self._stepping.on_step()
        return result

    def __reduce__(self):
        return operator.itemgetter(0), ((self._function,),)
