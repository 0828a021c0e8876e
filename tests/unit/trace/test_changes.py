"""Where a changed value goes: the script's own option, or its model's constructor."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.errors import UsageError
from rlmem.trace.changes import changes_from, split_values


def test_set_items_become_constructor_arguments_with_units_read() -> None:
    assert changes_from(["buffer_size=200k", "batch_size=512"]) == ({"buffer_size": 200_000, "batch_size": 512}, None)
    assert changes_from(["device=cuda"]) == ({}, "cuda")


def test_a_dotted_field_is_not_an_argument_of_a_model() -> None:
    with pytest.raises(UsageError, match="only arguments of its model"):
        changes_from(["network.lstm_hidden=64"])


@pytest.mark.parametrize("spelled", ["--buffer-size", "--buffer_size"])
def test_an_option_of_the_script_is_replaced_where_it_is_given(tmp_path: Path, spelled: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(f'parser.add_argument("{spelled}", type=int)\n')
    args, changes = split_values(script, ("--env", "X", spelled, "9", "--seed=1"), {"buffer_size": 500})
    assert args == ("--env", "X", "--seed=1", spelled, "500")
    assert changes == {}


def test_an_option_given_with_an_equals_sign_is_replaced_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("parser.add_argument('--n-envs')\n")
    assert split_values(script, ("--n_envs=4", "--seed", "1"), {"n_envs": 8})[0] == ("--seed", "1", "--n-envs", "8")


def test_a_field_of_a_tyro_class_is_an_option(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import tyro\nclass Args:\n    num_envs: int = 4\n")
    assert split_values(script, (), {"num_envs": 8})[0] == ("--num-envs", "8")


def test_what_the_script_does_not_take_changes_its_model(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('# buffer_size is fixed here\nSAC("MlpPolicy", env, buffer_size=1000)\n')
    assert split_values(script, ("--a",), {"buffer_size": 500}) == (("--a",), {"buffer_size": 500})
    assert split_values(None, (), {"buffer_size": 500}) == ((), {"buffer_size": 500})
