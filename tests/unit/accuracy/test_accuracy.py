"""The pure parts of ``accuracy/``: what is chosen, how it is scored, what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from accuracy import corpus, report, results


def row(
    name: str, measured: int, expected: int, *, high: int | None = None, imported: int = 400, **cells: str
) -> results.Row:
    base = {
        "id": name,
        "kind": "zoo",
        "algorithm": "sac",
        "family": "mujoco",
        "measured": str(measured * results.MB),
        "expected": str(expected * results.MB),
        "low": str(expected * results.MB),
        "high": str((high or expected) * results.MB),
        "imported": str(imported * results.MB),
        "plan_s": "12.0",
        "trace_peak": str(2**30),
        "plan_status": "ok",
        "truth_status": "ok",
        **cells,
    }
    return results.with_errors(base)


def test_the_corpus_is_as_large_as_promised() -> None:
    entries = corpus.load()
    zoo = [entry for entry in entries if entry.kind == "zoo"]
    scripts = {entry.subject for entry in entries if entry.kind == "script"}
    presets = {entry.subject for entry in entries if entry.kind == "preset"}
    assert len(zoo) >= 60 and len({entry.algorithm for entry in zoo}) >= 10
    assert {"classic", "box2d", "mujoco", "atari"} <= {entry.family for entry in zoo}
    assert len([name for name in scripts if not name.startswith("sb3")]) >= 8
    assert all((corpus.SCRIPTS / name).is_file() for name in scripts)
    assert {"drone-swarm", "pidog-sac", "pidog-td3", "crypto-ppo", "pyboy-ppo"} <= presets
    assert "other" not in {entry.family for entry in entries}


def test_shards_cover_everything_once() -> None:
    entries = corpus.load()
    parts = [corpus.shard(entries, f"{part}/6") for part in range(1, 7)]
    assert sorted(entry.id for part in parts for entry in part) == sorted(entry.id for entry in entries)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/6", "7/6", "1", "a/b", "1/0"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="K/N"):
        corpus.shard(corpus.load(), text)


def test_patterns_choose_by_id() -> None:
    chosen = corpus.only(corpus.load(), "zoo:sac/*")
    assert chosen and all(entry.algorithm == "sac" for entry in chosen)


def test_a_plan_passes_arguments_on_after_two_dashes() -> None:
    entry = corpus.Entry(
        id="x", kind="zoo", algorithm="dqn", family="atari", subject="dqn/Pong", args=("-params", "a:1")
    )
    assert entry.plan() == ["zoo:dqn/Pong", "--", "-params", "a:1"]
    preset = corpus.Entry(id="y", kind="preset", algorithm="sac", family="reference", subject="p", args=("n_envs=4",))
    assert preset.plan() == ["p", "--set", "n_envs=4"]


def test_errors_are_of_the_total_and_of_the_increment() -> None:
    found = row("a", measured=500, expected=510)
    assert found["error_pct"] == "2.00"
    assert found["increment_error_pct"] == "10.00"


def test_a_score_counts_signs_bounds_and_headroom() -> None:
    found = results.score([row("a", 500, 510, high=550), row("b", 500, 480, high=490), row("c", 500, 500, high=505)])
    assert found is not None
    assert (found.count, found.median) == (3, 2.0)
    assert found.p95 == pytest.approx(3.8)
    assert found.bias == pytest.approx(-2 / 3)
    assert found.broken == pytest.approx(100 / 3)
    assert found.headroom == pytest.approx((10 - 2 + 1) / 3)
    assert found.increment_median == pytest.approx(10.0)


def test_rows_with_one_side_only_are_not_scored() -> None:
    half = {**row("a", 500, 510), "expected": ""}
    assert results.score([half]) is None


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0)])
def test_quantiles_lie_between_values(share: float, value: float) -> None:
    assert results.quantile([4, 1, 3, 2], share) == value


@pytest.mark.parametrize(
    ("added", "name"), [(10, "under 50 MB"), (50, "50 to 500 MB"), (1999, "0.5 to 2 GB"), (6000, "over 2 GB")]
)
def test_strata_are_by_what_a_run_adds(added: int, name: str) -> None:
    assert results.stratum(row("a", 400 + added, 400 + added)) == name


def test_results_are_written_in_order_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    rows = {name: row(name, 500, 510) for name in ("b", "a", "gone")}
    results.write(rows, ["a", "b"], path)
    assert list(results.read(path)) == ["a", "b"]
    assert results.read(path)["a"] == rows["a"]
    assert [each.name for each in tmp_path.iterdir()] == ["results.csv"]


def entry(name: str) -> corpus.Entry:
    return corpus.Entry(id=name, kind="zoo", algorithm="sac", family="mujoco", subject=name)


def test_the_page_has_every_row_the_goals_and_the_misses_with_causes(tmp_path: Path) -> None:
    vram = tmp_path / "vram.csv"
    figures = ("allocated", "reserved", "driver")
    head = ["run", *(f"{name}_{word}" for name in figures for word in ("low", "expected", "high", "measured", "error"))]
    vram.write_text(
        ",".join(head) + "\n" + ",".join(["x", *(["1000000", "2000000", "3000000", "2000000", "0.01"] * 3)]) + "\n"
    )
    rows = {each["id"]: each for each in (row("good", 500, 505, high=520), row("bad", 500, 600, high=700))}
    rows["half"] = {**row("half", 500, 500), "expected": "", "plan_status": "failed (3): boom", "error_pct": ""}
    entries = [entry(name) for name in ("good", "bad", "half", "later")]
    text = report.page(rows, entries, {"b*": "a known cause"}, {"gone": "no package"}, vram)
    assert "| median error | 10.5 % | ≤ 2 % | no |" in text
    assert "- `bad`: +20.0 %; a known cause" in text
    assert "- `good`" not in text
    assert "- `half`: plan failed (3): boom" in text
    assert "- 1 more were not run yet" in text
    assert "| `good` | 505 | 505 | 520 | 500 | +1.0 %" in text
    assert "| x | 2 | 2 | +1.0 % | 2 | 2 | +1.0 % | 2 (1–3) | 2 | +1.0 % |" in text
    assert "- `gone`: no package" in text


def test_a_run_above_its_bound_is_a_miss_however_small_the_error() -> None:
    assert report.is_miss(row("a", 500, 498, high=499))
    assert not report.is_miss(row("a", 500, 498, high=501))


def test_a_page_without_results_can_be_written() -> None:
    text = report.page({}, [entry("a")], {}, {})
    assert "1 entries; 0 planned and measured." in text and "Against the goals" not in text


def test_the_page_and_the_readme_show_the_results_that_are_there() -> None:
    root = Path(report.__file__).parents[1]
    rows, entries = results.read(), corpus.load()
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert report.put_into(readme, report.summary(rows, entries)) == readme
    page = report.page(rows, entries, corpus.causes(), corpus.dropped())
    assert (root / "docs" / "accuracy.md").read_text(encoding="utf-8") == page
