"""The end of what a child prints: read as it comes, and all but the last part let go."""

from __future__ import annotations

import os
import selectors
import threading
import time
from contextlib import suppress

KEEP_BYTES = 64 << 10
DRAIN_SECONDS = 1.0


class Tails:
    """Empties pipes in a thread of its own and keeps the last 64 KiB of each.

    A file could fill the disk, and a pipe nobody reads would stop the child. A process that keeps the pipe open after
    the child ended is not waited for.
    """

    def __init__(self, *names: str) -> None:
        self._kept = {name: bytearray() for name in names}
        self._selector = selectors.DefaultSelector()
        self._open: set[int] = set()
        self.writers: dict[str, int] = {}
        for name in names:
            reader, self.writers[name] = os.pipe()
            os.set_blocking(reader, False)
            self._open.add(reader)
            self._selector.register(reader, selectors.EVENT_READ, name)
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._pump, name="rlmem-tails", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """The child has its ends; close ours."""
        while self.writers:
            os.close(self.writers.popitem()[1])

    def finish(self) -> None:
        """Read what is still there and stop."""
        self.started()
        if self._waker >= 0:
            os.close(self._waker)
            self._waker = -1
            self._thread.join()

    def text(self, name: str) -> str:
        """What was kept."""
        return bytes(self._kept[name][-KEEP_BYTES:]).decode("utf-8", "replace")

    def _pump(self) -> None:
        deadline = None
        while self._open:
            ready = self._selector.select(timeout=None if deadline is None else 0)
            if deadline is not None and (not ready or time.monotonic() > deadline):
                break
            for key, _ in ready:
                if key.data is None:
                    self._selector.unregister(key.fd)
                    deadline = time.monotonic() + DRAIN_SECONDS
                else:
                    self._take(key.fd, key.data)
        for reader in (*self._open, self._wake):
            os.close(reader)
        self._selector.close()

    def _take(self, reader: int, name: str) -> None:
        kept = self._kept[name]
        part = b""
        with suppress(BlockingIOError):
            part = os.read(reader, KEEP_BYTES)
            if not part:
                self._selector.unregister(reader)
                self._open.remove(reader)
                os.close(reader)
        kept += part
        if len(kept) > 4 * KEEP_BYTES:
            del kept[:-KEEP_BYTES]
