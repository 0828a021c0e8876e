"""The first paint of the planner, beside a report from disk and a file of one line."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser_bench.common import IDLE, PATIENCE_MS, Amount, Load, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAINTS = """
() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const load = performance.getEntriesByType("navigation")[0];
  return { paint: paint?.startTime ?? null, load: load.loadEventEnd, answer: load.responseStart };
}
"""


def one_load(browser: Browser, address: str) -> dict[str, float]:
    """One load in a context of its own: times in ms, and what went over the network by the load event and after it."""
    context = browser.new_context()
    try:
        page = context.new_page()
        traffic = {"requests": 0.0, "bytes": 0.0}
        network = context.new_cdp_session(page)
        network.send("Network.enable")

        def sent(event: dict[str, Any]) -> None:
            traffic["requests"] += not event["request"]["url"].startswith("data:")

        def came(event: dict[str, Any]) -> None:
            traffic["bytes"] += event["encodedDataLength"]

        network.on("Network.requestWillBeSent", sent)
        network.on("Network.loadingFinished", came)
        page.goto(address, wait_until="load")
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
        found: dict[str, float] = page.evaluate(PAINTS)
        found |= traffic
        if address.startswith("http"):
            page.wait_for_function(IDLE, timeout=PATIENCE_MS)
            found["whole"] = page.evaluate("performance.now()")
        found |= {f"whole_{name}": value for name, value in traffic.items()}
        return found
    finally:
        context.close()


def first_paint(
    browser: Browser, server: Server, folder: Path, env: Mapping[str, str], amount: Amount
) -> dict[str, Any]:
    """The planner beside a report and a file of one line."""
    report, floor = folder / "plan.html", folder / "floor.html"
    plan = [sys.executable, "-m", "rlmem", "plan", "pidog-sac", "--ram", "10GB", "--html", str(report)]
    subprocess.run(
        plan, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )  # 1: it does not fit
    floor.write_text("<!doctype html><title>floor</title><p>one line\n")
    places = {"planner": server.url, "report from disk": report.as_uri(), "floor: one line from disk": floor.as_uri()}
    browser.new_context().close()
    one_load(browser, floor.as_uri())  # the browser's own start
    load_now = Load()
    first = one_load(browser, server.url)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    for _ in range(amount.loads):
        for name, address in places.items():
            rows[name].append(one_load(browser, address))
    found = {name: {key: statistics.median(row[key] for row in each) for key in each[0]} for name, each in rows.items()}
    found["report from disk"]["bytes"] = found["report from disk"]["whole_bytes"] = report.stat().st_size
    found["floor: one line from disk"]["bytes"] = found["floor: one line from disk"]["whole_bytes"] = (
        floor.stat().st_size
    )
    print(f"\nFirst paint, median of {amount.loads} contexts without cache ({load_now.words()})")
    print(f"{'page':27} {'first paint':>12} {'load event':>11} {'all there':>10} {'requests':>9} {'bytes':>9}")
    for name, row in (("planner, the first ever", first), *found.items()):
        whole = f"{row['whole']:8.0f}ms" if "whole" in row else f"{'':10}"
        print(
            f"{name:27} {row['paint']:10.0f}ms {row['load']:9.0f}ms {whole} {row['whole_requests']:9.0f} {row['whole_bytes']:9,.0f}"
        )
    planner = found["planner"]
    print(
        f"of the planner {planner['requests']:.0f} requests and {planner['bytes']:,.0f} B come by the load event; 'all there' is with "
        "capacity and remedies, which it asks for 300 ms later; files have their size as bytes"
    )
    return {"first": first, "median": found, "load": load_now.words()}
