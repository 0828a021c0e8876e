"""From a knob to its picture, in a real browser, and the server's part of it beside a bare plan."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from browser_bench.common import IDLE, PATIENCE_MS, Amount, Load, Server, goal, middle, settled, spent
from rlmem.budget import make_budget
from rlmem.core.plan import Plan
from rlmem.planner import ClosedForm, Planner
from rlmem.process.calibration import read_calibration
from rlmem.sources import load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURE_GOAL_MS = 100.0

#: Knobs that are turned, one after the other, where a run has them; the first is the one whose slider is pulled.
TURNED = ("buffer_size", "agents", "n_steps", "n_envs")

#: The server is at work on capacity and remedies of the picture before.
AT_WORK = "() => document.querySelector('.later.htmx-request')"

#: A pull without waiting: one move a frame of the screen.
FRAME_S = 1 / 60

#: Beside the page's own scripts: one line of the log for every picture that was put in.
RECORDER = """
(() => {
  const log = window.bench = { done: [], inputs: 0, asked: 0, open: 0, problems: 0, trusted: true };
  let last = {}, now = {};
  const rows = new WeakMap();  // each request belongs to the latest input before it
  const isPicture = (event) => (event.detail.pathInfo?.requestPath || "").startsWith("/planner/picture");
  document.addEventListener("input", (event) => {
    log.inputs += 1;
    log.trusted = log.trusted && event.isTrusted;
    last = { input: event.timeStamp, number: log.inputs };
  }, true);
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!isPicture(event)) return;
    log.asked += 1; log.open += 1;
    rows.set(event.detail.xhr, { ...last, asked: performance.now() });
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (isPicture(event)) now = { ...rows.get(event.detail.xhr), answered: performance.now() };
  });
  document.addEventListener("htmx:afterRequest", (event) => { if (isPicture(event)) log.open -= 1; });
  const channel = new MessageChannel();
  let painting = [];
  channel.port1.onmessage = () => {
    for (const row of painting) { row.painted = performance.now(); log.done.push(row); }
    painting = [];
  };
  document.addEventListener("DOMContentLoaded", () => {
    const picture = document.getElementById("picture");
    if (!picture) return;
    new MutationObserver((records) => {
      const added = records.flatMap((record) => [...record.addedNodes]);
      if (added.some((node) => node.classList?.contains("problem"))) log.problems += 1;
      else if (!added.some((node) => node.id === "components")) return;
      const row = { ...now, swapped: performance.now() };
      requestAnimationFrame(() => { row.frame = performance.now(); painting.push(row); channel.port2.postMessage(0); });
    }).observe(picture, { childList: true });
  });
})();
"""

#: The picture of an input, or nothing after ten seconds.
PICTURED = """
(number) => new Promise((resolve) => {
  const end = performance.now() + 10000;
  const look = () => {
    const row = window.bench.done.find((each) => each.number === number);
    if (row || performance.now() > end) resolve(row || null); else setTimeout(look, 5);
  };
  look();
})
"""

#: Nothing is asked for any more.
QUIET = """
() => new Promise((resolve) => {
  const state = () => `${window.bench.asked} ${window.bench.done.length}`;
  let seen = state(), since = performance.now();
  const look = () => {
    if (state() !== seen || window.bench.open > 0) { seen = state(); since = performance.now(); }
    if (performance.now() - since > 120) resolve(); else setTimeout(look, 10);
  };
  look();
})
"""


def fresh(own: int, number: int) -> int:
    """Values around a run's own, all of them different: from a half of it upwards, and not round."""
    return max(1, own // 2) + number * max(1, own // 37 | 1)


@dataclass(slots=True)
class Turning:
    """The planner's page of one run in the browser, and who turns its knobs."""

    page: Page
    url: str
    preset: str
    knobs: dict[str, int] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    turned: int = 0

    def open(self) -> None:
        """The page as it comes, and its form."""
        self.page.goto(f"{self.url}?of={self.preset}", wait_until="load")
        self.page.wait_for_function(IDLE, timeout=PATIENCE_MS)
        self.form = dict(self.page.evaluate("[...new FormData(document.getElementById('knobs'))]"))
        self.knobs = {name: int(self.form[name]) for name in TURNED if name in self.form}

    def typed(self, when: str = IDLE) -> dict[str, float] | None:
        """A new number put into the next knob's field: one input event, at a moment of our choice."""
        name = list(self.knobs)[self.turned % len(self.knobs)]
        self.turned += 1
        self.page.locator(f"[id='knob-{name}']").focus()
        self.page.keyboard.press("Control+a")
        self.page.evaluate(QUIET)  # leaving the last field asks again
        self.page.wait_for_function(when, timeout=PATIENCE_MS, polling=20)
        before = self.page.evaluate("[bench.inputs, bench.asked]")
        self.page.keyboard.insert_text(str(fresh(self.knobs[name], self.turned)))
        return self._pictured(before)

    def pulled(self, seen: set[str]) -> Generator[dict[str, float], None, None]:
        """The slider of the first knob, tick by tick with the button held; values that repeat are passed over."""
        name = next(iter(self.knobs))
        box = self._slider(name)
        tick, y = (box["width"] - 16) / 100, box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + 8 + 20 * tick, y)
        self.page.mouse.down()
        try:
            for number in range(21, 100):
                self.page.evaluate(QUIET)
                self.page.wait_for_function(IDLE, timeout=PATIENCE_MS, polling=20)
                before = self.page.evaluate("[bench.inputs, bench.asked]")
                self.page.mouse.move(box["x"] + 8 + number * tick, y)
                if self.page.evaluate("bench.inputs") == before[0]:
                    continue
                row = self._pictured(before)
                value = self.page.locator(f"[id='knob-{name}']").input_value()
                if row is not None and value not in seen:
                    yield row
                seen.add(value)
        finally:
            self.page.mouse.up()
            self.page.evaluate(QUIET)

    def swept(self, moves: int) -> dict[str, float]:
        """The slider pulled as a hand does, one move a frame, without waiting for pictures."""
        box = self._slider(next(iter(self.knobs)))
        tick, y = (box["width"] - 16) / 100, box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + 8 + 90 * tick, y)
        self.page.mouse.down()
        self.page.evaluate(QUIET)
        self.page.wait_for_function(IDLE, timeout=PATIENCE_MS, polling=20)
        before = self.page.evaluate("[bench.inputs, bench.asked, bench.done.length]")
        due = begin = time.monotonic()
        for number in range(1, moves + 1):
            self.page.mouse.move(box["x"] + 8 + (90 - number * 80 / moves) * tick, y)
            due += FRAME_S
            time.sleep(max(0.0, due - time.monotonic()))
        took = time.monotonic() - begin
        last, asked, done = self.page.evaluate("[bench.inputs, bench.asked, bench.done.length]")
        row = self.page.evaluate(PICTURED, last)
        asked = max(asked, self.page.evaluate("bench.asked"))
        self.page.mouse.up()
        self.page.evaluate(QUIET)
        return {
            "moves": last - before[0],
            "took_ms": 1e3 * took,
            "asked": asked - before[1],
            "between": done - before[2],
            "after_last_ms": row["frame"] - row["input"] if row else float("nan"),
        }

    def _slider(self, name: str) -> Any:
        slider = self.page.locator(f"[data-for='knob-{name}']")
        slider.scroll_into_view_if_needed()
        self.page.evaluate(QUIET)
        return slider.bounding_box()

    def _pictured(self, before: Sequence[int]) -> dict[str, float] | None:
        row: dict[str, float] | None = self.page.evaluate(PICTURED, before[0] + 1)
        if row is None:
            return None
        self.page.wait_for_timeout(30)  # a second request for the same input would come by now
        return {
            "total": row["frame"] - row["input"],
            "painted": row["painted"] - row["input"],
            "ask": row["asked"] - row["input"],
            "answer": row["answered"] - row["asked"],
            "swap": row["swapped"] - row["answered"],
            "frame": row["frame"] - row["swapped"],
            "requests": self.page.evaluate("bench.asked") - before[1],
        }


