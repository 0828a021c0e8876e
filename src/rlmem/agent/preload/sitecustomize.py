"""Found by Python at its start when ``rlmem run`` puts this folder first: starts the agent, then steps aside.

The folder leaves ``sys.path`` and a ``sitecustomize`` of the environment's own is loaded as if this one had not been.
``PYTHONPATH`` stays as it is, so that Python programs started by this one have an agent too.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "_rlmem_agent"


def _load():
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)


def _start():
    if _NAME not in sys.modules:
        _load()
    from _rlmem_agent import server

    server.start()
    run = os.environ.get("RLMEM_RUN")
    if run:
        from _rlmem_agent import deaths

        deaths.install(run)


sys.path[:] = [_item for _item in sys.path if os.path.abspath(_item or ".") != _HERE]
try:
    _start()
except Exception:  # a program never fails for want of an agent
    pass
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:  # the environment's own
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
