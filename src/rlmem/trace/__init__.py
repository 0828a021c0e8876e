"""Plans from the real thing: the target runs a little in a child process, and its objects and pages are read there."""
