"""Two recorded runs side by side, and which documents compare at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlmem.app.compare import compare_documents
from rlmem.app.recorded import recorded_document
from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.documents.contract import from_plain, read_part, to_plain
from rlmem.documents.recorded import MOST_OWNERS, RecordedDocument, Recording
from rlmem.documents.recorded_comparison import MOST_POINTS, REST, RecordedComparisonDocument, compare_recorded
from rlmem.errors import UsageError
from rlmem.report.compare_recorded import compare_recorded_view
from rlmem.report.render import render_view
from rlmem.units import MIB

FORMATS = ("text", "markdown", "json")


def held(path: str, mib: int, device: str = "ram") -> Holding:
    size = mib * MIB
    return Holding(path=path, kind="array", type="ndarray", nbytes=size, resident_bytes=size, device=device)


def moment(at_s: float, mib: int, *owners: Holding, phase: str = "collect") -> Moment:
    return Moment(
        at_s=at_s,
        tree_bytes=mib * MIB,
        rss_bytes=mib * MIB,
        limit_bytes=1000 * MIB,
        limit_name="--max-ram",
        phase=phase,
        holdings=owners or None,
    )


def document(*moments: Moment, target: str = "train.py", ended: bool = True, **end: Any) -> RecordedDocument:
    header: dict[str, Any] = {"target": target, "command": ["python", target], "started": "2026-01-02T03:04:05Z"}
    if ended:
        peak = {"nbytes": 0, "at_s": 0.0, "phase": "", "step": None, "seen": True}
        header["ended"] = {"returncode": 0, "exit_code": 0, "status": "ok", "wall_s": 60.0, "peak": peak, **end}
    return recorded_document(read_part(Recording, header), moments)


def compared(left: RecordedDocument, right: RecordedDocument) -> RecordedComparisonDocument:
    return compare_recorded((left, right), ("3f9a", "81c0"))


def both(left: RecordedDocument, right: RecordedDocument) -> dict[str, Any]:
    return to_plain(compared(left, right))


def render(data: dict[str, Any], wanted: str = "text") -> str:
    return render_view(from_plain(RecordedComparisonDocument, data, "it"), compare_recorded_view, wanted, None)


def owners(data: dict[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    """In whole MiB."""
    found = {}
    for row in data["owners"]:
        one, other = (row[key] if row[key] is None else row[key] // MIB for key in ("left_bytes", "right_bytes"))
        found[row["path"]] = (one, other)
    return found


LEFT = document(moment(1.0, 100, phase="collect"), moment(2.0, 300, held("buffer", 200), held("net", 20)))
RIGHT = document(
    moment(1.0, 400, held("buffer", 200), held("log", 130), held("net", 20), held("gpu", 9, "vram"), phase="update"),
    moment(2.0, 90, phase="collect"),
)


def test_owners_are_joined_by_path_with_the_largest_difference_first() -> None:
    data = both(LEFT, RIGHT)
    assert data["schema"] == "rlmem.compare-recorded/1"
    assert list(owners(data))[:2] == ["log", REST]
    assert owners(data) == {"log": (0, 130), REST: (80, 50), "buffer": (200, 200), "net": (20, 20)}
    for side, peak in (("left", 300), ("right", 400)):
        assert sum(row[f"{side}_bytes"] for row in data["owners"]) == data[side]["peak_bytes"] == peak * MIB


def test_each_side_says_how_it_ended_and_where_its_peak_was() -> None:
    side = both(LEFT, RIGHT)["right"]
    assert {key: value for key, value in side.items() if key != "summary"} == {
        "label": "81c0",
        "target": "train.py",
        "status": "ok",
        "ending": "ended well after 60 s",
        "state": "unknown",
        "wall_s": 60.0,
        "peak_bytes": 400 * MIB,
        "at_s": 1.0,
        "phase": "update",
        "limit_bytes": 1000 * MIB,
        "owners_at_s": 1.0,
    }


def test_a_phase_that_one_side_never_had_is_not_known_there() -> None:
    assert both(LEFT, RIGHT)["phases"] == [
        {"phase": "collect", "left_bytes": 300 * MIB, "right_bytes": 90 * MIB},
        {"phase": "update", "left_bytes": None, "right_bytes": 400 * MIB},
    ]


@pytest.mark.parametrize("wanted", FORMATS)
def test_every_format_has_the_figures_of_both_sides(wanted: str) -> None:
    data = both(LEFT, RIGHT)
    before = json.dumps(data)
    out = render(data, wanted)
    for text in (REST, "log", "collect", "ended well after 60 s"):
        assert text in out
    if wanted == "json":
        assert json.loads(out) == data
    else:
        assert all(text in out for text in ("+130 MiB", "1.33×", "right, in update", "3f9a: peak 300 MiB, 30%"))
        (row,) = (line for line in out.splitlines() if line.strip(" |").startswith("update"))
        assert row.replace("|", " ").split() == ["update", "400", "MiB"]  # the left side never was in it
    assert json.dumps(data) == before


def test_owners_that_one_side_does_not_know_are_none_and_the_view_says_so() -> None:
    data = both(LEFT, document(moment(1.0, 500)))
    assert owners(data) == {"buffer": (200, None), REST: (80, None), "net": (20, None)}
    assert data["right"]["owners_at_s"] is None
    out = render(data)
    assert "81c0: owners are not known" in out
    assert "3f9a: owners are not known" not in out


def test_without_owners_on_both_sides_there_is_no_table_of_them() -> None:
    data = both(document(moment(1.0, 500)), document(moment(1.0, 400)))
    assert data["owners"] == []
    out = render(data)
    assert "Who held the peak" not in out
    assert "-100 MiB" in out


def test_an_owner_missing_among_the_largest_only_is_not_known() -> None:
    many = document(moment(1.0, 400, *(held(f"part{index}", 2) for index in range(MOST_OWNERS))))
    assert owners(both(LEFT, many))["buffer"] == (200, None)
    assert owners(both(LEFT, many))["part0"] == (0, 2)


def test_owners_in_workers_are_joined_whatever_their_process_numbers() -> None:
    left = document(moment(1.0, 100, held("worker 71: env.frames", 10), held("worker 72: env.frames", 20)))
    right = document(moment(1.0, 100, held("worker 9: env.frames", 50)))
    assert owners(both(left, right))["worker: env.frames"] == (30, 50)


def test_the_rest_is_not_known_where_owners_held_more_at_another_time() -> None:
    left = document(moment(1.0, 100), moment(50.0, 90, held("buffer", 120)))
    data = both(left, RIGHT)
    assert owners(data)[REST] == (None, 50)
    assert "3f9a: owners were asked 49 s from the peak." in render(data)


def test_a_recording_that_was_cut_short_is_compared_without_its_end() -> None:
    data = both(document(moment(1.0, 250, held("buffer", 200)), ended=False), RIGHT)
    left = data["left"]
    assert (left["status"], left["wall_s"], left["peak_bytes"]) == ("running", None, 250 * MIB)
    assert "the recording has no end" in left["ending"]
    assert "3f9a: still running" in render(data)


@pytest.mark.parametrize("moments", [(), (moment(0.5, 0),), (moment(0.5, 0, held("buffer", 1)),)])
def test_a_peak_of_nothing_is_not_known(moments: tuple[Moment, ...]) -> None:
    data = both(document(*moments), RIGHT)
    assert [data["left"][key] for key in ("peak_bytes", "at_s", "phase")] == [None, None, ""]
    assert owners(data)[REST] == (None, 50)
    for wanted in FORMATS:
        assert "peak not known" in render(data, wanted)


def test_a_peak_between_two_looks_counts_and_the_cause_of_death_is_told() -> None:
    peak = {"nbytes": 700 * MIB, "at_s": 2.5, "phase": "update", "step": 7, "seen": False}
    cause = {"kind": "oom-killer", "cause": "ended by the kernel's OOM killer", "grown": [], "changes": []}
    died = document(
        moment(2.0, 300, held("buffer", 200)), peak=peak, status="oom", returncode=-9, exit_code=137, postmortem=cause
    )
    data = both(LEFT, died)
    assert owners(data)[REST] == (80, 500)
    assert data["right"]["status"] == "oom"
    out = render(data)
    assert "81c0: killed by SIGKILL after 60 s" in out
    assert "81c0: why: ended by the kernel's OOM killer" in out


def test_a_target_may_have_any_name() -> None:
    data = both(document(moment(1.0, 10), target="größe 🚁 [red].py"), document(moment(1.0, 10), target=""))
    for wanted in ("text", "json"):
        assert "größe 🚁 [red].py" in render(data, wanted)
    assert (
        compare_recorded_view(from_plain(RecordedComparisonDocument, data, "it")).title
        == "3f9a (größe 🚁 [red].py)  ↔  81c0"
    )


@pytest.mark.parametrize("count", [1, MOST_POINTS, MOST_POINTS + 1, 3001])
@pytest.mark.parametrize("place", [0.0, 0.503, 1.0])
def test_a_timeline_is_thinned_and_keeps_its_ends_and_its_largest(count: int, place: float) -> None:
    spike = round(place * (count - 1))
    long = document(*(moment(float(second), 100 + 5 * (second == spike)) for second in range(count)))
    points = both(long, RIGHT)["moments"]["left"]
    assert len(points) <= min(count, MOST_POINTS)
    assert [spike, 105 * MIB] in points
    assert (points[0][0], points[-1][0]) == (0, count - 1)
    assert points == sorted(points)


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    data = both(RIGHT, RIGHT)
    assert all(row["left_bytes"] == row["right_bytes"] for part in ("owners", "phases") for row in data[part])
    assert data["moments"]["left"] == data["moments"]["right"]


def test_two_recorded_documents_compare_by_owner_and_phase() -> None:
    assert compare_documents((LEFT, RIGHT), ("a", "b")) == compare_recorded((LEFT, RIGHT), ("a", "b"))


def test_documents_of_other_kinds_are_refused_by_their_labels() -> None:
    with pytest.raises(
        UsageError, match=r"^b is a compare-recorded; give plans, measurements, recorded runs or processes"
    ):
        compare_documents((LEFT, compared(LEFT, RIGHT)), ("a", "b"))
