"""Which tensors every operation of a real update makes and frees, watched from inside the user's interpreter.

torch is imported when a recording starts, never before. The recorder holds weak references only, so nothing lives longer
for being watched, and it calls every operation once, with the arguments it came with.
"""

import contextlib

#: A tensor over memory of the host (``as_tensor``, ``from_numpy``, ``tensor``) enters with this operation.
_ARRIVAL = "lift_fresh"
#: The copy that ``torch.tensor`` and ``.to`` make of it.
_COPY = "_to_copy"
#: Reductions, and how many accumulators each output takes: a variance keeps four numbers, a maximum value and place.
_REDUCTIONS = {
    "sum": 1,
    "mean": 1,
    "prod": 1,
    "amax": 1,
    "amin": 1,
    "max": 4,
    "min": 4,
    "var": 4,
    "std": 4,
    "var_mean": 4,
    "std_mean": 4,
}


class OpRecorder:
    """Record the storages that come and go while the block runs.

    ``events`` is a list of ``[operation, [[storage, bytes], …], [storage, …]]``: what was freed *before* the operation ran
    comes last, what it made second. Operations of the backward pass end in ``.backward``. Convolutions and reductions over
    rows, whose kernels on a GPU take room of their own, have a fourth entry: the numbers that room depends on (see
    :func:`_convolution` and :func:`_reduction`). ``before`` lists ``[storage, bytes]`` of
    the tensors named at the start and of any other that turned out to be alive already; they never count as new.

    On a CPU the backward pass runs in the calling thread and is seen. A tensor over a numpy array counts as made when it
    is first handed to torch, as it would be copied to a GPU there.
    """

    def __init__(self, tensors=(), device="cpu"):
        self.events = []
        self.before = []
        self._tensors = tensors
        self._device = device
        self._ids = {}
        self._sizes = {}
        self._next = 0
        self._copied = None
        self._mode = None

    def __enter__(self):
        import torch

        storage = torch.UntypedStorage
        self._tensor, self._expired, self._release = torch.Tensor, storage._expired, storage._free_weak_ref
        self._in_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)
        self._meet(list(self._tensors))
        self._tensors = ()
        self._mode = _mode(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *error):
        self._mode.__exit__(*error)
        self._mode = None
        self.events.append(["end", [], self._freed()])
        for key in self._ids:
            self._release(key)
        self._ids.clear()

    def recording(self):
        """The result as plain lists, ready for JSON."""
        return {"before": self.before, "events": self.events}

    def run(self, func, args, kwargs):
        """Run one operation and note what it did."""
        name = getattr(func, "overloadpacket", func).__name__
        freed = self._freed()
        if self._copied is not None:
            self._settle(freed)
        if name == _ARRIVAL:
            out = func(*args, **kwargs)
            made = self._made((out,))
        else:
            self._meet(args)
            if kwargs:
                self._meet(kwargs.values())
            if name == _COPY and self.events and self.events[-1][0] == _ARRIVAL:
                self._copied = self._source(args[0], self.events[-1])
            out = func(*args, **kwargs)
            made = self._made((out,))
        event = [name + ".backward" if self._in_backward() >= 0 else name, made, freed]
        work = _work(name, args, out)
        if work:
            event.append(work)
        self.events.append(event)
        return out

    def _source(self, tensor, arrival):
        """The arrival of the very tensor that is about to be copied."""
        storage = self._storage(tensor)
        number = self._ids.get(storage._cdata) if storage is not None else None
        return arrival if [number] == [made[0] for made in arrival[1]] else None

    def _settle(self, freed):
        """Drop the host's side of a copy: an array that arrived, was copied at once and is gone never was on the device."""
        event, self._copied = self._copied, None
        number = event[1][0][0]
        if number in freed:
            freed.remove(number)
            event[1] = []

    def _each(self, values):
        """Every tensor of the watched device in (nested) arguments or results."""
        found = []
        for value in values:
            if isinstance(value, self._tensor):
                if value.device.type == self._device:
                    found.append(value)
            elif isinstance(value, (list, tuple)):
                found += self._each(value)
        return found

    def _enter(self, storage, nbytes):
        key = storage._weak_ref()
        number = self._next
        self._next += 1
        self._ids[key] = number
        self._sizes[number] = nbytes
        return [number, nbytes]

    def _storage(self, tensor):
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, or a wrapper without memory of its own
            return None

    def _meet(self, values):
        """Take storages that are already alive as such."""
        for tensor in self._each(values):
            storage = self._storage(tensor)
            if storage is not None and storage._cdata not in self._ids:
                self.before.append(self._enter(storage, storage.nbytes()))

    def _made(self, out):
        """Storages an operation's results brought, and those it made larger or smaller."""
        made = []
        for tensor in self._each(out):
            storage = self._storage(tensor)
            if storage is None:
                continue
            nbytes = storage.nbytes()
            number = self._ids.get(storage._cdata)
            if number is None:
                made.append(self._enter(storage, nbytes))
            elif self._sizes[number] != nbytes:
                self._sizes[number] = nbytes
                made.append([number, nbytes])
        return made

    def _freed(self):
        expired, ids = self._expired, self._ids
        gone = [key for key in ids if expired(key)]
        out = []
        for key in gone:
            self._release(key)
            out.append(ids.pop(key))
        return out


def _work(name, args, out):
    """What a kernel's own room depends on; ``None`` where it needs none to speak of."""
    if name.startswith("convolution"):
        return _convolution(name, args, out)
    if name in _REDUCTIONS and len(args) > 1:
        return _reduction(_REDUCTIONS[name], args, out)
    return None


def _convolution(name, args, out):
    """``[input, weight, output bytes, rows, channels in, channels out, kernel, stride, input gradient wanted]``.

    Only for float32 in torch's usual order of dimensions: other kinds are computed in place.
    """
    if name == "convolution":
        source, weight, result, stride, wanted = args[0], args[1], out, args[3], 0
    elif name == "convolution_backward":
        result, source, weight, stride, wanted = args[0], args[1], args[2], args[4], int(args[10][0])
    else:
        return None
    if source.element_size() != 4 or not source.is_contiguous():
        return None
    size = [tensor.numel() * 4 for tensor in (source, weight, result)]
    return [*size, source.shape[0], weight.shape[1], weight.shape[0], weight.shape[-1], stride[-1], wanted]


def _reduction(accumulators, args, out):
    """``[values per output, outputs, bytes of an accumulator]`` of a reduction whose outputs lie side by side."""
    source, dims = args[0], args[1]
    result = out[0] if isinstance(out, (list, tuple)) else out
    if isinstance(dims, int):
        dims = [dims]
    if not dims or not source.numel() or result.numel() < 2:
        return None
    long = [dim for dim in range(source.dim()) if source.shape[dim] > 1]
    fastest = min(long, key=source.stride, default=None)
    if fastest is None or fastest in [dim % source.dim() for dim in dims]:
        return None
    return [source.numel() // result.numel(), result.numel(), accumulators * max(4, source.element_size())]


def _mode(recorder):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return recorder.run(func, args, kwargs or {})

    return Mode()


@contextlib.contextmanager
def as_on_cuda(optimizers):
    """Let optimizers step as they would with their parameters on CUDA: many tensors at once, unless told otherwise."""
    switched = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            plain = group.get("foreach", False) is None and not group.get("fused")
            if plain and not group.get("differentiable") and not hasattr(group.get("lr"), "device"):
                group["foreach"] = True
                switched.append(group)
    try:
        yield
    finally:
        for group in switched:
            group["foreach"] = None
