"""Imports the modules a run ended with, in their order, and prints what the process then holds: the imported level.

Used as ``python accuracy_imports.py LIST.json``. The last line of output is JSON.
"""

import importlib
import io
import json
import os
import sys
import warnings
from contextlib import redirect_stdout

FIELDS = ("Pss_Anon", "Pss_Shmem", "SwapPss", "Pss_File")


def sizes(path):
    """``Name:  12 kB`` lines in bytes."""
    found = {}
    with open(path) as file:
        for line in file:
            words = line.split()
            if len(words) == 3 and words[2] == "kB":
                found[words[0].rstrip(":")] = int(words[1]) * 1024
    return found


def main():
    """Import, then read ``/proc``; what cannot be imported alone is counted and left out."""
    with open(sys.argv[1]) as file:
        names = json.load(file)
    del sys.path[0]  # this file's own folder
    warnings.simplefilter("ignore")
    failed = []
    with redirect_stdout(io.StringIO()):
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException:
                failed.append(name)
    rollup, status = sizes("/proc/self/smaps_rollup"), sizes("/proc/self/status")
    anonymous, shared, swapped, files = (rollup.get(name, 0) for name in FIELDS)
    # Library pages are shared with other processes on the machine; this one holds them in full.
    nbytes = anonymous + shared + swapped + max(files, status.get("RssFile", 0))
    print(json.dumps({"bytes": nbytes, "modules": len(names), "failed": failed[:20]}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
