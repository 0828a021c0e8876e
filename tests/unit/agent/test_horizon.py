"""Environment steps of a run, from the loops a step was made in."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rlmem.agent.horizon import Horizon


class Env:
    """Steps tell a horizon where they were made."""

    def __init__(self) -> None:
        self.horizon = Horizon()

    def step(self) -> None:
        self.horizon.seen(sys._getframe(1))


def nested(env: Env, updates: int) -> None:
    args = SimpleNamespace(steps=128)
    for _update in range(1, updates + 1):
        for _step in range(0, args.steps):
            env.step()
            return


def through(env: Env) -> None:
    for _index, _seed in enumerate([3, 4, 5]):
        nested(env, 2 * 5)
        return


def two_stretches(env: Env) -> None:
    total = 1_000
    for _ in range(10):
        env.step()
    for _step in range(total // 4):
        env.step()


def episodes(env: Env) -> None:
    for _episode in range(10):
        done = False
        while not done:
            env.step()
            done = True


def whatever(env: Env) -> None:
    for _ in iter(lambda: env, env):
        return
    for _item in {"a": 1}.items():
        env.step()


def made_once(env: Env) -> None:
    for _ in range(0):
        pass
    env.step()


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        (lambda env: nested(env, 500), 500 * 128),
        (through, 3 * 10 * 128),
        (two_stretches, 10 + 250),
        (episodes, None),
        (whatever, None),
    ],
)
def test_loops_around_a_step_say_how_many_there_are(program: object, steps: int | None) -> None:
    import threading

    env = Env()
    # A thread's stack is the program's own: pytest's loops are not around it.
    thread = threading.Thread(target=program, args=(env,))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert env.horizon.steps == steps


def test_variables_that_were_asked_for_are_not_kept_alive() -> None:
    import weakref

    class Big:
        """Stands for an array."""

    def loop(env: Env) -> weakref.ref[Big]:
        count, big = 5, Big()
        found = weakref.ref(big)
        for _ in range(count):
            env.step()
            del big
            return found
        raise AssertionError

    assert loop(Env())() is None
