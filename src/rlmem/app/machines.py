"""The catalogue of machines, and what this process may use."""

from __future__ import annotations

from rlmem.core.machines import MACHINES, find_machine
from rlmem.documents.limits import GpuPart, LimitPart, LimitsDocument
from rlmem.documents.machines import MachineRow, MachinesDocument
from rlmem.documents.parts import part_of
from rlmem.process.gpus import read_gpus
from rlmem.process.limits import cpu_count, read_limits, standing


def list_machines(name: str | None = None) -> MachinesDocument:
    """Return the machines that have a name, or the one of that name.

    Raises:
        UsageError: no machine has that name.
    """
    machines = (find_machine(name),) if name else MACHINES
    return MachinesDocument(machines=tuple(part_of(MachineRow, machine) for machine in machines))


def limits_here() -> LimitsDocument:
    """Return every memory limit on this process, its cores and GPUs."""
    limits = read_limits()
    best = standing(limits)
    parts = tuple(
        part_of(LimitPart, limit, limit_bytes=limit.nbytes, left_bytes=limit.left_bytes(), decides=limit is best)
        for limit in limits
    )
    return LimitsDocument(cores=cpu_count(), limits=parts, gpus=tuple(part_of(GpuPart, gpu) for gpu in read_gpus()))
