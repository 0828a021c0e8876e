"""Targets: which kind a name is of."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rlmem.core.target import Target, executable_kind
from rlmem.errors import UsageError
from rlmem.sources import load, read_description
from rlmem.sources.preset import PRESETS
from rlmem.sources.target import parse_target, target_kind


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((name, "preset") for name in PRESETS),
        ("run.yaml", "file"),
        ("folder/RUN.YML", "file"),
        ("plan.json", "file"),
        ("C:\\runs\\x.yaml", "file"),
        ("train.py", "script"),
        ("größe 🚁.py", "script"),
        ("a:b.py", "script"),
        ("pkg.train:make_model", "factory"),
        ("m:f", "factory"),
        ("zoo:sac/HalfCheetah-v4", "zoo"),
        ("zoo:sac/x.py", "zoo"),
        ("rllib:my_config.py:config", "rllib"),
        ("rllib:package.module:config", "rllib"),
        ("3f9a", "run"),
        ("0123456789abcdef0123456789abcdef", "run"),
    ],
)
def test_every_kind_is_told_by_its_name(text: str, kind: str) -> None:
    assert target_kind(text) == kind
    target = parse_target(text, ("--seed", "1"), sets=("n_envs=2",), python="python3")
    assert target == Target(kind=target.kind, text=text, args=("--seed", "1"), sets=("n_envs=2",), python="python3")
    assert target.kind == kind
    assert target.is_executable == (kind in ("script", "factory", "zoo"))
    assert pickle.loads(pickle.dumps(target)) == target  # points travel to other nodes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "pidog-sak",
        "a b:c",
        "http://x/y",
        "3f9",
        "3F9A",
        "run:1",
        "-",
        "/",
        "x" * 5000,
        "a\0b",
        "\udcff",
        "zoo",
    ],
)
def test_a_name_that_is_nothing_else_is_taken_for_a_preset_or_a_file_and_refused_when_read(text: str) -> None:
    target = parse_target(text)
    assert target.kind == ("file" if text == "/" else "preset")
    assert not target.is_executable
    with pytest.raises(UsageError):
        read_description(target)


@pytest.mark.parametrize(
    "text", ["zoo:", "zoo:sac", "rllib:", "rllib:x", "rllib:x.py", "m:f", "3f9a", "rllib:config.py:config"]
)
def test_what_is_no_description_is_an_unknown_preset_to_commands_that_read_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"unknown preset .*; known: .*, or the path of a run file"):
        load(text)


def test_a_malformed_prefix_still_tells_the_kind() -> None:
    assert [target_kind(text) for text in ("zoo:", "rllib:", "rllib:x", "rllib:x.py")] == [
        "zoo",
        "rllib",
        "rllib",
        "rllib",
    ]


def test_a_script_is_refused_where_a_description_is_read() -> None:
    with pytest.raises(UsageError, match="a script can be planned and measured"):
        load("train.py")


def test_a_file_comes_before_a_run_of_that_name_and_a_preset_before_a_file(tmp_path: Path) -> None:
    for name in ("3f9a", "description", "pidog-sac"):
        (tmp_path / name).write_text("extends: pidog-sac")
    assert [target_kind(name) for name in ("3f9a", "description", "pidog-sac")] == ["file", "file", "preset"]
    assert load("3f9a").values == load("pidog-sac").values
    assert target_kind(str(tmp_path)) == "file"


def test_the_short_name_of_a_script_is_that_of_its_file() -> None:
    names = [
        parse_target(text).name for text in ("a/b/train.py", "train.py", "pkg.a:b", "zoo:ppo/CartPole-v1", "a/b.yaml")
    ]
    assert names == ["train.py", "train.py", "pkg.a:b", "zoo:ppo/CartPole-v1", "a/b.yaml"]


@pytest.mark.parametrize("text", ["pidog-sac", "run.yaml", "", "a b:c", "http://x/y", "rllib:a.py:b", "C:\\x.yaml"])
def test_words_that_are_read_are_not_executable(text: str) -> None:
    assert executable_kind(text) is None
