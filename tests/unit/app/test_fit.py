"""Runs made to fit from Python: what is asked for, what is answered, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rlmem
from rlmem.app.fit import FitRequest, fit
from rlmem.errors import SpecError, UsageError
from rlmem.sources.target import parse_target

BUDGET = rlmem.make_budget(ram="8GB")


def request(target: str = "pidog-sac", *args: str, **options: Any) -> FitRequest:
    return FitRequest(target=parse_target(target, args), budget=BUDGET, **options)


def test_the_answer_is_typed_and_holds_the_change_as_text() -> None:
    answer = rlmem.fit(rlmem.FitRequest(target=rlmem.parse_target("pidog-sac"), budget=BUDGET))
    assert answer.status == "fits"
    assert [step.name for step in answer.steps] == ["compact-store", "spill"]
    assert answer.steps[0].saves_bytes["ram"] > 8 * 10**9
    assert answer.write.text == "storage: compact\nspill_budget: 7113539584"
    assert answer.before.peaks[0].limit_bytes == answer.machine.ram_bytes == 8 * 10**9
    assert (answer.applied, answer.verified) == (None, None)


def test_fields_to_keep_are_taken_one_by_one_or_in_a_list() -> None:
    assert fit(request(keep=("storage, spill_budget",))).steps == fit(request(keep=("storage", "spill_budget"))).steps
    assert [step.name for step in fit(request(keep=("storage", "spill_budget"))).steps] == ["buffer-size"]
    assert not fit(request(keep=("storage", "spill_budget"), lossless=True)).steps


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (request(keep=("buffer_sise",)), "--keep: buffer_sise: unknown key"),
        (request("pidog-sak"), "did you mean 'pidog-sac'"),
        (request("pidog-sac", "--seed", "1"), "script arguments: only for targets that are run"),
        (request(apply=True), "--apply: only for targets that are run"),
        (request(timeout_s=9.0), "--timeout: only for targets that are run"),
        (request(cap="much"), "--cap 'much'"),
        (request(cap="1GB"), "--cap: only for targets that are run"),
        (request(cap=10**9), "--cap: only for targets that are run"),
        (request("nowhere.py"), "nowhere.py: no such file"),
        (request("zoo:sac"), "an RL Zoo entry is written zoo:ALGO/ENV"),
    ],
)
def test_what_cannot_be_done_is_refused(asked: FitRequest, message: str) -> None:
    with pytest.raises((UsageError, SpecError), match=message):
        fit(asked)


def test_a_description_is_measured_with_its_steps_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both measurements are told of; one that cannot be made has its reason."""
    told: list[str] = []

    @contextmanager
    def progress(what: str) -> Iterator[None]:
        told.append(what)
        yield

    def measure(*_: Any) -> Any:
        raise UsageError("this interpreter has no torch")

    monkeypatch.setattr("rlmem.trace.verifying.measure_described", measure)
    verified = fit(request(verify=True), progress=progress).verified
    assert verified is not None
    assert told == ["measuring before", "measuring after"]
    assert verified.notes == ("before: this interpreter has no torch", "after: this interpreter has no torch")
    assert (verified.took_effect, verified.real_saving_bytes, verified.after) == (False, None, None)


def test_a_fit_that_is_there_already_is_not_measured() -> None:
    answer = fit(FitRequest(target=parse_target("pidog-sac"), budget=rlmem.make_budget(ram="64GB"), verify=True))
    assert (answer.status, answer.verified) == ("already", None)


def test_the_limits_of_a_dry_run_are_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    asked: dict[str, Any] = {}

    def prepare_job(*_: object, **limits: Any) -> None:
        asked.update(limits)
        raise UsageError("enough is known")

    monkeypatch.setattr("rlmem.app.fit.prepare_job", prepare_job)
    with pytest.raises(UsageError, match="enough"):
        fit(request(str(script), timeout_s=9.0, cap="1GB"))
    assert (asked["timeout_s"], asked["cap_bytes"]) == (9.0, 10**9)
