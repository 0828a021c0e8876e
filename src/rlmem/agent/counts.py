"""A few numbers about this process that no walk from its variables can tell; each is None where it cannot be had."""

import ctypes
import gc
import sys

#: glibc's figures, in the order of ``struct mallinfo2``.
_FIELDS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class _Figures(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def answer(request):
    """All of them."""
    return {"open_figures": open_figures(), "models_alive": models_alive(), "free_heap_bytes": free_heap()}


def open_figures():
    """Figures that pyplot keeps; None when it is not loaded."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    managers = getattr(getattr(helpers, "Gcf", None), "figs", None)
    return len(managers) if isinstance(managers, dict) else None


def models_alive():
    """Algorithms of SB3, also those that nothing but a cycle of references keeps; None when it is not loaded.

    Before Python 3.9 an object does not tell the collector that it refers to its class.
    """
    module = sys.modules.get("stable_baselines3.common.base_class")
    base = getattr(module, "BaseAlgorithm", None)
    if not isinstance(base, type) or sys.version_info < (3, 9):
        return None
    classes = list(_below(base))
    return sum(1 for item in gc.get_referrers(*classes) if any(type(item) is cls for cls in classes))


def _below(cls):
    yield cls
    for each in type.__subclasses__(cls):
        for found in _below(each):
            yield found


def free_heap():
    """Bytes the C library has free in its heaps; None where it does not say (before glibc 2.33, other libraries)."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    ask.restype = _Figures
    return int(ask().fordblks)
