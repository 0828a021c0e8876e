"""Children that behave and children that do not; each is real, small and gone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import rlmem
from rlmem.agent import proc
from rlmem.errors import UsageError
from rlmem.process.sampler import Sample, TreePeak
from rlmem.runner.caps import make_group
from rlmem.runner.child import Outcome, run_child
from rlmem.units import MIB

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
#: Makes bytes resident as fast as a page can be touched.
TOUCH = """
import os, signal, sys, time
def touched(mib):
    block = bytearray(mib << 20)
    block[::4096] = b'x' * (mib << 8)
    return block
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", TOUCH + textwrap.dedent(body)]


def is_alive(pid: int) -> bool:
    stat = proc.read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def test_a_child_that_ends_well_is_ok_and_reads_nothing() -> None:
    outcome = run_child(script("print('out'); print('err', file=sys.stderr); print(repr(sys.stdin.read()))"))
    assert (outcome.status, outcome.returncode) == ("ok", 0)
    assert (outcome.stdout, outcome.stderr) == ("out\n''\n", "err\n")
    assert outcome.wall_s > 0
    assert [each.role for each in outcome.peak.processes] == ["main"]
    assert outcome.describe().startswith("finished after ")


def test_an_exit_code_is_a_failure_with_the_last_line_of_stderr() -> None:
    outcome = run_child(script("print('no such env', file=sys.stderr); sys.exit(3)"))
    assert (outcome.status, outcome.returncode) == ("failed", 3)
    assert outcome.describe().startswith("exit code 3 after ")
    assert outcome.describe().endswith(": no such env")


def test_a_signal_from_elsewhere_is_told_by_name() -> None:
    outcome = run_child(script("os.kill(os.getpid(), signal.SIGKILL)"))
    assert (outcome.status, outcome.returncode) == ("killed", -signal.SIGKILL)
    assert "killed by SIGKILL" in outcome.describe()


@pytest.mark.parametrize("command", ["/no/such/python", "no-such-python", os.path.dirname(__file__)])
def test_a_program_that_cannot_be_run_is_a_usage_error(command: str) -> None:
    with pytest.raises(UsageError, match=r"such|not a program"):
        run_child([command, "-c", "pass"])


def test_a_missing_folder_and_no_command_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        run_child(script("pass"), cwd=tmp_path / "gone")
    with pytest.raises(UsageError, match="no command"):
        run_child([])


def test_the_folder_and_the_environment_are_the_childs_own(tmp_path: Path) -> None:
    body = "import tempfile; print(os.getcwd(), os.environ['X'], 'HOME' in os.environ, tempfile.mkstemp()[1])"
    outcome = run_child(script(body), cwd=tmp_path, env={"X": "1", "PATH": os.environ["PATH"]})
    folder, value, inherited, file = outcome.stdout.split()
    assert (folder, value, inherited) == (str(tmp_path), "1", "False")
    assert not Path(file).parent.exists()


def test_the_private_folder_goes_even_when_it_is_closed_to_us() -> None:
    body = "d = os.environ['TMPDIR'] + '/a/b'; os.makedirs(d); open(d + '/f', 'w'); os.chmod(d, 0); print(d)"
    outcome = run_child(script(body))
    assert not Path(outcome.stdout.strip()).parents[1].exists()


def test_a_spike_of_thirty_milliseconds_is_caught() -> None:
    body = """
    keep = touched(50)
    time.sleep(0.3)
    spike = touched(200)
    time.sleep(0.03)
    del spike
    time.sleep(0.3)
    """
    base = run_child(script("time.sleep(0.3)")).peak.pss_bytes
    peak = run_child(script(body)).peak.pss_bytes
    assert peak - base == pytest.approx(250 * MIB, rel=0.03)


def test_a_spike_at_the_very_end_is_caught() -> None:
    base = run_child(script("time.sleep(0.3)")).peak.pss_bytes
    peak = run_child(script("time.sleep(0.2); touched(300); os._exit(0)")).peak.pss_bytes
    assert peak - base == pytest.approx(300 * MIB, rel=0.03)


def test_forked_workers_share_what_they_do_not_write() -> None:
    body = """
    keep = touched(150)
    for _ in range(3):
        if os.fork() == 0:
            own = touched(20)
            time.sleep(0.6)
            os._exit(0)
    for _ in range(3):
        os.wait()
    """
    peak = run_child(script(body)).peak
    assert 210 * MIB < peak.pss_bytes < 270 * MIB
    assert peak.rss_bytes > 600 * MIB
    assert sorted(each.role for each in peak.processes) == ["main", "worker", "worker", "worker"]


