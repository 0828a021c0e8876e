"""Convolutions on a CPU see batches of changing sizes.

oneDNN, which runs torch's convolutions on a CPU, prepares a program and a scratch memory for each shape and keeps up to
a thousand of them. The last, smaller minibatch of each epoch is one shape more; observations of varying length are a
new shape each time, and memory grows with them; so is a batch whose size is drawn at random.

```python
loader = DataLoader(frames, batch_size=64, shuffle=True)
```

Use instead: batches of one size (``drop_last=True``), or ``ONEDNN_PRIMITIVE_CACHE_CAPACITY=8`` in the environment.

Fix: unsafe: ``drop_last=True``, which leaves out the last samples of an epoch.

Reference: pytorch/pytorch#29809, #32037, #98688; oneapi-src/oneDNN#489.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import is_training_loop, leaf, loops
from rlmem.scripts import Script

_CONVOLUTIONS = ("Conv1d(", "Conv2d(", "Conv3d(", "CnnPolicy")
_DRAWS = ("randint", "randrange", "integers", "random_integers")
#: Functions that make a tensor of the sizes they are given, and methods that give as many samples as asked for.
_SIZED = ("rand", "randn", "zeros", "ones", "empty", "full", "randperm")
_SAMPLES = ("sample", "choice", "choices", "get_batch", "sample_batch")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for a loader without ``drop_last``, and for sizes drawn at random, with convolutions and no GPU."""
    if "cuda" in script.text or "mps" in script.text or not any(word in script.text for word in _CONVOLUTIONS):
        return
    if "DataLoader(" in script.text:
        yield from _loaders(rule, script)
    if any(word in script.text for word in _DRAWS) and "torch" in script.text:
        yield from _drawn(rule, script)


def _loaders(rule: Rule, script: Script) -> Iterator[Finding]:
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


def _drawn(rule: Rule, script: Script) -> Iterator[Finding]:
    """``n = random.randint(1, 512)`` in a loop that trains, where ``n`` is the size of what is computed."""
    for assign in script.assigns:
        target = assign.targets[0] if isinstance(assign, ast.Assign) else assign.target
        value = assign.value
        if not isinstance(target, ast.Name) or not isinstance(value, ast.Call) or leaf(value) not in _DRAWS:
            continue
        if any(keyword.arg == "size" for keyword in value.keywords) or len(value.args) > 2:
            continue  # an array of numbers, not one
        around = [loop for loop in loops(script, assign) if is_training_loop(script, loop)]
        if around and any(_is_size(script, use) and around[0] in script.ancestors(use) for use in script.uses(target)):
            yield rule.finding(
                f"{target.id} samples, another number each time, are another shape that oneDNN prepares and keeps",
                place=script.place(value),
                remedy="batches of one size, or ONEDNN_PRIMITIVE_CACHE_CAPACITY in the environment",
            )


def _is_size(script: Script, use: ast.expr) -> bool:
    """Whether a number is a size: the first of a new tensor, the end of a slice, or how many samples are taken."""
    above = script.parent(use)
    if isinstance(above, ast.Slice):
        return above.upper is use and above.lower is None
    if isinstance(above, ast.Tuple) and above.elts[0] is use:
        use, above = above, script.parent(above)
    if isinstance(above, ast.keyword):
        return above.arg in ("batch_size", "size")
    if not isinstance(above, ast.Call) or use not in above.args:
        return False
    name = script.called(above)
    made = name is not None and name.root == "torch" and name.leaf in _SIZED
    return leaf(above) in _SAMPLES or (made and above.args[0] is use)
