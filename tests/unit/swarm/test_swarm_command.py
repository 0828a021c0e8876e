"""``python -m rlmem.swarm train`` without torch: options, errors, the chunk, the loop, the curve."""

from __future__ import annotations

import json
import math
import signal
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmem.cli.swarm import COMMANDS, run
from rlmem.cli.swarm_options import HELP
from rlmem.core.plan import Budget
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.report.plot import sparkline
from rlmem.swarm import checkpoint, chunking, curve, devices, training
from rlmem.swarm.settings import RUNGS, Settings
from rlmem.units import GIB, parse_size


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(arguments: str, capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What an invocation says on standard error; it must end with ``code`` and without a traceback."""
    assert run(arguments.split()) == code
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


# --- the shell -------------------------------------------------------------------------------------------------------


def test_help_lists_the_commands_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "python -m rlmem.swarm train --agents 20_000" in text


def test_every_field_of_the_settings_is_an_option_with_a_sentence_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for row in fields(Settings):
        assert f"--{row.name.replace('_', '-')}" in text
        assert HELP[row.name]
    assert all(rung.name in HELP["rung"] for rung in RUNGS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("trian", "did you mean 'train'?"),
        ("train --agents many", "'--agents': 'many' is not a whole number"),
        ("train --agents 0", "agents: expected at least 1, got 0"),
        ("train --agents 1.5", "not a whole number"),
        ("train --agents=-3", "agents: expected at least 1, got -3"),
        ("train --agents 10", "minibatches: 20 need as many agents, there are 10"),
        ("train --rung gyros", "did you mean 'gyro'?"),
        ("train --device tpu", "--device 'tpu' is not one of cpu, cuda, cuda:0"),
        ("train --device cuda:x", "is not one of cpu, cuda"),
        ("train --history kept", "'kept' is not one of"),
        ("train --vram 16GB", "--vram is for --device cuda"),
        ("train --device cuda --ram 16GB", "--ram is for --device cpu"),
        ("train --learning-rate 0", "learning_rate: expected more than 0"),
        ("train --learning-rate nan", "learning_rate: expected more than 0"),
        ("train --ae-share 2", "ae_share: expected a share"),
        ("train --chunk 0", "chunk: expected at least 1"),
        ("train --chunk automatic", "'--chunk'"),
        ("train --every 0", "--every 0: give at least 1"),
        ("train --no-checkpoint --checkpoint a.pt", "contradicts"),
        ("train --curve reward.png", "must end in .csv or .svg"),
        ("train --curve nowhere/reward.csv", "no folder nowhere"),
        ("train extra", "unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(arguments, capsys, 2)
    assert expected in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("arguments", ["train", "train --resume swarm.pt"])
def test_without_torch_the_error_says_how_to_get_it(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "-m pip install torch" in said(arguments, capsys, 3)


def test_the_package_names_what_it_offers_and_nothing_else() -> None:
    import rlmem.swarm

    assert rlmem.swarm.Settings is Settings
    assert "SwarmRun" in dir(rlmem.swarm)
    with pytest.raises(AttributeError):
        _ = rlmem.swarm.Nothing


# --- the chunk -------------------------------------------------------------------------------------------------------


def planner(*, ram: str | None = None, vram: str | None = None) -> Planner:
    limits = {"ram_bytes": parse_size(ram) if ram else None, "vram_bytes": parse_size(vram) if vram else None}
    return Planner(Budget(name="given", ram_source=f"--ram {ram}", vram_source=f"--vram {vram}", **limits))


def test_with_room_the_chunk_is_the_usual_one() -> None:
    fitted = chunking.choose_chunk(Settings(agents=20_000), planner(ram="64GB"))
    assert (fitted.settings.chunk, fitted.why) == (32, "the usual one")
    assert fitted.plan.verdict == "fits"


def test_a_chunk_is_never_more_than_a_minibatch() -> None:
    assert chunking.choose_chunk(Settings(agents=500), planner(ram="64GB")).settings.chunk == 25


def test_under_a_tight_cap_the_chunk_is_smaller_and_its_upper_bound_fits() -> None:
    roomy = chunking.choose_chunk(Settings(agents=20_000), planner(ram="64GB"))
    cap = roomy.peak.high_bytes - 1
    fitted = chunking.choose_chunk(Settings(agents=20_000), planner(ram=str(cap)))
    assert chunking.SMALLEST <= fitted.settings.chunk < 32
    assert fitted.why == "the largest under the cap"
    assert fitted.peak.high_bytes <= cap


def test_a_gpu_gets_a_large_chunk_and_some_room_is_left() -> None:
    asked = Settings(agents=1_000_000, device="cuda")
    free = chunking.choose_chunk(asked, planner(vram="139GiB"))
    assert free.settings.chunk == 4096
    fitted = chunking.choose_chunk(asked, planner(vram="16GB"))
    assert 1024 <= fitted.settings.chunk < 4096
    assert fitted.peak.expected_bytes * (1 + chunking.CUDA_SPARE) <= 16e9
    assert fitted.peak.device == "vram"


def test_a_chunk_that_was_asked_for_is_taken() -> None:
    fitted = chunking.choose_chunk(Settings(agents=20_000, chunk=33), planner(ram="64GB"), 33)
    assert (fitted.settings.chunk, fitted.why) == (33, "as asked")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_cannot_fit_names_the_smallest_cap_and_that_one_works(device: str) -> None:
    asked = Settings(agents=1_000_000, device=device)
    option = "vram" if device == "cuda" else "ram"
    with pytest.raises(chunking.DoesNotFitError) as caught:
        chunking.choose_chunk(asked, planner(**{option: "1GB"}))
    text = str(caught.value)
    assert caught.value.exit_code == 1
    assert f"pass --{option} " in text
    assert f"(--{option} 1GB)" in text
    smallest = text.rpartition(f"--{option} ")[2].partition(",")[0]
    assert chunking.choose_chunk(asked, planner(**{option: smallest})).settings.chunk >= chunking.SMALLEST


def test_a_chunk_asked_for_that_does_not_fit_is_an_error_too() -> None:
    with pytest.raises(chunking.DoesNotFitError, match=r"with a chunk of 4,096.*a smaller chunk"):
        chunking.choose_chunk(Settings(agents=8192, minibatches=1, chunk=4096), planner(ram="2GB"), 4096)


def test_a_rung_that_takes_all_samples_at_once_has_no_chunk() -> None:
    asked = Settings(agents=200, minibatches=1, rung="naive")
    fitted = chunking.choose_chunk(asked, planner(ram="64GB"))
    assert fitted.why == "all samples at once on this rung"
    with pytest.raises(chunking.DoesNotFitError, match="a higher rung"):
        chunking.choose_chunk(replace(asked, agents=20_000), planner(ram="16GB"))


def test_stored_bytes_are_those_of_the_full_rollout() -> None:
    fitted = chunking.choose_chunk(Settings(agents=1000), planner(ram="64GB"))
    # 990 samples × 3 accelerations × 2 B, 4 actions and three scalars a step in 4 B; targets once.
    assert fitted.stored_bytes / 1000 == pytest.approx(990 * 3 * 2 + 100 * 7 * 4, abs=16)


@settings(max_examples=50, deadline=None)
@given(agents=st.integers(1, 10**7), minibatches=st.integers(1, 64), cuda=st.booleans())
def test_candidates_fall_and_never_pass_a_minibatch(agents: int, minibatches: int, cuda: bool) -> None:
    asked = Settings(agents=agents, minibatches=min(minibatches, agents), device="cuda" if cuda else "cpu")
    sizes = list(chunking.candidates(asked))
    assert sizes == sorted(set(sizes), reverse=True)
    assert 1 <= sizes[0] <= math.ceil(agents / asked.minibatches)
    assert sizes[-1] >= min(sizes[0], chunking.SMALLEST)
    assert sizes[-1] <= max(chunking.SMALLEST, 1)


@given(st.integers(1, 10**13))
def test_a_size_to_type_is_not_below_and_close(nbytes: int) -> None:
    size = parse_size(chunking.size_above(nbytes))
    assert nbytes <= size <= max(nbytes * 1.11, nbytes + 10**5)


# --- the loop --------------------------------------------------------------------------------------------------------


@dataclass
class Iterated:
    """What an iteration came to, as the real one says it."""

    number: int
    reward: float = 0.5
    policy_loss: float = 0.1
    value_loss: float = 0.2
    ae_loss: float = 0.3
    seconds: dict[str, float] = field(default_factory=lambda: {"collect": 0.5, "update": 1.0})
    stored_bytes: int = 100


class NotFinite(AnalysisError):  # noqa: N818  # the real one's name
    """As the real one is called."""


class FakeRun:
    """Counts iterations; ``inside`` may raise between two chunks."""

    def __init__(self, inside: Callable[[int, int], None] = lambda iteration, chunk: None) -> None:
        self.iteration, self.inside = 0, inside

    def iterate(self, tell: Callable[[str, int, int], None]) -> Iterated:
        for chunk in range(3):
            tell("update", chunk, 3)
            self.inside(self.iteration + 1, chunk)
        self.iteration += 1
        return Iterated(number=self.iteration)

    def state(self) -> dict[str, Any]:
        return {"iteration": self.iteration}


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.warnings: list[str] = []

    def over(self, row: Mapping[str, Any]) -> None:
        self.rows.append(row)

    def inside(self, phase: str, done: int, total: int) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[checkpoint.Checkpoint]:
    """Checkpoints that were written."""
    written: list[checkpoint.Checkpoint] = []
    monkeypatch.setattr(training, "save", lambda path, what: written.append(what))
    return written


def make(run_: FakeRun, *, iterations: int = 5, **more: Any) -> training.Training:
    wanted = Settings(agents=100, iterations=iterations)
    return training.Training(run_, wanted, path=Path("swarm.pt"), **more)  # type: ignore[arg-type]


def nothing(row: Mapping[str, Any]) -> None:
    """A log that nobody reads."""


def test_a_run_that_ends_well_writes_nothing_unless_asked(saved: list[checkpoint.Checkpoint]) -> None:
    told = Told()
    ended = make(FakeRun()).train(told, nothing)
    assert (ended.status, ended.exit_code, ended.kept) == ("done", 0, False)
    assert [row["iteration"] for row in told.rows] == [1, 2, 3, 4, 5]
    assert saved == []


def test_a_checkpoint_is_written_every_n_iterations_and_at_the_end(saved: list[checkpoint.Checkpoint]) -> None:
    ended = make(FakeRun(), every=2).train(Told(), nothing, keep_last=True)
    assert [each.iteration for each in saved] == [2, 4, 5]
    assert [len(each.rows) for each in saved] == [2, 4, 5]
    assert ended.kept


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_at_the_next_chunk_and_keeps_the_last_whole_iteration(
    number: signal.Signals, saved: list[checkpoint.Checkpoint]
) -> None:
    seen: list[tuple[int, int]] = []

    def inside(iteration: int, chunk: int) -> None:
        seen.append((iteration, chunk))
        if (iteration, chunk) == (3, 0):
            signal.raise_signal(number)

    before = signal.getsignal(number)
    ended = make(FakeRun(inside)).train(Told(), nothing)
    assert (ended.status, ended.exit_code, ended.kept) == ("interrupted", 128 + number, True)
    assert ended.text == number.name
    assert seen[-1] == (3, 0)
    assert [each.iteration for each in saved] == [2]
    assert signal.getsignal(number) is before


def test_a_signal_before_the_first_iteration_is_over_keeps_the_start(saved: list[checkpoint.Checkpoint]) -> None:
    ended = make(FakeRun(lambda *_: signal.raise_signal(signal.SIGINT))).train(Told(), nothing)
    assert ended.exit_code == 130
    assert [each.iteration for each in saved] == [0]


def test_what_is_on_disk_is_not_written_again(saved: list[checkpoint.Checkpoint]) -> None:
    ended = make(FakeRun(lambda *_: signal.raise_signal(signal.SIGINT)), on_disk=True).train(Told(), nothing)
    assert ended.kept
    assert saved == []


def test_a_second_signal_ends_at_once_and_writes_nothing(saved: list[checkpoint.Checkpoint]) -> None:
    def inside(iteration: int, chunk: int) -> None:
        if iteration == 2:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("still here")

    ended = make(FakeRun(inside)).train(Told(), nothing)
    assert (ended.status, ended.exit_code, ended.kept) == ("interrupted", 128 + signal.SIGTERM, False)
    assert saved == []


def test_signals_wait_while_a_checkpoint_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def save(path: Path, what: checkpoint.Checkpoint) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        written.append(what.iteration)

    monkeypatch.setattr(training, "save", save)
    ended = make(FakeRun(), every=1).train(Told(), nothing)
    assert (ended.status, ended.kept, written) == ("interrupted", True, [1])


def test_an_ignored_signal_stays_ignored(saved: list[checkpoint.Checkpoint]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended = make(FakeRun(lambda *_: signal.raise_signal(signal.SIGHUP))).train(Told(), nothing)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.status == "done"


def test_a_number_that_is_none_keeps_the_iteration_before_and_says_where(saved: list[checkpoint.Checkpoint]) -> None:
    def inside(iteration: int, chunk: int) -> None:
        if (iteration, chunk) == (4, 1):
            raise NotFinite("agent 17, step 3: the reward is nan")

    ended = make(FakeRun(inside)).train(Told(), nothing)
    assert (ended.status, ended.exit_code) == ("not-finite", 3)
    assert ended.text == "iteration 4, agent 17, step 3: the reward is nan"
    assert [each.iteration for each in saved] == [3]


def test_networks_ruined_by_an_update_are_not_kept(saved: list[checkpoint.Checkpoint]) -> None:
    run_ = FakeRun()
    ended = make(run_, is_finite=lambda: run_.iteration < 3).train(Told(), nothing)
    assert (ended.status, ended.exit_code, ended.kept) == ("not-finite", 3, True)
    assert "iteration 3, update" in ended.text
    assert [(each.iteration, len(each.rows)) for each in saved] == [(2, 2)]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 12 bytes"),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory.\nTried to allocate"),
    ],
)
def test_out_of_memory_keeps_what_was_learnt(error: Exception, saved: list[checkpoint.Checkpoint]) -> None:
    def inside(iteration: int, chunk: int) -> None:
        if iteration == 2:
            raise error

    ended = make(FakeRun(inside)).train(Told(), nothing)
    assert (ended.status, ended.exit_code, ended.kept) == ("out-of-memory", 1, True)
    assert [each.iteration for each in saved] == [1]
    assert "\n" not in ended.text


def test_an_error_of_our_own_is_not_hidden_but_what_was_learnt_is_kept(saved: list[checkpoint.Checkpoint]) -> None:
    def inside(iteration: int, chunk: int) -> None:
        if iteration == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(FakeRun(inside)).train(Told(), nothing)
    assert [each.iteration for each in saved] == [2]


def test_a_full_disk_is_a_warning_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def save(path: Path, what: checkpoint.Checkpoint) -> None:
        raise AnalysisError("cannot write the checkpoint swarm.pt: No space left on device")

    monkeypatch.setattr(training, "save", save)
    told = Told()
    ended = make(FakeRun(), every=2).train(told, nothing, keep_last=True)
    assert len(told.rows) == 5
    assert len(told.warnings) == 3
    assert (ended.status, ended.exit_code, ended.kept) == ("done", 3, False)


def test_the_log_has_a_line_an_iteration_and_goes_on_when_resumed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for append in (False, True):
        with training.log_to(path, append=append) as log:
            make(FakeRun(), iterations=2).train(Told(), log)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 1, 2]
    assert rows[0]["phases"] == {"collect": 0.5, "update": 1.0}
    with pytest.raises(UsageError, match="--log"), training.log_to(tmp_path, append=False):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_log_that_cannot_be_written_is_said_once_and_checkpoints_go_on(saved: list[checkpoint.Checkpoint]) -> None:
    told = Told()
    with training.log_to(Path("/dev/full"), append=True) as log:
        ended = make(FakeRun(), every=1).train(told, log)
    assert ended.status == "done"
    assert told.warnings == ["--log /dev/full: No space left on device"]
    assert len(saved) == 5


# --- devices ---------------------------------------------------------------------------------------------------------


class FakeCuda:
    """Two GPUs of 80 GB as torch shows them."""

    def __init__(self, count: int = 2) -> None:
        self.count, self.current, self.fraction = count, 0, 0.0

    def is_available(self) -> bool:
        return self.count > 0

    def device_count(self) -> int:
        return self.count

    def current_device(self) -> int:
        return self.current

    def set_device(self, index: int) -> None:
        self.current = index

    def get_device_name(self, device: Any) -> str:
        return "Fake H80"

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return 70 * 10**9, 80 * 10**9

    def set_per_process_memory_fraction(self, fraction: float, device: Any) -> None:
        self.fraction = fraction

    def max_memory_allocated(self, device: Any) -> int:
        return 12_345


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch = SimpleNamespace(
        __version__="9.9",
        cuda=FakeCuda(),
        backends=SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True)),
        device=lambda kind, index=None: SimpleNamespace(type=kind, index=index),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_a_gpu_is_found_by_its_number_and_made_the_current_one(fake_torch: Any) -> None:
    assert devices.find_device("cuda:1").index == 1
    assert fake_torch.cuda.current == 1
    assert devices.find_device("cuda").index == 1
    assert devices.find_device("cpu").type == "cpu"


def test_a_gpu_that_is_not_there_is_told_with_those_that_are(fake_torch: Any) -> None:
    with pytest.raises(UsageError, match=r"cuda:2: no such GPU; there are: cpu, cuda:0 \(Fake H80\), cuda:1"):
        devices.find_device("cuda:2")
    fake_torch.cuda.count = 0
    with pytest.raises(UsageError, match="no GPU can be used here; there is: cpu"):
        devices.find_device("cuda")


def test_torch_is_held_to_the_cap_and_a_cap_beyond_the_card_is_refused(fake_torch: Any) -> None:
    device = devices.find_device("cuda")
    devices.cap_vram(device, 16 * 10**9)
    assert fake_torch.cuda.fraction == pytest.approx(0.2)
    with pytest.raises(UsageError, match=r"are more than the 74.5 GiB"):
        devices.cap_vram(device, 200 * 10**9)
    assert devices.peak_bytes(device) == (12_345, "torch.cuda.max_memory_allocated")


def test_on_a_gpu_a_cap_too_small_is_told_before_anything_is_built(
    fake_torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said("train --agents 1M --device cuda --vram 2GB", capsys, 1)
    assert "(--vram 2GB); pass --vram " in text
    assert fake_torch.cuda.fraction == pytest.approx(0.025)


# --- where it is kept ------------------------------------------------------------------------------------------------


def test_a_run_that_was_kept_is_not_written_over_by_the_next(tmp_path: Path) -> None:
    assert checkpoint.free_name(tmp_path).name == "swarm.pt"
    (tmp_path / "swarm.pt").touch()
    assert checkpoint.free_name(tmp_path).name == "swarm-2.pt"
    (tmp_path / "swarm-2.pt").symlink_to(tmp_path / "gone")
    assert checkpoint.free_name(tmp_path).name == "swarm-3.pt"


def test_a_place_that_cannot_be_written_is_told_before_the_training(tmp_path: Path) -> None:
    assert checkpoint.check_writable(tmp_path) == tmp_path / "swarm.pt"
    assert list(tmp_path.iterdir()) == []
    script = tmp_path / "train.py"
    script.write_text("print('mine')\n")
    with pytest.raises(UsageError, match="exists and is not a checkpoint"):
        checkpoint.check_writable(script)
    with pytest.raises(UsageError, match="no folder"):
        checkpoint.check_writable(tmp_path / "runs" / "a.pt")
    with pytest.raises(UsageError, match="no folder"):
        checkpoint.check_writable(script / "a.pt")


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that not even root can write to")
def test_a_folder_without_permission_is_told_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"cannot write the checkpoint /proc/swarm.pt.*--no-checkpoint"):
        checkpoint.check_writable(Path("/proc"))


def test_what_may_change_on_resume_is_taken_and_the_rest_is_refused() -> None:
    kept = Settings(agents=500, iterations=10)
    changed = checkpoint.merged(Path("a.pt"), kept, {"iterations": 20, "device": "cuda", "chunk": 8, "agents": 500})
    assert changed == replace(kept, iterations=20, device="cuda", chunk=8)
    with pytest.raises(UsageError, match=r"--learning-rate 0.1 contradicts a.pt, which was trained with 0.001"):
        checkpoint.merged(Path("a.pt"), kept, {"learning_rate": 0.1})


# --- the curve -------------------------------------------------------------------------------------------------------


def rows(*rewards: float) -> list[dict[str, Any]]:
    return [
        {"iteration": number, "reward": reward, "ae_loss": math.nan, "seconds": 1.0}
        for number, reward in enumerate(rewards, start=1)
    ]


def test_the_csv_has_a_heading_and_a_line_an_iteration() -> None:
    lines = curve.table(rows(0.5, 0.75)).splitlines()
    assert lines[0].split(",") == list(curve.COLUMNS)
    assert lines[2].startswith("2,0.75,")


@pytest.mark.parametrize("rewards", [(), (0.5,), (0.5, 0.5), (0.1, 0.9, 0.4), tuple(range(500))])
def test_the_svg_is_well_formed_however_many_points_there_are(rewards: tuple[float, ...]) -> None:
    text = curve.draw_curve(Path("a.svg"), rows(*rewards), "1 < 2 & 3")
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "nan" not in text
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len((lines[1].get("points") or "").split()) == len(rewards)


def test_a_sparkline_is_as_wide_as_asked_and_can_be_plain() -> None:
    assert len(sparkline(list(range(1000)), width=40)) == 40
    assert sparkline([0, 1, 0.5], plain=True).isascii()


def test_json_has_no_nan() -> None:
    assert json.loads(curve.json_line(rows(0.5)[0]))["ae_loss"] is None


# --- what is shown ---------------------------------------------------------------------------------------------------


def fitted() -> chunking.Fitted:
    return chunking.choose_chunk(Settings(agents=20_000), planner(ram="16GB"))


def test_the_plan_says_what_an_agent_costs_the_peak_and_the_verdict() -> None:
    from rlmem.app.swarm import plan_part, settings_part
    from rlmem.report.render import render_view
    from rlmem.report.swarm import plan_view

    chosen = fitted()
    settings = settings_part(chosen.settings)
    text = render_view(plan_part(chosen), lambda plan: plan_view(settings, plan), "text", None)
    assert text.startswith("RAM peaks at ")
    assert "fits" in text.splitlines()[0]
    assert "20,000 agents × 100 steps" in text
    assert "32 agents, 3,200 samples at once" in text
    assert "--ram 16GB" in text


def test_the_result_compares_the_peak_with_the_plan_and_draws_the_rewards() -> None:
    from rlmem.app.swarm import train_document
    from rlmem.documents.contract import to_json
    from rlmem.report.render import render_view
    from rlmem.report.swarm import train_view

    done = [training.row_of(Iterated(number=n, reward=n / 10), Settings(), 2.0) for n in (1, 2, 3)]  # type: ignore[arg-type]
    document = train_document(
        fitted(),
        done,
        first=1,
        status="done",
        error=None,
        peak=(GIB, "VmHWM"),
        checkpoint="a.pt",
    )
    assert json.loads(to_json(document))["peak"]["nbytes"] == GIB
    assert document.agent_steps_per_s == 1_000_000
    text = render_view(document, train_view, "text", None)
    assert "3 of 50, 1 of them before" in text
    assert "0.1000 → 0.3000  ▁▅█" in text
    assert "1.00 GiB measured (VmHWM)" in text
    assert "checkpoint" in text
    assert "curve" not in text


def test_progress_is_a_line_an_iteration_when_piped_and_one_inside_a_long_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlmem.report import swarm as report
    from rlmem.report.progress import iterations

    now = [0.0]
    monkeypatch.setattr(report.time, "monotonic", lambda: now[0])
    row = training.row_of(Iterated(number=3), Settings(agents=100), 1.0)  # type: ignore[arg-type]
    with iterations(5, "training", done=2) as lines:
        shown = report.Shown(lines, live=False)
        for now[0] in (0.5, 1.9, 2.5, 3.0, 18.0):
            shown.inside("update", 40, 100)
        shown.over(row)
        shown.warn("the disk is full")
    assert capsys.readouterr().err.splitlines() == [
        "[3/5] … update, 40 of 100",
        "[3/5] … update, 40 of 100",
        "[3/5] reward 0.5000, autoencoder 0.3, 10,000 agent-steps/s, 1.0 s",
        "warning: the disk is full",
    ]


def test_a_reader_that_went_away_does_not_end_a_training() -> None:
    from rlmem.report.progress import iterations

    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    with iterations(2, "training", stream=Closed()) as lines:  # type: ignore[arg-type]
        lines.over("reward 1")


def test_the_peak_of_this_process_is_known() -> None:
    nbytes, how = devices.own_peak_bytes()
    assert nbytes is not None
    assert nbytes > 10**6
    assert how in {"VmHWM", "ru_maxrss"}
