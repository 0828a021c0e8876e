"""``rlmem run`` with real commands: their exit codes, their signals, their limits, and nothing left behind."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from rlmem.agent import proc
from rlmem.app.recorded import recorded_document
from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.documents.recorded import Recording, ending
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.attach import preload
from rlmem.process.tree import JOB_VARIABLE
from rlmem.runner.caps import make_group
from rlmem.runner.causes import find_cause
from rlmem.runner.foreground import CommandError, Foreground
from rlmem.runner.guarding import Policy
from rlmem.runner.supervise import RUN_VARIABLE, Ended, Look, Supervision, Watching
from rlmem.units import MIB

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
SRC = Path(__file__).parents[2] / "src"
NO_POLICY = Policy()
TOUCH = """
import os, signal, sys, time
def touched(mib):
    block = bytearray(mib << 20)
    block[::4096] = b'x' * (mib << 8)
    return block
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", TOUCH + textwrap.dedent(body)]


class PlainLook:
    """Totals of the tree, without owners."""

    members = ()

    def __init__(self, pid: int, interval_s: float) -> None:
        self._pid = pid

    def sample(self) -> Moment:
        total, parts = proc.tree_parts(proc.tree(self._pid))
        if not parts:
            raise AnalysisError(f"{self._pid} ended")
        threads = sum(len(os.listdir(f"/proc/{each}/task")) for each in parts)
        return Moment(at_s=0.0, tree_bytes=total, rss_bytes=sum(p["Rss"] for p in parts.values()), threads=threads)

    def ask_now(self) -> None:
        pass


def supervised(
    command: list[str],
    tmp_path: Path,
    policy: Policy = NO_POLICY,
    interval_s: float = 0.1,
    make_look: Callable[[int, float], Look] = PlainLook,
) -> tuple[Ended, list[str]]:
    said: list[str] = []
    job, folder = uuid.uuid4().hex, tmp_path / "run"
    folder.mkdir(exist_ok=True)
    env = {**preload(os.environ), JOB_VARIABLE: job, RUN_VARIABLE: str(folder)}
    ended = Supervision(
        command,
        policy,
        env=env,
        job=job,
        folder=folder,
        make_look=make_look,
        say=said.append,
        interval_s=interval_s,
    ).go()
    return ended, said


def is_alive(pid: int) -> bool:
    stat = proc.read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def await_file(path: Path, seconds: float = 20.0) -> str:
    deadline = time.monotonic() + seconds
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} was never written"
        time.sleep(0.02)
    return path.read_text()


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_exit_code_is_the_commands_own(code: int, tmp_path: Path) -> None:
    ended, said = supervised(script(f"sys.exit({code})"), tmp_path)
    assert (ended.exit_code, ended.status) == (code, "ok" if code == 0 else "failed")
    assert said == []
    assert ended.postmortem is None


def test_a_command_that_ends_before_it_can_be_looked_at_is_no_error(tmp_path: Path) -> None:
    class Late(Watching):
        def __init__(self, pid: int, interval_s: float) -> None:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            super().__init__(pid, interval_s)

    ended, said = supervised(["true"], tmp_path, make_look=Late)
    assert (ended.returncode, ended.status, said) == (0, "ok", [])


def test_the_peak_is_seen_even_between_two_looks(tmp_path: Path) -> None:
    body = "time.sleep(0.3)\nx = touched(80)\ndel x\ntime.sleep(2)"
    ended, _ = supervised(script(body), tmp_path, interval_s=0.3)
    assert 80 * MIB < ended.peak.nbytes < 140 * MIB


@pytest.mark.parametrize(
    ("command", "code"), [("/no/such/python", 127), ("no-such-python", 127), (os.path.dirname(__file__), 126)]
)
def test_a_command_that_cannot_be_run_is_a_usage_error_with_a_shells_code(command: str, code: int) -> None:
    with pytest.raises(CommandError) as found, Foreground([command], env=os.environ, job="x"):
        pass
    assert isinstance(found.value, UsageError)
    assert found.value.exit_code == code


