"""The parts of benchmarks/browser.py."""
