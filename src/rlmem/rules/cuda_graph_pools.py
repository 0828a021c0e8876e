"""CUDA graphs keep a pool of VRAM for every shape they have seen.

``torch.compile(mode="reduce-overhead")`` and TorchRL's ``CudaGraphModule`` record a graph for each shape of their inputs, and
each graph keeps the memory of its intermediate results for itself. With one shape that is what it costs; with the batches
of collection, update and evaluation it is as many pools.

```python
policy = torch.compile(policy, mode="reduce-overhead")
```

Use instead: one shape for all calls (pad the last batch), ``mode="default"`` where shapes vary.

Fix: none. Reported as information.

Reference: pytorch/pytorch#128424, #93541.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.scripts import Script

_MODES = ("reduce-overhead", "max-autotune")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for compilation into CUDA graphs."""
    if any(mode in script.text for mode in _MODES):
        for call in script.calls_of("compile", roots=("torch",)):
            mode = script.argument(call, "mode")
            value = script.value(mode) if mode is not None else None
            if value in _MODES and mode is not None:
                yield _found(rule, script, mode, f'torch.compile(mode="{value}")')
    if "CudaGraphModule" in script.text:
        for call in script.calls_of("CudaGraphModule", roots=("tensordict", "torchrl")):
            yield _found(rule, script, call, "CudaGraphModule")


def _found(rule: Rule, script: Script, node: object, what: str) -> Finding:
    return rule.finding(
        f"{what} keeps a pool of VRAM for every shape of its inputs",
        place=script.place(node),  # type: ignore[arg-type]
        costs_per="shape",
        remedy="call it with one shape only, or compile in the default mode",
    )
