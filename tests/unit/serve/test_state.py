"""The address of a planner page: everything in it, nothing that harms."""

from __future__ import annotations

import base64
import zlib
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.errors import RlmemError, UsageError
from rlmem.remedies.search import Search
from rlmem.serve.planning import Planning, as_command, as_python, as_yaml
from rlmem.serve.state import LARGEST_CONFIG, State, packed, read_state, unpacked, value_text
from rlmem.sources.preset import PRESETS


def from_query(query: str) -> State:
    return read_state(parse_qsl(query, keep_blank_values=True))


@given(st.text(max_size=500))
def test_any_text_survives_the_way_into_a_link_and_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    assert unpacked(packed(text)) == text


def test_a_state_survives_its_own_query() -> None:
    state = State(target="pyboy-ppo", ram="32GB", vram="16GB", sets={"n_envs": "4", "network.net_arch": "[64, 64]"})
    assert from_query(state.query) == state
    pasted = State(target="pidog-sac", config="extends: pidog-sac\nn_envs: 2 # é\n", ram="1GB")
    assert from_query(pasted.query).config == pasted.config


@pytest.mark.parametrize(
    "text", ["x", "!!!", "AAAA", packed("hello")[:-4], base64.urlsafe_b64encode(zlib.compress(b"\xff\xfe")).decode()]
)
def test_a_damaged_link_is_said_to_be(text: str) -> None:
    with pytest.raises(UsageError, match="damaged"):
        unpacked(text)


def test_a_bomb_in_a_link_is_refused_before_it_is_there() -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(b"a" * (200 << 20), 9)).decode()
    with pytest.raises(UsageError, match="too large"):
        unpacked(bomb)


def test_an_unknown_field_in_a_link_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="buffer_size"):
        from_query("of=pidog-sac&bufer_size=3")


def test_fields_that_change_nothing_leave_the_link() -> None:
    planned = Planning().plan(
        from_query("of=pidog-sac&ram=30GB&n_envs=4&buffer_size=400k&frame_stack=1&storage=plain&batch_size=128")
    )
    assert planned.state.sets == {"batch_size": "128"}


def test_an_own_value_stays_in_the_link_where_another_change_would_move_it() -> None:
    changes = "&storage=stream&rollout.dtype=float32&network.encoding=window&batch_size=102400"
    planned = Planning().plan(from_query(f"of=drone-swarm&ram=4GB{changes}"))
    assert planned.state.query == f"of=drone-swarm&ram=4GB{changes}"
    assert planned.now.get("batch_size") == 102400
    assert planned.now.get("rollout.dtype") == "float32"
    assert Planning().plan(from_query("of=drone-swarm&ram=4GB&rollout.dtype=float32")).state.sets == {}


@pytest.mark.parametrize(("target", "ram"), [("drone-swarm", "4GB"), ("pidog-td3", "8GB"), ("pyboy-ppo", "6GB")])
def test_the_link_of_applied_steps_is_planned_as_the_steps_were(target: str, ram: str) -> None:
    planning = Planning()
    state = from_query(f"of={target}&ram={ram}")
    steps = Search(planning.plan(state).subject).fit().steps
    assert steps
    parts = planning.fit(state).steps
    for step, part in zip(steps, parts, strict=True):
        state = state.having({path: value_text(path, value) for path, value in part.changes.items()})
        planned = planning.plan(from_query(state.query))
        assert planned.subject.plan.peaks == step.after.plan.peaks, step.remedy.name


def test_a_value_that_follows_from_another_still_follows() -> None:
    planning = Planning()
    own = planning.plan(from_query("of=pyboy-ppo&ram=30GB"))
    sent = "&".join(f"{path}={own.now.get(path)}" for path in ("n_envs", "n_steps", "batch_size"))
    same = planning.plan(from_query(f"of=pyboy-ppo&ram=30GB&{sent}"))
    assert same.state.sets == {}
    assert same.subject.plan.peaks == own.subject.plan.peaks


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x.yaml", "run.yaml", "train.py", "os:system", ""])
def test_only_presets_and_zoo_entries_can_be_named(target: str) -> None:
    with pytest.raises(RlmemError):
        Planning().plan(State(target=target, ram="1GB"))


def test_a_description_may_extend_presets_and_no_files() -> None:
    with pytest.raises(UsageError, match="unknown preset"):
        Planning().plan(State(config="extends: /etc/passwd\n", ram="1GB"))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_taken_away_makes_the_same_plan(preset: str, tmp_path: object) -> None:

    from rlmem import Planner, load, make_budget
    from rlmem.sources.config import parse_run
    from rlmem.sources.preset import read_preset

    planned = Planning().plan(State(target=preset, ram="30GB", sets={"batch_size": "48"}))
    peaks = planned.subject.plan.peaks
    words = as_command(planned.state)
    assert words[:3] == ["rlmem", "plan", preset]
    sets = [words[index + 1] for index, word in enumerate(words) if word == "--set"]
    assert Planner(make_budget(ram="30GB")).plan(load(preset, sets)).peaks == peaks
    names: dict[str, object] = {}
    exec(as_python(planned.state), names)
    assert names["plan"].peaks == peaks  # type: ignore[attr-defined]
    again = parse_run(as_yaml(planned), where="it", extend=read_preset)
    assert Planner(make_budget(ram="30GB")).plan(again).peaks == peaks


def test_a_pasted_description_is_taken_away_whole() -> None:
    from rlmem import Planner, make_budget
    from rlmem.sources.config import parse_run
    from rlmem.sources.preset import read_preset

    planned = Planning().plan(State(config="extends: pidog-sac\nn_envs: 2\n", ram="30GB", sets={"buffer_size": "1000"}))
    again = parse_run(as_yaml(planned), where="it", extend=read_preset)
    assert Planner(make_budget(ram="30GB")).plan(again).peaks == planned.subject.plan.peaks


def test_the_largest_description_is_a_page_or_a_few() -> None:
    assert LARGEST_CONFIG == 256 * 1024
