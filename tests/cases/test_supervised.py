"""Real training under ``rlmem run``: checkpoints that load again, results that do not change, deaths that are explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.units import MIB

pytestmark = pytest.mark.truth
SRC = Path(__file__).parents[2] / "src"
#: DQN on an environment with 8 KiB observations: a buffer of 400 MB that fills by 16 KB a step.
PROGRAM = """
import hashlib, json, os, sys
import gymnasium, numpy, torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

class Wide(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2048,), dtype=numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}
    def observe(self):
        return self.np_random.random(2048, dtype=numpy.float32)
    def step(self, action):
        self.count += 1
        return self.observe(), float(action), self.count >= 50, False, {}

class StopAt(BaseCallback):
    def __init__(self, step, folder):
        super().__init__()
        self.step, self.folder = step, folder
    def _on_step(self):
        if self.num_timesteps < self.step:
            return True
        self.model.save(os.path.join(self.folder, "model.zip"))
        self.model.save_replay_buffer(os.path.join(self.folder, "replay_buffer.pkl"))
        return False

def digest(model):
    state = hashlib.sha256()
    for name, value in sorted(model.policy.state_dict().items()):
        state.update(name.encode() + value.numpy().tobytes())
    for name in ("observations", "next_observations", "actions", "rewards", "dones"):
        state.update(getattr(model.replay_buffer, name)[: model.replay_buffer.pos].tobytes())
    return state.hexdigest()

torch.set_num_threads(1)
model = DQN("MlpPolicy", Wide(), buffer_size=25_000, learning_starts=64, train_freq=16, batch_size=16,
            policy_kwargs=dict(net_arch=[32]), seed=7, device="cpu")
callback = StopAt(int(sys.argv[2]), sys.argv[3]) if len(sys.argv) > 2 else None
model.learn(int(sys.argv[1]), callback=callback)
print(json.dumps({"digest": digest(model), "steps": model.num_timesteps}))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), "RLMEM_DATA_DIR": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}


def under_rlmem(tmp_path: Path, options: list[str], *command: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "rlmem", "run", *options, "--json", "-o", str(report), "--", sys.executable, *command],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done, json.loads(report.read_text())


def test_a_checkpoint_under_pressure_loads_again_and_is_what_training_had(program: Path, tmp_path: Path) -> None:
    import numpy
    from stable_baselines3 import DQN

    folder = tmp_path / "checkpoints"
    options = ["--max-ram", "600MB", "--on-pressure", "checkpoint", "--checkpoint-to", str(folder), "--grace", "60"]
    done, document = under_rlmem(tmp_path, options, str(program), "100000")
    kinds = [event["kind"] for event in document["ended"]["events"]]
    assert [kind for kind in kinds if kind in {"checkpoint", "saved", "stop"}] == ["checkpoint", "saved", "stop"], done
    assert (document["status"], done.returncode) == ("stopped", 143)
    told = document["ended"]["checkpoint"]
    (saved,) = folder.iterdir()  # nothing unfinished beside it
    assert told["folder"] == str(saved)
    assert saved.name == f"step-{told['step']}"
    assert {path.name for path in saved.iterdir()} == {"checkpoint.json", "model.zip", "replay_buffer.pkl"}

    # The same training without rlmem, saved by SB3 itself at the same step.
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(
        [sys.executable, str(program), "100000", str(told["step"]), str(other)],
        env=environment(tmp_path),
        check=True,
        capture_output=True,
        timeout=300,
    )
    mine, theirs = (DQN.load(place / "model.zip", device="cpu") for place in (saved, other))
    for model, place in ((mine, saved), (theirs, other)):
        model.load_replay_buffer(place / "replay_buffer.pkl")
    assert mine.num_timesteps == theirs.num_timesteps == told["step"]
    for name, value in mine.policy.state_dict().items():
        assert numpy.array_equal(value.numpy(), theirs.policy.state_dict()[name].numpy()), name
    assert mine.replay_buffer.pos == theirs.replay_buffer.pos > 1000
    for name in ("observations", "next_observations", "actions", "rewards", "dones"):
        assert numpy.array_equal(getattr(mine.replay_buffer, name), getattr(theirs.replay_buffer, name)), name
    optimizers = [model.policy.optimizer.state_dict()["state"][0]["exp_avg"].numpy() for model in (mine, theirs)]
    assert numpy.array_equal(*optimizers)


def test_the_post_mortem_names_the_buffer_and_a_size_that_fits(program: Path, tmp_path: Path) -> None:
    done, document = under_rlmem(tmp_path, ["--max-ram", "600MB"], str(program), "100000")
    found = document["ended"]["postmortem"]
    assert found["kind"] == "limit", done.stderr
    assert document["peak"]["phase"] in {"collect", "update"}
    assert document["peak"]["step"] > 1000
    assert any("replay_buffer" in row["name"] for row in found["grown"])
    assert any("rows instead of 25,000" in text for text in found["changes"]), found
    assert any("replay_buffer" in held["path"] for held in document["peak"]["owners"])


CARTPOLE = """
import os, signal, sys
import gymnasium, torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

class Die(BaseCallback):
    def _on_step(self):
        if self.num_timesteps == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)
        return True

torch.set_num_threads(1)
model = DQN("MlpPolicy", gymnasium.make("CartPole-v1"), buffer_size=200_000, device="cpu")
model.learn(int(sys.argv[1]), callback=Die())
"""


