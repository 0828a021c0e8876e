"""What numba lacks: memory at an address, and C functions called at one, without the GIL.

Stores hold blocks that live anywhere (an arena, a mapped file, a scratch area), so the compiled code works on plain
addresses and bytes: one compilation serves every dtype and shape, and numba can keep it on disk between runs. A C
function comes in as an address as well, because a pointer bound at compile time could not be kept.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
_said: list[bool] = []
#: Names the state of all compiled code in the names numba keeps it under.
_SOURCES = hashlib.sha256(
    b"".join(
        Path(__file__).with_name(name).read_bytes()
        for name in ("native.py", "huffman.py", "sparse.py", "codec.py", "kernels.py", "reading.py")
    )
).hexdigest()[:12]

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES = _I8.as_pointer()


def compiled(signature: Any) -> Callable[[Function], Function]:
    """Compile for one signature, without the GIL, kept on disk where there is a place to keep it."""

    def decorate(function: Function) -> Function:
        # Numba looks only at the file a function is in; what it calls from the others is compiled into it as well.
        function.__qualname__ = f"{function.__qualname__}-{_SOURCES}"
        options = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:  # numba found no folder it may write to
            made = njit(**options)(function)
        _say_once(made)
        made.compile(signature)
        made.disable_compile()
        return made

    return decorate


def _say_once(dispatcher: Any) -> None:
    """On a terminal, say why the first import on a machine takes a while."""
    kept = getattr(dispatcher, "_cache", None)
    index = Path(getattr(kept, "_cache_path", "") or "") / str(getattr(kept, "_index_name", ""))
    if not _said and not index.is_file() and sys.stderr.isatty():
        _said.append(True)
        print("rlmem: compiling the buffers for this machine, once (about 20 s) …", file=sys.stderr)


def inlined(function: Function) -> Function:
    """Compile as part of its callers."""
    return njit(nogil=True, inline="never", boundscheck=False, error_model="numpy")(function)


@intrinsic
def at(typing: Any, address: Any) -> Any:
    """An address as the pointer ``numba.carray`` takes."""
    signature = types.voidptr(types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], _BYTES)

    return signature, generate


@intrinsic
def copy_bytes(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """``memcpy(target, source, count)`` on addresses."""
    signature = types.void(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to, frm = (builder.inttoptr(arg, _BYTES) for arg in args[:2])
        cgutils.raw_memcpy(builder, to, frm, args[2], 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def move_bytes(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """``memmove(target, source, count)`` on addresses."""
    signature = types.void(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to, frm = (builder.inttoptr(arg, _BYTES) for arg in args[:2])
        cgutils.raw_memmove(builder, to, frm, args[2], 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fetch_ahead(typing: Any, address: Any) -> Any:
    """Ask for a line of memory that will be read soon."""
    signature = types.void(types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        flags = [ir.Constant(_I32, n) for n in (0, 3, 1)]
        builder.call(prefetch, [builder.inttoptr(args[0], _BYTES), *flags])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fill_zero(typing: Any, target: Any, count: Any) -> Any:
    """``memset(target, 0, count)`` on an address."""
    signature = types.void(types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cgutils.memset(builder, builder.inttoptr(args[0], _BYTES), args[1], 0)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def same_bytes(typing: Any, left: Any, right: Any, count: Any) -> Any:
    """``memcmp(left, right, count) == 0`` on addresses."""
    signature = types.boolean(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_BYTES, _BYTES, _I64])
        memcmp = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        a, b = (builder.inttoptr(arg, _BYTES) for arg in args[:2])
        return builder.icmp_signed("==", builder.call(memcmp, [a, b, args[2]]), ir.Constant(_I32, 0))

    return signature, generate


@intrinsic
def read_byte(typing: Any, address: Any) -> Any:
    """The byte at an address."""
    signature = types.uint8(types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _BYTES))

    return signature, generate


@intrinsic
def write_byte(typing: Any, address: Any, value: Any) -> Any:
    """Put a byte at an address."""
    signature = types.void(types.int64, types.uint8)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _BYTES))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """How many bits of a 64-bit word are set."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return signature, generate


@intrinsic
def load64(typing: Any, address: Any) -> Any:
    """The eight bytes at any address, lowest first."""
    signature = types.uint64(types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], _I64.as_pointer()))
        word.align = 1
        return word

    return signature, generate


