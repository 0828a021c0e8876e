"""The classes of resident memory that no named owner has."""

from __future__ import annotations

LIBRARY_CODE, LIBRARY_DATA = "library code", "library data"
HEAP, ARENAS, PYMALLOC = "heap", "malloc arenas", "Python's small objects"
STACKS, SHARED, FILES, GPU, KERNEL = "thread stacks", "shared memory", "mapped files", "GPU host mappings", "kernel"
UNKNOWN = "unexplained"
#: In the order they are shown.
CLASSES = (LIBRARY_CODE, LIBRARY_DATA, HEAP, ARENAS, PYMALLOC, STACKS, SHARED, FILES, GPU, KERNEL)