def test_a_command_killed_by_sigkill_is_said_so_without_blaming_a_limit(tmp_path: Path) -> None:
    ended, _ = supervised(script("time.sleep(0.3); os.kill(os.getpid(), signal.SIGKILL)"), tmp_path)
    assert (ended.exit_code, ended.returncode, ended.status) == (137, -9, "killed")
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "killed"
    assert "no kernel counter" in ended.postmortem.cause


def test_a_command_over_its_limit_is_stopped_and_that_is_said(tmp_path: Path) -> None:
    policy = Policy(max_ram_bytes=120 * MIB, action="stop", grace_s=20)
    body = "kept = []\nfor _ in range(1000):\n    kept.append(touched(4)); time.sleep(0.02)"
    ended, said = supervised(script(body), tmp_path, policy)
    assert (ended.status, ended.exit_code) == ("stopped", 128 + signal.SIGTERM)
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "limit"
    assert "--max-ram" in ended.postmortem.cause
    assert [event.kind for event in ended.events] == ["warn", "stop"]
    assert any(text.startswith("RAM at ") and "of --max-ram" in text for text in said)
    # A look is taken before its time when memory grows fast, so it does not get far over the level.
    assert ended.peak.nbytes < 1.3 * 120 * MIB


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    policy = Policy(max_ram_bytes=60 * MIB, action="stop", grace_s=0.5)
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN); x = touched(80); time.sleep(120)"
    ended, said = supervised(script(body), tmp_path, policy)
    assert (ended.status, ended.exit_code) == ("stopped", 137)
    assert "SIGKILL" in said[-1]
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "limit"


