"""Watching running processes: moments from ``/proc``, what a series of them means, and what it will come to."""
