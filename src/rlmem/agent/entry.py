"""Start of the agent: ``python entry.py JOB.json`` runs a target with the agent around it.

Run by path in the user's interpreter. The folder of this file leaves ``sys.path`` at once, so that the target finds
only its own modules, and the agent is imported under a name of its own.
"""

import importlib.util
import os
import sys


def load(folder):
    """The agent package under the name ``_rlmem_agent``, wherever it lies."""
    name = "_rlmem_agent"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return name


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [item for item in sys.path if os.path.abspath(item or ".") != here]
    agent = importlib.import_module(load(here) + ".agent")
    agent.main(sys.argv[1])
