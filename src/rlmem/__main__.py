"""``python -m rlmem``."""

from rlmem.cli import main

main()
