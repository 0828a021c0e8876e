"""Run descriptions: values, origins, shapes, and the way back to a file."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rlmem.core.fields import FIELDS, find_field, read_value
from rlmem.core.spaces import Box, Window
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.sources.config import parse_run
from rlmem.sources.preset import PRESETS, read_preset

BOX = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}


def test_a_changed_run_leaves_the_old_one_alone() -> None:
    before = RunSpec().having({"n_envs": "4"}, "first")
    after = before.having({"n_envs": 8, "batch_size": "1k"}, "second")
    assert (before.get("n_envs"), after.get("n_envs"), after.get("batch_size")) == (4, 8, 1000)
    assert (before.origin("n_envs"), after.origin("n_envs")) == ("first", "second")


def test_none_removes_a_knob_and_its_origin() -> None:
    spec = RunSpec().having({"n_envs": 4}, "x").having({"n_envs": None}, "y")
    assert "n_envs" not in spec
    assert spec.origin("n_envs") == "not set"


def test_defaults_fill_only_what_is_missing() -> None:
    spec = RunSpec().having({"n_envs": 4}, "file").filled({"n_envs": 1, "n_steps": 5, "device": None}, "default")
    assert (spec.get("n_envs"), spec.origin("n_envs")) == (4, "file")
    assert (spec.get("n_steps"), spec.origin("n_steps")) == (5, "default")
    assert "device" not in spec
    assert spec.filled({"n_envs": 9}, "again") is spec


def test_a_needed_knob_says_how_to_give_it() -> None:
    with pytest.raises(SpecError, match=r"^n_steps: missing: rollout length .* --set n_steps=…$"):
        RunSpec().need("n_steps")


def test_a_quantity_carries_the_origin_of_its_knob() -> None:
    quantity = RunSpec().having({"n_envs": 4}, "run.yaml:3").q("n_envs", "environments")
    assert (quantity.value, quantity.name, quantity.origin) == (4, "environments", "run.yaml:3")


def test_an_unknown_path_is_an_error_even_when_only_asked_for() -> None:
    with pytest.raises(SpecError, match="did you mean 'n_envs'"):
        RunSpec().get("n_env")
    with pytest.raises(SpecError, match=r"is a section; set one of framework\.name"):
        find_field("framework")
    with pytest.raises(SpecError, match=r"did you mean 'framework.version'"):
        find_field("version")


@pytest.mark.parametrize(
    ("shape", "stacked"), [([84, 84, 3], (84, 84, 12)), ([31], (124,)), ([], (4,)), ([1, 84, 84], (1, 84, 336))]
)
def test_frames_stack_along_the_last_axis(shape: list[int], stacked: tuple[int, ...]) -> None:
    spec = RunSpec().having({"observation": {"type": "box", "shape": shape}, "frame_stack": 4}, "x")
    assert isinstance(spec.observation, Box)
    assert spec.observation.shape == stacked


def test_stacking_and_history_reach_into_nested_spaces() -> None:
    inner = {"a": BOX, "b": {"type": "tuple", "spaces": [{"type": "window", "sample": 6, "extra": 4}]}}
    spec = RunSpec().having({"observation": {"type": "dict", "spaces": inner}, "frame_stack": 2, "history": 10}, "x")
    assert [leaf.shape for leaf in spec.observation_leaves] == [(84, 84, 6), (64,)]
    assert spec.window is None


def test_a_window_takes_its_length_from_the_history() -> None:
    spec = RunSpec().having({"observation": {"type": "window", "sample": 6, "extra": 4}, "history": 300}, "x")
    assert spec.window == Window(sample=6, extra=4, length=300)
    assert spec.observation_leaves[0].shape == (1804,)


def test_a_discrete_observation_is_not_stacked() -> None:
    spec = RunSpec().having({"observation": {"type": "discrete", "n": 5}, "frame_stack": 4}, "x")
    assert spec.observation_leaves[0].shape == (1,)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_written_out_reads_back_the_same(name: str) -> None:
    spec = read_preset(name)
    again = parse_run(yaml.safe_dump(spec.to_dict()), where="copy", extend=read_preset)
    assert dict(again.values) == dict(spec.values)
    assert set(again.origins) == set(spec.origins)


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_names_its_file_and_line(name: str) -> None:
    spec = read_preset(name)
    for path in spec:
        origin = spec.origin(path)
        assert origin.startswith("preset "), path
        assert int(origin.rsplit(":", 1)[1]) >= 1


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("n_envs", 0, "expected at least 1, got 0"),
        ("n_envs", -3, "expected at least 1"),
        ("n_envs", "many", "not a whole number"),
        ("n_envs", True, "not a whole number"),
        ("n_envs", [1], "not a whole number"),
        ("n_envs", 1.5, "not a whole number"),
        ("vec_env", "subprocess", "did you mean 'subproc'"),
        ("vec_env", ["dummy"], "is not one of"),
        ("optimize_memory_usage", "maybe", "expected true or false"),
        ("name", "", "expected text"),
        ("name", ["a"], "expected text"),
        ("name", True, "expected text"),
        ("name", "red \x1b[31m", "control characters"),
        ("name", "bad \udcff", "control characters"),
        ("unused_keys", {"a": 1}, "list of names"),
        ("unused_keys", [1], "list of names"),
        ("network.net_arch", 64, "list of widths"),
        ("network.net_arch", {"actor": [64]}, "unknown head"),
        ("network.net_arch", {"pi": [0]}, "at least 1"),
        ("network.modules", [], "mapping from names"),
        ("network.modules", {"a": ["liner 3"]}, "did you mean 'linear'"),
        ("env.bytes", "-1", "at least 0"),
        ("env.state", [1], "mapping from names"),
        ("env.state", {"a": {"shape": [0]}}, "positive number"),
        ("env.state", {"a": {"shape": ["nobody"]}}, "name of a count"),
        ("env.state", {"a": {"shape": ["device"]}}, "name of a count"),
        ("env.state", {"a": {"shape": [2], "dtype": ["x"]}}, "unknown dtype"),
        ("env.state", {"a": {"shape": [2], "dtpe": "x", 3: 4}}, "unknown field"),
        ("env.state", {"a": {"like": "action"}}, "only 'observation'"),
        ("env.state", {"a": {}}, "expected a list"),
        ("env.state", {"a": "much"}, "not a size"),
        ("settings", [1], "mapping from names"),
        ("stacked", 4, "mapping from names"),
        ("stacked", {"image": 0}, "at least 1"),
        ("coded_bytes", 5600, "mapping from names"),
        ("coded_bytes", {"image": [1, 2]}, "low, expected and high"),
        ("coded_bytes", {"image": [3, 2, 1]}, "low, expected and high"),
        ("coded_bytes", {"image": "few"}, "not a size"),
        ("spill_budget", 0, "at least 1"),
        ("codec", "zip", "is not one of"),
    ],
)
def test_a_wrong_value_names_its_field(path: str, value: Any, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        RunSpec().having({path: value}, "x")
    assert caught.value.path.startswith(path)
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("path", "value", "read"),
    [
        ("framework.version", 2.7, "2.7"),
        ("name", "  drôle de robot 🤖 ", "drôle de robot 🤖"),
        ("about", "two\nlines", "two lines"),
        ("optimize_memory_usage", "yes", True),
        ("optimize_memory_usage", "off", False),
        ("network.net_arch", "[64, 64]", (64, 64)),
        ("network.net_arch", {"pi": [64], "qf": [32]}, {"pi": (64,), "qf": (32,)}),
        ("unused_keys", "image, depth", ("image", "depth")),
        ("env.bytes", "2MiB", 2 << 20),
        ("learning_starts", 0, 0),
        ("vec_env", "SubProc", "subproc"),
        ("stacked", {"image": "4"}, {"image": 4}),
        ("coded_bytes", {"image": "5kB", "v": [0, 10, 20]}, {"image": (5000, 5000, 5000), "v": (0, 10, 20)}),
        ("settings", {"n": 1, 2: [1, (2,)]}, {"n": 1, "2": [1, [2]]}),
        ("settings", {"inf": float("inf")}, {"inf": "inf"}),
    ],
)
def test_a_value_may_be_written_the_way_people_write_it(path: str, value: Any, read: Any) -> None:
    assert read_value(find_field(path), value) == read


def test_every_field_has_a_sentence_and_a_distinct_path() -> None:
    assert len({field.path for field in FIELDS}) == len(FIELDS)
    for field in FIELDS:
        assert field.doc.rstrip("…,")[0].isalpha(), field.path
        assert bool(field.choices) == (field.kind == "choice"), field.path
