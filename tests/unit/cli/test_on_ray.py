"""``--on ray`` where it cannot be: without Ray, and without ``--on``."""

from __future__ import annotations

import importlib.util

import pytest

from rlmem.cli import run

COMMANDS = (("measure", "drone-swarm"), ("bench", "pidog-sac", "--timesteps", "10"))
_found = importlib.util.find_spec("ray")


@pytest.mark.skipif(_found is not None and _found.origin is not None, reason="Ray is installed here")
@pytest.mark.parametrize("words", COMMANDS)
def test_without_ray_the_extra_is_named(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--on", "ray"]) == 3
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "rlmem: Ray is not installed here: pip install 'rlmem[ray]'\n")


@pytest.mark.parametrize("words", COMMANDS)
def test_an_address_alone_is_a_mistake(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--address", "head:6379"]) == 2
    assert "give --on ray too" in capsys.readouterr().err
