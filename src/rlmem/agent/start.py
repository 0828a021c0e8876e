"""Starts the agent in whatever interpreter runs this file, leaving no name behind. Run by path, in anybody's namespace."""


def _rlmem_start():
    import importlib.util
    import os
    import sys

    name, folder = "_rlmem_agent", os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))
    try:
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
            )
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        from _rlmem_agent import server

        server.start()
        run = os.environ.get("RLMEM_RUN")
        if run:
            from _rlmem_agent import deaths

            deaths.install(run)
    except Exception:  # a program never fails for want of an agent
        pass


_rlmem_start()
del _rlmem_start
