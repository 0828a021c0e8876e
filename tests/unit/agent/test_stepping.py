"""Steps of environments: those of Gymnasium, those of the script's own classes, and what is around them."""

from __future__ import annotations

import inspect
import pickle
import sys
import types
from typing import Any

import pytest

from rlmem.agent.stepping import Stepping

RESULT = (0, 0.0, False, False, {})


@pytest.fixture
def gym() -> types.ModuleType:
    """A module like Gymnasium, as little of it as matters; made anew, as its classes are changed."""
    module = types.ModuleType("like_gymnasium")

    class Env:
        def step(self, action: int) -> tuple[Any, ...]:
            raise NotImplementedError

    class Wrapper(Env):
        def __init__(self, env: Env) -> None:
            self.env = env

        def step(self, action: int) -> tuple[Any, ...]:
            return self.env.step(action)

    module.Env, module.Wrapper = Env, Wrapper  # type: ignore[attr-defined]
    module.make = Env  # type: ignore[attr-defined]
    return module


def watched(gym: types.ModuleType) -> list[str]:
    seen: list[str] = []
    Stepping(lambda: seen.append("make"), lambda: seen.append("step")).watch(gym)
    return seen


def test_a_step_counts_once_however_many_wrappers_it_goes_through(gym: Any) -> None:
    seen = watched(gym)

    class Own(gym.Env):  # type: ignore[misc]
        def step(self, action: int) -> tuple[Any, ...]:
            return RESULT

    env = gym.Wrapper(gym.Wrapper(Own()))
    assert [env.step(0), env.step(1)] == [RESULT] * 2
    assert seen == ["step"] * 2
    gym.make()
    assert seen[-1] == "make"


def test_a_step_that_fails_does_not_count_and_the_next_one_does(gym: Any) -> None:
    seen = watched(gym)
    with pytest.raises(NotImplementedError):
        gym.Env().step(0)

    class Own(gym.Env):  # type: ignore[misc]
        def step(self, action: int) -> tuple[Any, ...]:
            return RESULT

    Own().step(0)
    assert seen == ["step"]


class Written:
    """A class of a script's, by which its workers are told what to run."""

    def step(self, action: int) -> tuple[Any, ...]:
        """Take an action."""
        return RESULT


def test_what_workers_are_sent_is_the_method_itself(gym: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Written.step
    monkeypatch.setattr(Written, "step", original)  # and puts it back
    gym.Env = Written
    watched(gym)
    assert vars(Written)["step"] is not original
    assert list(inspect.signature(Written().step).parameters) == ["action"]
    assert Written.step.__doc__ == "Take an action."
    hook = vars(Written)["step"]
    monkeypatch.setattr(sys.modules[__name__].Written, "step", original)  # as it is in a worker
    assert pickle.loads(pickle.dumps(hook)) is original
