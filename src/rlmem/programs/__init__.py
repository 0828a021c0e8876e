"""Described runs, run for real.

The files ``NAME_run.py`` are programs: they are run by path in the training interpreter, which need not have rlmem, and
use the standard library, numpy, torch and the framework they are named after. Each takes one JSON case (a file, or
standard input) and gives one JSON object back (a file, or standard output). ``program_kit.py`` is what they share.
"""
