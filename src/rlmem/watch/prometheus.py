"""The latest figures for Prometheus, served over HTTP in the text format, on this machine alone unless told otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from rlmem.core.holdings import Holding
from rlmem.core.moments import STATES
from rlmem.errors import UsageError
from rlmem.watch.session import Frame

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"
MOST_OWNERS = 20

Labels = dict[str, str]
Sample = tuple[Labels, float | None]


class Metric(NamedTuple):
    """One family of figures; a figure that is not known is left out."""

    name: str
    help: str
    read: Callable[[Frame], Iterable[Sample]]
    type: str = "gauge"


def _one(read: Callable[[Frame], float | None]) -> Callable[[Frame], Iterable[Sample]]:
    return lambda frame: [({}, read(frame))]


def _states(frame: Frame) -> Iterator[Sample]:
    for state in STATES:
        yield {"state": state}, float(frame.judgement.state == state)


def _growth(frame: Frame) -> Iterator[Sample]:
    for part in (frame.judgement.total, frame.judgement.residual):
        if part is not None:
            yield {"part": part.name}, part.bytes_per_s


def _owners(read: Callable[[Holding], float | None]) -> Callable[[Frame], Iterator[Sample]]:
    def samples(frame: Frame) -> Iterator[Sample]:
        for held in (frame.holdings or ())[:MOST_OWNERS]:
            yield {"owner": held.path, "device": held.device}, read(held)

    return samples


METRICS = (
    Metric("rlmem_tree_bytes", "Memory the processes hold together, shared pages once.", _one(lambda f: f.moment.tree_bytes)),
    Metric("rlmem_rss_bytes", "Resident bytes, added up over the processes.", _one(lambda f: f.moment.rss_bytes)),
    Metric("rlmem_uss_bytes", "Bytes that no other process shares.", _one(lambda f: f.moment.uss_bytes)),
    Metric("rlmem_vram_bytes", "Memory on GPUs.", _one(lambda f: f.moment.vram_bytes)),
    Metric("rlmem_limit_bytes", "What the processes may reach under the limit that bites first.", _one(lambda f: f.moment.limit_bytes)),
    Metric("rlmem_cache_bytes", "File cache of a cgroup, which can be dropped.", _one(lambda f: f.moment.cache_bytes)),
    Metric("rlmem_processes", "Processes watched.", _one(lambda f: f.moment.processes)),
    Metric("rlmem_threads", "Their threads.", _one(lambda f: f.moment.threads)),
    Metric("rlmem_cpu_seconds_total", "CPU time they took.", _one(lambda f: f.moment.cpu_s), "counter"),
    Metric("rlmem_pressure_ratio", "Share of the last 10 s in which something waited for memory.", _one(lambda f: f.moment.pressure)),
    Metric("rlmem_growth_bytes_per_second", "How fast memory grows.", _growth),
    Metric("rlmem_state", "The verdict: 1 for the one that holds.", _states),
    Metric("rlmem_oom_seconds", "Time until the limit is reached, if that is foreseen.", _one(lambda f: f.judgement.forecast.oom_in_s)),
    Metric("rlmem_full_seconds", "Time until stores that fill are full.", _one(lambda f: f.judgement.forecast.full_in_s)),
    Metric("rlmem_owner_resident_bytes", "Resident bytes of the largest owners.", _owners(lambda h: h.resident_bytes)),
    Metric("rlmem_owner_rows", "Rows an owner has in use.", _owners(lambda h: h.filled)),
    Metric("rlmem_owner_capacity_rows", "Rows an owner has room for.", _owners(lambda h: h.capacity)),
)  # fmt: skip


def exposition(frames: Sequence[Frame]) -> str:
    """Everything in the text format."""
    lines: list[str] = []
    for metric in METRICS:
        samples = [
            (({"target": frame.title, "command": frame.command[:200]} | labels), value)
            for frame in frames
            for labels, value in metric.read(frame)
            if value is not None
        ]
        if samples:
            lines += (f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}")
            lines += (f"{metric.name}{{{_labels(labels)}}} {value:.10g}" for labels, value in samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def escape(text: str) -> str:
    """A label's value: backslash, quote and line break are written out.

    >>> escape('a"b\\\\c')
    'a\\\\"b\\\\\\\\c'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exporter:
    """Serves ``/metrics`` in a thread."""

    def __init__(self, port: int, frames: Callable[[], Sequence[Frame]], *, host: str = LOOPBACK) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in {"/", "/metrics"}:
                    self.send_error(404)
                    return
                body = exposition(frames()).encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Standard error belongs to the watch."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise UsageError(f"--prometheus {port}: cannot listen on {host}: {why}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="rlmem-prometheus", daemon=True)

    @property
    def url(self) -> str:
        """Where to point Prometheus."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
