"""What ``functools.lru_cache`` keeps: its results are in C, and the collector's view of them is the only one."""

import functools
import gc

from .children import copied, picks

KIND = type(functools.lru_cache(maxsize=None)(len))
#: The type of a function with a cache, as it is shown.
NAME = "functools.lru_cache"
#: With more results than this they are not asked for: the collector gives all of them at once.
MOST = 200_000
#: An entry of a bounded cache in the order of use.
LINK = 64


def facts(cached):
    """How many results a cache has, and how many it may have; None for a cache without a bound."""
    info = KIND.cache_info(cached)
    return info.currsize, info.maxsize


def entries(cached, count, bound, room):
    """Pairs of a key and a result, or a sample of them; none of a cache that is too large to be asked."""
    if not count or count > MOST:
        return []
    found, own = gc.get_referents(cached), object.__getattribute__(cached, "__dict__")
    if bound is None:
        table = next((each for each in found if type(each) is dict and each is not own), {})
        pairs = copied(table)
    else:
        # First of all come the entries, each as its key and its result; from Python 3.9 on also as its type, and after
        # the type of the function.
        found = found[1:] if found[0] is KIND else found
        size = 3 if type(found[2]) is type and found[2].__name__ == "_lru_list_elem" else 2
        pairs = [(found[at], found[at + 1]) for at in range(0, min(count * size, len(found) - 1), size)]
    return [pairs[index] for index in picks(len(pairs), room)]
