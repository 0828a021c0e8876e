"""Replay and rollout buffers side by side on real data; ``benchmarks/buffers.py`` is the command."""
