"""What a process costs before it holds any data: interpreter, imports, first-use pages, threads, allocator slack."""

from __future__ import annotations

from collections.abc import Iterable

from rlmem.core.quantity import Quantity, total
from rlmem.model.constants import Constants
from rlmem.model.tape import Block, Tape
from rlmem.units import MIB

#: glibc's largest dynamic mmap threshold: blocks below it live on the heap.
HEAP_LIMIT = 32 * MIB
#: Holes stop growing once the heap has room for a whole update's small tensors (+74 to +111 MB seen).
HEAP_CHURN = 96 * MIB


class Runtime:
    """Plays the parts of a process that are measured constants."""

    def __init__(self, tape: Tape, constants: Constants, *, device: str) -> None:
        self.tape, self.constants, self.device = tape, constants, device

    def imports(self, packages: tuple[str, ...], *, process: str = "main") -> None:
        """The interpreter and what it imports, in order; a package nobody measured gets a wide assumed range."""
        self._constant("runtime.interpreter", "interpreter", process)
        for package in packages:
            self._constant("runtime.imports", f"import.{package}", process)

    def warm_up(self, kind: str) -> None:
        """Code pages and buffers a first update touches: kernels, thread pools, autograd's own thread.

        On a GPU this is part of the host side of CUDA, which was measured with an update in it.
        """
        if self.device == "vram":
            return
        self._constant("runtime.warm-up", f"warm-up.{kind}", "main")

    def built(self) -> None:
        """Small objects of a model, and what the first optimizer imports."""
        self._constant("runtime.objects", "objects.model", "main")
        build = "-cuda" if self.device == "vram" else ""
        self._constant("runtime.imports", f"import.torch-optim{build}", "main")

    def cuda(self, kernels: str) -> None:
        """The CUDA context: VRAM that no allocator reports, library workspaces, and the host side of it all."""
        if self.device == "vram":
            context, workspace = (self.constants.quantity(f"cuda.{name}") for name in ("context", "workspace"))
            self.tape.alloc("runtime.cuda-context", context, device="vram", basis="measured")
            self.tape.alloc("runtime.cuda-workspace", workspace, device="vram", basis="measured")
            self._constant("runtime.cuda-host", f"cuda.host-{'conv' if kernels == 'conv' else 'mlp'}", "main")

    def threads(self, threads: Quantity) -> None:
        """Stacks by touched pages: the 8 MiB a thread reserves is address space, not memory."""
        amount = threads * self.constants.quantity("thread.stack")
        self.tape.alloc("runtime.threads", amount, basis="measured")

    def slack(self, blocks: Iterable[Block], *, process: str = "main") -> None:
        """What the allocator keeps beyond live tensors, judged by what was live at the update's largest moment.

        glibc maps blocks of 32 MiB and more on their own and returns them at once; smaller ones come from the heap,
        where tensors of different sizes leave holes. CUDA's caching allocator keeps what was freed for the next tensor of
        a similar size: the driver counts that, and torch gives it back before it fails, so it is shown as reserved and is
        part of the upper bound only.
        """
        if self.device == "vram":
            whole = total(block.amount for block in blocks).named("tensors at the update's peak")
            for component, name, residency in (
                ("runtime.allocator", "cuda.percent", "resident"),
                ("runtime.allocator-cache", "cuda.cache-percent", "reserved"),
            ):
                amount = self.constants.quantity(name).percent_of(whole)
                self.tape.alloc(
                    component, amount, device="vram", process=process, basis="measured", residency=residency
                )
            return
        held = list(blocks)
        small = [block for block in held if block.amount.value < HEAP_LIMIT]
        whole = total(block.amount for block in held).named("tensors at the update's peak")
        amount = self.constants.quantity("allocator.percent").percent_of(whole)
        if small:
            churn = (
                total(block.amount for block in small).at_most(HEAP_CHURN).named("tensors under 32 MiB, at most 96 MiB")
            )
            amount = amount + self.constants.quantity("allocator.small-percent").percent_of(churn)
        self.tape.alloc("runtime.allocator", amount, process=process, basis="measured")

    def _constant(self, component: str, name: str, process: str) -> None:
        amount = self.constants.quantity(name)
        if amount.high:
            self.tape.alloc(component, amount, process=process, basis="measured")