def test_a_child_over_the_cap_is_stopped_shortly_after() -> None:
    body = """
    blocks = []
    while True:
        blocks.append(touched(4))
    """
    outcome = run_child(script(body), cap_bytes=200 * MIB, time_limit_s=60)
    assert (outcome.status, outcome.returncode) == ("oom", -signal.SIGKILL)
    assert 200 * MIB < outcome.peak.pss_bytes < 400 * MIB
    assert "over the cap of 200 MiB" in outcome.describe()


def test_workers_over_the_cap_together_are_stopped_with_their_parent() -> None:
    body = """
    for _ in range(3):
        if os.fork() == 0:
            blocks = []
            while True:
                blocks.append(touched(2))
                time.sleep(0.01)
    os.wait()
    """
    outcome = run_child(script(body), cap_bytes=150 * MIB, time_limit_s=60)
    assert outcome.status == "oom"
    assert 150 * MIB < outcome.peak.pss_bytes < 300 * MIB
    assert not [each.pid for each in outcome.peak.processes if is_alive(each.pid)]


def test_a_child_below_the_cap_is_left_alone() -> None:
    body = "keep = touched(60); [os.fork() == 0 and (time.sleep(0.3), os._exit(0)) for _ in range(4)]; time.sleep(0.4)"
    assert run_child(script(body), cap_bytes=150 * MIB).status == "ok"  # the summed RSS is above 300 MiB


def test_shared_memory_of_a_stopped_child_is_given_back() -> None:
    body = """
    from multiprocessing import shared_memory
    shared = shared_memory.SharedMemory(create=True, size=64 << 20)
    shared.buf[::4096] = b'x' * (64 << 8)
    print(shared.name, flush=True)
    time.sleep(0.3)
    keep = touched(300)
    time.sleep(60)
    """
    outcome = run_child(script(body), cap_bytes=150 * MIB)
    assert outcome.status == "oom"
    assert not Path("/dev/shm", outcome.stdout.strip()).exists()


