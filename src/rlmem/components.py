"""Which component of a plan an owner in a running process is."""

from __future__ import annotations

#: Components that stay resident between updates, and the word in a path by which a process's owners are told to be them.
STANDING = {"replay": "replay_buffer", "rollout": "rollout_buffer"}
