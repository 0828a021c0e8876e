"""The protocol is what is spoken: real answers have its keys and no others, and every key of it is written somewhere."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, is_typeddict

import pytest

import rlmem.agent
from rlmem.agent import PROTOCOL, protocol, server
from rlmem.errors import AnalysisError
from rlmem.process import attach
from rlmem.process.processes import living
from rlmem.process.protocol import check_protocol
from rlmem.programs.cases import make_case
from rlmem.programs.launch import launch
from rlmem.sources import load
from rlmem.sources.target import parse_target
from rlmem.trace.describe import from_facts
from rlmem.trace.dryrun import dry_run
from rlmem.trace.target import find_runnable
from typed_facts import problems

AGENT = Path(rlmem.agent.__file__).parent
PROGRAMS = AGENT.parent / "programs"
#: What runs in a user's interpreter, and the parent where it adds facts.
THEIRS = [
    *(path for path in AGENT.rglob("*.py") if path.name != "protocol.py"),
    *PROGRAMS.glob("*_run.py"),
    PROGRAMS / "program_kit.py",
    PROGRAMS / "rllib_describe.py",
]
OURS = [AGENT.parent / "trace" / "dryrun.py", AGENT.parent / "trace" / "target.py"]
KINDS = {name: kind for name, kind in vars(protocol).items() if is_typeddict(kind)}

LOOP = """
import tempfile
from collections import deque
import gymnasium as gym
import numpy as np
import torch

