"""The scripts of recorded dry runs are no tests, and importing one may end the process."""

collect_ignore = ["scripts"]
