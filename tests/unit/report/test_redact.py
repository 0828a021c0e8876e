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
        ("-I/home/ada/acme/inc", "-I…/inc"),
        ("--out=/home/bob/acme/x", "--out=…/x"),
        ("P=/a/b:/home/bob/acme", "P=…/acme"),
        ("/data/a=b/acme/x", "…/x"),
        ("/data/client#1/acme/x", "…/x"),
        ("/data/a,acme/x/y", "…/y"),
        ("acme/secret/run.sh", "…/run.sh"),
        ("data:/home/bob/acme", "data:…/acme"),
        ("s3://acme-bucket/secret/x", "s3://…"),
        ("http://box7.corp.acme.com/home/bob/x", "http://…"),
        ("see ~bob", "see …"),
        ("/home/bob", "…"),
        ("C:\\Users\\Alice Smith\\Acme Deal\\train.py", "…/train.py"),
        ("cannot read /home/bob/x/y.yaml: permission denied", "cannot read …/y.yaml: permission denied"),
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
        "7 // 2 × 3",
        "~179 KiB",
        "rlmem.plan/1",
        "about 3 MiB / step",
        "rollout/ep_rew_mean",
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


def test_folders_with_spaces_are_known_from_the_command_wherever_they_stand() -> None:
    document = {
        "command": ["python3", "/srv/My Acme Deal/tr.py", "--out=/srv/Acme Corp/x y"],
        "members": [{"command": "python3 /srv/My Acme Deal/tr.py --out=/srv/Acme Corp/x y"}],
    }
    assert redacted(document, NAMES) == {
        "command": ["python3", "…/tr.py", "--out=…/x y"],
        "members": [{"command": "python3 …/tr.py --out=…/x y"}],
    }


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a-" * 100_000, "~" * 200_000, "a/" * 100_000, "/a" * 100_000, "C:\\" * 60_000]
)
def test_long_words_come_to_an_end(text: str) -> None:
    # Each would take minutes if the time grew with the square of the text.
    redacted({"command": [text], "text": text}, NAMES)