def server_part(turning: Turning, server: Server, inputs: int) -> dict[str, list[float]]:
    """The form's query with new values by httpx, and a bare plan of the same values, in turn; ms, and ms of CPU time."""
    planner = Planner(make_budget(), read_calibration())
    planner.plan(load(turning.preset))
    taken: dict[str, list[float]] = {"server": [], "plan": [], "closed": [], "bytes": [], "plan_cpu": [], "over": []}
    settled(server.pid)
    form, sets = {"of": turning.preset}, dict[str, int]()  # a form sends no more than was turned
    with httpx.Client(headers={"hx-request": "true"}) as client:
        client.get(server.url)
        before = spent(server.pid)
        for number in range(inputs):
            name = list(turning.knobs)[number % len(turning.knobs)]
            sets[name] = fresh(turning.knobs[name], number) + 1  # beside those of the browser
            form[name] = str(sets[name])
            begin = time.perf_counter()
            answer = client.get(f"{server.url}planner/picture", params=form)
            taken["server"].append(1e3 * (time.perf_counter() - begin))
            if answer.status_code != 200 or "x-rlmem-status" in answer.headers:
                raise SystemExit(f"{turning.preset} with {sets}: {answer.text[:200]}")
            taken["bytes"].append(len(answer.content))
            spec = load(turning.preset, [f"{path}={value}" for path, value in sets.items()])
            makers: dict[str, Callable[[], Plan]] = {
                "closed": lambda spec=spec: ClosedForm(planner.constants).plan(spec, planner.budget),
                "plan": lambda spec=spec: planner.plan(spec),
            }
            for key, make in makers.items():
                begin, cpu = time.perf_counter(), time.thread_time()
                plan = make()
                taken[key].append(1e3 * (time.perf_counter() - begin))
            taken["plan_cpu"].append(1e3 * (time.thread_time() - cpu))
            taken["over"].append(plan.verdict == "does-not-fit")
    taken["server_cpu"] = [1e3 * (spent(server.pid) - before) / inputs]
    return taken


