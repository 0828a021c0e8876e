"""Closed form: a rehearsal of the run's allocations, in pure arithmetic, without torch."""
