"""Live processes: every resident page is accounted for, by each way the kernel offers; faults give a clear line."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlmem.agent import proc, server, walk
from rlmem.cli import run
from rlmem.core.holdings import Explanation
from rlmem.errors import AnalysisError
from rlmem.process import attach, processes
from rlmem.process.explain import elsewhere, explain_process, explain_tree, from_pages
from rlmem.process.processes import living

MIB = 1 << 20
PROGRAM = """
import numpy as np, sys, threading, time
class Buffer:
    def __init__(self):
        self.capacity, self.size = 1000, 250
        self.states = np.zeros((1000, 40_000), np.uint8)
        self.states[:250] = 1
buffer = Buffer()
read_only = np.zeros(20_000_000, np.uint8); read_only[::4096].sum()
def work():
    frames = [np.ones(100_000) for _ in range(20)]
    infos = [{"n": n + 1000} for n in range(30_000)]
    print("ready", flush=True)
    exec(sys.argv[1])
work()
"""
BUSY = "while True: time.sleep(0.005)"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def begin(
        then: str = BUSY,
        *,
        agent: bool = True,
        program: str = PROGRAM,
        stdin: int | None = None,
        stderr: int | None = None,
        **env: str,
    ) -> subprocess.Popen[str]:
        script = tmp_path / "träin.py"
        script.write_text(program, encoding="utf-8")
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(_short(tmp_path)), **env}
        command = [sys.executable, str(script), then]
        child = subprocess.Popen(
            command,
            env=attach.preload(environment) if agent else environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        begun.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.1)
        return child

    yield begin
    for child in begun:
        child.kill()
        child.communicate()
    shutil.rmtree(_short(tmp_path))


def _short(path: Path) -> Path:
    """A socket's name has room for about a hundred letters."""
    folder = Path("/tmp", f"rlmem-test-{os.getpid()}-{abs(hash(path)) % 10**6}")
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def summed(found: Explanation) -> int:
    return found.named_bytes + sum(each.resident_bytes for each in found.portions) + found.unexplained_bytes


def test_named_classes_and_unexplained_are_the_resident_set_to_the_page(start: Start) -> None:
    child = start()
    found = explain_process(child.pid)
    kernel = proc.rollup(child.pid)
    assert kernel is not None
    assert found.way == "agent"
    assert summed(found) == found.rss_bytes == kernel["Rss"]
    assert found.unexplained_bytes < 0.1 * found.rss_bytes
    held = {each.path: each for each in found.holdings}
    states = held["buffer.states"]
    assert (states.filled, states.capacity, states.nbytes) == (250, 1000, 40_000_000)
    assert 10_000_000 <= states.resident_bytes <= 10_000_000 + 2 * MIB  # huge pages round up
    assert held["frames"].resident_bytes == pytest.approx(20 * 800_000, rel=0.02)
    assert held["frames"].growth_bytes is None
    assert held["infos"].estimated
    assert "read_only" not in held or held["read_only"].resident_bytes < MIB


def test_a_program_asleep_is_walked_with_care_and_that_is_said(start: Start) -> None:
    child = start("time.sleep(60)")
    found = explain_process(child.pid)
    assert found.way == "agent"
    assert "gradients and graphs of tensors were not looked at" in found.notes[0]
    assert {"buffer.states", "frames"} <= {each.path for each in found.holdings}
    assert found.pauses_s == ()


HOG = "while True: pass"
#: A large program that is never asleep: 40,000 objects in tables, each looked into.
LARGE = """
import sys
tables = [{f"k{n}": [n + 1000, (float(n),)] for n in range(400)} for _ in range(100)]
print("ready", flush=True)
n = 0
while True: n += 1
"""


def test_on_a_busy_machine_a_program_stands_still_for_parts_of_a_limited_time(start: Start) -> None:
    child = start(program=LARGE)
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(2)]
    try:
        found = explain_tree(child.pid, timeout_s=30).top
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert found.way == "agent"
    assert len(found.pauses_s) > 1  # the program goes on in between
    # Each part ends at the first object after its time, however long the machine takes for that one.
    walking = found.pauses_s[:-1]  # the last is to count
    assert sum(walking[:-1]) < walk.SECONDS
    assert found.paused_s == sum(found.pauses_s)