def turn_knobs(browser: Browser, server: Server, preset: str, amount: Amount) -> dict[str, Any]:
    """Everything about the knobs of one preset."""
    context = browser.new_context()
    context.add_init_script(RECORDER)
    try:
        turning = Turning(page=context.new_page(), url=server.url, preset=preset)
        turning.open()
        turning.typed()  # the first one warms up
        typed = [row for _ in range(amount.inputs) if (row := turning.typed()) is not None]
        later = [row for _ in range(amount.pauses) if (row := turning.typed(AT_WORK)) is not None]
        pulled: list[dict[str, float]] = []
        with contextlib.closing(turning.pulled(set())) as rows:
            for row in rows:
                pulled.append(row)
                if len(pulled) == amount.inputs:
                    break
        swept = turning.swept(30)
        state = turning.page.evaluate("[bench.problems, bench.trusted]")
    finally:
        context.close()
    parts = server_part(turning, server, amount.inputs)
    return {
        "knobs": list(turning.knobs),
        "typed": middle([row["total"] for row in typed]),
        "painted": middle([row["painted"] for row in typed]),
        "pulled": middle([row["total"] for row in pulled]),
        "busy": middle([row["total"] for row in later]),
        "parts": {key: statistics.median(row[key] for row in typed) for key in ("ask", "answer", "swap", "frame")},
        "requests": statistics.mean(row["requests"] for row in typed),
        "swept": swept,
        "problems": state[0],
        "trusted": state[1],
        "over": sum(parts.pop("over")),
        **{key: middle(values) for key, values in parts.items()},
    }


