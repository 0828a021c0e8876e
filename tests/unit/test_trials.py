"""A sampled configuration becomes a prediction, or a line that says why not."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.sources import load
from rlmem.trials import Prediction, Predictor, check_margin, shown

RUN = "pidog-sac-vector"


def planned(**changes: Any) -> int:
    spec = load(RUN).having(changes, "test")
    peak = Planner(Budget(name="test")).plan(spec).top("ram")
    assert peak is not None
    return peak.expected_bytes


def test_values_are_set_on_the_fields_of_their_name() -> None:
    predict = Predictor(RUN)
    small, large = predict({"buffer_size": 10_000}), predict({"buffer_size": 1_000_000})
    assert small.expected_bytes == planned(buffer_size=10_000)
    assert large.expected_bytes == planned(buffer_size=1_000_000)
    assert large.expected_bytes > small.expected_bytes
    assert large.high_bytes >= large.expected_bytes


def test_what_is_no_field_says_nothing_about_memory() -> None:
    assert Predictor(RUN)({"lr": 3e-4, "optimiser": {"beta": 0.9}}).expected_bytes == planned()


def test_keys_can_have_other_names_or_be_left_out() -> None:
    predict = Predictor(RUN, {"rows": "buffer_size", "batch_size": None})
    assert predict({"rows": 20_000, "batch_size": 100_000}).expected_bytes == planned(buffer_size=20_000)


def test_nested_settings_go_to_dotted_fields() -> None:
    wide = Predictor(RUN)({"network": {"net_arch": [2048, 2048]}})
    assert wide.expected_bytes == planned(**{"network.net_arch": [2048, 2048]}) > planned()


def test_a_whole_float_of_a_sampler_is_a_count() -> None:
    assert Predictor(RUN)({"buffer_size": 10_000.0}).expected_bytes == planned(buffer_size=10_000)


@pytest.mark.parametrize(
    "answer", [2_000_000_000, "2GB", 2e9], ids=["a number of bytes", "a size as text", "a float of bytes"]
)
def test_a_function_may_answer_in_bytes(answer: Any) -> None:
    found = Predictor(lambda config: answer)({})
    assert (found.expected_bytes, found.high_bytes, found.plan) == (2 * 10**9, 2 * 10**9, None)


def test_a_function_may_answer_with_a_spec_a_plan_or_fields() -> None:
    spec = load(RUN)
    plan = Planner(Budget(name="test")).plan(spec)
    answers: list[Any] = [spec, plan, spec.to_dict()]
    found = [Predictor(lambda config, answer=answer: answer)({}) for answer in answers]
    assert {each.expected_bytes for each in found} == {planned()}
    assert all(isinstance(each.plan, Plan) for each in found)


def test_a_run_file_is_a_plan_too(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("extends: pidog-sac-vector\nbuffer_size: 30k\n", encoding="utf-8")
    assert Predictor(str(file))({}).expected_bytes == planned(buffer_size=30_000)


def test_a_value_that_a_field_refuses_is_named_with_its_configuration() -> None:
    with pytest.raises(AnalysisError, match=r"no plan for \{buffer_size: -5\}: configuration 'buffer_size'.*at least"):
        Predictor(RUN)({"buffer_size": -5})


def test_what_a_function_raises_is_one_line_with_the_configuration() -> None:
    def mine(config: dict[str, Any]) -> int:
        raise ValueError("no\n  such environment")

    with pytest.raises(AnalysisError) as caught:
        Predictor(mine)({"env": "X", "n": 3})
    assert str(caught.value) == "no plan for {env: 'X', n: 3}: mine raised ValueError: no such environment"


@pytest.mark.parametrize("answer", [None, True, [1], "a lot", 0, -3], ids=repr)
def test_an_answer_that_is_no_size_is_refused(answer: Any) -> None:
    with pytest.raises(AnalysisError, match="no plan for"):
        Predictor(lambda config: answer)({})


@pytest.mark.parametrize(
    ("plan", "fields", "says"),
    [
        ("pidog-sack", None, "did you mean 'pidog-sac'"),
        (RUN, {"rows": "buffer_sise"}, "buffer_sise"),
        (17, None, "name a preset or a run file"),
        (len, {"a": "n_envs"}, "a function names the fields itself"),
    ],
)
def test_mistakes_are_told_when_the_trainable_is_wrapped(plan: Any, fields: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Predictor(plan, fields)


@pytest.mark.parametrize("margin", [-0.1, 10, True, "10%"])
def test_a_margin_is_a_share(margin: Any) -> None:
    with pytest.raises(UsageError, match="a share from 0 to 1"):
        check_margin(margin)


def test_a_predictor_travels() -> None:
    predict = Predictor(RUN)
    before = predict({})
    assert pickle.loads(pickle.dumps(predict))({}).expected_bytes == before.expected_bytes


def test_a_long_configuration_is_cut() -> None:
    assert len(shown({f"key_{i}": "x" * 10 for i in range(100)})) < 200


def test_the_margin_is_on_top_of_the_upper_bound() -> None:
    assert Prediction(expected_bytes=100, high_bytes=200).with_margin(0.1) == 220


def test_what_an_algorithms_configuration_calls_otherwise_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunSpec().having(
        {
            "framework.name": "rllib",
            "algorithm": "dqn",
            "observation": {"type": "box", "shape": [84, 84, 4], "dtype": "uint8"},
            "action": {"type": "discrete", "n": 6},
            "buffer_size": 10_000,
        },
        "test",
    )
    monkeypatch.setattr("rlmem.trials.describe_config", lambda target: (run, target.python))
    predict = Predictor("rllib:my_config.py:config")
    small = predict({}).expected_bytes
    assert predict({"replay_buffer_config": {"type": "x", "capacity": 1_000_000}}).expected_bytes > 10 * small
    assert predict({"buffer_size": 1_000_000}).expected_bytes > 10 * small
    assert predict({"num_gpus_per_learner": 1}).vram_bytes > 0 == predict({"num_gpus_per_learner": 0}).vram_bytes
