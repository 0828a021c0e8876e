"""Moments of real small processes and cgroup folders: who belongs, what is counted, what happens when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rlmem.agent import proc
from rlmem.core.holdings import Explanation, Holding, Portion, Progress
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.attach import preload
from rlmem.process.cgroup import V1, V2, Level
from rlmem.units import MIB
from rlmem.watch import asking, sampling, surroundings
from rlmem.watch.asking import Answer, Asking
from rlmem.watch.census import Census
from rlmem.watch.members import Member, read_member
from rlmem.watch.pacing import SHARES, Pacer
from rlmem.watch.sampling import Ended, Watch
from rlmem.watch.session import Session, sibling_sizes

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def child(code: str = WAIT, *, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env or dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline().strip() == b"ready"
        yield process
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


def answering(*answers: Answer) -> Asking:
    left = list(answers)
    return Asking(lambda members: left.pop(0) if len(left) > 1 else left[0])


def watch_of(pid: int, clock: Clock, **more: object) -> Watch:
    options = {"owners": False, "clock": clock, **more}
    return Watch((pid,), **options)  # type: ignore[arg-type]


def test_a_process_is_seen_with_its_pages_threads_and_limit() -> None:
    clock = Clock()
    with child(f"data = bytearray({30 * MIB}); {WAIT}") as process:
        watch = watch_of(process.pid, clock)
        moment = watch.sample()
        rollup = proc.rollup(process.pid)
        assert moment.at_s == 0.0
        assert moment.rss_bytes == pytest.approx(proc.rss(process.pid), abs=MIB)
        assert moment.tree_bytes == pytest.approx(rollup["Rss"], rel=0.2)
        assert moment.uss_bytes == pytest.approx(rollup["Private_Clean"] + rollup["Private_Dirty"], abs=MIB)
        assert (moment.processes, moment.threads) == (1, 1)
        assert moment.limit_bytes is not None
        assert moment.limit_bytes > moment.tree_bytes
        assert moment.limit_name
        (member,) = watch.members
        assert (member.pid, member.role) == (process.pid, "main")
        assert member.command.endswith(WAIT)


def test_between_full_readings_growth_is_still_seen() -> None:
    clock = Clock()
    grow = f"import sys; print('ready', flush=True); sys.stdin.readline(); data = b'x' * {40 * MIB}; print('done', flush=True); sys.stdin.read()"
    with child(grow) as process:
        watch = watch_of(process.pid, clock)
        before = watch.sample()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        after = watch.sample()  # no time has passed: no full reading is due
        assert after.tree_bytes - before.tree_bytes == pytest.approx(40 * MIB, rel=0.1)
        assert after.uss_bytes == before.uss_bytes


def test_children_belong_also_when_their_parent_has_gone() -> None:
    clock = Clock()
    nest = (
        "import subprocess, sys; inner = subprocess.Popen([sys.executable, '-c', \"import time; print('up', flush=True); "
        'time.sleep(60)"], stdout=subprocess.PIPE); inner.stdout.readline(); print(inner.pid, flush=True); '
        "sys.stdin.readline()"
    )
    top = (
        f"import subprocess, sys; middle = subprocess.Popen([sys.executable, '-c', {nest!r}], stdin=subprocess.PIPE, "
        "stdout=subprocess.PIPE); inner = int(middle.stdout.readline()); print('ready', flush=True); "
        "sys.stdin.readline(); middle.communicate(b'\\n'); print(inner, flush=True); sys.stdin.read()"
    )
    with child(top) as process:
        watch = watch_of(process.pid, clock)
        assert watch.sample().processes == 3
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        inner = int(process.stdout.readline())
        try:
            clock.now += 60
            assert watch.sample().processes == 2
            assert {member.pid for member in watch.members} == {process.pid, inner}
        finally:
            os.kill(inner, signal.SIGKILL)


def test_the_end_of_a_process_is_told() -> None:
    clock = Clock()
    with child() as process:
        watch = watch_of(process.pid, clock)
        watch.sample()
        pid = process.pid
    with pytest.raises(Ended, match=f"{pid} ended"):
        watch.sample()


def test_a_number_given_to_somebody_else_is_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with child() as process:
        watch = watch_of(process.pid, clock)
        watch.sample()
        real = read_member(process.pid)
        assert real is not None

        def reused(pid: int, root: str) -> Member | None:
            from dataclasses import replace

            return replace(real, start=real.start + 1) if pid == process.pid else None

        monkeypatch.setattr(sampling, "read_member", reused)
        with pytest.raises(Ended):
            watch.sample()


@pytest.mark.parametrize(("pid", "error"), [(0, UsageError), (-4, UsageError), (2**22 + 5, AnalysisError)])
def test_a_process_that_never_was_is_an_error(pid: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        Watch((pid,))


def test_cpu_time_goes_on_and_does_not_fall_when_a_child_ends() -> None:
    clock = Clock()
    busy = "n = sum(range(20_000_000)); print('ready', flush=True); import sys; sys.stdin.read()"
    with child(busy) as process:
        watch = watch_of(process.pid, clock)
        first = watch.sample().cpu_s
        assert first > 0.1
        (member,) = watch.members
        watch._cpu[4242, 1] = 50.0  # a child that was there, and is not any more
        assert watch.sample().cpu_s >= first >= member.cpu_s


def test_a_stopped_process_is_said_to_be() -> None:
    with child() as process:
        watch = watch_of(process.pid, Clock())
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(100):
            moment = watch.sample()
            if moment.notes:
                break
            time.sleep(0.01)
        assert moment.notes == (f"stopped (SIGSTOP or a debugger): {process.pid}",)
        os.kill(process.pid, signal.SIGCONT)


def test_without_permission_rss_is_shown_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "rollup", lambda pid, root=proc.PROC: None)
    with child() as process:
        moment = watch_of(process.pid, Clock()).sample()
        assert moment.tree_bytes == moment.rss_bytes > 0
        assert moment.uss_bytes is None
        assert moment.notes[0].startswith("permission denied: RSS is shown")


def settled(watch: Watch, clock: Clock, done: Callable[[object], bool]) -> object:
    for _ in range(200):
        moment = watch.sample()
        if done(moment):
            return moment
        clock.now += 0.01
        time.sleep(0.02)
    raise AssertionError("never happened")


def test_owners_are_asked_at_once_then_seldom_and_more_often_while_something_grows() -> None:
    clock = Clock()
    held = Holding(path="x", kind="array", type="numpy.ndarray", nbytes=1, resident_bytes=1)
    answer = Answer(holdings=(held,), progress=Progress(step=7), cost_s=0.001)
    with child() as process:
        watch = watch_of(process.pid, clock, owners=True, asking=answering(answer))
        watch.is_growing = False
        moment = settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        assert moment.holdings == (held,)  # type: ignore[attr-defined]
        assert moment.progress == Progress(step=7)  # type: ignore[attr-defined]
        clock.now += 60
        assert watch.sample().holdings is None
        assert not watch._asking.is_busy  # type: ignore[union-attr]
        watch.ask_now()
        settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        watch.is_growing = True
        watch.ask_now()
        settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        clock.now += 11
        settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]


def test_dear_looks_come_at_the_latest_when_the_time_has_doubled_while_something_grows() -> None:
    clock = Clock()
    answer = Answer(holdings=(), cost_s=10.0)
    with child() as process:
        watch = watch_of(process.pid, clock, owners=True, asking=answering(answer))
        for _ in range(5):
            seen = settled(watch, clock, lambda each: each.holdings is not None).at_s  # type: ignore[attr-defined]
            clock.now += max(10, seen) - 1
            assert watch.sample().holdings is None
            assert not watch._asking.is_busy  # type: ignore[union-attr]
            clock.now += 1.1
        assert seen > 60
        watch.is_growing = False
        settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        clock.now += 3000
        watch.sample()
        assert not watch._asking.is_busy  # type: ignore[union-attr]


def test_cpu_time_that_only_our_questions_take_leaves_a_program_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with child() as process:
        real = read_member(process.pid)
        assert real is not None
        used = [1.0]
        monkeypatch.setattr(sampling, "read_member", lambda pid, root: replace(real, cpu_s=used[0]))
        asking_now = answering(Answer(holdings=(), cost_s=0.01))
        watch = watch_of(process.pid, clock, owners=True, asking=asking_now)
        watch.sample()  # asks
        clock.now += 1
        used[0] += 0.02
        settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        clock.now += 5
        assert watch.sample().idle_s >= 6
        used[0] += 0.01
        clock.now += 1
        assert watch.sample().idle_s == 0
        clock.now += 1
        assert watch.sample().idle_s == 1


def test_a_program_without_an_agent_is_said_to_have_no_names() -> None:
    with child() as process:
        clock = Clock()
        watch = watch_of(process.pid, clock, owners=True)
        moment = settled(watch, clock, lambda each: bool(each.notes))  # type: ignore[attr-defined]
        assert moment.holdings is None  # type: ignore[attr-defined]
        assert "rlmem run" in moment.notes[0]  # type: ignore[attr-defined]


def test_a_program_with_an_agent_tells_its_owners() -> None:
    code = f"import sys, array\nkept = [bytes({MIB}) for _ in range(20)]\nprint('ready', flush=True)\nsys.stdin.read()"
    with child(code, env=preload(os.environ)) as process:
        clock = Clock()
        watch = watch_of(process.pid, clock, owners=True)
        moment = settled(watch, clock, lambda each: each.holdings is not None)  # type: ignore[attr-defined]
        assert any(held.path.startswith("kept") for held in moment.holdings)  # type: ignore[attr-defined]


def make_member(pid: int, rss: int = 0, role: str = "worker") -> Member:
    from rlmem.process.sampler import Pages

    pages = Pages(anonymous=rss, shared=0)
    return Member(pid=pid, start=1, parent=1, state="S", cpu_s=0, threads=1, pages=pages, role=role)


def explained(pid: int, path: str, way: str = "agent") -> Explanation:
    held = Holding(path=path, kind="array", type="numpy.ndarray", nbytes=1, resident_bytes=1)
    return Explanation(pid=pid, start=1, command="", way=way, holdings=(held,), pauses_s=(0.2, 0.3), notes=("why",))


def test_the_largest_workers_are_asked_too_and_their_owners_carry_their_name() -> None:
    members = [make_member(1, role="main"), *(make_member(pid, rss=pid) for pid in (2, 3, 4, 5))]
    answer = asking.ask(members, lambda pid: explained(pid, "env.frames"), lambda pid: pid != 5)
    assert answer.holdings is not None
    assert [held.path for held in answer.holdings] == ["env.frames", "worker 4: env.frames", "worker 3: env.frames"]
    assert answer.cost_s > 1.5
    assert answer.asked == {1, 3, 4}


def test_workers_of_one_size_are_not_asked_in_turn() -> None:
    members = [make_member(1, role="main"), *(make_member(pid, rss=100 + pid) for pid in (2, 3, 4, 5))]
    tell = lambda pid: explained(pid, "x")  # noqa: E731
    assert asking.ask(members, tell, lambda _: True, before={2, 3}).asked == {1, 2, 3}
    members.append(make_member(6, rss=200))
    assert asking.ask(members, tell, lambda _: True, before={2, 3}).asked == {1, 3, 6}


def test_who_cannot_be_asked_is_a_note() -> None:
    def gone(pid: int) -> Explanation:
        raise AnalysisError(f"process {pid} has ended")

    assert asking.ask([make_member(1)], gone, lambda _: True).notes == ("process 1 has ended",)
    assert asking.ask([make_member(1)], gone, lambda _: False).notes == (asking.HOW_TO_NAME,)
    pages = asking.ask([make_member(1)], lambda pid: explained(pid, "x", "pages"), lambda _: True)
    assert (pages.holdings, pages.notes) == (None, ("why",))


def test_classes_of_memory_are_told_of_the_largest_process_with_and_without_an_agent() -> None:
    heap = Portion(name="heap", resident_bytes=7)

    def tell(pid: int) -> Explanation:
        return replace(explained(pid, "x"), portions=(heap,), unexplained_bytes=2, way="agent" if pid > 1 else "pages")

    rest = Portion(name="unexplained", resident_bytes=2)
    alone = asking.ask([make_member(1)], tell, lambda _: False)
    assert (alone.holdings, alone.portions, alone.notes) == (None, (heap, rest), (asking.HOW_TO_NAME,))
    asked: list[int] = []
    launched = [make_member(1), make_member(2, rss=300), make_member(3, rss=200)]
    tree = asking.ask(launched, lambda pid: asked.append(pid) or tell(pid), lambda pid: pid == 3)  # type: ignore[func-returns-value]
    assert (tree.portions, len(tree.holdings or ()), asked) == ((heap, rest), 1, [3, 2])


def test_dear_work_is_done_seldom_and_fast_sampling_pays_in_proportion() -> None:
    slow, fast = Pacer("pages", 1, 1.0), Pacer("pages", 1, 0.1)
    for pacer in (slow, fast):
        assert pacer.is_due(0.0)
        pacer.spend(0.0, 0.2)  # 20 GB
    assert not slow.is_due(0.2 / SHARES["pages"] - 1)
    assert slow.is_due(0.2 / SHARES["pages"])
    assert fast.is_due(0.021 / SHARES["pages"])
    slow.spend(300.0, 0.0)
    assert not slow.is_due(300.9)
    assert slow.is_due(301.0)
    assert sum(SHARES.values()) < 0.0045


def cgroup_folder(path: Path, pids: Sequence[int], *, current: int, file: int, version: int = V2) -> Level:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    prefix = "" if version == V2 else "total_"
    (path / "memory.stat").write_text(f"{prefix}active_file {file}\n{prefix}inactive_file 0\nanon 1\n")
    (path / ("memory.current" if version == V2 else "memory.usage_in_bytes")).write_text(f"{current}\n")
    (path / "memory.pressure").write_text("some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=0.00\n")
    return Level(version=version, path=path, is_leaf=True)


@pytest.mark.parametrize("version", [V1, V2])
def test_a_cgroup_is_watched_with_its_file_cache_apart(tmp_path: Path, version: int) -> None:
    with child() as process, child() as inner:
        cgroup_folder(tmp_path / "job", [process.pid], current=900 * MIB, file=700 * MIB, version=version)
        cgroup_folder(tmp_path / "job" / "inner", [inner.pid], current=1, file=0, version=version)
        watch = Watch(cgroup=tmp_path / "job", owners=False, clock=Clock())
        moment = watch.sample()
        assert (moment.tree_bytes, moment.cache_bytes) == (200 * MIB, 700 * MIB)
        assert moment.processes == 2
        if version == V2:
            assert moment.pressure == 0.125
        assert watch.title == str(tmp_path / "job")
        for folder in ("job", "job/inner"):
            (tmp_path / folder / "cgroup.procs").write_text("")
        with pytest.raises(Ended, match="nobody is left in"):
            watch.sample()


def test_a_cgroup_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such cgroup"):
        surroundings.find_group(tmp_path / "none")
    (tmp_path / "cgroup.procs").write_text("")
    with pytest.raises(UsageError, match="memory controller is not enabled"):
        surroundings.find_group(tmp_path)


def test_a_limit_of_the_cgroup_bites_before_the_machine(tmp_path: Path) -> None:
    place = tmp_path / "sys/fs/cgroup/job"
    level = cgroup_folder(place, [], current=900 * MIB, file=700 * MIB)
    (place / "memory.max").write_text(f"{1000 * MIB}\n")
    for path, text in {
        "proc/7/cgroup": "0::/job\n",
        "proc/7/limits": "Max address space         4096                 unlimited            bytes\n",
        "proc/self/mountinfo": "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    bound = surroundings.read_bound(7, 150 * MIB, root=tmp_path)
    assert bound is not None
    assert (bound.nbytes, bound.name) == (950 * MIB, "cgroup v2 (/sys/fs/cgroup/job/memory.max)")
    assert surroundings.read_pressure(7, root=tmp_path) == 0.125
    assert surroundings.read_group(level) == surroundings.Group(nbytes=200 * MIB, cache_bytes=700 * MIB)


def test_others_that_run_the_same_command_are_measured_with_their_children() -> None:
    code = f"import time; data = bytearray({20 * MIB}); {WAIT}  # sibling {os.getpid()} {time.time()}"
    with child(code) as one, child(code) as two, child(code):
        census = Census()
        census.refresh()
        sizes = sibling_sizes(one.pid, census)
        assert len(sizes) == 2
        assert min(sizes) == pytest.approx(proc.rss(two.pid), rel=0.2)
        assert sibling_sizes(2**22 + 5, census) == ()


def test_a_session_judges_and_ends_with_its_process() -> None:
    clock = Clock()
    with child() as process:
        session = Session(watch_of(process.pid, clock), clock=clock)
        for _ in range(120):
            frame = session.step()
            clock.now += 1
        assert frame.judgement.state in {"stuck", "normal"}
        assert len(session.history.moments) == 120
    with pytest.raises(Ended):
        session.step()
