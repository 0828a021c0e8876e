"""The smallest machine of the catalogue that a plan would fit on."""

from __future__ import annotations

from rlmem.budget import CAP_SHARE
from rlmem.core.machines import MACHINES, Machine
from rlmem.core.plan import Plan


def would_do(plan: Plan) -> Machine | None:
    """The one with the least RAM, then the least VRAM, on which the upper bound fits.

    Of a machine's figures a tenth is left to firmware, the operating system and a desktop. Cards alone are not machines.
    """
    high = {
        device: max(p.high_bytes for p in plan.peaks if p.device == device)
        for device in ("ram", "vram")
        if _on(plan, device)
    }
    fitting = [machine for machine in MACHINES if machine.ram_bytes is not None and _fits(machine, high)]
    return min(fitting, key=lambda machine: (machine.ram_bytes or 0, machine.vram_bytes or 0), default=None)


def _on(plan: Plan, device: str) -> bool:
    return any(peak.device == device for peak in plan.peaks)


def _fits(machine: Machine, high: dict[str, int]) -> bool:
    ram = (machine.ram_bytes or 0) * CAP_SHARE
    if "vram" not in high:
        return high["ram"] <= ram
    if not machine.gpus:
        return False
    if machine.unified:
        return high["ram"] + high["vram"] <= ram
    return high["ram"] <= ram and high["vram"] <= (machine.vram_bytes or 0) * CAP_SHARE
