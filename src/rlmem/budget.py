"""What a run may use: sizes given by hand, a named machine, or the limit on this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlmem.core.machines import Machine, find_machine
from rlmem.core.plan import Budget
from rlmem.errors import UsageError
from rlmem.process.gpus import read_gpus
from rlmem.process.limits import ROOT, Limit, cpu_count, read_limits, standing, tightest
from rlmem.units import MIB, format_size, parse_size

#: No machine has less; a smaller size is a number without its unit.
SMALLEST = MIB


def make_budget(
    *, ram: str | None = None, vram: str | None = None, machine: str | None = None, root: Path = ROOT
) -> Budget:
    """The budget for a plan; explicit sizes win over a machine's, a machine's over what is found here."""
    if machine is not None:
        base = machine_budget(find_machine(machine))
    elif ram is None or vram is None:
        base = here(root)
    else:
        base = Budget(name="given")
    ram_bytes = read_size(ram, "--ram") if ram is not None else base.ram_bytes
    vram_bytes = read_size(vram, "--vram") if vram is not None else base.vram_bytes
    given = " and ".join(f"--{name} {text}" for name, text in (("ram", ram), ("vram", vram)) if text is not None)
    name = base.name if not given else given if machine is None else f"{base.name} with {given}"
    return Budget(
        name=name,
        ram_bytes=ram_bytes,
        vram_bytes=vram_bytes,
        unified=base.unified and vram is None,
        cores=base.cores,
        ram_source=f"--ram {ram}" if ram is not None else base.ram_source,
        vram_source=f"--vram {vram}" if vram is not None else base.vram_source,
        free_ram_bytes=base.free_ram_bytes if ram is None else None,
    )


def machine_budget(machine: Machine) -> Budget:
    """A catalogue row as a budget; a card says nothing about RAM."""
    return Budget(
        name=machine.name,
        ram_bytes=machine.ram_bytes,
        vram_bytes=machine.vram_bytes,
        unified=machine.unified,
        cores=machine.cores,
        ram_source=f"{machine.name}: {machine.source}" if machine.ram_bytes else "",
        vram_source=f"{machine.name}: {machine.source}" if machine.vram_bytes else "",
    )


def sized_budget(text: str, device: str) -> Budget:
    """A machine written as a size or a name (``16GB``, ``rtx-4090``); a bare size limits the run's learner device."""
    if not (text[:1].isdigit() or text[:1] in "+-."):
        return machine_budget(find_machine(text))
    nbytes = read_size(text, "--machines")
    if device == "vram":
        return Budget(name=text, vram_bytes=nbytes, vram_source=text)
    return Budget(name=text, ram_bytes=nbytes, ram_source=text)


def here(root: Path = ROOT) -> Budget:
    """The limit on this process and the GPU it would get; the same whatever else runs.

    A cgroup, an rlimit or the physical memory: what is left of it now is a figure of its own, ``free_ram_bytes``.
    """
    limits = read_limits(root=root)
    limit, left = standing(limits), tightest(limits)
    return replace(
        _machine(root),
        ram_bytes=limit.nbytes if limit else None,
        ram_source=_source(limit),
        free_ram_bytes=left.left_bytes() if left else None,
    )


def free_here(root: Path = ROOT, *, own_bytes: int = 0) -> Budget:
    """What this process may reach now, beside whatever else runs; ``own_bytes`` of what is used are the run's own already."""
    left = tightest(read_limits(root=root), own_bytes=own_bytes)
    ram_bytes = left.left_bytes(own_bytes=own_bytes) if left else None
    return replace(_machine(root), ram_bytes=ram_bytes, ram_source=_source(left))


def _machine(root: Path) -> Budget:
    gpus = read_gpus(root=root)
    return Budget(
        name="this machine",
        vram_bytes=gpus[0].total_bytes if gpus else None,
        cores=cpu_count(root),
        vram_source=f"{gpus[0].name}, {format_size(gpus[0].total_bytes)} as the driver reports" if gpus else "",
    )


def _source(limit: Limit | None) -> str:
    if limit is None:
        return ""
    reserved = ", which counts reserved address space, so the run needs more than it shows"
    return f"{limit.kind} ({limit.detail}){reserved if limit.kind.startswith('RLIMIT') else ''}"


def read_size(text: str, option: str) -> int:
    """A size of memory given with an option; one without its unit is refused."""
    try:
        nbytes = parse_size(text)
    except UsageError as error:
        raise UsageError(f"{option} {error}") from None
    if nbytes < SMALLEST:
        better = f"{text.strip()}GB" if text.strip().isdecimal() else "30GB"
        raise UsageError(f"{option} {text!r} is only {nbytes:,} B; add a unit, such as {option} {better}")
    return nbytes


#: Of what may really be used; the rest is for the machine and for rlmem itself.
CAP_SHARE = 0.9


def read_cap(cap: int | str | None) -> int | None:
    """Return a cap on a child process in bytes, given as bytes or as text such as ``8GB``; ``None`` without one."""
    return read_size(cap, "--cap") if isinstance(cap, str) else cap


def cap_bytes(cap: int | str | None) -> int | None:
    """Return the cap on a child process that was asked for, else most of what is left here now."""
    if cap is not None:
        return read_cap(cap)
    free = free_here().ram_bytes
    return None if free is None else round(free * CAP_SHARE)
