"""Training scripts, read without running them: one parse and one walk a file, values where they can be known."""

from rlmem.scripts.names import Name
from rlmem.scripts.reading import Project, ScriptError, parse_script, read_script
from rlmem.scripts.script import Script
from rlmem.scripts.values import UNKNOWN

__all__ = ["UNKNOWN", "Name", "Project", "Script", "ScriptError", "parse_script", "read_script"]
