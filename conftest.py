"""Doctests of modules that need torch or Ray are left out where there is none."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/rlmem/swarm/*"]
if not find_spec("ray"):
    collect_ignore_glob += ["src/rlmem/ray/hooks.py", "src/rlmem/ray/requests.py"]
