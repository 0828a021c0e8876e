"""Fifty who look on, beside a watch of our own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from browser_bench.common import Amount, Load, Server, child, goal, middle, serving, spent

CLIENT_GOAL = 0.01

CLIENTS = 50

TARGET = """
import os, time
import numpy
class Buffer:
    def __init__(self, capacity):
        self.capacity, self.pos = capacity, 0
        self.observations = numpy.empty((capacity, 2**16), numpy.float32)
buffer, infos, num_timesteps = Buffer(4096), [], 0
print(os.getpid(), flush=True)
while True:
    buffer.observations[buffer.pos] = num_timesteps
    buffer.pos = (buffer.pos + 1) % buffer.capacity
    infos.append({"r": float(num_timesteps), "l": num_timesteps})
    num_timesteps += 1
    time.sleep(0.05)
"""


@dataclass(slots=True)
class Polls:
    """What the clients of one stretch saw."""

    is_counted: bool = False
    is_over: bool = False
    taken_ms: list[float] = field(default_factory=list)
    drawn_ms: list[float] = field(default_factory=list)
    bytes: int = 0
    failures: int = 0
    is_named: bool = False


async def poll(server: Server, pid: int, polls: Polls, trust: ssl.SSLContext) -> None:
    """One page: asks a second after the last answer, and says what it has seen."""
    async with httpx.AsyncClient(headers={**server.bearer, "hx-request": "true"}, verify=trust, timeout=30) as client:
        await asyncio.sleep(random.random())
        seen = 0
        while not polls.is_over:
            begin, is_counted = time.perf_counter(), polls.is_counted
            try:
                answer = await client.get(f"{server.url}live/{pid}/now?seen={seen}")
            except httpx.HTTPError:
                polls.failures += 1
                await asyncio.sleep(1)
                continue
            took = 1e3 * (time.perf_counter() - begin)
            number = re.search(r'data-number="(\d+)"', answer.text)
            seen = int(number[1]) if number else seen
            polls.is_named = polls.is_named or (bool(number) and "No names of owners" not in answer.text)
            polls.failures += answer.status_code not in (200, 204)
            if is_counted:
                polls.taken_ms.append(took)
                polls.bytes += len(answer.content)
                if answer.status_code == 200:
                    polls.drawn_ms.append(took)
            await asyncio.sleep(1)


async def sampler(client: httpx.AsyncClient, server: Server, pid: int) -> tuple[float, float]:
    """CPU and wall seconds of a watch so far, as it says itself."""
    for _ in range(20):
        answer = await client.get(f"{server.url}api/processes/{pid}/now")
        if answer.status_code == 200:
            found = answer.json()
            return found["sampler_cpu_s"], found["sampler_wall_s"]
        await asyncio.sleep(0.5)
    raise SystemExit(f"process {pid} is not watched: {answer.text[:200]}")


async def stretch(server: Server, pids: Sequence[int], clients: int, peer: int, amount: Amount) -> dict[str, Any]:
    """All clients for a while; what everybody spent meanwhile."""
    polls, trust = Polls(), ssl.create_default_context()
    tasks = [asyncio.create_task(poll(server, pids[n % len(pids)], polls, trust)) for n in range(clients)]
    try:
        async with httpx.AsyncClient(headers=server.bearer, verify=trust, timeout=30) as client:
            await asyncio.sleep(amount.settle_s)
            load_now, own = Load(), time.process_time()
            begin = [await sampler(client, server, pid) for pid in pids[:clients]]
            cpu, at = (spent(server.pid), spent(peer)), time.monotonic()
            polls.is_counted = True
            await asyncio.sleep(amount.seconds)
            polls.is_counted = False
            elapsed = time.monotonic() - at
            whole, beside = (now - before for now, before in zip((spent(server.pid), spent(peer)), cpu, strict=True))
            end = [await sampler(client, server, pid) for pid in pids[:clients]]
            own = time.process_time() - own
            busy = load_now.words()
    finally:
        polls.is_over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    shares = [(b[0] - a[0]) / max(b[1] - a[1], 1e-9) for a, b in zip(begin, end, strict=True)]
    return {
        "watched": len(pids),
        "clients": clients,
        "seconds": elapsed,
        "samplers": shares,
        "samplers_since_start": [cpu_s / wall for cpu_s, wall in end],
        "server": whole / elapsed,
        "peer": beside / elapsed,
        "own": own / elapsed,
        "polls": middle(polls.taken_ms),
        "drawn": middle(polls.drawn_ms),
        "bytes": polls.bytes,
        "failures": polls.failures,
        "named": polls.is_named,
        "load": busy,
    }


def one_crowd(watched: int, clients: int, env: Mapping[str, str], amount: Amount) -> dict[str, Any]:
    """A new server, new children and new clients."""
    with contextlib.ExitStack() as stack:
        run = [sys.executable, "-m", "rlmem", "run", "--no-record", "--quiet", "--", sys.executable, "-c", TARGET]
        children = [stack.enter_context(child(run, env)) for _ in range(watched)]
        pids = []
        for process in children:
            assert process.stdout is not None
            pids.append(int(process.stdout.readline() or 0))
        server = stack.enter_context(serving(env))
        watch = [sys.executable, "-m", "rlmem", "watch", str(pids[0]), "--json"]
        peer = stack.enter_context(child(watch, env, is_heard=False))
        return asyncio.run(stretch(server, pids, clients, peer.pid, amount))


def looking_on(env: Mapping[str, str], amount: Amount) -> list[dict[str, Any]]:
    """One client, fifty, and fifty on four processes."""
    rows = [one_crowd(watched, clients, env, amount) for watched, clients in ((1, 1), (1, CLIENTS), (4, CLIENTS))]
    print(
        f"\nLooking on for {amount.seconds:.0f} s after {amount.settle_s:.0f} s, each client once a second; shares of one core"
    )
    print(
        f"{'watched':>7} {'clients':>7} {'sampler each':>13} {'server':>8} {'a client':>9} {'watch --json':>13} {'polls':>6} {'median':>8} {'p95':>8} "
        f"{'max':>8} {'drawn':>6}"
    )
    for row in rows:
        polls = row["polls"]
        print(
            f"{row['watched']:7} {row['clients']:7} {statistics.mean(row['samplers']):12.2%} {row['server']:8.2%} {row['server'] / row['clients']:9.3%} "
            f"{row['peer']:12.2%} {polls['count']:6} {polls['median']:6.1f}ms {polls['p95']:6.1f}ms {polls['max']:6.1f}ms {row['drawn']['count']:6}"
        )
    for row in rows:
        since = statistics.mean(row["samplers_since_start"])
        print(
            f"  {row['watched']} watched, {row['clients']} clients: {row['load']}; samplers with their start {since:.2%} each; "
            f"{row['bytes'] / max(row['drawn']['count'], 1):,.0f} B a picture; the clients themselves {row['own']:.1%}; {row['failures']} failed"
            + ("" if row["named"] else "; owners had no names")
        )
    sampling = max(share for row in rows for share in row["samplers"])
    crowd = max(row["server"] / row["clients"] for row in rows if row["clients"] == CLIENTS)
    print(goal(sampling < CLIENT_GOAL, f"a sampler under {CLIENT_GOAL:.0%} of a core; the dearest took {sampling:.2%}"))
    print(
        goal(
            crowd < CLIENT_GOAL,
            f"{CLIENTS} clients under {CLIENT_GOAL:.0%} of a core each; {crowd:.3%} of the whole server each",
        )
    )
    return rows
