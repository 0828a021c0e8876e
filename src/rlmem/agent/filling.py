"""Fill stores with what they hold already: quick, env-shaped, and without a temporary larger than what is written."""

from .arrays import span, touch
from .describe import arrays_of


def fill(buffer, rows):
    """Write so many rows of a replay buffer with the transitions it has, without keeping anything else."""
    held = getattr(buffer, "pos", 0)
    if hasattr(buffer, "ep_length") or not held:
        for row in arrays_of(buffer):
            touch(row["address"], row["nbytes"] * rows // buffer.buffer_size)
        return
    for value in _arrays(buffer):
        if value.shape and value.shape[0] == buffer.buffer_size:
            tile(value[:rows], held)
        else:
            touch(*span(value))
    buffer.full = rows == buffer.buffer_size
    buffer.pos = 0 if buffer.full else rows


def extend(buffer, steps):
    """A rollout buffer of the new size, full of the rows it had."""
    old = dict(_named(buffer))
    rows = buffer.pos
    buffer.reset()
    for name, value in _named(buffer):
        before = old.get(name)
        if before is not None and before is not value and value.shape and value.shape[0] == steps:
            value[:rows] = before[:rows]
            tile(value, rows)
    buffer.pos, buffer.full = steps, True
    buffer.generator_ready = False


def tile(array, rows):
    """Repeat the first rows over the whole array, by doubling; no temporary larger than what is written."""
    total = len(array)
    while rows < total:
        count = min(rows, total - rows)
        array[rows : rows + count] = array[:count]
        rows += count


def _named(holder):
    for name, value in vars(holder).items():
        if hasattr(value, "__array_interface__"):
            yield name, value
        elif isinstance(value, dict):
            for key, item in value.items():
                if hasattr(item, "__array_interface__"):
                    yield "%s[%s]" % (name, key), item


def _arrays(holder):
    return [value for _, value in _named(holder)]
