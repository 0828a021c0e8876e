"""How full a store is and how far a run has come, read from the fields the known classes keep."""

import ctypes

from .children import attributes, copied, is_a

#: For the classes of each library: the field with the capacity in rows, the one with the rows used (or the position
#: written next), and the one that says that all rows are used. The library is told by the module of a base class.
STORES = {
    "stable_baselines3": ("buffer_size", "pos", "full"),
    "sb3_contrib": ("buffer_size", "pos", "full"),
    "elegantrl": ("max_size", "cur_size", "if_full"),
    "torchrl": ("max_size", "_len_value", None),
    "tianshou": ("maxsize", "_size", None),
}
#: What hand-written buffers call the same things.
CAPACITIES = ("capacity", "max_size", "maxsize", "buffer_size", "max_len", "memory_size", "mem_size")
SIZES = ("cur_size", "size", "_size", "count", "_len", "pos", "ptr", "idx", "index", "position", "mem_cntr", "cntr")
FULL = ("full", "if_full", "is_full")


def whole(value):
    """A field as a number of rows; None for anything else.

    A number shared between processes is read where it lies: its own ``value`` would take a lock, which the program may
    be holding.
    """
    if type(value).__module__ == "multiprocessing.sharedctypes":
        value = dict(attributes(value) or ()).get("_obj")
    if is_a(value, ctypes._SimpleCData):
        value = ctypes._SimpleCData.value.__get__(value)
    return value if type(value) is int else None


#: What scripts with a loop of their own call the length of a run, in steps as ``global_step`` counts them.
TOTALS = ("total_timesteps", "TOTAL_TIMESTEPS")
#: A variable of one of these names makes an object worth a closer look.
TELLING = frozenset((*CAPACITIES, *TOTALS, "num_timesteps", "total_step"))


def fill_of(item, fields, storages):
    """``(rows used, rows there are)`` of a store, from its own variables; None for what is no store."""
    for cls in type(item).__mro__:
        names = STORES.get(cls.__module__.split(".")[0])
        if names and names[0] in fields:
            return _read(fields, *names)
    capacity = next((name for name in CAPACITIES if whole(fields.get(name))), None)
    if capacity is None:
        return None
    rows = whole(fields[capacity])
    # A hand-written buffer is believed when some array of its own has as many rows as it says.
    arrays = [value for value in fields.values() if storages.kinds and is_a(value, storages.kinds)]
    if not any(rows in storages.shape(value)[:2] for value in arrays):
        return None
    used = next((name for name in SIZES if whole(fields.get(name)) is not None), None)
    full = next((name for name in FULL if type(fields.get(name)) is bool), None)
    return _read(fields, capacity, used, full)


def _read(fields, capacity, used, full):
    rows, filled = whole(fields.get(capacity)), whole(fields.get(used))
    if rows is None or filled is None:
        return None
    if full is not None and bool(fields.get(full)):
        filled = rows
    return min(filled, rows), rows


#: Parts of an element that are looked at.
_PARTS = 16


def is_transition(item, storages):
    """Whether an element looks like a step of an environment: an observation and at least two more numbers or arrays."""
    vectors = numbers = 0
    for part in _parts(item)[:_PARTS]:
        if type(part) in (int, float, bool) or (storages.scalar is not None and is_a(part, storages.scalar)):
            numbers += 1
        elif storages.kinds and is_a(part, storages.kinds):
            vectors += 1
        elif type(part) in (tuple, list) and part and all(type(each) in (int, float) for each in part[:_PARTS]):
            vectors += 1
    return vectors > 0 and vectors + numbers > 2


def _parts(item):
    """What a tuple, list, table or object is made of."""
    if is_a(item, tuple):
        return tuple.__getitem__(item, slice(_PARTS))
    if is_a(item, list):
        return list.__getitem__(item, slice(_PARTS))
    if is_a(item, dict):
        return [value for _, value in copied(item)] if dict.__len__(item) <= _PARTS else []
    return [value for _, value in attributes(item) or ()]


def progress_of(item, fields):
    """Steps done and wanted, of an algorithm that counts them; None for other objects."""
    step = whole(fields.get("num_timesteps"))
    if step is not None and "_total_timesteps" in fields:
        return {
            "step": step,
            "total": whole(fields["_total_timesteps"]),
            "source": type(item).__name__,
            "n_envs": whole(fields.get("n_envs")) or 1,
        }
    step = whole(fields.get("total_step"))
    if step is not None and any(cls.__module__.startswith("elegantrl") for cls in type(item).__mro__):
        return {"step": step, "total": None, "source": type(item).__name__}
    return None


#: Functions of known frameworks and the phase of a run they are.
PHASES = {
    "collect_rollouts": "collect",
    "explore_env": "collect",
    "explore_one_env": "collect",
    "explore_vec_env": "collect",
    "train": "update",
    "update_net": "update",
    "update_objectives": "update",
    "evaluate_policy": "evaluate",
    "save_replay_buffer": "checkpoint",
    "load_replay_buffer": "resume",
}
_FRAMEWORKS = ("stable_baselines3", "sb3_contrib", "elegantrl", "rlmem")


def phase_of(frame):
    """The phase of a run, by the innermost function of a framework on a thread's stack; None outside of one."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in PHASES and str(frame.f_globals.get("__name__", "")).split(".")[0] in _FRAMEWORKS:
            return PHASES[code.co_name]
        frame = frame.f_back
    return None
