"""What --redact takes out, and what it leaves."""

from __future__ import annotations

import pytest

from rlmem.report.redact import own_names, redacted

NAMES = frozenset({"ada", "enigma"})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ada/rl/train.py:12", "…/train.py:12"),
        ("rlmem plan /home/ada/rl/train.py --ram 30GB", "rlmem plan …/train.py --ram 30GB"),
        ("~/rl/train.py", "…/train.py"),
        ("../secret/train.py", "…/train.py"),
        ("projects/secret/train.py", "…/train.py"),
        ("C:\\Users\\ada\\train.py", "…/train.py"),
        ("host enigma, user ada", "host …, user …"),
        ("ADA@Enigma", "…@…"),
        ("memory.max of /sys/fs/cgroup/user.slice/user-1000.slice", "memory.max of …/user-1000.slice"),
    ],
)
def test_folders_hosts_and_users_go(text: str, left: str) -> None:
    assert redacted(text, NAMES) == left


@pytest.mark.parametrize(
    "text",
    [
        "40.1 MiB/min",
        "zoo:sac/HalfCheetah-v4",
        "ALE/Pong-v5",
        "400,000 × 84 × 84 × 3 / 4",
        "torch 2.13.0+cpu",
        "adam",
        "adamw and Canada",
        "n_steps × n_envs",
        "saves 7.79 GiB",
        "and/or",
        "https://example.org/docs/model.md",
    ],
)
def test_words_numbers_and_entries_stay(text: str) -> None:
    assert redacted(text, NAMES) == text


def test_every_text_of_a_document_is_seen_keys_and_lists_too() -> None:
    document = {"command": ["python", "/home/ada/t.py"], "/home/ada/x.yaml": {"n": 3, "flag": True, "none": None}}
    assert redacted(document, NAMES) == {
        "command": ["python", "…/t.py"],
        "…/x.yaml": {"n": 3, "flag": True, "none": None},
    }


def test_names_that_everybody_has_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    assert "root" not in own_names()
    assert "localhost" not in own_names()
