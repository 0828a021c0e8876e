"""Call back when a module has been imported: the way into numpy, torch and the frameworks without importing them."""

import importlib.abc
import importlib.machinery
import sys


class After(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Runs a function once a named module has executed."""

    def __init__(self):
        self.waiting = {}
        self.loaders = {}

    def add(self, name, function):
        """Call ``function(module)`` after ``name`` is imported; at once if it already is."""
        if name in sys.modules:
            function(sys.modules[name])
        else:
            self.waiting.setdefault(name, []).append(function)

    def find_spec(self, name, path=None, target=None):
        """Find as usual, and put ourselves in front of the loader of a module that is waited for."""
        if name not in self.waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self.loaders[name] = spec.loader
                spec.loader = self
                return spec
        return None

    def create_module(self, spec):
        """As the real loader does."""
        return self.loaders[spec.name].create_module(spec)

    def exec_module(self, module):
        """Execute with the real loader, then call everyone who waits."""
        name = module.__spec__.name
        loader = self.loaders.pop(name)
        module.__spec__.loader = module.__loader__ = loader
        loader.exec_module(module)
        for function in self.waiting.pop(name, ()):
            function(module)