def knob_to_picture(browser: Browser, server: Server, amount: Amount) -> dict[str, Any]:
    """Each preset in turn, then the tables."""
    load_now = Load()
    found = {preset: turn_knobs(browser, server, preset, amount) for preset in amount.presets}
    print(f"\nKnob to picture, ms from the input event to the frame with the new picture ({load_now.words()})")
    print(f"{'':18} {f'number typed (n={amount.inputs})':^23} {'slider pulled':^28} {'while remedies come':^20}")
    print(
        f"{'preset':18} {'median':>7} {'p95':>7} {'max':>7} {'n':>6} {'median':>7} {'p95':>6} {'max':>6} {'median':>9} {'max':>7}   goal"
    )
    for preset, row in found.items():
        typed, pulled, busy = row["typed"], row["pulled"], row["busy"]
        print(
            f"{preset:18} {typed['median']:7.0f} {typed['p95']:7.0f} {typed['max']:7.0f} {pulled['count']:6} {pulled['median']:7.0f} "
            f"{pulled['p95']:6.0f} {pulled['max']:6.0f} {busy['median']:9.0f} {busy['max']:7.0f}   "
            f"{'met' if max(typed['p95'], pulled['p95']) < PICTURE_GOAL_MS else 'missed'}"
        )
    print(
        f"the goal is a 95th percentile under {PICTURE_GOAL_MS:.0f} ms, the server having nothing else to do; 'while remedies come': "
        "it is at work on capacity and remedies of the picture before"
    )
    print(
        "\nWhere the median of the typed ones goes, ms, and the server alone beside a bare Planner.plan of the same values"
    )
    print(
        f"{'preset':18} {'ask':>5} {'answer':>7} {'swap':>5} {'frame':>6} {'+paint':>7} | {'by httpx':>8} {'p95':>6} {'CPU':>6} "
        f"{'plan':>7} {'ratio':>6} {'no findings':>12} {'ratio':>6} {'over':>5} {'bytes':>8}"
    )
    for preset, row in found.items():
        parts, answer, plan, closed = (
            row["parts"],
            row["server"]["median"],
            row["plan"]["median"],
            row["closed"]["median"],
        )
        print(
            f"{preset:18} {parts['ask']:5.0f} {parts['answer']:7.0f} {parts['swap']:5.0f} {parts['frame']:6.0f} "
            f"{row['painted']['median'] - row['typed']['median']:7.0f} | {answer:8.1f} {row['server']['p95']:6.1f} {row['server_cpu']['median']:6.1f} "
            f"{plan:7.1f} {answer / plan:5.2f}× {closed:12.1f} {answer / closed:5.2f}× {row['over']:5} {row['bytes']['median']:8,.0f}"
        )
    print(
        "CPU: of the server for a picture (mean), which others on the machine disturb less; 'plan' is with all findings, and dearer "
        f"where it does not fit this machine: 'over' of the {amount.inputs} values"
    )
    print("\nA slider pulled over 30 moves, one a frame, without waiting")
    print(
        f"{'preset':18} {'moves':>6} {'took':>7} {'requests':>9} {'pictures meanwhile':>19} {'last picture after the last move':>33}"
    )
    for preset, row in found.items():
        swept = row["swept"]
        print(
            f"{preset:18} {swept['moves']:6.0f} {swept['took_ms']:5.0f}ms {swept['asked']:9.0f} {swept['between']:19.0f} {swept['after_last_ms']:31.0f}ms"
        )
    worst = max(max(row["typed"]["p95"], row["pulled"]["p95"]) for row in found.values())
    print(
        goal(
            worst < PICTURE_GOAL_MS,
            f"knob to picture in {PICTURE_GOAL_MS:.0f} ms; the worst 95th percentile is {worst:.0f} ms",
        )
    )
    asked = statistics.mean(row["requests"] for row in found.values())
    doubts = [preset for preset, row in found.items() if row["problems"] or not row["trusted"]]
    print(f"{asked:.2f} requests for a picture an input" + (f"; problems in {', '.join(doubts)}" if doubts else ""))
    return {"presets": found, "load": load_now.words()}
