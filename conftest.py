"""Doctests of modules that need torch are left out where there is none."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/rlmem/swarm/*"]
