"""Where a walk begins: the variables a program can name, the plainest names first."""

import os
import sys
import sysconfig
import threading

from . import children

#: Packages whose tables are large, many and do not grow: looking at them would take longer than all the rest.
QUIET = frozenset(
    "jinja2 mpmath networkx numba numpy pandas pip setuptools scipy sympy tensordict torch torchrl".split()
)
#: Frames of one thread that are looked through, and how many at either end are looked into.
MOST_FRAMES, ENDS = 20_000, 100
_OPTIMIZED = 0x1  # a function's variables live in the frame, not in a dictionary
#: The agent in a stranger's process, and rlmem where it is imported: neither is the program's.
_OURS = ("_rlmem_agent", "rlmem")


def tiers(own_thread):
    """Lists and iterators of ``(name, value)``, each walked to its end before the next (the plainest names go first), and whether
    they are a library's. Nothing of them is kept here meanwhile.

    The script's variables and those of the program's own functions; what its modules keep; what functions of libraries
    hold at the moment; what libraries keep.
    """
    places = library_places()
    yield _of_main() + frames(own_thread, places)[0], False
    libraries = []
    yield _of_modules(places, libraries), False
    yield frames(own_thread, places)[1], False
    for name, table in libraries:
        yield _kept_by_library(name, table), True


def _of_main():
    """The script's variables."""
    main = sys.modules.get("__main__")
    return _public(vars(main)) if main is not None else []


def _of_modules(places, libraries):
    """What the program's modules and classes keep; tables of libraries are added to ``libraries``."""
    main = sys.modules.get("__main__")
    for key, value in _of_main():
        yield from _of_class(key, value)
    for name, module in list(sys.modules.items()):
        table = getattr(module, "__dict__", None)
        if type(table) is not dict or name.split(".")[0] in _OURS or module is main:
            continue
        if is_library(table.get("__file__"), places):
            if not is_quiet(name, table.get("__file__")):
                libraries.append((name, table))
            continue
        for key, value in _public(table):
            yield "%s.%s" % (name, key), value
            yield from _of_class("%s.%s" % (name, key), value)


def frames(own_thread, places):
    """The local variables of every thread's functions, outermost first: of the program, and of libraries."""
    current = sys._current_frames()
    main = threading.main_thread().ident
    own, foreign = [], []
    for ident in sorted(current, key=lambda ident: ident != main):
        if ident == own_thread:
            continue
        if is_traced(ident):
            continue
        chain, frame = [], current[ident]
        while frame is not None and len(chain) < MOST_FRAMES:
            chain.append(frame)
            frame = frame.f_back
        if len(chain) > 2 * ENDS:  # of a deep recursion the beginning and the end
            chain = chain[:ENDS] + chain[-ENDS:]
        for frame in reversed(chain):
            (foreign if is_library(frame.f_code.co_filename, places) else own).extend(_locals(frame))
    # Our own frame is among them: left so, it would refer to itself and keep everything seen alive until a collection.
    current.clear()
    chain, frame = [], None
    return own, foreign


def is_traced(ident):
    """Whether a tracer or a profiler written in Python looks at a thread.

    Before Python 3.13 the interpreter then writes a frame's ``f_locals`` back into its variables, so nobody else may
    touch it. Of another thread only what new threads are given can be asked.
    """
    if sys.version_info >= (3, 13):
        return False
    if ident == threading.get_ident():
        return sys.gettrace() is not None or sys.getprofile() is not None
    return threading._trace_hook is not None or threading._profile_hook is not None


def variables(frame):
    """A copy of a frame's variables.

    Before Python 3.13 ``f_locals`` of a function is a dictionary that stays with the frame and would keep alive what the
    function lets go (of a loop in a function 55 MiB of 200), so it is emptied again, unless the program has asked for it
    itself, or a tracer will have it written back.
    """
    table = frame.f_locals
    found = dict(table)
    is_old_function = sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED
    # Held by the frame, by ``table`` and by the call: by nobody else.
    if is_old_function and sys.getrefcount(table) <= 3 and not is_traced(threading.get_ident()):
        table.clear()
    return found


def _locals(frame):
    """A function's variables by name."""
    code = frame.f_code
    if frame.f_trace is not None:
        return []
    if str(frame.f_globals.get("__name__", "")).split(".")[0] in _OURS:
        return []
    if not code.co_flags & _OPTIMIZED:
        table = frame.f_locals
        if table is frame.f_globals or type(table) is not dict:  # a module; exec has a table of its own
            return []
    found = variables(frame)
    return [(str(name), value) for name, value in found.items() if not str(name).startswith((".", "__"))]


def _public(table):
    return [
        (name, value) for name, value in children.copied(table) if not (name.startswith("__") and name.endswith("__"))
    ]


def _of_class(name, value):
    """What a class of the program keeps for all its objects."""
    if not issubclass(type(value), type):
        return []
    return [("%s.%s" % (name, key), kept) for key, kept in list(_dictionary(value).items()) if is_kept(kept)]


def _dictionary(cls):
    """The variables of a class, without asking its metaclass."""
    return type.__dict__["__dict__"].__get__(cls)


def _kept_by_library(name, table):
    """Only what may grow: tables and lists of a module or of one of its classes, and caches of functions."""
    for key, value in children.copied(table):
        if is_kept(value):
            if not key.startswith("__"):
                yield "%s.%s" % (name, key), value
        elif type(value) is type and value.__module__ == name:
            for inner, kept in list(_dictionary(value).items()):
                if is_kept(kept) and not inner.startswith("__"):
                    yield "%s.%s.%s" % (name, key, inner), kept


#: Types of what a module or a class may keep more and more of.
_KEPT = ("list", "dict", "set", "deque", "OrderedDict", "defaultdict", "WeakValueDictionary", "ndarray", "Tensor")


def is_kept(value):
    """Whether a module or a class may keep memory with it: by its type's name, as nothing of it may be called."""
    kind = type(value)
    if kind in (list, dict, set):
        return len(value) > 0
    return kind.__name__ in _KEPT or kind.__name__ == "_lru_cache_wrapper"


def library_places():
    """Folders of installed packages and of the standard library."""
    paths = sysconfig.get_paths()
    found = {paths.get(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.join(path, "") for path in found if path)


def is_quiet(name, path):
    """Whether a library keeps nothing of a program's: the standard library, and some large ones."""
    return name.split(".")[0] in QUIET or not path or "-packages" not in path


def is_library(path, places):
    """Whether a module comes from one of them, or from no file at all."""
    if not isinstance(path, str):
        return True
    return path.startswith(places) or "site-packages" in path or "dist-packages" in path
