"""Parts of benchmarks/frameworks.py: what is run, who held what, and the tables of docs/frameworks.md."""
