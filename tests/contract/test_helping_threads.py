"""Batches put together by several threads: the same bits, also in a forked process and when several buffers ask at once."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

pytestmark = pytest.mark.truth
pytest.importorskip("numba")

from rlmem.buffers import Replay  # noqa: E402  # after what has to be there

SHAPE = (3, 40, 40)
BATCH = 256


def filled(codec: str = "none", threads: int = 3, steps: int = 1_500) -> Replay:
    replay = Replay(1_000, (SHAPE, "uint8"), fields={"n": ((), "int64")}, codec=codec, threads=threads, seed=1)
    for n in range(steps):
        replay.add(picture(n)[None], picture(n + 1)[None], n=[n])
    return replay


def picture(n: int) -> np.ndarray:
    """Slopes that move: no two are the same, and a torn one shows."""
    y, x = np.ogrid[:40, :40]
    return np.stack([(y * 2 + x * 3 + n * 5 + plane) % 251 for plane in range(3)]).astype(np.uint8)


def right(batch: dict[str, np.ndarray]) -> bool:
    pairs = zip(batch["n"], batch["obs"], batch["next_obs"], strict=True)
    return all(np.array_equal(o, picture(n)) and np.array_equal(a, picture(n + 1)) for n, o, a in pairs)


@pytest.mark.parametrize(
    "codec", ["none", *(pytest.param(codec, marks=pytest.mark.long) for codec in ("huffman", "zstd")), "auto"]
)
def test_threads_fill_a_batch_as_one_would(codec: str) -> None:
    several, alone = filled(codec, threads=4), filled(codec, threads=1)
    for _ in range(20):
        batch, other = several.sample(BATCH), alone.sample(BATCH)
        assert np.array_equal(batch["obs"], other["obs"])
        assert np.array_equal(batch["next_obs"], other["next_obs"])
        assert right(batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns of forking beside threads: that is the point
def test_a_forked_process_has_helpers_of_its_own() -> None:
    replay = filled("huffman")
    stop = threading.Event()
    sampler = threading.Thread(
        target=lambda: [None for _ in iter(lambda: stop.is_set() or not replay.sample(BATCH), True)]
    )
    other = filled("none")
    other.sample(BATCH)
    sampler.start()
    try:
        for _ in range(5):  # helpers are at work while the process is forked
            child = os.fork()
            if not child:
                os._exit(0 if all(right(other.sample(BATCH)) for _ in range(5)) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        sampler.join()


def test_buffers_that_ask_at_once_share_the_helpers() -> None:
    buffers = [filled(codec) for codec in ("none", "huffman", "zstd")]
    wrong: list[int] = []

    def sample(n: int) -> None:
        for _ in range(25):
            if not right(buffers[n].sample(BATCH)):
                wrong.append(n)

    threads = [threading.Thread(target=sample, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_fails_meanwhile_leaves_the_buffer_usable() -> None:
    replay = filled()
    store = replay._store
    rows, envs = np.arange(BATCH), np.zeros(BATCH, np.int64)
    batch = {"": np.zeros((BATCH, *SHAPE), np.uint8)}

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.gather(rows, envs, batch, None, meanwhile=fail)
    assert right(replay.sample(BATCH))


def test_helpers_do_not_keep_a_process_alive() -> None:
    import subprocess
    import sys

    program = "import numpy as np; from rlmem.buffers import Replay\nr = Replay(500, ((64, 64), 'uint8'), threads=3)\n"
    program += "for n in range(300): r.add(np.full((1, 64, 64), n % 250), np.full((1, 64, 64), n % 250 + 1))\n"
    program += "print(r.sample(256)['obs'].shape)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "(256, 64, 64)"), done.stderr


def test_one_who_is_still_at_work_is_waited_for_however_many_come_late_and_leave() -> None:
    from rlmem.buffers import reading

    call = np.zeros(reading.CALL, np.int64)
    address = call.ctypes.data
    reading.begin(address)
    call[reading.CAME] = 1  # somebody who takes his time
    closing = threading.Thread(target=reading.finish, args=(address, 0))
    reader, writer = os.pipe()
    helpers = [threading.Thread(target=reading.serve, args=(reader,)) for _ in range(2)]
    late = np.full(4_096, address, np.int64).tobytes()
    try:
        for thread in (closing, *helpers):
            thread.start()
        for _ in range(300):
            os.write(writer, late)
            if not closing.is_alive():
                break
        assert closing.is_alive()
    finally:
        os.close(writer)
        for thread in helpers:
            thread.join()
        call[reading.LEFT] += 1
        closing.join()
        os.close(reader)