def test_the_report_says_how_long_the_program_stood_still(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    child = start()
    assert run(["explain", str(child.pid), "--json"]) == 0
    top = json.loads(capsys.readouterr().out)["processes"][0]
    assert top["paused_s"] == pytest.approx(sum(top["pauses_s"]))
    assert top["longest_pause_s"] == max(top["pauses_s"])
    assert run(["explain", str(child.pid)]) == 0
    assert "the program stood still for" in " ".join(capsys.readouterr().out.split())


SHORT_RUN = """
import numpy as np, sys, time
class Buffer:
    def __init__(self):
        self.capacity, self.size = 1000, 0
        self.states = np.zeros((1000, 100_000), np.uint8)
buffer, total_timesteps = Buffer(), 500
for global_step in range(total_timesteps):
    if global_step == 200:
        print("ready", flush=True)
        while not sys.stdin.readline(): time.sleep(0.01)
    buffer.states[global_step], buffer.size = 1, global_step + 1
print("done", flush=True)
time.sleep(60)
"""


def test_what_a_short_run_will_still_take_is_what_it_takes(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    child = start(program=SHORT_RUN, stdin=subprocess.PIPE)
    assert run(["explain", str(child.pid), "--json"]) == 0
    top = json.loads(capsys.readouterr().out)["processes"][0]
    states = next(each for each in top["holdings"] if each["path"] == "buffer.states")
    assert states["run_rows"] == 500
    assert states["full_growth_bytes"] == pytest.approx(80_000_000, abs=2 * MIB)
    assert run(["explain", str(child.pid)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "this run ends with 500 rows in its buffer; a full one makes" in text
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == "done\n"
    after = explain_tree(child.pid).top
    assert after.rss_bytes - top["rss_bytes"] == pytest.approx(top["growth_bytes"], abs=3 * MIB)
    assert after.full_growth_bytes > 40_000_000


INTERRUPTED = """
import signal, sys, time
print("ready", flush=True)
came = 0
while came < 60:
    try:
        print(came, flush=True)
        while True:
            for n in range(100): str(n)
    except KeyboardInterrupt:
        came += 1
print("all")
"""


def test_ctrl_c_while_it_is_looked_at_reaches_the_program_and_nobody_else(start: Start) -> None:
    child = start(program=INTERRUPTED, stderr=subprocess.PIPE)
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            with contextlib.suppress(AnalysisError):
                attach.ask(child.pid, {"ask": "walk", "seconds": 0.001})

    looking = threading.Thread(target=look)
    looking.start()
    assert child.stdout is not None
    try:
        for count in range(60):
            assert child.stdout.readline() == f"{count}\n"
            child.send_signal(signal.SIGINT)
    finally:
        over.set()
        looking.join()
    assert child.stdout.read() == "all\n"
    assert child.stderr is not None
    assert child.stderr.read() == ""


@pytest.mark.parametrize("method", ["pagemap-scan", "pagemap", "smaps", "status"])
def test_each_way_to_read_pages_gives_the_same_sum(start: Start, method: str) -> None:
    child = start()
    said = attach.ask(child.pid, {"ask": "walk"})
    kernel, notes = proc.rollup(child.pid), list[str]()
    assert kernel is not None
    found = from_pages(living(child.pid), said, notes, methods=(method,))
    assert found.pages_from == method
    assert summed(found) == found.rss_bytes
    assert found.rss_bytes == pytest.approx(kernel["Rss"], abs=64 << 10 if method == "status" else 0)
    assert bool(notes) == (method in {"smaps", "status"})


def test_without_an_agent_classes_are_told_and_what_would_give_names(start: Start) -> None:
    child = start(agent=False)
    found = explain_process(child.pid)
    assert (found.way, found.holdings) == ("pages", ())
    assert "rlmem run" in found.notes[0]
    assert "import rlmem.preload" in found.notes[0]
    assert summed(found) == found.rss_bytes
    assert {"library code", "Python's small objects"} <= {each.name for each in found.portions}


def test_a_stopped_process_is_told_by_class_and_stays_stopped(start: Start) -> None:
    child = start()
    os.kill(child.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while not living(child.pid).is_stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    found = explain_process(child.pid)
    assert found.way == "pages"
    assert "stopped" in found.notes[0]
    assert living(child.pid).is_stopped


def test_a_program_in_a_long_call_that_holds_the_lock_gives_a_degraded_answer(start: Start) -> None:
    child = start("import itertools; sum(itertools.repeat(1, 10**11))")
    found = explain_process(child.pid, timeout_s=0.3)
    assert found.way == "pages"
    assert "no answer within 0.3 s" in found.notes[0]
    assert summed(found) == found.rss_bytes


def test_a_process_that_ends_while_it_is_asked_is_said_to_have(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start()
    real = attach.ask

    def ask(process: Any, request: Any, **more: Any) -> dict[str, Any]:
        said = real(process, request, **more)
        child.kill()
        child.wait()
        return said

    monkeypatch.setattr(attach, "ask", ask)
    with pytest.raises(AnalysisError, match="has ended"):
        explain_process(child.pid)


def test_a_zombie_holds_no_memory(start: Start) -> None:
    child = start()
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(AnalysisError, match="has ended and waits for its parent"):
        explain_process(child.pid)


def test_a_program_that_is_not_python_is_told_by_class() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        time.sleep(0.1)
        found = explain_process(child.pid)
        assert "not a Python program" in found.notes[0]
        assert summed(found) == found.rss_bytes > 0
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_users_python_is_refused_with_what_to_do(start: Start) -> None:
    child = start()
    before, after = os.pipe()
    own = os.fork()
    if own == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            found = explain_process(child.pid)
            said = json.dumps({"notes": found.notes, "rss": found.rss_bytes, "way": found.way})
        except BaseException as error:
            said = repr(error)
        os.write(after, said.encode())
        os._exit(0)
    os.waitpid(own, 0)
    os.close(after)
    with os.fdopen(before) as file:
        said = json.load(file)
    assert said["rss"] > 0
    assert said["way"] == "pages"
    assert len(said["notes"]) == 1
    assert said["notes"][0].startswith(f"permission denied: the pages of process {child.pid} may be read by root ")
    assert f'sudo "$(command -v rlmem)" explain {child.pid}' in said["notes"][0]


def test_a_number_given_again_is_not_asked_for_the_old_one(start: Start) -> None:
    child = start()
    process = living(child.pid)
    assert attach.agent_socket(process) is not None
    other = processes.Process(pid=process.pid, start=process.start + 1, parent=1, state="S", command="x")
    assert attach.agent_socket(other) is None
    assert not processes.is_same(other)


def test_a_socket_left_over_is_no_agent_and_is_tidied_away(start: Start, tmp_path: Path) -> None:
    child = start(agent=False)
    folder = _short(tmp_path) / "rlmem"
    folder.mkdir(mode=0o700, exist_ok=True)
    process = living(child.pid)
    stale = folder / f"{process.pid}-{process.start}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(stale))
    listener.close()
    assert explain_process(child.pid).way == "pages"
    gone = folder / "999999999-1.sock"
    gone.touch()
    server.tidy(str(folder))
    assert stale.exists()
    assert not gone.exists()


def test_two_agents_in_one_process_are_one(start: Start) -> None:
    src = Path(server.__file__).parents[2]
    child = start(
        f"import sys; sys.path.insert(0, {str(src)!r}); import rlmem.preload; print(rlmem.preload.active, flush=True); time.sleep(60)"
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    assert explain_process(child.pid).way == "agent"
    names = [name.read_text().strip() for name in Path(f"/proc/{child.pid}/task").glob("*/comm")]
    assert len(names) <= 3


def test_an_import_is_enough_for_an_agent(start: Start) -> None:
    src = Path(server.__file__).parents[2]
    program = f"import sys; sys.path.insert(0, {str(src)!r})\nimport rlmem.preload\n" + PROGRAM
    child = start(agent=False, program=program)
    found = explain_process(child.pid)
    assert found.way == "agent"
    assert "buffer.states" in {each.path for each in found.holdings}


def test_a_forked_child_has_an_agent_of_its_own_and_shared_pages_count_once(start: Start) -> None:
    child = start("import os; os.fork(); time.sleep(60)")
    deadline = time.monotonic() + 5
    while len(processes.descendants(child.pid)) < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    tree = explain_tree(child.pid, fork_names=True)
    assert [each.way for each in tree.processes] == ["agent", "agent"]
    assert tree.processes[1].role == "worker"
    assert all(summed(each) == each.rss_bytes for each in tree.processes)
    assert tree.pss_bytes is not None
    assert tree.pss_bytes < 0.7 * sum(each.rss_bytes for each in tree.processes)
    assert (tree.processes[1].shared_anonymous_bytes or 0) > 20_000_000
    os.kill(tree.processes[1].pid, signal.SIGKILL)


#: Workers that keep what they have from their parent, among it many small objects, each with a count in its page.
WORKERS = """
global os
import os
kept = [{"n": n, "list": [n]} for n in range(100_000)]
if all(os.fork() for _ in range(4)):
    print("forked", flush=True)
while True: time.sleep(0.005)
"""


def test_to_explain_forked_workers_leaves_their_pages_shared(start: Start) -> None:
    child = start(WORKERS)
    assert child.stdout is not None
    assert child.stdout.readline() == "forked\n"
    time.sleep(0.5)
    pids = proc.tree(child.pid)
    try:
        before, _ = proc.tree_parts(pids)
        tree = explain_tree(child.pid)
        after, _ = proc.tree_parts(pids)
        assert [each.way for each in tree.processes] == ["agent", *["pages"] * 4]
        assert tree.pss_bytes == pytest.approx(before, abs=2 * MIB)
        assert "4 forked processes have no names" in tree.notes[0]
        own = after - before  # the parent's copy of the pages with its objects, once
        assert own < 60 * MIB
        assert any("copied" in note for note in tree.top.notes)
        named = explain_tree(child.pid, fork_names=True)
        assert [each.way for each in named.processes] == ["agent"] * 5
        assert proc.tree_parts(pids)[0] - after > max(own // 2, 4 * MIB)  # a part of four workers'
    finally:
        for pid in pids[1:]:
            os.kill(pid, signal.SIGKILL)


def test_the_socket_is_its_owners_alone(start: Start) -> None:
    child = start()
    path = attach.agent_socket(living(child.pid))
    assert path is not None
    assert Path(path).stat().st_mode & 0o077 == 0
    assert Path(path).parent.stat().st_mode & 0o077 == 0


def test_a_folder_somebody_else_may_enter_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "rlmem"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert str(place) not in server.folders()


def test_the_agent_answers_nonsense_with_an_error_and_lives_on(start: Start) -> None:
    child = start()
    for request in ({"ask": "nonsense"}, {}, {"ask": ["walk"]}):
        with pytest.raises(attach.NoAgent):
            attach.ask(child.pid, request)
    assert attach.ask(child.pid, {"ask": "hello"})["pid"] == child.pid


def test_the_environments_own_sitecustomize_still_runs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'yes'")
    child = start(
        "import os; print(os.environ.get('SEEN'), flush=True); time.sleep(60)", PYTHONPATH=str(tmp_path / "site")
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "yes\n"
    assert explain_process(child.pid).way == "agent"


def test_without_proc_the_sums_are_psutils() -> None:
    found = elsewhere(os.getpid())
    assert found.rss_bytes == found.unexplained_bytes > 0
    assert "this system does not have" in found.notes[0]
    with pytest.raises(AnalysisError, match="no process"):
        elsewhere(2**22 + 5)


def test_another_users_process_is_told_by_its_sums(tmp_path: Path) -> None:
    own = Path("/proc/self")
    root = tmp_path / "77"
    root.mkdir()
    for name in ("stat", "status", "statm", "cmdline"):
        (root / name).write_bytes((own / name).read_bytes())
    (tmp_path / "self").mkdir()
    found = explain_process(77, root=str(tmp_path))
    assert found.pages_from == "status"
    assert "permission denied" in found.notes[0]
    assert summed(found) == found.rss_bytes > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["explain"], 2, "give the number of a process"),
        (["explain", "0"], 2, "not the number"),
        (["explain", "999999999"], 3, "there is no process 999999999"),
        (["explain", "12", "--name", "x"], 2, "give the number"),
        (["explain", "--name", "no-such-command-anywhere"], 3, "no process has"),
        (["explain", "abc"], 2, "abc"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_command_shows_owners_and_the_growth_to_come(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = start()
    assert run(["explain", str(child.pid)]) == 0
    said = capsys.readouterr().out
    assert "buffer.states: allocated 38.1 MiB, resident" in said
    assert "25.0 % full: will grow by" in said
    assert "unexplained" in said
    assert run(["explain", "--name", str(tmp_path / "träin.py"), "--json", "--trim"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rlmem.explain/2"
    assert document["processes"][0]["pid"] == child.pid
    assert document["processes"][0]["trimmed_bytes"] >= 0


def test_two_programs_of_one_name_are_listed(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = start(), start()
    assert run(["explain", "--name", str(tmp_path / "träin.py")]) == 2
    said = capsys.readouterr().err
    assert str(first.pid) in said
    assert str(second.pid) in said
    assert [each.pid for each in processes.siblings(living(first.pid))] == [second.pid]


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_a_debugger_puts_an_agent_there_only_when_asked_to(start: Start) -> None:
    child = start(agent=False)
    found = explain_process(child.pid, unsafe_attach=True)
    if found.way == "pages":  # a container may forbid it
        assert "gdb" in found.notes[0]
    else:
        assert found.way == "debugger"
        assert "buffer.states" in {each.path for each in found.holdings}
        assert explain_process(child.pid).way == "agent"


@pytest.mark.skipif(not hasattr(sys, "remote_exec"), reason="sys.remote_exec came with Python 3.14")
def test_remote_exec_puts_an_agent_there(start: Start) -> None:
    child = start(agent=False)
    found = explain_process(child.pid)
    assert found.way == "remote-exec"
    assert "buffer.states" in {each.path for each in found.holdings}
    assert explain_process(child.pid).way == "agent"


def test_a_program_run_by_rlmem_is_found_and_not_rlmem(start: Start, tmp_path: Path) -> None:
    name = str(tmp_path / "träin.py")
    wrapper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "--", name])
    try:
        child = start()
        found = {each.pid for each in processes.by_name(name)}
        assert found == {wrapper.pid, child.pid}
        assert not processes._is_rlmem(f"python {name}")
        assert processes._is_rlmem(f"/usr/bin/python3 -m rlmem run -- python {name}")
        assert processes._is_rlmem(f"/home/me/venv/bin/python /home/me/venv/bin/rlmem run -- python {name}")
    finally:
        wrapper.kill()
        wrapper.wait()


LOCKED = PROGRAM.replace(
    "self.capacity, self.size = 1000, 250",
    "import multiprocessing as mp; self.capacity, self.size = 1000, mp.Value('i', 250, lock=mp.Lock())",
)


def test_a_lock_the_program_holds_is_not_waited_for(start: Start) -> None:
    child = start("\nwith buffer.size.get_lock():\n    while True: time.sleep(0.005)", program=LOCKED)
    found = explain_process(child.pid)
    states = next(each for each in found.holdings if each.path == "buffer.states")
    assert (found.way, states.filled, states.capacity) == ("agent", 250, 1000)
    assert explain_process(child.pid).way == "agent"


@pytest.mark.parametrize("hook", ["sys.setprofile", "sys.settrace"])
def test_a_profiled_program_keeps_its_variables(start: Start, hook: str) -> None:
    then = f"""
def look(frame, event, arg):
    for _ in range(200): pass
    return None
def add(a, b):
    total = a + b
    return total + a - b
{hook}(look)
while True: add(1, 2)
"""
    child = start(then)
    for _ in range(10):
        explain_process(child.pid)
    assert child.poll() is None


def test_a_huge_table_takes_no_longer_than_the_limit(start: Start) -> None:
    then = "import collections; d = collections.defaultdict(list, ((n, n) for n in range(600_000)))\n" + BUSY
    child = start(then)
    deadline = time.monotonic() + 20
    while "d" not in (held := {each.path: each for each in explain_process(child.pid).holdings}):
        assert time.monotonic() < deadline
    assert held["d"].filled == 600_000
    assert held["d"].estimated


def test_a_program_that_closed_all_files_keeps_its_own(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    then = f"""
import os
os.closerange(3, 64)
logs = [open({str(log)!r} + str(n), "w") for n in range(4)]
if os.fork() == 0:
    for file in logs: file.write("child"); file.flush()
    os._exit(0)
os.wait(); print("waited", flush=True); time.sleep(60)
"""
    child = start(then)
    assert child.stdout is not None
    assert child.stdout.readline() == "waited\n"
    assert [Path(f"{log}{n}").read_text() for n in range(4)] == ["child"] * 4
    assert explain_process(child.pid).pages_from == "pagemap-scan"
