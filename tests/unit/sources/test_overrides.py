"""``--set`` and ``--vary``."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.errors import UsageError
from rlmem.sources import load
from rlmem.sources.overrides import parse_set, parse_vary


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("n_envs=4", "n_envs", 4),
        (" n_envs = 1k ", "n_envs", 1000),
        ("framework.version=2.3.2", "framework.version", "2.3.2"),
        ("optimize_memory_usage=yes", "optimize_memory_usage", True),
        ("network.net_arch=[400, 300]", "network.net_arch", (400, 300)),
        ("network.net_arch=64,64", "network.net_arch", (64, 64)),
        ('network.net_arch={"pi": [8], "vf": [4]}', "network.net_arch", {"pi": (8,), "vf": (4,)}),
        ('network.fusion=["linear 8"]', "network.fusion", ("linear 8",)),
        ('coded_bytes={"image": [1, 2, 3]}', "coded_bytes", {"image": (1, 2, 3)}),
        ('stacked={"image": 4}', "stacked", {"image": 4}),
        ("about=a=b", "about", "a=b"),
        ("batch_size=none", "batch_size", None),
    ],
)
def test_a_field_can_be_set(text: str, path: str, value: Any) -> None:
    assert parse_set(text)[0] == path
    spec = load("pidog-sac", [text])
    assert spec.get(path) == value
    if value is not None:
        assert spec.origin(path) == f"--set {text}"


def test_a_space_can_be_set_as_json() -> None:
    spec = load("pidog-sac-vector", ['observation={"type": "box", "shape": [7]}'])
    assert spec.observation_leaves[0].shape == (7,)


def test_later_settings_win() -> None:
    assert load("pidog-sac", ["n_envs=2", "n_envs=3"]).get("n_envs") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_envs", "write it as path=value"),
        ("=4", "write it as path=value"),
        ("n_envs=", "write it as path=value"),
        ("", "write it as path=value"),
        ("n_env=4", "--set: n_env: unknown key (did you mean 'n_envs'?)"),
        ("network=4", "--set: network: is a section"),
        ("n_envs=0", "--set: n_envs: expected at least 1"),
        ("n_envs=1.5", "--set: n_envs: '1.5' is not a whole number"),
        ("device=tpu", "--set: device: 'tpu' is not one of cpu, cuda"),
        ("observation={oops", "--set: observation: not valid JSON"),
        ("observation=box", "--set: observation: expected a mapping"),
        ("observation=" + "[" * 50_000, "--set: observation: not valid JSON: too long or nested too deep"),
        ("settings=[" + "9" * 5000 + "]", "--set: settings: "),
        ('network.net_arch={"a": 1}', "--set: network.net_arch.a: unknown head"),
    ],
)
def test_a_bad_setting_names_the_option_and_the_field(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_set(text)
    assert message in str(caught.value)


def test_a_space_nested_too_deep_is_refused() -> None:
    deep = '{"type": "tuple", "spaces": [' * 400 + '{"type": "discrete", "n": 2}' + "]}" * 400
    with pytest.raises(UsageError, match="--set: observation: "):
        parse_set(f"observation={deep}")


def test_a_count_can_be_varied_with_or_without_values() -> None:
    assert parse_vary("agents") == ("agents", ())
    assert parse_vary("buffer_size=200k, 1M,") == ("buffer_size", (200_000, 1_000_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent", "--vary: agent: unknown key (did you mean 'agents'?)"),
        ("device", "only counts can be varied, and device is a choice"),
        ("agents=", "give values"),
        ("agents=,", "give values"),
        ("agents=1,x", "--vary: agents: 'x' is not a whole number"),
        ("agents=0", "--vary: agents: expected at least 1"),
        ("", "--vary: "),
    ],
)
def test_a_knob_that_cannot_be_varied_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_vary(text)
    assert message in str(caught.value)