def test_a_stop_reaches_a_daemon_that_left_its_group(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open({str(note)!r}, "w").write(str(os.getpid()))
            time.sleep(120)
            os._exit(0)
        while not os.path.exists({str(note)!r}): time.sleep(0.01)
        x = touched(100); time.sleep(120)
    """
    policy = Policy(max_ram_bytes=90 * MIB, action="stop", grace_s=5)
    ended, _ = supervised(script(body), tmp_path, policy)
    assert ended.status == "stopped"
    assert not is_alive(int(note.read_text()))
    assert ended.left == ()


def test_a_daemon_of_a_command_that_ended_by_itself_is_left_and_named(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
        if os.fork() == 0:
            os.setsid()
            open({str(note)!r}, "w").write(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        while not os.path.exists({str(note)!r}): time.sleep(0.01)
    """
    ended, _ = supervised(script(body), tmp_path)
    daemon = int(await_file(note))
    try:
        assert ended.status == "ok"
        assert ended.left == (daemon,)
    finally:
        os.kill(daemon, signal.SIGKILL)


BEHIND = """
    import json, multiprocessing, subprocess, sys, time
    def work(): time.sleep(120)
    if __name__ == "__main__":
        workers = [multiprocessing.get_context(how).Process(target=work, daemon=True) for how in ("spawn", "forkserver")]
        for worker in workers: worker.start()
        plain = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
        bare = subprocess.Popen(["sleep", "120"], env={})
        with open(sys.argv[1], "w") as file:
            json.dump([each.pid for each in (*workers, plain, bare)], file)
        time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("kill", [False, True])
def test_nobody_of_the_commands_own_session_outlives_it(kill: bool, tmp_path: Path) -> None:
    program, note = tmp_path / "main.py", tmp_path / "pids"
    program.write_text(textwrap.dedent(BEHIND) + ("    import os; os.kill(os.getpid(), 9)\n" if kill else ""))
    stranger = subprocess.Popen(["sleep", "120"])
    try:
        ended, _ = supervised([sys.executable, str(program), str(note), "0.5"], tmp_path)
        assert ended.exit_code == (137 if kill else 0)
        assert ended.left == ()
        assert not [pid for pid in json.loads(note.read_text()) if is_alive(pid)]
        assert any("sleep 120" in each.command for each in ended.cleared)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_orphan_without_our_mark_is_ended_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
        if os.fork() == 0:
            import subprocess
            child = subprocess.Popen(["sleep", "120"], env={{}})
            open({str(note)!r}, "w").write(str(child.pid))
            os._exit(0)
        os.wait()
    """
    ended, _ = supervised(script(body), tmp_path)
    assert ended.exit_code == 0
    assert [each.command for each in ended.cleared] == ["sleep 120"]
    assert not is_alive(int(note.read_text()))


def test_what_nohup_started_stays(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ["sh", "-c", f"nohup sleep 60 > {tmp_path}/out 2>&1 < {tmp_path} & echo $! > {note}; sleep 0.5"]
    ended, _ = supervised(command, tmp_path)
    daemon = int(note.read_text())
    try:
        assert (ended.left, ended.cleared) == ((daemon,), ())
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_a_signal_can_be_asked_for_and_comes_once(tmp_path: Path) -> None:
    policy = Policy(max_ram_bytes=60 * MIB, action="signal", signal=signal.SIGUSR2)
    body = """
        got = []
        signal.signal(signal.SIGUSR2, lambda *_: got.append(1))
        x = touched(80)
        deadline = time.monotonic() + 20
        while not got and time.monotonic() < deadline: time.sleep(0.05)
        time.sleep(0.5)
        sys.exit(len(got))
    """
    ended, said = supervised(script(body), tmp_path, policy)
    assert ended.exit_code == 1
    assert sum("SIGUSR2" in text for text in said) == 1


def test_too_many_threads_are_warned_of_and_acted_upon(tmp_path: Path) -> None:
    policy = Policy(max_threads=8, action="stop", grace_s=10)
    body = """
        import threading
        for _ in range(20): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        time.sleep(60)
    """
    ended, said = supervised(script(body), tmp_path, policy)
    assert ended.status == "stopped"
    assert "--max-threads" in said[0]
    assert ended.postmortem is not None
    assert "threads" in ended.postmortem.cause


def test_a_memory_error_is_explained_with_the_limit_and_what_was_asked_for(tmp_path: Path) -> None:
    body = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        x = bytearray(4 << 30)
    """
    ended, _ = supervised(script(body), tmp_path)
    assert (ended.exit_code, ended.status) == (1, "oom")
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "memory-error"
    assert "RLIMIT_AS of 2.00 GiB" in ended.postmortem.cause
    assert ended.deaths[0].memory == "ram"


def test_numpys_own_memory_error_says_how_much_it_wanted(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    ended, _ = supervised(script("import numpy; numpy.ones((1 << 45,), dtype='u1')"), tmp_path)
    assert ended.postmortem is not None
    assert "asked for 32.0 TiB" in ended.postmortem.cause
    assert ended.deaths[0].wanted_bytes == 1 << 45


def test_the_users_own_hook_is_called_and_the_death_is_noted_too(tmp_path: Path) -> None:
    note = tmp_path / "said"
    body = f"""
        before = sys.excepthook
        def mine(*args):
            open({str(note)!r}, "w").write(args[0].__name__)
            before(*args)
        sys.excepthook = mine
        raise MemoryError("enough")
    """
    ended, _ = supervised(script(body), tmp_path)
    assert note.read_text() == "MemoryError"
    assert [death.type for death in ended.deaths] == ["builtins.MemoryError"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_exception_in_a_worker_process_is_noted(method: str, tmp_path: Path) -> None:
    program = tmp_path / "main.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, sys
            def work():
                raise MemoryError("in a worker")
            if __name__ == "__main__":
                one = multiprocessing.get_context({method!r}).Process(target=work, name="env-3")
                one.start(); one.join(); sys.exit(one.exitcode)
            """
        )
    )
    ended, _ = supervised([sys.executable, str(program)], tmp_path)
    assert [(death.message, death.worker) for death in ended.deaths] == [("in a worker", "env-3")]
    assert ended.postmortem is not None
    assert "in worker env-3" in ended.postmortem.cause