@pytest.mark.parametrize("prepare", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_the_time_limit_ends_a_child_that_ignores_sigterm_too(prepare: str) -> None:
    begin = time.monotonic()
    outcome = run_child(script(f"{prepare}; time.sleep(60)".lstrip("; ")), time_limit_s=0.5)
    assert outcome.status == "timeout"
    assert outcome.returncode == (-signal.SIGKILL if prepare else -signal.SIGTERM)
    assert time.monotonic() - begin < 5
    assert "time limit of 0.5 s" in outcome.describe()


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
os.wait()
"""


def test_a_daemon_that_left_everything_is_ended_and_not_waited_for() -> None:
    begin = time.monotonic()
    outcome = run_child(script(f"{DAEMON}\ntime.sleep(0.3)"))
    assert outcome.status == "ok"
    assert not is_alive(int(outcome.stdout))
    assert time.monotonic() - begin < 10


def test_much_output_is_read_and_its_end_is_kept() -> None:
    begin = time.monotonic()
    outcome = run_child(script("for n in range(50): sys.stdout.write('x' * (1 << 20))\nprint('end')"))
    assert outcome.status == "ok"
    assert len(outcome.stdout) == 64 << 10
    assert outcome.stdout.endswith("xxend\n")
    assert time.monotonic() - begin < 20


def test_ticks_tell_how_it_stands_and_an_error_in_one_ends_the_child() -> None:
    ticks: list[Sample] = []
    outcome = run_child(script("keep = touched(30); time.sleep(0.5)"), on_tick=ticks.append)
    assert 2 <= len(ticks) <= 10 * outcome.wall_s + 3
    assert max(tick.tree_bytes for tick in ticks) > 30 * MIB
    assert {tick.processes for tick in ticks} <= {0, 1}

    pids: list[int] = []

    def fail(_: Sample) -> None:
        pids.extend(pid for pid in proc.tree(os.getpid()) if "sentence-of-this-test" in proc.command(pid))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        run_child(script("'sentence-of-this-test'; time.sleep(60)"), on_tick=fail)
    assert pids and not any(map(is_alive, pids))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 7), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_to_rlmem_leaves_nothing_behind(tmp_path: Path, number: int, code: int) -> None:
    started = tmp_path / "started"
    inner = f"""
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
    import subprocess
    slow_to_end = [sys.executable, '-c', 'import time; time.sleep(60)', 'multiprocessing.resource_tracker']
    subprocess.Popen(slow_to_end, start_new_session=True)
    open({str(started)!r} + '.tmp', 'w').write(f"{{os.getpid()}} {{os.environ['TMPDIR']}}")
    os.rename({str(started)!r} + '.tmp', {str(started)!r})
    time.sleep(60)
    """
    # A shell starts its background commands with SIGINT ignored, and the tests may be one of them.
    outer = f"""
import signal, sys
from rlmem.runner.child import run_child
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    run_child({script(inner)!r})
except KeyboardInterrupt:
    sys.exit(7)
"""
    source = str(Path(rlmem.__file__).parents[1])
    parent = subprocess.Popen([sys.executable, "-c", outer], env={**os.environ, "PYTHONPATH": source})
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    pid, folder = started.read_text().split()
    pids = [pid for pid in proc.tree(parent.pid) if pid != parent.pid]
    assert int(pid) in pids and len(pids) == 3
    parent.send_signal(number)
    time.sleep(0.4)
    parent.send_signal(number)  # impatience changes nothing
    assert parent.wait(30) == code
    assert not any(map(is_alive, pids))
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome(status="oom", returncode=-9, wall_s=2, peak=TreePeak(), by_kernel=True),
            "ended by the kernel for want of",
        ),
        (Outcome(status="killed", returncode=-11, wall_s=2, peak=TreePeak()), "killed by SIGSEGV after 2.0 s"),
        (Outcome(status="killed", returncode=-99, wall_s=2, peak=TreePeak()), "killed by signal 99"),
        (Outcome(status="interrupted", returncode=None, wall_s=2, peak=TreePeak()), "interrupted after 2.0 s"),
    ],
)
def test_an_outcome_describes_itself(outcome: Outcome, line: str) -> None:
    assert outcome.describe().startswith(line)
    assert "\n" not in outcome.describe()


def machine(root: Path, *, leaf_max: str = "max", control: str = "memory pids") -> Path:
    """A v2 machine: a slice that hands out memory, and our own scope in it."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/user/app/own.scope\n")
    (root / "proc/self/mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    leaf = root / "sys/fs/cgroup/user/app/own.scope"
    leaf.mkdir(parents=True)
    for folder, text in ((leaf, ""), (leaf.parent, control), (leaf.parents[1], control)):
        (folder / "cgroup.subtree_control").write_text(text)
        (folder / "memory.max").write_text("max")
        (folder / "memory.events").write_text("oom 0\noom_kill 2\n")
    (leaf / "memory.max").write_text(leaf_max)
    return leaf


def test_a_cgroup_is_made_beside_ours_where_the_place_was_given(tmp_path: Path) -> None:
    leaf = machine(tmp_path)
    group = make_group("j", None, root=tmp_path, delegated=lambda path: path.name in {"own.scope", "app"})
    assert group is not None and group.own
    assert group.level.path == leaf.parent / "rlmem-j"
    assert group.launch(["python", "x"])[-3:] == [str(leaf.parent / "rlmem-j/cgroup.procs"), "python", "x"]
    (group.level.path / "memory.events").write_text("oom_kill 1\n")
    assert group.killed()
    (group.level.path / "memory.events").unlink()
    assert group.remove() and not group.level.path.exists()


@pytest.mark.parametrize(("leaf_max", "control"), [("1000", "memory"), ("max", "pids")])
def test_a_limit_of_ours_is_never_left_and_no_place_means_only_reading(
    tmp_path: Path, leaf_max: str, control: str
) -> None:
    leaf = machine(tmp_path, leaf_max=leaf_max, control=control)
    group = make_group("j", 100, root=tmp_path, delegated=lambda _: True)
    assert group is not None and not group.own
    assert group.launch(["python"]) == ["python"]
    assert (group.pids(), group.peak_bytes(), group.killed()) == ((), None, False)
    (leaf / "memory.events").write_text("oom_kill 3\n")
    assert group.killed()
    assert group.remove() and leaf.exists()


def test_a_cgroup_whose_limit_cannot_be_set_is_taken_away_again(tmp_path: Path) -> None:
    leaf = machine(tmp_path)  # no kernel puts files into the new folder here
    group = make_group("j", 100, root=tmp_path, delegated=lambda _: True)
    assert group is not None and not group.own
    assert [path.name for path in leaf.parent.iterdir() if path.is_dir()] == ["own.scope"]


def test_a_named_cgroup_is_used_in_either_version(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    group = make_group("j", None, root=tmp_path, named=str(given))
    assert group is not None and group.own and group.level.version == 1
    (group.level.path / "memory.max_usage_in_bytes").write_text("4096\n")
    (group.level.path / "cgroup.procs").write_text("12\n13\n")
    (group.level.path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    assert (group.peak_bytes(), group.pids(), group.killed()) == (4096, (12, 13), False)


def test_without_cgroups_there_is_no_group(tmp_path: Path) -> None:
    assert make_group("j", 100, root=tmp_path) is None
