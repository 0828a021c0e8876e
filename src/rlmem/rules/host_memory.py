"""The memory of the machine is asked for where a limit applies.

``psutil.virtual_memory()`` tells what the machine has. In a container or a batch job a process may use what its cgroup
allows, which can be a tenth of it. A buffer sized by the machine's memory is ended by the kernel with signal 9 and without a
message; SB3's own warning about large replay buffers looks at the same figure.

```python
buffer_size = int(psutil.virtual_memory().available * 0.5 / bytes_per_step)
```

In a running process, ``rlmem explain`` compares what the process will grow to with its limit and with the machine.

Use instead: the smallest limit on the process: ``rlmem.max_buffer_size(env, algo)``, or ``memory.max`` of its cgroup.

Fix: none.

Reference: ray-project/ray#3478, #28074, #42508; ``psutil.virtual_memory().available`` in SB3's buffers.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.syntax import self_attribute
from rlmem.scripts import Script
from rlmem.units import format_size

_FIGURES = {"available", "total", "free"}
_SIZES = ("buffer_size", "buffer_capacity", "capacity", "max_size", "maxsize", "maxlen", "memory_size", "replay_size",
          "object_store_memory", "n_envs", "num_envs", "num_workers", "batch_size", "max_transitions", "max_frames")  # fmt: skip
_DEEP = 4


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires where the machine's memory decides a size of the run."""
    if "virtual_memory" not in script.text:
        return
    for call in script.calls_of("virtual_memory", roots=("psutil",)):
        sized = _sized(script, call, _DEEP)
        if sized:
            yield rule.finding(
                f"{sized} is taken from the machine's memory, whatever limit the process has",
                place=script.place(call),
                remedy="take the smallest limit on the process: rlmem.max_buffer_size(env, algo), or its cgroup's memory.max",
            )


def _sized(script: Script, expr: ast.expr, depth: int) -> str | None:
    """The size that follows from an expression, through the variables it is assigned to."""
    for above in script.ancestors(expr):
        if isinstance(above, ast.keyword):
            if above.arg and above.arg.lower() in _SIZES:
                return above.arg
        elif isinstance(above, (ast.Assign, ast.AnnAssign)):
            for target in above.targets if isinstance(above, ast.Assign) else [above.target]:
                name = self_attribute(target) or (target.id if isinstance(target, ast.Name) else "")
                if name.lower() in _SIZES:
                    return name
                if depth and isinstance(target, ast.Name):
                    for use in script.uses(target):
                        found = _sized(script, use, depth - 1)
                        if found:
                            return found
            return None
        elif isinstance(above, ast.Return):
            function = script.function_of(above)
            callers = script.callers(function) if function is not None and depth else ()
            return next((found for caller in callers if (found := _sized(script, caller, depth - 1))), None)
        elif isinstance(above, ast.stmt):
            return None
    return None


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires when the process will outgrow its limit and the machine would have had room."""
    limit, machine, top = tree.limit_bytes, tree.machine_bytes, tree.top
    after = top.rss_bytes + top.growth_bytes
    if limit is None or machine is None or not limit < after < machine:
        return
    yield rule.finding(
        f"it will grow to {format_size(after)}: the machine has {format_size(machine)}, this process may use {format_size(limit)}",
        location=tree.limit_source or f"{top.pid}",
        costs_bytes=after - limit,
        remedy="a smaller buffer, or a higher limit; psutil and SB3's own check look at the machine only",
    )
