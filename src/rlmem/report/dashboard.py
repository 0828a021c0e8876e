"""``rlmem watch`` in a terminal: views only. What is shown is arranged in ``rlmem.report.watch``."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from rlmem.documents.moment import MomentDocument
from rlmem.documents.watch import WatchedPart
from rlmem.report import watch as views
from rlmem.report.layout import lay_out, wrap
from rlmem.report.lines import shortened
from rlmem.report.terminal import drawn_table
from rlmem.report.view import Table

if TYPE_CHECKING:
    from textual.events import Resize

_STYLES = {"good": "bold green", "warn": "bold yellow", "bad": "bold red", "plain": "bold cyan"}
#: A terminal of so many lines shows everything; in a lower one (80×24) there are fewer rows, and the plot is lower.
HIGH, WIDE = 36, 100
LEAST_PLOT, MOST_PLOT = 4, 12
#: Processes in a low terminal.
FEW_PROCESSES = 3
#: In samples: how often the picture is drawn, and of these how often the plot. Drawing costs more than looking.
DRAW_EVERY, PLOT_EVERY = 3, 4


class Targets(Protocol):
    """What is shown: one or more targets of a watch, sampled when the dashboard says so."""

    def __len__(self) -> int: ...

    @property
    def is_over(self) -> bool:
        """Nobody is left, or a threshold was passed."""

    def step(self) -> None:
        """Take one sample of each."""

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""

    def target(self, index: int) -> WatchedPart:
        """Return what there is to draw of one."""


class Dashboard(App[None]):
    """One target at a time: verdict, plot, processes, owners."""

    TITLE = "rlmem watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Static { height: auto; padding: 0 1; }
    VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    #plot, #processes, #owners { padding: 1 1 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p", "pause", "Pause"),
        Binding("e", "explain", "Explain now"),
        Binding("n", "next", "Next process"),
    ]

    def __init__(self, targets: Targets, *, interval_s: float = 1.0, seconds: float | None = None) -> None:
        super().__init__()
        self.targets = targets
        self.is_paused = False
        self._interval, self._shown = interval_s, 0
        self._seconds = seconds
        self._drawn: dict[str, object] = {}
        self._plot_rests = 0

    def compose(self) -> ComposeResult:
        """The parts, from the top."""
        with VerticalScroll():
            yield Static(id="title")
            yield Static(id="verdict")
            yield Static(id="status")
            yield Static(id="plot")
            yield Static(id="processes")
            yield Static(id="owners")
            yield Static(id="notes")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to sample."""
        # Samples are taken in a thread: a slow file of a busy machine does not hold up the keys.
        self.run_worker(self._sample, thread=True, name="sample")

    def _sample(self) -> None:
        worker, begin = get_current_worker(), time.monotonic()
        due, samples = begin, 0
        while not worker.is_cancelled and not self.targets.is_over:
            if self._seconds is not None and time.monotonic() - begin >= self._seconds:
                self.call_from_thread(self.exit)
                return
            self.targets.step()
            if not (worker.is_cancelled or samples % DRAW_EVERY):
                self.call_from_thread(self._refresh)
            samples += 1
            due = max(due + self._interval, time.monotonic())
            while not worker.is_cancelled and time.monotonic() < due:
                time.sleep(min(0.25, max(0.0, due - time.monotonic())))
        if not worker.is_cancelled and self.targets.is_over:
            self.call_from_thread(self.exit)

    def on_resize(self, event: Resize) -> None:
        """Draw for the new size, once it is known."""
        self._drawn.clear()
        self._plot_rests = 0
        self.call_after_refresh(self._refresh, force=True)

    def action_pause(self) -> None:
        """Hold the picture; sampling goes on."""
        self.is_paused = not self.is_paused
        self._refresh()

    def action_explain(self) -> None:
        """Ask for owners at the next sample."""
        self.targets.ask_now()
        self.notify("asking for owners", timeout=2)

    def action_next(self) -> None:
        """Show another target."""
        self._shown, self._plot_rests = (self._shown + 1) % len(self.targets), 0
        self._refresh(force=True)

    def _refresh(self, *, force: bool = False) -> None:
        target = self.targets.target(self._shown)
        self._put("#title", self._title(target))
        if target.last is not None and (force or not self.is_paused):
            self._show(target, target.last)

    def _title(self, target: WatchedPart) -> Text:
        text = Text(target.target, style="bold")
        if target.last is not None:
            # One line, with room for what is appended.
            text.append(f"  {shortened(target.last.command, max(20, self._room - 40))}", style="dim")
        if len(self.targets) > 1:
            text.append(f"  {self._shown + 1} of {len(self.targets)}")
        if self.is_paused:
            text.append("  paused", style="bold yellow")
        if target.end:
            text.append(f"  {target.end}", style="bold")
        return text

    def _show(self, target: WatchedPart, document: MomentDocument) -> None:
        judgement, moment = document.judgement, document.moment
        verdict = Text(style=_STYLES[views.TONES[judgement.state]])
        verdict.append(self._wrapped(views.verdict_text(judgement)))
        for reason in judgement.reasons[1:]:
            verdict.append(f"\n{self._wrapped(reason)}", style="not bold")
        self._put("#verdict", verdict)
        self._put("#status", Text(self._wrapped(views.status_text(moment))))
        if not self._plot_rests:
            height = min(MOST_PLOT, max(LEAST_PLOT, self.size.height // 4 - 1))
            # The sizes on the axis take up to ten cells.
            lines = views.history_plot(target.moments, width=max(20, self._room - 12), height=height)
            self._put("#plot", Text("\n".join(lines)))
        early = len(target.moments) < PLOT_EVERY
        self._plot_rests = 0 if early else (self._plot_rests + 1) % PLOT_EVERY
        self._fill("#processes", self._processes(document))
        self._fill("#owners", views.owner_table(document, bars=self.size.width >= WIDE))
        self._put("#notes", Text("\n".join(map(self._wrapped, moment.notes)), style="dim"))

    def _put(self, name: str, text: Text) -> None:
        """Draw a text that is not there yet; most of a dashboard's cost is drawing, and most of that the layout."""
        before = self._drawn.get(name)
        if before == text:
            return
        lines = text.plain.count("\n")
        is_short = len(text) < self.size.width or name == "#plot"
        fits = isinstance(before, Text) and before.plain.count("\n") == lines and is_short
        self._drawn[name] = text
        self.query_one(name, Static).update(text, layout=not fits)

    @property
    def _room(self) -> int:
        """Cells of a line, beside the padding and the scroll bar."""
        return max(20, self.size.width - 3)

    def _wrapped(self, text: str) -> str:
        """Whole words and numbers with their units."""
        return "\n".join(wrap(text, self._room))

    def _processes(self, document: MomentDocument) -> Table:
        """All of them, or the first few; of a single one the lines above say enough where there is little room."""
        table = views.process_table(document, command=80 if self.size.width >= WIDE else 20)
        if self.size.height >= HIGH:
            return table
        few = table.rows[:FEW_PROCESSES] if len(table.rows) > 1 else ()
        more = len(table.rows) - len(few)
        return replace(table, rows=few, note=f"{more} more processes" if few and more else "")

    def _fill(self, name: str, table: Table) -> None:
        if self._drawn.get(name) == table:
            return
        self._drawn[name] = table
        drawn: list[RenderableType] = [drawn_table(table, lay_out(table, self._room))]
        if table.note:
            drawn.append(Text(table.note, style="dim"))
        widget = self.query_one(name, Static)
        widget.update(Group(*drawn))
        widget.display = bool(table.rows)
