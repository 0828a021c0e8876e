"""``rlmem serve``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rlmem.cli import completion
from rlmem.errors import UsageError

#: As in rlmem.serve.settings, which is not imported for --help.
PORT = 8642


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes a free one.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=completion.files,
    help="The interpreter that has rl_zoo3, for RL Zoo entries. Default: rlmem's own.",
)
def command(port: int, opened: bool, python: str | None) -> int:
    """Serve the planner, live processes and stored runs to a browser on this machine.

    It listens on 127.0.0.1 only. The link it prints carries a token: a browser that opened it may watch and explain
    processes and try RL Zoo entries; one that opens the plain address can plan and look at runs.
    On another machine: ssh -L 8642:127.0.0.1:8642 HOST, then open the link here.

    \b
    Examples:
      rlmem serve
      rlmem serve --open
      rlmem serve --port 0 --python ~/envs/train/bin/python

    Ctrl-C ends it. The JSON API beneath the pages is described at /api/docs.
    """
    import tempfile
    import threading
    import webbrowser

    if python is not None:
        from rlmem.process.interpreters import named_python

        python = named_python(python)
    try:
        from rlmem.serve.running import listen, serve
        from rlmem.serve.settings import Settings
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"fastapi", "fastapi_offline", "uvicorn", "pydantic", "starlette"}:
            raise
        raise UsageError(f"the server needs {error.name}: pip install 'rlmem[serve]'") from None
    listening = listen(port)
    settings = Settings(port=listening.getsockname()[1], python=python)

    def ready() -> None:
        click.echo(f"planner, live processes and runs: {settings.link}")
        click.echo("Ctrl-C ends it; the link's token allows to watch and explain your processes: keep it to yourself")
        sys.stdout.flush()
        if opened:
            threading.Thread(target=webbrowser.open, args=(Path(door.name).as_uri(),), daemon=True).start()

    # A browser's command line is for everybody to see, so that it gets a file which only this user can read.
    with tempfile.NamedTemporaryFile("w", prefix="rlmem-", suffix=".html", encoding="ascii") as door:
        door.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={settings.link}">\n')
        door.flush()
        serve(listening, settings, ready=ready)
    return 0
