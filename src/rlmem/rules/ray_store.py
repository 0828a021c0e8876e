"""Ray starts with an object store of its default size.

``ray.init()`` sets 30 % of the machine's memory aside for its object store, on top of what the driver and the workers use.
The store takes it as objects come, and beyond it spills to disk; the machine then is out of memory, or a worker is killed
at 95 %, although the heaps would have fit.

```python
ray.init()
```

Use instead: ``ray.init(object_store_memory=2 * 1024**3)``, the size of the batches that are under way at once, and drop
references when they are done with.

Fix: none: the size depends on the run.

Reference: ray-project/ray#49173, #13443, #4877; "Out-of-memory prevention" in Ray's documentation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import imports_any
from rlmem.scripts import Script

#: Arguments that say that the store is somebody else's business: another cluster, a test, or limits of another kind.
_SETTLED = ("object_store_memory", "local_mode", "_memory", "_system_config", "_redis_max_memory", "redis_address")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for a local cluster without ``object_store_memory``."""
    if "ray" not in script.text or not imports_any(script, "ray"):
        return
    for call in script.calls_of("init", roots=("ray",)):
        name = script.called(call)
        if name is None or name.dotted != "ray.init" or script.has_unknown_arguments(call):
            continue
        address = script.argument(call, "address", 0)
        if any(script.argument(call, each) is not None for each in _SETTLED) or (
            address is not None and not (isinstance(address, ast.Constant) and address.value in (None, "local"))
        ):
            continue
        yield rule.finding(
            "ray.init() may take up to 30 % of the machine's memory for its object store",
            place=script.place(call),
            remedy="ray.init(object_store_memory=…): the batches that are under way at once, in bytes",
        )