def start_rlmem(command: list[str], tmp_path: Path, *options: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(SRC), "RLMEM_DATA_DIR": str(tmp_path / "data")}
    return subprocess.Popen(
        [sys.executable, "-m", "rlmem", "run", *options, "--", *command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def family(note: Path) -> list[str]:
    """A command with a child in its group and one that left it; all take their time."""
    return script(
        f"""
        if os.fork() == 0:
            os.setsid(); time.sleep(120); os._exit(0)
        if os.fork() == 0:
            time.sleep(120); os._exit(0)
        open({str(note)!r}, "w").write(str(os.getpid()))
        while True: time.sleep(0.05)  # a signal right before a long sleep is seen after it only
        """
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_rlmem_reaches_the_command_and_leaves_nothing_alive(number: int, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    rlmem = start_rlmem(family(note), tmp_path)
    top = int(await_file(note))
    everybody = proc.tree(top)
    assert len(everybody) == 3
    rlmem.send_signal(number)
    _, stderr = rlmem.communicate(timeout=60)
    assert rlmem.returncode == 128 + number, stderr
    assert b"interrupted" in stderr
    assert not [pid for pid in everybody if is_alive(pid)]


def test_a_second_signal_kills_a_command_that_will_not_end(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
        for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(120)
    """
    rlmem = start_rlmem(script(body), tmp_path)
    top = int(await_file(note))
    rlmem.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert rlmem.poll() is None
    rlmem.send_signal(signal.SIGINT)
    rlmem.communicate(timeout=60)
    assert rlmem.returncode == 137
    assert not is_alive(top)


@pytest.mark.skipif("RLMEM_CGROUP" not in os.environ, reason="RLMEM_CGROUP names no place to make a cgroup in")
def test_the_kernels_killer_is_told_with_the_cgroups_limit(tmp_path: Path) -> None:
    group = make_group(uuid.uuid4().hex, 100 * MIB, named=os.environ["RLMEM_CGROUP"])
    assert group is not None and group.own
    try:
        body = "kept = []\nwhile True: kept.append(touched(1)); time.sleep(0.01)"
        ended, _ = supervised(group.launch(script(body)), tmp_path)
    finally:
        group.remove()
    assert (ended.status, ended.exit_code) == ("oom", 137)
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "oom-killer"
    assert ended.postmortem.limit_bytes == pytest.approx(105 * MIB, rel=0.01)
    assert str(group.level.path) in ended.postmortem.cause


def test_a_signal_for_the_command_is_passed_on_and_does_not_end_rlmem(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
        def told(*_): print("told", flush=True); os._exit(5)
        signal.signal(signal.SIGUSR1, told)
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    """
    rlmem = start_rlmem(script(body), tmp_path)
    await_file(note)
    rlmem.send_signal(signal.SIGUSR1)
    rlmem.communicate(timeout=60)
    assert rlmem.returncode == 5


def test_a_mistake_of_ours_does_not_end_the_command(tmp_path: Path) -> None:
    class Broken(PlainLook):
        def sample(self) -> Moment:
            raise ValueError("ours")

    ended, said = supervised(script("time.sleep(1.5); sys.exit(4)"), tmp_path, make_look=Broken)
    assert ended.returncode == 4
    assert said == ["cannot look at it: ValueError: ours"]


def test_owners_that_are_slow_to_answer_do_not_make_looks_follow_each_other_at_once(tmp_path: Path) -> None:
    looks = []

    class Slow(PlainLook):
        def sample(self) -> Moment:
            looks.append(time.monotonic())
            held = Holding(path="x", kind="array", type="ndarray", nbytes=1, resident_bytes=1)
            first = len(looks) == 1
            nbytes = 10 * MIB if first else 100 * MIB  # news, and nobody who names its owners
            return Moment(at_s=0.0, tree_bytes=nbytes, rss_bytes=nbytes, holdings=(held,) if first else None)

    supervised(script("time.sleep(2)"), tmp_path, interval_s=0.5, make_look=Slow)
    assert 5 <= len(looks) <= 14  # every 0.2 s


@pytest.mark.parametrize("returncode", [1, -15])
def test_a_kill_elsewhere_on_the_machine_is_not_ours(returncode: int) -> None:
    found = find_cause(returncode=returncode, stopped_for=None, deaths=(), kills=("machine",), moments=())
    assert found is None
    killed = find_cause(returncode=-9, stopped_for=None, deaths=(), kills=("machine",), moments=())
    assert killed is not None
    assert killed.kind == "oom-killer"


# -- what ended a worker, a thread, a part of it ----------------------------------------------------------------------------


def run_main(body: str, tmp_path: Path) -> Ended:
    """A program with a ``work`` function for workers, and a main part."""
    program = tmp_path / "main.py"
    program.write_text(
        "import ctypes, multiprocessing, os, resource, signal, sys, threading, time\n"
        "spawn = multiprocessing.get_context('spawn')\n" + textwrap.dedent(body)
    )
    return supervised([sys.executable, str(program)], tmp_path)[0]


def test_a_workers_own_limit_is_told_where_a_pool_brings_its_error(tmp_path: Path) -> None:
    body = """
        def work(_):
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            return len(bytearray(3 << 30))
        if __name__ == "__main__":
            with spawn.Pool(1) as pool: pool.map(work, [0])
    """
    ended = run_main(body, tmp_path)
    assert (ended.exit_code, ended.status) == (1, "oom")
    assert ended.postmortem is not None
    assert "main.py:6 in worker" in ended.postmortem.cause
    assert "RLIMIT_AS of 1.00 GiB" in ended.postmortem.cause
    assert "overcommit" not in ended.postmortem.cause


@pytest.mark.parametrize(("how", "code"), [("spawn", 0), ("forkserver", 0), ("spawn", 1)])
def test_a_worker_killed_from_outside_is_told_whatever_the_command_says(how: str, code: int, tmp_path: Path) -> None:
    body = f"""
        def work():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        if __name__ == "__main__":
            one = multiprocessing.get_context({how!r}).Process(target=work)
            one.start(); one.join(); sys.exit({code})
    """
    ended = run_main(body, tmp_path)
    assert (ended.exit_code, ended.status) == (code, "failed" if code else "ok")
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "killed"
    assert f"worker {ended.exits[0].pid}" in ended.postmortem.cause
    assert "was killed by SIGKILL" in ended.postmortem.cause


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_a_worker_that_the_program_kills_itself_is_no_failure(how: str, tmp_path: Path) -> None:
    body = f"""
        def work(): time.sleep(60)
        if __name__ == "__main__":
            one = multiprocessing.get_context({how!r}).Process(target=work)
            one.start(); one.kill(); one.join()
    """
    ended = run_main(body, tmp_path)
    assert (ended.status, ended.postmortem) == ("ok", None)
    assert [each.sender is not None for each in ended.exits] == [True]


def test_a_crash_of_a_worker_is_told(tmp_path: Path) -> None:
    body = """
        def work(): ctypes.string_at(0)
        if __name__ == "__main__":
            one = spawn.Process(target=work)
            one.start(); one.join(); sys.exit(3)
    """
    ended = run_main(body, tmp_path)
    assert ended.postmortem is not None
    assert ended.postmortem.kind == "aborted"
    assert "SIGSEGV" in ended.postmortem.cause


def test_a_memory_error_in_a_thread_is_told_beside_exit_code_0(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    body = """
        import numpy
        thread = threading.Thread(target=numpy.ones, args=(1 << 42,), name="prefetch")
        thread.start(); thread.join()
    """
    ended = run_main(body, tmp_path)
    assert (ended.exit_code, ended.status) == (0, "ok")
    assert ended.postmortem is not None
    assert "in thread prefetch" in ended.postmortem.cause
    assert "of RAM and swap (overcommit)" in ended.postmortem.cause
    assert "but a part of it failed" in ending(recorded_document(Recording(ended=ended.part()), ()))


def test_an_uncaught_bad_alloc_is_told_with_the_limit(tmp_path: Path) -> None:
    body = """
        new = ctypes.CDLL("libstdc++.so.6")._Znwm
        new.restype, new.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        kept = bytearray(700 << 20)
        time.sleep(2)
        new(1 << 30)
    """
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        pytest.skip("no libstdc++")
    ended = run_main(body, tmp_path)
    assert (ended.exit_code, ended.status) == (134, "oom")
    assert ended.postmortem is not None
    assert "SIGABRT" in ended.postmortem.cause
    assert "std::bad_alloc" in ended.postmortem.cause
    assert "RLIMIT_AS is 1.00 GiB" in ended.postmortem.cause


def test_a_mistake_in_the_post_mortem_does_not_cost_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ValueError("ours")

    monkeypatch.setattr("rlmem.runner.supervise.find_cause", broken)
    ended, said = supervised(script("sys.exit(4)"), tmp_path)
    assert (ended.exit_code, ended.status) == (4, "failed")
    assert said == ["cannot say why it ended: ValueError: ours"]
