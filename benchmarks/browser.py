"""What the pages of ``rlmem serve`` cost: the first paint, from a knob to its picture, and fifty who look on.

A real ``rlmem serve --port 0`` with a data folder of its own, Debian's Chromium without a window (drawn by the CPU), and
httpx. Nothing here fails on a number: it says whether the goal was met. Others may use the machine meanwhile, so that
its load stands beside every part.

First paint: a context without cache for each load, rounds in turn with a report opened from disk and, as the floor, a
file of one line. The first load after the server's start is told apart. Bytes and requests are the network's own count.

Knob to picture: trusted input events (text put into a number field; the slider pulled by the mouse), timed inside the
page, from the event's own time to the first animation frame after the picture was put in. Every value is new, so that no
plan is kept from before; a slider's values that repeat are left out. The server's part is the form's own query by httpx,
the baseline a bare ``Planner.plan`` of the same values in this process, in turn with it.

Clients: children that fill numpy arrays, started through ``rlmem run`` (which looks at them, too, and is not counted),
and clients that ask as the page does. CPU time comes from ``/proc`` over a stretch after a start-up that does not count;
that of the sampler from its own thread's clock, without the threads in which it asks for owners. No other tool serves
this to a browser, so that the peer is our own ``rlmem watch --json`` on the same process at the same time.

    python benchmarks/browser.py [--quick] [--json FILE] [--write-docs]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from browser_bench.common import (
    QUICK,
    Amount,
    Server,
    serving,
)
from browser_bench.crowd import looking_on
from browser_bench.knobs import knob_to_picture
from browser_bench.page import write_docs
from browser_bench.paint import first_paint
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = "/usr/bin/chromium"
PAGE = Path(__file__).parents[1] / "docs" / "browser.md"


def where(browser: Browser) -> dict[str, str]:
    """The machine and the versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = ("rlmem", "fastapi", "uvicorn", "httpx", "playwright", "numpy")
    return {
        "machine": f"{os.cpu_count()} cores of {model}, Linux {platform.release()}",
        "versions": f"Python {platform.python_version()}, Chromium {browser.version} (headless), "
        + ", ".join(f"{name} {metadata.version(name)}" for name in packages),
    }


def in_browser(server: Server, folder: Path, env: Mapping[str, str], amount: Amount) -> dict[str, Any]:
    """The parts that need one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [], handle_sigint=False
        )
        try:
            found: dict[str, Any] = where(browser)
            print(f"{found['machine']}\n{found['versions']}")
            found["paint"] = first_paint(browser, server, folder, env, amount)
            found["knobs"] = knob_to_picture(browser, server, amount)
        finally:
            with contextlib.suppress(Exception):
                browser.close()
    return found


def main() -> None:
    """The browser's parts, then the clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three presets, few rounds, short stretches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/browser.md")
    options = parser.parse_args()
    amount = QUICK if options.quick else Amount()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what we started, as Ctrl-C does
    try:
        with tempfile.TemporaryDirectory(prefix="rlmem-browser-", ignore_cleanup_errors=True) as name:
            env = {**os.environ, "RLMEM_DATA_DIR": f"{name}/data", "PYTHONUNBUFFERED": "1"}
            with serving(env) as server:
                found = in_browser(server, Path(name), env, amount)
            found["clients"] = looking_on(env, amount)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.write_docs:
        write_docs(found, PAGE)


if __name__ == "__main__":
    main()
