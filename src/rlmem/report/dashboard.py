"""``rlmem watch`` in a terminal: views only. What is shown is arranged in ``rlmem.report.watch``."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from rlmem.report import watch as views
from rlmem.watch.session import Frame
from rlmem.watch.watching import Target, Watching

_STYLES = {"good": "bold green", "warn": "bold yellow", "bad": "bold red", "plain": "bold cyan"}
PLOT_HEIGHT = 8
#: In samples: how often the picture is drawn, and of these how often the plot. Drawing costs more than looking.
DRAW_EVERY, PLOT_EVERY = 3, 4


class Dashboard(App[None]):
    """One target at a time: verdict, plot, processes, owners."""

    TITLE = "rlmem watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Static { height: auto; padding: 0 1; }
    #verdict { padding: 1 1 0 1; }
    #plot { padding: 1 1 0 1; height: 11; }
    DataTable { height: auto; max-height: 45%; margin: 1 1 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p", "pause", "Pause"),
        Binding("e", "explain", "Explain now"),
        Binding("n", "next", "Next process"),
    ]

    def __init__(self, watching: Watching, *, interval_s: float = 1.0, seconds: float | None = None) -> None:
        super().__init__()
        self.watching = watching
        self.is_paused = False
        self._interval, self._shown = interval_s, 0
        self._seconds = seconds
        self._drawn: dict[str, object] = {}
        self._plot_rests = 0

    def compose(self) -> ComposeResult:
        """The parts, from the top."""
        with Vertical():
            yield Static(id="title")
            yield Static(id="verdict")
            yield Static(id="status")
            yield Static(id="plot")
            yield DataTable(id="processes", cursor_type="none", zebra_stripes=True)
            yield DataTable(id="owners", cursor_type="none", zebra_stripes=True)
            yield Static(id="notes")
        yield Footer()

    def on_mount(self) -> None:
        """Name the columns and begin to sample."""
        self.query_one("#processes", DataTable).add_columns(*views.PROCESS_COLUMNS)
        self.query_one("#owners", DataTable).add_columns(*views.OWNER_COLUMNS)
        # Samples are taken in a thread: a slow file of a busy machine does not hold up the keys.
        self.run_worker(self._sample, thread=True, name="sample")

    def _sample(self) -> None:
        worker, begin = get_current_worker(), time.monotonic()
        due, samples = begin, 0
        while not worker.is_cancelled and not self.watching.is_over:
            if self._seconds is not None and time.monotonic() - begin >= self._seconds:
                self.call_from_thread(self.exit)
                return
            self.watching.step()
            if not (worker.is_cancelled or samples % DRAW_EVERY):
                self.call_from_thread(self._refresh)
            samples += 1
            due = max(due + self._interval, time.monotonic())
            while not worker.is_cancelled and time.monotonic() < due:
                time.sleep(min(0.25, max(0.0, due - time.monotonic())))
        if not worker.is_cancelled and self.watching.is_over:
            self.call_from_thread(self.exit)

    def action_pause(self) -> None:
        """Hold the picture; sampling goes on."""
        self.is_paused = not self.is_paused
        self._refresh()

    def action_explain(self) -> None:
        """Ask for owners at the next sample."""
        self.watching.ask_now()
        self.notify("asking for owners", timeout=2)

    def action_next(self) -> None:
        """Show another target."""
        self._shown, self._plot_rests = (self._shown + 1) % len(self.watching.targets), 0
        self._refresh(force=True)

    def _refresh(self, *, force: bool = False) -> None:
        target = self.watching.targets[self._shown]
        self._put("#title", self._title(target))
        if target.frame is not None and (force or not self.is_paused):
            self._show(target, target.frame)

    def _title(self, target: Target) -> Text:
        text = Text(target.session.watch.title, style="bold")
        if target.frame is not None:
            text.append(f"  {target.frame.command[:120]}", style="dim")
        if len(self.watching.targets) > 1:
            text.append(f"  {self._shown + 1} of {len(self.watching.targets)}")
        if self.is_paused:
            text.append("  paused", style="bold yellow")
        if target.end:
            text.append(f"  {target.end}", style="bold")
        return text

    def _show(self, target: Target, frame: Frame) -> None:
        verdict = Text(views.verdict_text(frame.judgement), style=_STYLES[views.TONES[frame.judgement.state]])
        for reason in frame.judgement.reasons[1:]:
            verdict.append(f"\n{reason}", style="not bold")
        self._put("#verdict", verdict)
        self._put("#status", Text(views.status_text(frame)))
        if not self._plot_rests:
            width = max(20, self.size.width - 20)
            lines = views.history_plot(target.session.history.moments, width=width, height=PLOT_HEIGHT)
            self._put("#plot", Text("\n".join(lines)))
        early = len(target.session.history.moments) < PLOT_EVERY
        self._plot_rests = 0 if early else (self._plot_rests + 1) % PLOT_EVERY
        self._fill("#processes", views.process_rows(frame))
        self._fill("#owners", views.owner_rows(frame))
        self._put("#notes", Text("\n".join(frame.moment.notes), style="dim"))

    def _put(self, name: str, text: Text) -> None:
        """Draw a text that is not there yet; most of a dashboard's cost is drawing, and most of that the layout."""
        before = self._drawn.get(name)
        if before == text:
            return
        lines = text.plain.count("\n")
        fits = isinstance(before, Text) and before.plain.count("\n") == lines and len(text) < self.size.width
        self._drawn[name] = text
        self.query_one(name, Static).update(text, layout=not (fits or name == "#plot"))

    def _fill(self, name: str, rows: tuple[tuple[str, ...], ...]) -> None:
        if self._drawn.get(name) == rows:
            return
        self._drawn[name] = rows
        table = self.query_one(name, DataTable)
        table.clear()
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        table.display = bool(rows)
