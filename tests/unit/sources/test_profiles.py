"""Profiles of a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.errors import UsageError
from rlmem.sources.profiles import load_profiles, parse_profiles

SIZES = {
    "memory-efficient": 200_000,
    "fast": 300_000,
    "balanced": 400_000,
    "quality": 500_000,
    "aggressive": 400_000,
}


def test_the_five_of_the_reference_run_are_built_in() -> None:
    assert {profile.name: profile.fields["buffer_size"] for profile in load_profiles("all")} == SIZES


def test_aggressive_has_the_largest_batches() -> None:
    sizes = {profile.name: profile.fields.get("batch_size", 0) for profile in load_profiles("all")}
    assert max(sizes, key=lambda name: sizes[name]) == "aggressive"


def test_names_are_taken_in_the_order_given_and_once() -> None:
    assert [profile.name for profile in load_profiles("quality, fast,quality")] == ["quality", "fast"]


def test_a_file_has_fields_sections_and_settings_of_training(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "small:\n  buffer_size: 10k\n  network: {net_arch: [64, 64]}\n  learning_rate: 3e-4\n", encoding="utf-8"
    )
    (profile,) = load_profiles(str(path))
    assert profile.fields == {"buffer_size": "10k", "network.net_arch": [64, 64]}
    assert profile.training == {"learning_rate": 3e-4}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a mapping from profile names"),
        ("[1, 2]", "expected a mapping from profile names"),
        ("a: 5", r"f.yaml:1: a: expected settings"),
        ("a: {bufer_size: 10}", r"f.yaml:1: bufer_size: unknown key \(did you mean 'buffer_size'\?\)"),
        ("a: {learning_rat: 1}", r"did you mean 'learning_rate'"),
        ("a:\n  batch_size: 4\nb:\n  buffer_size: -3", r"f.yaml:4: buffer_size: expected at least 1"),
        ("a: {learning_rate: much}", "learning_rate: expected a positive number, got 'much'"),
        ("a: {train_freq: 0}", "train_freq: expected a positive whole number"),
        ("a: {learning_rate: .inf}", "expected a positive number"),
        ("a: {x", "not valid YAML"),
        ("a: {batch_size: 1}\na: {batch_size: 2}", "written twice"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_profiles(text, where="f.yaml")


@pytest.mark.parametrize(
    ("choice", "problem"),
    [("fats", "did you mean 'fast'"), (",", "name some of"), ("/no/such.yaml", "no such file")],
)
def test_a_wrong_choice_says_what_there_is(choice: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_profiles(choice)
