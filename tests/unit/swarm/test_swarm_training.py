"""``python -m rlmem.swarm train`` for real: learns, stops, goes on bit for bit, and says what is wrong."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.errors import AnalysisError

torch = pytest.importorskip("torch")

from rlmem.cli.swarm import run  # noqa: E402
from rlmem.swarm import SwarmRun, checkpoint  # noqa: E402
from rlmem.swarm.settings import Settings  # noqa: E402

pytestmark = pytest.mark.truth

SMALL = "--agents 26 --steps 7 --minibatches 3 --chunk 4 --seed 5"
TINY = Settings(agents=26, steps=7, minibatches=3, chunk=4, seed=5)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(arguments: str) -> int:
    return run(["train", *shlex.split(arguments)])


def said(arguments: str, capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What an invocation says on standard error; it must end with ``code`` and without a traceback."""
    assert train(arguments) == code
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


def same(left: Any, right: Any) -> bool:
    """Equal to the last bit, tensors included."""
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


# --- a run from end to end -------------------------------------------------------------------------------------------


def test_a_run_prints_plan_progress_and_result_and_writes_what_was_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert train(f"{SMALL} --iterations 3 --curve reward.svg --log log.jsonl") == 0
    out = capsys.readouterr()
    assert out.out.startswith("RAM peaks at ")
    assert "4 agents, 28 samples at once (as asked)" in out.out
    assert "3 of 3" in out.out
    assert "measured (VmHWM)" in out.out or sys.platform != "linux"
    assert [line.split("]")[0] for line in out.err.splitlines()] == ["[1/3", "[2/3", "[3/3"]
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["log.jsonl", "reward.svg"]
    assert [json.loads(line)["iteration"] for line in Path("log.jsonl").read_text().splitlines()] == [1, 2, 3]


