"""Runs targets in fresh processes: children under limits, points, sweeps, and the store of results."""
