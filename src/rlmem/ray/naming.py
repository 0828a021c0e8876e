"""Names for what Ray's workers hold: ``ray.init(runtime_env={"worker_process_setup_hook": "rlmem.ray.naming.start"})``.

Every worker then has the agent that ``rlmem explain`` asks: a thread that sleeps until somebody does. Nothing is patched.
"""

from __future__ import annotations


def start() -> None:
    """Put the agent into this process; a worker never fails for want of one."""
    import rlmem.preload  # noqa: F401  # it is its import that starts the agent
