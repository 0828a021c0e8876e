"""The parent's side: processes that take turns, and what is made of their answers."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
START_S, ANSWER_S = 900.0, 900.0


class MissingError(Exception):
    """The library is not installed; says which module was looked for."""


class StoreError(Exception):
    """The process could not do it; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to measure."""

    add_rounds: int = 25
    rounds: int = 20
    turn_s: float = 0.2
    check_batches: int = 60
    check_s: float = 30.0
    learn_rounds: int = 12
    learn_turn_s: float = 1.5
    threads: int | None = None


QUICK = Effort(add_rounds=4, rounds=3, turn_s=0.1, check_batches=20, check_s=5, learn_rounds=2,
               learn_turn_s=0.5)  # fmt: skip


def environment(threads: int | None) -> dict[str, str]:
    """Of a child: our modules can be imported, and idle threads sleep instead of spinning through the other's turn."""
    paths = [str(HERE.parents[1]), str(HERE.parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_WAIT_POLICY": "PASSIVE"}
    env.setdefault("MUJOCO_GL", "egl")
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    return env


class Child:
    """A process that answers; used in a ``with`` block, which ends it."""

    def __init__(self, threads: int | None = None) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed in __exit__
        self.scratch = tempfile.mkdtemp(prefix="bench-buffers-")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "buffer_bench.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, env=environment(threads) | {"TMPDIR": self.scratch}, start_new_session=True,
        )  # fmt: skip
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def ask(self, do: str, *, limit_s: float = ANSWER_S, **arguments: Any) -> dict[str, Any]:
        """Give the process its turn and wait for its answer."""
        return self._send({"do": do, "with": arguments}, limit_s)

    def start(self, kind: str, **arguments: Any) -> None:
        """Build what is to be measured."""
        self._send({"do": "start", "kind": kind, "with": arguments}, START_S)

    def _send(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # it ended: the empty answer below says so
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        try:
            line = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise StoreError(f"no answer to '{message['do']}' in {seconds:.0f} s") from None
        if not line:
            code = self.process.wait()
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            raise StoreError(f"the process ended ({how}): {self._last_words()}")
        answer = json.loads(line)
        if "missing" in answer:
            raise MissingError(answer["missing"])
        if "error" in answer:
            raise StoreError(answer["error"])
        found: dict[str, Any] = answer["answer"]
        return found

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else "nothing on stderr"

    def __enter__(self) -> Child:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and remove what it left on disk."""
        self.process.kill()
        self.process.wait()
        self.errors.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def ratio_of(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Rates of both sides and the median of their ratios, round by round; also of each side's fastest tenth."""
    ratios = sorted(own / other for own, other in pairs)
    fast = [float(np.quantile(side, 0.9)) for side in zip(*pairs, strict=True)]
    return {
        "rate": statistics.median(own for own, _ in pairs),
        "sb3_rate": statistics.median(other for _, other in pairs),
        "ratio": statistics.median(ratios),
        "low": ratios[len(ratios) // 4],
        "high": ratios[-1 - len(ratios) // 4],
        "best_ratio": fast[0] / fast[1],
    }


def turns(number: int, store: Child, reference: Child, do: str, **arguments: Any) -> list[dict[str, Any]]:
    """One round: both do the same, and who goes first changes from round to round."""
    order = (store, reference) if number % 2 else (reference, store)
    answers = [child.ask(do, **arguments) for child in order]
    return answers if number % 2 else answers[::-1]


def replay(reference: Child, store: Child, capacity: int, effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure a store that was started, beside a full reference."""
    say("first lap")
    store.ask("add", count=capacity)
    share = max(capacity // effort.add_rounds, 1)
    adds, add_busy, p99s = [], [], []
    for number in range(effort.add_rounds):
        say(f"second lap {number + 1}/{effort.add_rounds}")
        own, other = turns(number, store, reference, "add", count=share)
        adds.append((own["count"] / own["ns"] * 1e9, other["count"] / other["ns"] * 1e9))
        add_busy.append((own["count"] / own["cpu_ns"], other["count"] / other["cpu_ns"]))
        p99s.append(own["p99_ns"])
    say("weighing")
    full = store.ask("memory")["bytes"]
    samples, busy, times, others = [], [], [], []
    for number in range(effort.rounds):
        say(f"sampling {number + 1}/{effort.rounds}")
        ours, theirs = turns(number, store, reference, "sample", seconds=effort.turn_s)
        own, other = ours["ns"], theirs["ns"]
        busy.append((len(own) / ours["cpu_ns"], len(other) / theirs["cpu_ns"]))
        samples.append((len(own) / sum(own) * 1e9, len(other) / sum(other) * 1e9))
        times += own
        others += other
    say("checking")
    wrong = store.ask("check", batches=effort.check_batches, seconds=effort.check_s)
    return {
        "bytes_per_transition": full / capacity,
        "bytes_after_sampling": store.ask("memory")["bytes"] / capacity,
        "add": ratio_of(adds) | {"cpu_ratio": ratio_of(add_busy)["ratio"], "p99_us": statistics.median(p99s) / 1e3},
        "sample": ratio_of(samples)
        | {"cpu_ratio": ratio_of(busy)["ratio"], "calls": len(times), "p50_ms": float(np.quantile(times, 0.5)) / 1e6}
        | {"p99_ms": float(np.quantile(times, 0.99)) / 1e6}
        | {"sb3_p50_ms": float(np.quantile(others, 0.5)) / 1e6, "sb3_p99_ms": float(np.quantile(others, 0.99)) / 1e6},
        "check": wrong,
        "says": store.ask("describe"),
    }


def learn(reference: Child, store: Child, effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Two trainings in turns, with the same seed: how fast, and whether they learn the same."""
    say("warming up")
    steps = 16
    reference.ask("learn", steps=steps)
    store.ask("learn", steps=steps)
    steps = max(int(effort.learn_turn_s * steps / reference.ask("learn", steps=steps)["seconds"]) // 4 * 4, 8)
    store.ask("learn", steps=16)
    pairs, busy = [], []
    for number in range(effort.learn_rounds):
        say(f"training {number + 1}/{effort.learn_rounds}, {steps} steps each")
        own, other = turns(number, store, reference, "learn", steps=steps)
        pairs.append((steps / own["seconds"], steps / other["seconds"]))
        busy.append((steps / own["cpu_s"], steps / other["cpu_s"]))
    same = reference.ask("parameters")["digest"] == store.ask("parameters")["digest"]
    facts = {"cpu_ratio": ratio_of(busy)["ratio"], "steps": steps * effort.learn_rounds}
    return {"learn": ratio_of(pairs) | facts, "identical": same}
