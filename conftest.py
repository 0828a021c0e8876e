"""Doctests of modules that need torch or Ray are left out where there is none."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/rlmem/swarm/*"]
_ray = find_spec("ray")
if _ray is None or _ray.origin is None:  # tests/ray is on the path, and looks like a package without files
    collect_ignore_glob += ["src/rlmem/ray/hooks.py", "src/rlmem/ray/requests.py"]
