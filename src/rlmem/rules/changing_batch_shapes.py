"""Convolutions on a CPU see batches of changing sizes.

oneDNN, which runs torch's convolutions on a CPU, prepares a program and a scratch memory for each shape and keeps up to a
thousand of them. The last, smaller minibatch of each epoch is one shape more; observations of varying length are a new
shape each time, and memory grows with them.

```python
loader = DataLoader(frames, batch_size=64, shuffle=True)
```

Use instead: batches of one size (``drop_last=True``), or ``ONEDNN_PRIMITIVE_CACHE_CAPACITY=8`` in the environment.

Fix: unsafe: ``drop_last=True``, which leaves out the last samples of an epoch.

Reference: pytorch/pytorch#29809, #32037, #98688; oneapi-src/oneDNN#489.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.edits import Fix
from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.scripts import Script


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for a loader without ``drop_last`` in a script with convolutions and no GPU."""
    if "DataLoader(" not in script.text or "cuda" in script.text or "mps" in script.text:
        return
    if not any(word in script.text for word in ("Conv1d(", "Conv2d(", "Conv3d(", "CnnPolicy")):
        return
    for call in script.calls_of("DataLoader", roots=("torch",)):
        size = script.argument(call, "batch_size", 1)
        known = script.value(size) if size is not None else 1
        if not isinstance(known, int) or known < 2 or script.has_unknown_arguments(call):
            continue
        if any(script.argument(call, name) is not None for name in ("drop_last", "batch_sampler")):
            continue
        yield rule.finding(
            "the last batch of an epoch may be smaller: one more shape that oneDNN prepares and keeps",
            place=script.place(call),
            remedy="drop_last=True, or ONEDNN_PRIMITIVE_CACHE_CAPACITY in the environment",
            fix=Fix(
                title="leave out the last, smaller batch",
                edits=(script.add_argument(call, "drop_last=True"),),
                safety="unsafe",
            ),
        )
