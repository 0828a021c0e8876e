"""The spaces of an environment: ``python environment.py ID`` prints them as one JSON object.

Run by path in the user's interpreter, where the environment is registered. An ID is Gymnasium's, also ``package:ID`` for
one that a package registers, or ``package.module:callable`` for a class or function that makes an environment.
"""

import importlib
import importlib.util
import json
import os
import sys


def spaces_of(env, space):
    """Observation and action space of an environment, and of how many together, in the words of a run file."""
    observed = getattr(env, "single_observation_space", None) or env.observation_space
    acted = getattr(env, "single_action_space", None) or env.action_space
    return {"observation": space(observed), "action": space(acted), "n_envs": int(getattr(env, "num_envs", 1) or 1)}


def read(name, space):
    """The spaces of an environment that is made for it and closed again."""
    env = make(name)
    try:
        return spaces_of(env, space)
    finally:
        env.close()


def make(name):
    """One environment by its id, or by what makes it."""
    import gymnasium

    if importlib.util.find_spec("ale_py") is not None and ("ALE/" in name or "NoFrameskip" in name):
        gymnasium.register_envs(importlib.import_module("ale_py"))
    package, colon, rest = name.partition(":")
    if colon and rest.isidentifier():
        made = getattr(importlib.import_module(package), rest, None)
        if made is not None:
            return made()
    return gymnasium.make(name)


def main(name):
    """Print the spaces, or what is wrong."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [os.getcwd()] + [item for item in sys.path if os.path.abspath(item or ".") != here]
    loaded = importlib.util.spec_from_file_location(
        "_rlmem_agent", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    package = importlib.util.module_from_spec(loaded)
    sys.modules["_rlmem_agent"] = package
    loaded.loader.exec_module(package)
    space = importlib.import_module("_rlmem_agent.describe").space
    try:
        found = read(name, space)
    except Exception as error:  # whatever it is, the one who asked is told
        found = {"problem": "%s: %s" % (type(error).__name__, error)}
    try:
        found["sb3"] = importlib.import_module("importlib.metadata").version("stable-baselines3")
    except Exception:  # not installed, or not as a package: planned for the newest
        pass
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
