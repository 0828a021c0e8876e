"""rlmem's own buffers inside a target: what they hold now, how they are laid out, and filling them up.

Their observations are views that take no memory; what does is in the blocks of a store. The target's rlmem may be
another version than the one that plans, so what cannot be read is left out.
"""

from . import lazy


def is_compact(buffer):
    """Whether a buffer keeps its observations in a store of rlmem's."""
    ours = any(cls.__module__.startswith("rlmem.") for cls in type(buffer).__mro__)
    return ours and hasattr(getattr(buffer, "_obs", None), "store")


def describe_store(buffer):
    """A compact buffer in plain data: rows, options, and for every key its layout and what is resident of it."""
    store = buffer._obs.store
    options = store.options
    keys = {}
    for key, column in store.columns.items():
        layout = column.layout
        keys[key or "observation"] = {
            "obs_bytes": int(layout.obs_bytes),
            "stack": int(layout.depth),
            "codec": column.method.name if column.method else "none",
            "nbytes": int(column.nbytes),
            "resident": resident(column),
        }
    tree = getattr(buffer, "priorities", None)
    return {
        "rows": int(buffer.buffer_size),
        "n_envs": int(store.n_envs),
        "paired": bool(store.paired),
        "full": bool(buffer.full),
        "index_bytes": int(store.rows.nbytes),
        "options": {
            name: plain(getattr(options, name, None)) for name in ("codec", "stack", "stack_axis", "budget", "speed")
        },
        "n_steps": int(getattr(buffer, "n_steps", 1)),
        "prioritised_bytes": int(tree.nbytes) if tree is not None else 0,
        "keys": keys,
    }


def plain(value):
    """An option as JSON."""
    return {str(key): item for key, item in value.items()} if hasattr(value, "items") else value


def resident(column):
    """Bytes of a key in memory: what is kept beside the blocks, and the pages of blocks that were written."""
    blocks = held = 0
    for arena in (column.raw, column.log):
        blocks += int(arena.nbytes)
        for extent in getattr(arena, "_extents", ()):
            held += lazy.resident(extent.__array_interface__["data"][0], extent.nbytes)
    return min(int(column.nbytes) - blocks + held, int(column.nbytes))


def row_bytes(buffer):
    """Bytes a row of all environments takes in a store, at most."""
    store = buffer._obs.store
    return sum(int(column.layout.obs_bytes) for column in store.columns.values()) * int(store.n_envs)


def fill(buffer, rows, left):
    """Add the rows a replay buffer has again and again until it has so many, or until no seconds are left.

    Rows are read back one at a time: nothing else grows. Where they begin again, an observation does not follow, which
    costs one unit more, as an episode's end does.
    """
    import numpy

    count, envs = buffer.pos, numpy.arange(buffer.n_envs)
    row = 0
    while not buffer.full and buffer.pos < rows and left() > 0:
        place = numpy.full(buffer.n_envs, row)
        now, then = (read(view, place, envs) for view in (buffer.observations, buffer.next_observations))
        infos = [{"TimeLimit.truncated": bool(cut)} for cut in buffer.timeouts[row]]
        buffer.add(now, then, buffer.actions[row].copy(), buffer.rewards[row], buffer.dones[row], infos)
        row = (row + 1) % max(count, 1)
    return buffer.full or buffer.pos >= rows


def refill(buffer, calls, steps):
    """A rollout buffer of ``steps`` rows, full of the rows that were added by these calls."""
    buffer.reset()
    for step in range(steps):
        args, kwargs = calls[step % len(calls)]
        buffer.add(*args, **kwargs)


def read(views, rows, envs):
    """One row of observations, for a Dict by key."""
    if isinstance(views, dict):
        return {key: view[rows, envs] for key, view in views.items()}
    return views[rows, envs]
