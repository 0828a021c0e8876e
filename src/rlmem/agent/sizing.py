"""How small a sample of observations gets in rlmem's own stores: ``python sizing.py FOLDER`` prints one JSON object.

Run by path in the target's interpreter, in a process of its own: unlike the rest of this package it does load rlmem's
buffers, from beside itself, and needs numpy and numba there.
"""

import importlib
import importlib.util
import json
import os
import sys

#: A store decides after this many transitions, or this many bytes of them.
DECIDED, DECIDED_BYTES = 512, 48 << 20
#: The range is that of the blocks without the lowest and highest tenth; and a run may see more later than in its first
#: minutes, so that there is a quarter more above.
TAIL, LATER = 0.1, 1.25


def main(folder):
    """The sizes of every key as the buffer is made, and with a codec chosen from the data; or what is missing for that."""
    try:
        modules = {name: load("rlmem.buffers." + name) for name in ("store", "codec", "options")}
    except ModuleNotFoundError as error:
        return {"missing": str(error.name).split(".")[0]}
    except Exception as error:
        return {"problem": "%s: %s" % (type(error).__name__, error)}
    import numpy

    with open(os.path.join(folder, "sample.json")) as file:
        body = json.load(file)
    now, after = ([read(numpy, folder, name, n) for n in range(len(body["keys"]))] for name in ("now", "after"))
    given = {name: value for name, value in body["options"].items() if value is not None and name != "budget"}
    own = sizes(numpy, modules, body, now, after, given) if given else None
    auto = sizes(numpy, modules, body, now, after, dict(given, codec="auto")) if not coded(given) else own
    return {
        "keys": own or auto,
        "auto": auto,
        "transitions": len(now[0]) * body["n_envs"],
        "ends": ends(numpy, now, after),
    }


def coded(options):
    """Whether a buffer has a codec already."""
    codec = options.get("codec", "none")
    return codec != "none" and (isinstance(codec, str) or any(name != "none" for name in codec.values()))


def sizes(numpy, modules, body, now, after, options):
    """Every key in a store with these options, which is given the sample as a buffer would be."""
    count = len(now[0])
    names = [key["name"] for key in body["keys"]]
    kinds = {key["name"]: (tuple(key["shape"]), key["dtype"]) for key in body["keys"]}
    rows = body["rows"]
    if count * body["n_envs"] < DECIDED and sum(array.nbytes for array in now) < DECIDED_BYTES:
        rows = min(rows, count)  # full with the last of them, and then it decides
    asked = modules["options"].Options.checked(**options)
    made = modules["store"].Store(rows, kinds, body["n_envs"], asked, paired=body["paired"])
    for step in range(min(count, rows)):
        given = (now, after) if body["paired"] else (now,)
        made.add(*(dict(zip(names, (part[step] for part in parts), strict=True)) for parts in given))
    return {
        key or "observation": sized(numpy, made.columns[key], data, modules["codec"])
        for key, data in zip(names, now, strict=True)
    }


def load(name):
    """A module of the rlmem this file lies in, whatever else is installed."""
    if "rlmem" not in sys.modules:
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        found = importlib.util.spec_from_file_location(
            "rlmem", os.path.join(home, "__init__.py"), submodule_search_locations=[home]
        )
        package = importlib.util.module_from_spec(found)
        sys.modules["rlmem"] = package
        found.loader.exec_module(package)
    return importlib.import_module(name)


def read(numpy, folder, name, number):
    """One array of the sample."""
    path = os.path.join(folder, "%s-%d.npy" % (name, number))
    return numpy.load(path) if os.path.exists(path) else None


def ends(numpy, now, after):
    """The share of rows whose observation is not the next one of the row before."""
    if after[0] is None or len(now[0]) < 2:
        return None
    steps, envs = len(now[0]) - 1, now[0].shape[1]
    broken = numpy.zeros((steps, envs), bool)
    for here, there in zip(now, after, strict=True):
        left, right = (part.reshape(len(part), envs, -1) for part in (here[1:], there[:-1]))
        broken |= (left != right).any(axis=2)
    return float(broken.mean())


def sized(numpy, column, data, codec):
    """Bytes of a stored unit of one key: the mean over blocks and the range they are in."""
    layout, method = column.layout, column.method
    units = newest(numpy, layout, data)
    found = {"stack": int(layout.depth), "unit_bytes": int(layout.unit_bytes), "codec": "none", "constant": False}
    if (units == units[:1]).all():
        return dict(found, constant=True, low=0, expected=0, high=0)
    if method is None:
        size = int(layout.unit_bytes)
        return dict(found, low=size, expected=size, high=size)
    coder, geometry = codec.Encoder(layout.block_bytes), layout.geometry(1)
    model = column.models.addresses[method.model]
    blocks = []
    for env in range(units.shape[1]):
        stream, pattern = numpy.ascontiguousarray(units[:, env]), None
        for start in range(0, len(stream) - layout.block + 1, layout.block):
            part = stream[start : start + layout.block]
            if (part == (part[0] if pattern is None else pattern)).all():
                pattern = part[0]
                blocks.append(0)  # the same as the first constant block: nothing is kept
                continue
            got = coder.encode(part.__array_interface__["data"][0], geometry, method, model)
            blocks.append(got if 0 < got < codec.WORTH * layout.block_bytes else layout.block_bytes)
    lost = packing(blocks, int(column.log.segment_bytes), int(layout.block_bytes))
    each = sorted(size / layout.block * lost for size in blocks)
    tail = int(TAIL * len(each))
    return dict(
        found,
        codec=method.name,
        block=int(layout.block),
        low=int(each[tail]),
        expected=int(sum(each) / len(each)),
        high=min(int(LATER * each[-1 - tail]) + 1, int(layout.unit_bytes)),
    )


def newest(numpy, layout, data):
    """What a store keeps of every observation: the newest frame of a stack; as bytes, rows × envs × unit."""
    if layout.depth > 1:
        axis = 2 + layout.axis
        frames = data.shape[axis] // layout.depth
        data = numpy.take(data, range(data.shape[axis] - frames, data.shape[axis]), axis=axis)
    data = numpy.ascontiguousarray(data)
    return data.reshape(data.shape[0], data.shape[1], -1).view(numpy.uint8)


def packing(blocks, segment, whole):
    """Bytes taken over bytes coded: blocks lie one after another in segments, and none is cut."""
    coded = [size for size in blocks if 0 < size < whole]
    if not coded:
        return 1.0
    used = segments = total = 0
    while segments < 64:
        for size in coded:
            if used + size > segment or not segments:
                segments, used = segments + 1, 0
            used += size
            total += size
    return max(1.0, segments * segment / total)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
