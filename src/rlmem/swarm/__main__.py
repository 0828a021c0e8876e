"""``python -m rlmem.swarm COMMAND``."""

from rlmem.cli.swarm import main

if __name__ == "__main__":
    main()