env = gym.make("CartPole-v1")
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
table = np.zeros((1_000_000, 16), np.float32)
file = np.memmap(tempfile.mkdtemp() + "/x.bin", dtype=np.uint8, mode="w+", shape=(8 << 20,))
buffer, kept = deque(maxlen=100_000), []
seen, _ = env.reset()
for step in range(100_000):
    action = env.action_space.sample()
    following, reward, *over, _ = env.step(action)
    table[step % 1_000_000, :4] = following
    buffer.append((seen, action, reward, following))
    kept.append(seen.copy())
    seen = env.reset()[0] if any(over) else following
    if step % 8 == 7:
        loss = net(torch.as_tensor(seen)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SB3 = """
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

if __name__ == "__main__":
    env = make_vec_env("Pendulum-v1", 3, vec_env_cls=SubprocVecEnv)
    SAC("MlpPolicy", env, buffer_size=3_000_000).learn(10_000)
"""


def facts_of(folder: Path, text: str) -> tuple[Any, set[tuple[str, str]]]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    run = dry_run(find_runnable(parse_target(str(script), python=sys.executable), folder=folder), time_s=10.0)
    assert run.outcome.status == "ok", run.outcome.describe()
    seen: set[tuple[str, str]] = set()
    assert list(problems(json.loads(json.dumps(run.facts)), protocol.Facts, seen=seen)) == []
    return run.facts, seen


def test_a_loop_of_its_own_writes_the_facts_of_the_protocol(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    facts, seen = facts_of(tmp_path, LOOP)
    assert facts["protocol"] == PROTOCOL
    met = {kind for kind, _ in seen}
    assert {"Reading", "LoopFacts", "LevelFacts", "Look", "ArrayRow", "ContainerRow", "FileRow", "PythonFacts"} <= met


@pytest.mark.truth
def test_a_framework_writes_the_facts_of_the_protocol(tmp_path: Path) -> None:
    _, seen = facts_of(tmp_path, SB3)
    met = {kind for kind, _ in seen}
    assert {"ModelFacts", "BufferFacts", "BufferArray", "RehearsalFacts", "OtherProcess"} <= met
    assert {("Facts", "workers_started"), ("Facts", "workers_asked")} <= seen


def test_a_script_that_fails_writes_why(tmp_path: Path) -> None:
    facts, seen = facts_of(tmp_path, "import a_module_that_is_not_there\n")
    assert facts["stop"]["kind"] == "raised"
    assert ("StopFacts", "by_library") in seen


@pytest.mark.parametrize("name", sorted(protocol.ANSWERS))
def test_an_answer_of_the_socket_is_that_of_the_protocol(name: str) -> None:
    answer = json.loads(server.reply(json.dumps({"ask": name}).encode()))
    assert answer["protocol"] == PROTOCOL
    assert list(problems(answer, protocol.ANSWERS[name])) == []


@pytest.mark.truth
def test_a_model_in_a_running_process_is_described_in_the_protocol() -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    answer = json.loads(server.reply(json.dumps({"ask": "describe"}).encode()))
    assert answer["model"]["algorithm"] == type(model).__name__
    assert list(problems(answer, protocol.DescribeAnswer)) == []


@pytest.mark.truth
@pytest.mark.parametrize(
    "sets",
    [("algorithm=sac", "buffer_size=1000"), ("algorithm=sac", "buffer_size=1000", "n_envs=2", "vec_env=subproc")],
)
def test_a_program_answers_in_the_protocol(sets: tuple[str, ...]) -> None:
    case = make_case(load("pidog-sac-vector", sets), 2)
    statuses: list[protocol.ProgramStatus] = []
    answer = launch(case.path, case.body, sys.executable, on_tick=lambda _, status: statuses.append(status))
    assert answer.error is None
    assert list(problems(dict(answer.body), protocol.ProgramAnswer)) == []
    assert [problem for status in statuses for problem in problems(dict(status), protocol.ProgramStatus)] == []
    assert statuses


def test_what_processes_leave_in_a_run_folder_is_that_of_the_protocol(tmp_path: Path) -> None:
    text = (
        "import os, resource, signal, subprocess, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, resource.RLIM_INFINITY))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "os.kill(child.pid, signal.SIGKILL)\n"
        "child.wait()\n"
        "raise MemoryError('no more')\n"
    )
    environment = {**attach.preload(os.environ), "RLMEM_RUN": str(tmp_path)}
    subprocess.run([sys.executable, "-c", text], env=environment, stderr=subprocess.PIPE, check=False)
    met = set()
    for path in tmp_path.glob("*-*.json"):
        kind = path.name.partition("-")[0]
        assert list(problems(json.loads(path.read_text()), protocol.LEFT_BEHIND[kind])) == []
        met.add(kind)
    assert met == {"death", "limit", "exit", "kill"}


# ---------------------------------------------------------------- the other way round
def trees(paths: list[Path]) -> Iterator[ast.AST]:
    for path in paths:
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def words(paths: list[Path]) -> set[str]:
    """Texts and names of arguments: what a key can be written as."""
    return {
        str(node.value if isinstance(node, ast.Constant) else node.arg)
        for node in trees(paths)
        if (isinstance(node, ast.Constant) and isinstance(node.value, str)) or isinstance(node, ast.keyword)
    }


def test_every_key_of_the_protocol_is_written_somewhere() -> None:
    written = words([*THEIRS, *OURS])
    read = words([AGENT / "server.py", AGENT / "walk.py", AGENT / "pressure.py"])
    unknown = {
        f"{name}.{key}"
        for name, kind in KINDS.items()
        for key in kind.__annotations__
        if key not in (read if name == "Question" else written) and key != "protocol"
    }
    assert unknown == set()


def test_every_fact_that_the_agent_writes_is_in_the_protocol() -> None:
    known = {key for kind in KINDS.values() for key in kind.__annotations__}
    written = set()
    for node in trees(THEIRS):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant):
            holder = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if holder in ("facts", "said", "told", "result", "answer"):
                written.add(str(node.slice.value))
    assert len(written) > 50
    assert written - known == set()


def test_questions_and_what_is_left_behind_are_those_of_the_protocol() -> None:
    assert set(protocol.ANSWERS) == set(server.HANDLERS)
    left = {
        node.args[0].value
        for node in trees(THEIRS)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "leave"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and len(node.args) == 2
        and isinstance(node.args[0].value, str)
    }
    assert set(protocol.LEFT_BEHIND) == left


@pytest.mark.parametrize("path", [*THEIRS, AGENT / "protocol.py"], ids=lambda path: path.name)
def test_what_runs_in_a_users_interpreter_is_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_protocol_imports_nothing_but_typing() -> None:
    tree = ast.parse((AGENT / "protocol.py").read_text(encoding="utf-8"))
    imports = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert imports == {"__future__", "typing", None}
    assert not [node for node in tree.body if isinstance(node, ast.Import)]
    lines = [line for path in THEIRS for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [line for line in lines if line.strip().startswith("from .protocol")], "typing is not theirs to pay for"


# ---------------------------------------------------------------- where two versions meet
def test_another_version_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        AnalysisError, match=r"the agent of 7 uses protocol 2; this rlmem needs protocol 1. Install the same"
    ):
        check_protocol({"protocol": 2}, "the agent of 7")


@pytest.mark.parametrize("facts", [{}, {"protocol": PROTOCOL}])
def test_facts_of_this_version_and_those_without_one_are_read(facts: dict[str, Any]) -> None:
    check_protocol(facts, "a recorded run")


def test_an_agent_of_another_version_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "agent.sock")
    asked = []

    def answer() -> None:
        line, _ = ear.accept()
        with line:
            asked.append(json.loads(line.recv(4096)))
            line.sendall(b'{"protocol": 99, "pid": 7}\n')

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ear:
        ear.bind(path)
        ear.listen()
        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setattr(attach, "agent_socket", lambda _: path)
        with pytest.raises(attach.NoAgent, match=r"uses protocol 99; this rlmem needs protocol 1"):
            attach.ask(living(os.getpid()), {"ask": "hello"})
    assert asked == [{"ask": "hello", "protocol": PROTOCOL}]


def test_the_answer_of_an_agent_keeps_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads the facts of an answer later checks the version again: without one it would be the first."""
    monkeypatch.setattr(attach, "agent_socket", lambda _: "socket")
    monkeypatch.setattr(attach, "_received", lambda *_: {"protocol": PROTOCOL, "pid": 7})
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "sendall", lambda *_: None)
    assert attach.ask(living(os.getpid()), {"ask": "hello"})["protocol"] == PROTOCOL


def test_stored_facts_of_another_version_are_not_described() -> None:
    model: protocol.ModelFacts = {"algorithm": "PPO", "settings": {"n_envs": 1}}
    assert from_facts("train.py", {"model": model}).get("algorithm") == "ppo"
    with pytest.raises(AnalysisError, match=r"train\.py uses protocol 2"):
        from_facts("train.py", {"protocol": 2, "model": model})
