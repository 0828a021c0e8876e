"""Core data types, shared by every package: no files, no processes, no terminal."""
