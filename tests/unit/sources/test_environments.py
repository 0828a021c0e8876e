"""The table of public environments, by id."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

from rlmem.core.spaces import Box, DictSpace, Discrete, describe_space, leaves, parse_space
from rlmem.sources.config import parse_yaml
from rlmem.sources.environments import find_environment

TABLE: dict[str, Any] = parse_yaml(
    resources.files("rlmem").joinpath("sources").joinpath("environments.yaml").read_text(encoding="utf-8"), "table"
)[0]


def test_a_vector_environment_is_known() -> None:
    assert find_environment("HalfCheetah-v5") == (Box(shape=(17,), dtype="float64"), Box(shape=(6,)))


def test_an_id_may_name_a_module_to_import_first() -> None:
    assert find_environment("ale_py:ALE/Pong-v5") == find_environment("ALE/Pong-v5")


@pytest.mark.parametrize(
    "name",
    ["ALE/Breakout-v5", "Breakout-v4", "Breakout-v0", "BreakoutNoFrameskip-v4", "BreakoutDeterministic-v4"],
)
def test_every_spelling_of_a_game_has_its_screen_and_its_buttons(name: str) -> None:
    found = find_environment(name)
    assert found == (Box(shape=(210, 160, 3), dtype="uint8"), Discrete(n=4))
    assert [leaf.is_image for leaf in leaves(found[0])] == [True]


def test_a_game_with_a_taller_screen_is_not_taken_for_the_others() -> None:
    found = find_environment("ALE/Carnival-v5")
    assert found is not None
    assert describe_space(found[0])["shape"] == [214, 160, 3]


def test_the_most_particular_family_counts() -> None:
    usual, obstacles = (find_environment(f"MiniGrid-{name}-v0") for name in ("Empty-8x8", "Dynamic-Obstacles-8x8"))
    assert usual is not None
    assert obstacles is not None
    assert (usual[1], obstacles[1]) == (Discrete(n=7), Discrete(n=3))


def test_words_of_a_mission_are_not_part_of_an_observation() -> None:
    found = find_environment("MiniGrid-Empty-8x8-v0")
    assert found is not None
    assert isinstance(found[0], DictSpace)
    assert [key for key, _ in found[0].spaces] == ["direction", "image"]


def test_an_id_of_an_earlier_version_has_the_spaces_of_its_successor() -> None:
    assert find_environment("LunarLander-v2") == find_environment("LunarLander-v3") is not None


def test_versions_with_other_spaces_are_told_apart() -> None:
    sizes = {}
    for version in ("v3", "v4", "v5"):
        found = find_environment(f"Ant-{version}")
        assert found is not None
        sizes[version] = describe_space(found[0])["shape"]
    assert sizes == {"v3": [111], "v4": [27], "v5": [105]}


@pytest.mark.parametrize(
    "name", ["", "MyEnv-v0", "ALE/NoSuchGame-v5", "Pong-v9", "ALE/Pong-v4", "Pong", "cartpole-v1", "*", "-v4"]
)
def test_an_unknown_id_is_unknown(name: str) -> None:
    assert find_environment(name) is None


def test_every_row_can_be_read() -> None:
    for name, row in TABLE["environments"].items():
        assert set(row) == {"observation", "action"}, name
        for part in row.values():
            assert parse_space(describe_space(parse_space(part))) == parse_space(part), name


def test_every_earlier_id_leads_to_a_row_and_is_not_one_itself() -> None:
    for name, successor in TABLE["earlier"].items():
        assert successor in TABLE["environments"], name
        assert name not in TABLE["environments"], name
