"""Found by Python at its start when ``rlmem run`` puts this folder first: starts the agent, then steps aside.

The folder leaves ``sys.path`` and a ``sitecustomize`` of the environment's own is loaded as if this one had not been.
``PYTHONPATH`` stays as it is, so that Python programs started by this one have an agent too.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_START = os.path.join(os.path.dirname(_HERE), "start.py")
with open(_START, encoding="utf-8") as _file:
    exec(compile(_file.read(), _START, "exec"), {})
sys.path[:] = [_item for _item in sys.path if os.path.abspath(_item or ".") != _HERE]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:  # the environment's own
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
