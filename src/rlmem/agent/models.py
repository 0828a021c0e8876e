"""A live model in the words of a run description, for advice on a process that is running."""

import sys

from . import children, mainthread, roots
from .describe import describe_model, plain

#: Objects looked at before giving up: a model is a variable, or an attribute of one.
MOST = 5000


def find():
    """The Stable-Baselines3 model the program trains; None when there is none near its variables."""
    base = sys.modules.get("stable_baselines3.common.base_class")
    if base is None:
        return None
    seen, waiting = set(), []
    for tier, foreign in roots.tiers(None):
        if foreign:
            break
        waiting += [value for _, value in tier]
    while waiting and len(seen) < MOST:
        item = waiting.pop(0)
        if id(item) in seen or item is None or children.is_a(item, (type, *children.PLAIN)):
            continue
        seen.add(id(item))
        if children.is_a(item, base.BaseAlgorithm):
            return item
        if not children.is_a(item, children.CONTAINERS):
            waiting += [value for _, value in children.attributes(item) or ()]
    return None


def answer(request):
    """The model and the versions it runs with, read in the main thread; an empty answer when that does not come to it."""
    pauses = []
    done, said = mainthread.call(described, float(request.get("wait", 2.0)), pauses)
    return dict(said, pauses_s=pauses) if done else {}


def described():
    """The model the program trains, in plain data."""
    model = find()
    if model is None:
        return {}
    asked = {"total_timesteps": getattr(model, "_total_timesteps", None)}
    names = ("stable_baselines3", "sb3_contrib", "torch", "numpy", "gymnasium")
    modules = {name: sys.modules.get(name) for name in names}
    versions = {name: str(getattr(module, "__version__", "")) for name, module in modules.items() if module}
    return plain({"model": describe_model(model, asked, str(model.device)), "versions": versions})