def test_a_recorded_run_carries_what_is_predicted_for_it_also_when_it_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CARTPOLE)
    for steps, at, status in (("6000", "-1", "ok"), ("100000", "6000", "killed")):
        done, document = under_rlmem(tmp_path, ["--interval", "0.5"], str(script), steps, at)
        assert document["status"] == status, done.stderr
        assert "Traceback" not in done.stderr
        plan, peak = document["plan"], document["peak"]
        assert plan is not None, [moment.get("progress") for moment in document["moments"]]
        assert plan["target"]["spec"]["total_timesteps"] == int(steps)
        (top,) = [each for each in plan["peaks"] if each["is_peak"]]
        assert top["expected_bytes"] == pytest.approx(peak["nbytes"], rel=0.35)
        assert plan["machine"]["ram_bytes"] == peak["limit_bytes"] is not None
        assert set(document["versions"]) >= {"stable_baselines3", "torch", "gymnasium"}
        (main,) = peak["members"]
        assert (main["role"], str(script) in main["command"]) == ("main", True)
        assert main["rss_bytes"] == pytest.approx(peak["nbytes"], rel=0.35)

        # What the store has is the same: 'rlmem show' makes it from the facts that were kept.
        command = [sys.executable, "-m", "rlmem", "show", document["run"], "--json"]
        shown = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True)
        stored = json.loads(shown.stdout)
        assert (stored["plan"], stored["peak"]) == (plan, peak)


@pytest.mark.long
def test_a_model_that_was_only_loaded_has_no_training_predicted(tmp_path: Path) -> None:
    script = tmp_path / "evaluate.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import gymnasium, time
            from stable_baselines3 import DQN
            from stable_baselines3.common.evaluation import evaluate_policy
            env = gymnasium.make("CartPole-v1")
            model = DQN("MlpPolicy", env, buffer_size=1000, learning_starts=10, device="cpu")
            model._total_timesteps = 6000
            model.save({str(tmp_path / "m.zip")!r})
            model = DQN.load({str(tmp_path / "m.zip")!r}, env=env, device="cpu")
            end = time.monotonic() + 3
            while time.monotonic() < end: evaluate_policy(model, env, n_eval_episodes=1, warn=False)
            """
        )
    )
    done, document = under_rlmem(tmp_path, ["--interval", "0.5"], str(script))
    assert (document["status"], document["plan"]) == ("ok", None), done.stderr
    assert document["peak"]["members"]


@pytest.mark.long
def test_an_idle_guard_changes_no_result_by_a_bit(program: Path, tmp_path: Path) -> None:
    alone = subprocess.run(
        [sys.executable, str(program), "2000"],
        env=environment(tmp_path),
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    options = ["--max-ram", "100GB", "--on-pressure", "checkpoint", "--interval", "0.2"]
    guarded, document = under_rlmem(tmp_path, options, str(program), "2000")
    assert guarded.returncode == 0, guarded.stderr
    assert json.loads(guarded.stdout) == json.loads(alone.stdout)
    assert document["status"] == "ok"
    assert {row["phase"] for row in document["phases"]} & {"collect", "update"}


def test_a_loop_that_does_not_take_the_wish_is_stopped_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "stuck.py"
    stuck = "if self.count == 40: big = numpy.ones(700 << 20, dtype='u1'); import time; time.sleep(600)"
    path.write_text(PROGRAM.replace("self.count += 1", f"self.count += 1\n        {stuck}"))
    options = [
        "--max-ram",
        "700MB",
        "--on-pressure",
        "checkpoint",
        "--grace",
        "2",
        "--checkpoint-to",
        str(tmp_path / "c"),
    ]
    done, document = under_rlmem(tmp_path, options, str(path), "1000")
    assert document["status"] == "stopped", done.stderr
    assert "stopping it" in done.stderr  # it may be too busy with its memory to hear of the wish at all
    assert not list((tmp_path / "c").glob("step-*"))


@pytest.mark.long
def test_a_checkpoint_of_a_200_mb_buffer_takes_no_second_one(tmp_path: Path) -> None:
    """In a process of its own, with the kernel's high-water mark reset just before."""
    body = """
        import sys
        from rlmem.agent import pressure, proc
        program = open(sys.argv[1]).read().partition("torch.set_num_threads")[0]
        exec(program)
        model = DQN("MlpPolicy", Wide(), buffer_size=12_800, policy_kwargs=dict(net_arch=[32]), device="cpu")
        for name in ("observations", "next_observations"):
            getattr(model.replay_buffer, name)[:] = 1.0
        nbytes = sum(getattr(model.replay_buffer, name).nbytes for name in ("observations", "next_observations"))
        assert proc.reset_peak()
        before = proc.rss()
        told = pressure.save(model, sys.argv[2])
        print(json.dumps({"before": before, "peak": proc.peak(), "buffer": nbytes, "files": told["files"]}))
    """
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body), str(program), str(tmp_path / "c")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert found["buffer"] > 190 * MIB
    assert found["files"] == ["model.zip", "replay_buffer.pkl"]
    assert found["peak"] - found["before"] < 0.25 * found["buffer"]


def test_a_cuda_error_is_told_as_such(tmp_path: Path) -> None:
    body = """
        import torch
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB")
    """
    done, document = under_rlmem(tmp_path, [], "-c", textwrap.dedent(body))
    found = document["ended"]["postmortem"]
    assert (done.returncode, document["status"], found["kind"]) == (1, "oom", "cuda-oom")
    assert "asked for 2.00 GiB" in found["cause"]