@intrinsic
def store64(typing: Any, address: Any, word: Any) -> Any:
    """Put eight bytes at any address, lowest first."""
    signature = types.void(types.int64, types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _I64.as_pointer())).align = 1
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def let_others(typing: Any) -> Any:
    """``sched_yield()``: let another thread have the processor."""
    signature = types.void()

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def read_pipe(typing: Any, handle: Any, target: Any, count: Any) -> Any:
    """``read(handle, target, count)``."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I32, _BYTES, _I64])
        read = cgutils.get_or_insert_function(builder.module, kind, "read")
        return builder.call(read, [builder.trunc(args[0], _I32), builder.inttoptr(args[1], _BYTES), args[2]])

    return signature, generate


@intrinsic
def take_ticket(typing: Any, address: Any, count: Any) -> Any:
    """Add to the number at an address, for all threads at once; what it was before."""
    signature = types.int64(types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], _I64.as_pointer()), args[1], "seq_cst")

    return signature, generate


def _running_sums(lag: int) -> Any:
    """An intrinsic that sums bytes up, each onto the one ``lag`` before it, sixteen at a time (fifteen for a lag of 3).

    The sums inside a vector take a few shifts, so only one addition in sixteen waits for the one before it. It does whole
    vectors only, and answers how many bytes that were.
    """
    step = 16 // lag * lag
    vector, pair = ir.VectorType(_I8, 16), ir.VectorType(_I64, 2)

    def shuffled(builder: Any, value: Any, places: list[int]) -> Any:
        zeros = ir.Constant(vector, [0] * 16)
        return builder.shuffle_vector(value, zeros, ir.Constant(ir.VectorType(_I32, 16), places))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, count = args
        carry = cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * 16))
        # A vector is read whole, also where a step is less.
        steps = builder.sdiv(builder.sub(count, ir.Constant(_I64, 16 - step)), ir.Constant(_I64, step))
        with cgutils.for_range(builder, steps) as loop:
            at_step = builder.add(address, builder.mul(loop.index, ir.Constant(_I64, step)))
            place = builder.inttoptr(at_step, vector.as_pointer())
            sums = builder.load(place)
            sums.align = 1
            shift = lag
            while shift < step:
                sums = builder.add(sums, shuffled(builder, sums, [16] * shift + list(range(16 - shift))))
                shift *= 2
            sums = builder.add(sums, builder.load(carry))
            builder.store(shuffled(builder, sums, [step - lag + i % lag for i in range(16)]), carry)
            if step == 16:
                builder.store(sums, place).align = 1
            else:  # in two halves, so that the next load does not wait for a store it overlaps with
                for start in (0, step - 8):
                    half = builder.bitcast(shuffled(builder, sums, [min(start + i, 16) for i in range(16)]), pair)
                    word = builder.extract_element(half, ir.Constant(_I32, 0))
                    to = builder.inttoptr(builder.add(at_step, ir.Constant(_I64, start)), _I64.as_pointer())
                    builder.store(word, to).align = 1
        return builder.mul(steps, ir.Constant(_I64, step))

    @intrinsic
    def running_sums(typing: Any, address: Any, count: Any) -> Any:
        """Sum up; how many bytes were done."""
        return types.int64(types.int64, types.int64), generate

    return running_sums


running_sums_1, running_sums_2, running_sums_3, running_sums_4 = (_running_sums(lag) for lag in (1, 2, 3, 4))


def _call(arguments: int, widths: tuple[ir.IntType, ...], result: ir.IntType) -> Any:
    """An intrinsic that calls the C function at its first argument with ``arguments`` integers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(result, list(widths))
        function = builder.inttoptr(args[0], kind.as_pointer())
        given = [
            builder.trunc(arg, width) if width is _I32 else arg for arg, width in zip(args[1:], widths, strict=True)
        ]
        answer = builder.call(function, given)
        return builder.sext(answer, _I64) if result is _I32 else answer

    return generate


@intrinsic
def call_zstd(typing: Any, f: Any, context: Any, to: Any, room: Any, frm: Any, size: Any) -> Any:
    """``size_t ZSTD_decompressDCtx(ctx, dst, capacity, src, size)``, and ``ZSTD_compress2`` with the same arguments."""
    return types.int64(*[types.int64] * 6), _call(5, (_I64,) * 5, _I64)


@intrinsic
def call_zstd_level(typing: Any, f: Any, context: Any, to: Any, room: Any, frm: Any, size: Any, level: Any) -> Any:
    """``size_t ZSTD_compressCCtx(ctx, dst, capacity, src, size, int level)``."""
    return types.int64(*[types.int64] * 7), _call(6, (*(_I64,) * 5, _I32), _I64)


@intrinsic
def call_lz4(typing: Any, f: Any, frm: Any, to: Any, size: Any, room: Any) -> Any:
    """``int LZ4_decompress_safe(src, dst, size, capacity)``, and ``LZ4_compress_default`` with the same arguments."""
    return types.int64(*[types.int64] * 5), _call(4, (_I64, _I64, _I32, _I32), _I32)
