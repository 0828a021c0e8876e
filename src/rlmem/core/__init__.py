"""Nouns that every other package shares: no files, no processes, no terminal."""