def test_json_is_one_document_and_says_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(f"{SMALL} --iterations 2 --json --quiet --curve reward.csv --checkpoint run.pt") == 0
    out = capsys.readouterr()
    document = json.loads(out.out)
    assert out.err == ""
    assert (document["schema"], document["status"]) == ("rlmem.swarm-train/1", "done")
    assert document["checkpoint"] == "run.pt"
    assert [row["iteration"] for row in document["iterations"]] == [1, 2]
    assert document["plan"]["verdict"] == "fits"
    assert document["settings"]["agents"] == 26
    assert document["peak"]["nbytes"] > 10**7
    # The targets of an episode are part of the plan, and live with the drones.
    assert document["stored_bytes"] / 26 == pytest.approx(document["plan"]["stored_per_agent_bytes"], abs=16)
    assert len(Path("reward.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("rung", ["naive", "no-grad", "preallocated", "chunked", "stream", "half", "resimulated"])
def test_every_rung_trains_from_the_command(rung: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(f"{SMALL} --iterations 1 --rung {rung} --json --quiet") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["plan"]["chunk"] is None) == (rung in {"naive", "no-grad", "preallocated"})


def test_the_package_offers_what_it_names() -> None:
    import rlmem.swarm

    assert all(getattr(rlmem.swarm, name) is not None for name in rlmem.swarm.__all__)


# --- stopped and resumed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("history", ["reset", "carry"])
@pytest.mark.parametrize("rung", ["gyro", "chunked"])
def test_stopped_between_any_two_chunks_a_run_goes_on_bit_for_bit(history: str, rung: str) -> None:
    settings = Settings(agents=13, steps=5, minibatches=3, chunk=2, seed=2, history=history, rung=rung)
    whole = SwarmRun(settings)
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    for _ in range(3):
        whole.iterate(count)
    for stop in {1, 2, calls // 3, calls // 3 + 1, calls // 2, calls - 1, calls}:
        left = stop
        stopped = SwarmRun(settings)

        def tell(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            while True:
                stopped.iterate(tell)
        resumed = SwarmRun(settings)
        resumed.load(stopped.state())
        assert resumed.iteration == stopped.iteration
        while resumed.iteration < 3:
            resumed.iterate()
        assert same(resumed.state(), whole.state()), stop


class Child:
    """A real process that trains, and can be stopped when it is far enough."""

    def __init__(self, arguments: str, folder: Path) -> None:
        source = str(Path(checkpoint.__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlmem.swarm", "train", *shlex.split(arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self, number: signal.Signals, after: int) -> tuple[int, str]:
        """The exit code, and what was said after the signal."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith(f"[{after}/") and "…" not in line:
                break
        self.process.send_signal(number)
        return self.end()

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=300)
        assert "Traceback" not in err
        return self.process.returncode, err


@pytest.mark.parametrize(
    ("number", "history"), [pytest.param(signal.SIGINT, "reset", marks=pytest.mark.long), (signal.SIGTERM, "carry")]
)
def test_a_process_that_is_interrupted_and_resumed_learns_the_very_same(
    number: signal.Signals, history: str, tmp_path: Path
) -> None:
    what = f"--agents 60 --steps 12 --minibatches 3 --chunk 7 --history {history}"
    code, err = Child(f"{what} --iterations 100000", tmp_path).stop(number, after=2)
    assert code == 128 + number
    assert f"interrupted ({number.name})" in err
    assert "go on with: python -m rlmem.swarm train --resume swarm.pt" in err
    kept = checkpoint.load(tmp_path / "swarm.pt")
    assert kept.iteration >= 2
    assert len(kept.rows) == kept.iteration
    last = kept.iteration + 2
    assert Child(f"--resume swarm.pt --iterations {last} --checkpoint resumed.pt", tmp_path).end()[0] == 0
    assert train(f"{what} --iterations {last} --checkpoint whole.pt --quiet") == 0
    resumed, whole = (checkpoint.load(tmp_path / f"{name}.pt") for name in ("resumed", "whole"))
    assert resumed.settings == whole.settings
    assert len(resumed.rows) == last
    assert same(resumed.state, whole.state)
    assert [row["reward"] for row in resumed.rows] == [row["reward"] for row in whole.rows]
    assert {path.name for path in tmp_path.glob("*.pt")} == {"swarm.pt", "resumed.pt", "whole.pt"}
    assert not list(tmp_path.glob(".*.pt-*"))


def test_a_run_goes_on_with_another_chunk_and_says_that_bits_may_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(f"{SMALL} --iterations 1 --checkpoint a.pt --quiet") == 0
    text = said("--resume a.pt --iterations 2 --chunk 9", capsys, 0)
    assert "note: chunk was 4 and is 9" in text
    assert train(f"{SMALL} --iterations 2 --checkpoint b.pt --quiet") == 0
    # Resumed without --checkpoint or --every, a run that ends well writes nothing.
    assert checkpoint.load(Path("a.pt")).iteration == 1
    assert train("--resume a.pt --iterations 2 --chunk 9 --checkpoint c.pt --quiet") == 0
    left, right = (tensors(checkpoint.load(Path(name)).state["modules"]) for name in ("b.pt", "c.pt"))
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(left, right, strict=True))


def test_a_finished_run_has_nothing_left_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(f"{SMALL} --iterations 2 --checkpoint a.pt --quiet") == 0
    before = Path("a.pt").read_bytes()
    assert train("--resume a.pt") == 0
    assert "2 of 2 iterations are done, nothing is left to do" in capsys.readouterr().out
    assert train("--resume a.pt --json") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "nothing-to-do"
    assert Path("a.pt").read_bytes() == before
    assert train("--resume . --iterations 3 --quiet") == 2  # no swarm.pt in it


# --- numbers that are none -------------------------------------------------------------------------------------------


def test_nan_from_the_environment_stops_with_iteration_agent_and_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlmem.swarm.physics import Drones

    assert train(f"{SMALL} --iterations 1 --checkpoint clean.pt --quiet") == 0
    fly, resets = Drones.step, 0
    reset = Drones.reset
    steps: dict[int, int] = {}

    def counted(self: Any, generator: Any) -> None:
        nonlocal resets
        resets += 1
        steps.clear()
        reset(self, generator)

    def step(self: Any, actions: Any, agents: slice, out: Any) -> Any:
        rewards = fly(self, actions, agents, out)
        number = steps[agents.start] = steps.get(agents.start, -1) + 1
        if resets == 2 and agents.start <= 21 < agents.stop and number == 3:
            rewards[21 - agents.start] = float("nan")
        return rewards

    monkeypatch.setattr(Drones, "step", step)
    monkeypatch.setattr(Drones, "reset", counted)
    text = said(f"{SMALL} --iterations 5", capsys, 3)
    assert "iteration 2, agent 21, step 3: the reward is nan" in text
    assert "the run after iteration 1 is in swarm.pt" in text
    assert same(checkpoint.load(Path("swarm.pt")).state, checkpoint.load(Path("clean.pt")).state)


@pytest.mark.parametrize("rate", ["1e30", "inf"])
def test_an_absurd_learning_rate_stops_the_run_and_what_is_kept_is_finite(
    rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(f"{SMALL} --iterations 9 --learning-rate {rate}", capsys, 3)
    assert "iteration " in text
    kept = checkpoint.load(Path("swarm.pt"))
    assert all(bool(tensor.isfinite().all()) for tensor in tensors(kept.state["modules"]))
    assert kept.iteration < 9


# --- bad checkpoints, devices, caps ----------------------------------------------------------------------------------


@pytest.fixture
def kept() -> Path:
    path = Path("kept.pt")
    state = SwarmRun(TINY).state()
    checkpoint.save(path, checkpoint.Checkpoint(settings=TINY, state=state))
    return path


def test_what_is_saved_is_what_is_loaded(kept: Path) -> None:
    loaded = checkpoint.load(kept)
    assert loaded.settings == TINY
    assert same(loaded.state, SwarmRun(TINY).state())
    mask = os.umask(0o022)
    os.umask(mask)
    assert kept.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_checkpoint_cut_short_is_told_wherever_it_ends(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = kept.read_bytes()
    for length in (0, 3, 4, 100, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:length])
        text = said("--resume kept.pt", capsys, 2)
        assert "cut short" in text or "not a checkpoint" in text


def test_a_flipped_bit_in_a_parameter_is_told(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = kept.read_bytes()
    values = tensors(checkpoint.load(kept).state["modules"])[0].numpy().tobytes()
    place = whole.index(values)
    for offset in random.Random(0).sample(range(len(values)), 5):
        broken = bytearray(whole)
        broken[place + offset] ^= 1
        kept.write_bytes(broken)
        assert "does not match its checksum" in said("--resume kept.pt", capsys, 2)


def test_what_is_no_checkpoint_of_a_swarm_is_told(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in said("--resume gone.pt", capsys, 2)
    Path("script.pt").write_text("import os\n")
    assert "not a checkpoint" in said("--resume script.pt", capsys, 2)
    torch.save({"model": torch.zeros(3)}, "other.pt")
    assert "not a checkpoint" in said("--resume other.pt", capsys, 2)
    torch.save(torch.nn.Linear(2, 2), "code.pt")
    assert "damaged or cut short" in said("--resume code.pt", capsys, 2)
    body = torch.load(kept, weights_only=True)
    torch.save({**body, "schema": "rlmem.swarm/9"}, "newer.pt")
    assert "written as rlmem.swarm/9" in said("--resume newer.pt", capsys, 2)
    torch.save({**body, "settings": {**body["settings"], "wings": 4}}, "wings.pt")
    assert "unknown settings wings" in said("--resume wings.pt", capsys, 2)
    torch.save({**body, "state": {**body["state"], "modules": []}}, "empty.pt")
    assert "does not hold a run of these settings" in said("--resume empty.pt --no-checkpoint", capsys, 2)


def test_a_checkpoint_of_other_settings_is_refused(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said("--resume kept.pt --agents 27", capsys, 2)
    assert "--agents 27 contradicts kept.pt, which was trained with 26" in text
    assert said("--resume kept.pt --agents 26 --iterations 1 --quiet --no-checkpoint", capsys, 0) == ""


def test_a_write_that_fails_leaves_the_checkpoint_before_it_whole(
    kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = kept.read_bytes()

    def half(body: Any, stream: Any) -> None:
        stream.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(AnalysisError, match=r"cannot write the checkpoint kept.pt: No space left"):
        checkpoint.save(kept, checkpoint.Checkpoint(settings=TINY, state={"iteration": 1}))
    assert kept.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".pt" or path.name.startswith(".")] == [
        "kept.pt"
    ]


def test_a_device_that_is_not_there_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(f"{SMALL} --device cuda:99", capsys, 2)
    assert "there is: cpu" in text or "there are: cpu, cuda:0" in text


def test_a_cap_too_small_says_the_smallest_that_works(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = said("--agents 100_000 --ram 500MB", capsys, 1)
    assert "need at least" in text
    assert "pass --ram " in text
    assert not list(tmp_path.glob("*.pt"))


def test_a_place_that_cannot_be_written_ends_the_run_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no folder runs" in said(f"{SMALL} --checkpoint runs/a.pt", capsys, 2)
    assert "--log" in said(f"{SMALL} --log runs/log.jsonl", capsys, 2)


def test_settings_that_exclude_each_other_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "resimulated" in said(f"{SMALL} --rung resimulated --history carry", capsys, 2)
