"""``rlmem watch`` as a user calls it: lines, JSON, thresholds, ends, metrics; and the dashboard, driven by a pilot."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest

from rlmem.agent import proc
from rlmem.app.watch import LiveTargets, latest_document, moment_document
from rlmem.cli import run
from rlmem.core.holdings import Holding, Portion, Progress
from rlmem.core.moments import Forecast, Growth, Judgement, Moment
from rlmem.documents.contract import schema_of, to_plain
from rlmem.documents.moment import MomentDocument
from rlmem.errors import UsageError
from rlmem.process.attach import preload
from rlmem.process.sampler import Pages
from rlmem.report import watch as views
from rlmem.units import GIB, MIB
from rlmem.watch.history import History
from rlmem.watch.members import Member
from rlmem.watch.prometheus import Exporter, exposition
from rlmem.watch.sampling import Ended
from rlmem.watch.session import Frame, Session
from rlmem.watch.thresholds import Thresholds, parse_level
from rlmem.watch.watching import Watching, watch_all

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
SRC = Path(__file__).parents[2] / "src"
NOON = datetime(2026, 1, 2, 12, 0, 0)


@pytest.fixture
def target() -> Iterator[subprocess.Popen[bytes]]:
    code = f"import sys\nkept = [bytes({MIB}) for _ in range(20)]\nprint('ready', flush=True)\nsys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=preload(os.environ)
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.stdin.close()
    process.kill()
    process.wait()
    process.stdout.close()


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = run(["watch", *(str(word) for word in words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def start(*words: object, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlmem", "watch", *(str(word) for word in words)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), **more},
    )  # fmt: skip


def test_plain_lines_and_a_summary(capsys: pytest.CaptureFixture[str], target: subprocess.Popen[bytes]) -> None:
    code, out, err = call(capsys, target.pid, "--interval", 0.05, "--every", "0.2s", "--for", "1s")
    assert (code, err) == (0, "")
    *lines, last = out.splitlines()
    assert len(lines) > 2
    assert re.fullmatch(
        rf"[\d:]{{8}}  {target.pid}  [\d.]+ MiB of [\d.,]+ \w+ \(\d+ %\)  \d+ threads  unknown: .*", lines[0]
    )
    assert re.match(rf"watched {target.pid} for \d+ s: peak [\d.]+ MiB at \d+ s; unknown: ", last)


def test_json_lines_follow_their_schema(capsys: pytest.CaptureFixture[str], target: subprocess.Popen[bytes]) -> None:
    code, out, err = call(capsys, target.pid, "--json", "--interval", 0.05, "--for", "1.5s")
    assert code == 0
    assert err.startswith(f"watched {target.pid}")
    documents = [json.loads(line) for line in out.splitlines()]
    assert len(documents) > 5
    for document in documents:
        jsonschema.validate(document, schema_of(MomentDocument))
    assert documents[0]["members"][0]["pid"] == target.pid
    assert any(held["path"].startswith("kept") for each in documents for held in each["moment"]["holdings"] or ()), (
        documents[-1]["moment"]["notes"]
    )


def test_the_end_of_the_process_is_a_clear_line_and_exit_code_zero(target: subprocess.Popen[bytes]) -> None:
    with start(target.pid, "--interval", 0.05) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        target.kill()
        target.wait()
        out, err = watch.communicate(timeout=20)
        assert (watch.returncode, err) == (0, "")
        assert f"{target.pid} ended\nwatched {target.pid} for" in out


def test_ctrl_c_ends_with_a_summary_and_exit_code_zero(target: subprocess.Popen[bytes]) -> None:
    with start(target.pid, "--interval", 0.05) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=20)
        assert (watch.returncode, err) == (0, "\n")
        assert f"watched {target.pid} for" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "what to watch? Give a PID, --name TEXT or --cgroup PATH"),
        (["abc"], 2, "'abc' is not the number of a process"),
        (["0"], 2, "0 is not the number of a process"),
        (["4194310"], 3, "there is no process 4194310"),
        (["--name", "no such command 123"], 2, "--name no such command 123: no process has that in its command"),
        (["--cgroup", "/no/such"], 2, "--cgroup /no/such: no such cgroup"),
        (["1", "--for", "soon"], 2, "'soon' is not a time; write it like 90s, 10min, 2h or 1h30"),
        (["1", "--fail-at", "120%"], 2, "--fail-at '120%' is not between 0% and 100%"),
        (["1", "--warn-at", "much"], 2, "--warn-at 'much' is not a size"),
        (["1", "--warn-at", "x%"], 2, "--warn-at 'x%' is not a percentage"),
        (["1", "--plain", "--json"], 2, "--plain and --json contradict each other"),
        (["1", "--interval", "0"], 2, "0.0 is not in the range"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str) -> None:
    found, out, err = call(capsys, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


def test_thresholds_warn_and_fail(capsys: pytest.CaptureFixture[str], target: subprocess.Popen[bytes]) -> None:
    quick = ("--interval", 0.05, "--for", "0.5s")
    code, out, err = call(capsys, target.pid, "--warn-at", "10MB", *quick)
    assert code == 0
    assert err.count("warning:") == 1
    assert "over 10MB" in err
    code, out, err = call(capsys, target.pid, "--fail-at", "10MB", *quick)
    assert code == 1
    assert re.search(rf"rlmem: {target.pid} holds [\d.]+ MB, over 10MB", err)
    assert "watched" in out
    assert call(capsys, target.pid, "--fail-at", "100%", *quick)[0] == 0


def test_a_verdict_can_fail_the_command() -> None:
    moment = Moment(at_s=0, tree_bytes=8 * GIB, rss_bytes=1, limit_bytes=10 * GIB)
    leaking = Judgement(state="leaking", reasons=("it grows",))
    assert Thresholds(fail_on=("leaking",)).failure(moment, leaking) == "leaking: it grows"
    assert Thresholds(fail_on=("stuck",)).failure(moment, leaking) is None
    share = Thresholds(fail_at=parse_level("75%", "--fail-at"))
    assert share.failure(moment, leaking) == "holds 8.00 GiB, over 75% of the 10.0 GiB there are"
    assert share.failure(replace(moment, limit_bytes=None), leaking) is None


def test_a_closed_pipe_is_no_error(target: subprocess.Popen[bytes]) -> None:
    words = f"{sys.executable} -m rlmem watch {target.pid} --json --interval 0.05 | head -2 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, timeout=30, check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )  # fmt: skip
    assert done.stdout.split() == ["2", "0"]
    assert "Traceback" not in done.stderr


def test_without_textual_plain_lines_follow_and_the_extra_is_named(
    tmp_path: Path, target: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError('no', name='textual')\n")
    parent, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "rlmem", "watch", str(target.pid), "--interval", "0.05", "--for", "0.3s"],
        stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True, timeout=30, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SRC}"},
    )  # fmt: skip
    shown = os.read(parent, 10_000).decode()
    os.close(parent)
    os.close(terminal)
    assert done.returncode == 0
    assert "pip install 'rlmem[watch]'" in done.stderr
    assert str(target.pid) in shown


# -- frames without processes --------------------------------------------------------------------------------------------


def make_frame(state: str = "leaking", **more: object) -> Frame:
    moment = Moment(
        at_s=60, tree_bytes=20 * GIB, rss_bytes=21 * GIB, uss_bytes=19 * GIB, processes=2, threads=53, cpu_s=70.5,
        limit_bytes=24 * GIB, limit_name="cgroup v2", pressure=0.031, progress=Progress(step=10),
    )  # fmt: skip
    pages = Pages(anonymous=20 * GIB, shared=0)
    member = Member(
        pid=47068, start=1, parent=1, state="S", cpu_s=1, threads=53, pages=pages, command='python "train".py',
        pss_bytes=20 * GIB, uss_bytes=19 * GIB,
    )  # fmt: skip
    holdings = (
        Holding(path="buffer.obs", kind="array", type="numpy.ndarray", nbytes=40 * GIB, resident_bytes=10 * GIB, filled=25, capacity=100),
        Holding(path="self.episode_infos", kind="container", type="list", nbytes=GIB, resident_bytes=GIB, filled=31_000),
        Holding(path="net.weight", kind="tensor", type="torch.Parameter", nbytes=MIB, resident_bytes=MIB),
    )  # fmt: skip
    judgement = Judgement(
        state=state,
        reasons=("residual grows 39.1 MiB/min outside any buffer: leak suspected", "and more"),
        culprit="self.episode_infos",
        total=Growth(name="total", bytes_per_s=7e5, low=6e5, high=8e5, significant=True),
        owners=(
            Growth(name="self.episode_infos", bytes_per_s=7e5, low=6e5, high=8e5, significant=True, items_per_s=52),
        ),
        forecast=Forecast(oom_in_s=7500, oom_low_s=6600, oom_high_s=8700),
    )
    frame = Frame(
        title="47068", command='python "train".py', moment=moment, judgement=judgement, members=(member,),
        holdings=holdings,
    )  # fmt: skip
    return replace(frame, **more)  # type: ignore[arg-type]


class FakeWatch:
    """What the dashboard needs of a watch."""

    def __init__(self) -> None:
        self.title, self.members, self.asked = "47068", (), 0

    def ask_now(self) -> None:
        self.asked += 1


class FakeSession:
    """Frames one after the other, then the end."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.watch, self.history = FakeWatch(), History()
        self.judgement = frames[-1].judgement
        self._left = list(frames)
        self.last = frames[-1]

    def step(self) -> Frame:
        if not self._left:
            raise Ended("47068 ended")
        frame = self._left.pop(0)
        self.history.add(frame.moment)
        return frame

    def decide(self, *, has_ended: bool = False) -> Judgement:
        return self.judgement


def drawn_of(frame: Frame) -> MomentDocument:
    return latest_document(frame, NOON)


def make_watching(frames: Sequence[Frame]) -> Watching:
    session: Session = FakeSession(frames)  # type: ignore[assignment]
    return Watching([session])


def test_a_plain_line_leaves_counts_out_before_it_is_parted() -> None:
    lines = views.plain_line(drawn_of(make_frame()), 80).split("\n")
    assert max(map(len, lines)) <= 80
    assert "threads" not in " ".join(lines)
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert views.plain_line(drawn_of(make_frame()), 400) == views.plain_line(drawn_of(make_frame()))


def test_views_of_a_frame() -> None:
    frame = make_frame()
    assert views.plain_line(drawn_of(frame)) == (
        "12:00:00  47068  20.0 GiB of 24 (83 %)  2 processes  53 threads  leaking: residual grows 39.1 MiB/min outside any "
        "buffer: leak suspected"
    )
    processes = views.process_table(drawn_of(frame))
    assert processes.rows == (("47068", "main", "20.0 GiB", "19.0 GiB", "53", 'python "train".py'),)
    assert "VRAM" not in [column.title for column in processes.columns]  # there is none
    assert views.owner_table(drawn_of(frame)).rows == (
        ("buffer.obs", "10.0 GiB", "40.0 GiB", "███           25 %", ""),
        ("self.episode_infos", "1.00 GiB", "1.00 GiB", "31.0 k items", "40.1 MiB/min (+3.1 k/min)"),
        ("net.weight", "1.00 MiB", "1.00 MiB", "", ""),
    )
    assert "pressure 3.1 %" in views.status_text(drawn_of(frame).moment)
    cache = replace(frame, moment=replace(frame.moment, cache_bytes=GIB, vram_bytes=GIB, vram_limit_bytes=8 * GIB))
    assert "file cache 1.00 GiB, which can be dropped" in views.status_text(drawn_of(cache).moment)
    assert "cache 1.00 GiB  VRAM 1.00 GiB of 8" in views.plain_line(drawn_of(cache))

    moments = [replace(frame.moment, at_s=float(at), tree_bytes=at * GIB) for at in range(20)]
    drawn = views.history_plot(moments, width=40, height=6)
    assert drawn[0].strip() == "↑ limit 24.0 GiB"
    assert "19.0 GiB ┤" in drawn[1]
    assert drawn[-1].rstrip().endswith("now")
    near = [replace(moment, limit_bytes=20 * GIB) for moment in moments]
    assert "20.0 GiB ┤····" in views.history_plot(near, width=40, height=6)[0]
    jsonschema.validate(to_plain(moment_document(frame, NOON)), schema_of(MomentDocument))


def test_the_text_format_has_help_types_and_escaped_labels() -> None:
    text = exposition([make_frame()])
    lines = text.splitlines()
    assert "# TYPE rlmem_tree_bytes gauge" in lines
    assert "# TYPE rlmem_cpu_seconds_total counter" in lines
    assert 'rlmem_tree_bytes{target="47068",command="python \\"train\\".py"} 2.147483648e+10' in lines
    assert any(line.endswith('state="leaking"} 1') for line in lines)
    assert any(line.endswith('state="normal"} 0') for line in lines)
    assert any(line.startswith("rlmem_oom_seconds{") and line.endswith(" 7500") for line in lines)
    assert 'owner="self.episode_infos"' in text
    assert "rlmem_vram_bytes" not in text  # not known, so not told
    assert text.endswith("\n")
    for line in lines:
        assert re.fullmatch(
            r'# (HELP|TYPE) \w+ .+|\w+\{\w+="([^"\\\n]|\\.)*"(,\w+="([^"\\\n]|\\.)*")*\} [-+.e\d]+', line
        )


def test_metrics_are_served_on_this_machine_alone() -> None:
    exporter = Exporter(0, lambda: [make_frame()])
    exporter.start()
    try:
        assert exporter.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(exporter.url, timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"rlmem_tree_bytes" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(exporter.url.replace("metrics", "other"), timeout=5)
        with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1"):
            Exporter(int(exporter.url.split(":")[2].split("/")[0]), lambda: [])
    finally:
        exporter.stop()


def test_metrics_of_a_live_process_are_served_while_it_is_watched(target: subprocess.Popen[bytes]) -> None:
    with start(target.pid, "--interval", 0.05, "--prometheus", 0) as watch:
        assert watch.stderr is not None
        assert watch.stdout is not None
        url = watch.stderr.readline().split()[1]
        watch.stdout.readline()
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert f'target="{target.pid}"'.encode() in answer.read()
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=20)
        assert (watch.returncode, err) == (0, "\n")


# -- the dashboard -------------------------------------------------------------------------------------------------------


def text_of(app: object, name: str) -> str:
    from textual.widgets import Static

    return str(app.query_one(name, Static).render())  # type: ignore[attr-defined]


def screen_of(app: object) -> str:
    """What the terminal shows."""
    strips = app.screen._compositor.render_strips()  # type: ignore[attr-defined]
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def until(pilot: object, done: object) -> None:
    for _ in range(200):
        await pilot.pause(0.02)  # type: ignore[attr-defined]
        if done():  # type: ignore[operator]
            return
    raise AssertionError("never happened")


def test_the_dashboard_shows_what_the_frames_say_and_obeys_its_keys() -> None:
    pytest.importorskip("textual")
    from rlmem.report.dashboard import Dashboard

    frames = [make_frame(moment=replace(make_frame().moment, at_s=float(at))) for at in range(2000)]
    watching = make_watching(frames)

    async def drive() -> None:
        app = Dashboard(LiveTargets(watching), interval_s=0.2)
        async with app.run_test(size=(120, 45)) as pilot:
            await until(pilot, lambda: "self.episode_infos" in screen_of(app))
            assert "leaking: residual grows 39.1 MiB/min" in text_of(app, "#verdict")
            assert "and more" in text_of(app, "#verdict")
            assert "20.0 GiB of 24 (83 %)" in text_of(app, "#status")
            await until(pilot, lambda: "24.0 GiB ┤" in text_of(app, "#plot"))
            assert re.search(r"47068 +main +20.0 GiB +19.0 GiB +53", screen_of(app))
            assert re.search(r"self.episode_infos +1.00 GiB +1.00 GiB +31.0 k items +40.1 MiB/min", screen_of(app))
            await pilot.press("p")
            assert app.is_paused
            assert "paused" in text_of(app, "#title")
            await pilot.press("p")
            assert not app.is_paused
            await pilot.press("e")
            assert watching.targets[0].session.watch.asked == 1  # type: ignore[attr-defined]
            await pilot.press("n", "q")
        assert app.return_code == 0

    asyncio.run(drive())


@pytest.mark.parametrize("size", [(80, 24), (60, 24), (160, 50)])
def test_the_dashboard_cuts_no_number_in_a_small_terminal(size: tuple[int, int]) -> None:
    pytest.importorskip("textual")
    from rlmem.report.dashboard import Dashboard

    frame = make_frame()
    names = ("model.policy.optimizer.state[…].exp_avg_sq", "buffer.obs")
    holdings = tuple(replace(held, path=path) for held, path in zip(frame.holdings or (), names, strict=False))
    members = tuple(replace(frame.members[0], pid=47068 + each, command="python train.py " * 20) for each in range(6))
    portions = (Portion(name="heap", resident_bytes=6 * GIB), Portion(name="thread stacks", resident_bytes=92 << 10))
    frames = [replace(frame, holdings=holdings, members=members, portions=portions)] * 2000

    async def drive() -> None:
        app = Dashboard(LiveTargets(make_watching(frames)), interval_s=0.1)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: "(heap)" in screen_of(app) and "now" in screen_of(app))
            shown = screen_of(app)
            assert "leaking: residual grows 39.1 MiB/min" in shown
            assert re.search(r"47069 .*20\.0 GiB", shown)
            assert re.search(r"10\.0 GiB.*25 %", shown)
            assert re.search(r"\(heap\) +6\.00 GiB", shown)
            assert not re.search(r"\d (Gi|Mi|Ki|M|G)$|\d\.$", shown, re.MULTILINE)
            assert max(len(line) for line in shown.splitlines()) <= size[0]
            await pilot.press("q")

    asyncio.run(drive())


def test_the_dashboard_closes_when_the_process_has_ended() -> None:
    pytest.importorskip("textual")
    from rlmem.report.dashboard import Dashboard

    watching = make_watching([make_frame()] * 3)

    async def drive() -> None:
        app = Dashboard(LiveTargets(watching), interval_s=0.01)
        async with app.run_test() as pilot:
            await until(pilot, lambda: not app.is_running or watching.is_over)

    asyncio.run(drive())
    assert watching.targets[0].end == "47068 ended"


def test_the_dashboard_on_a_real_process(target: subprocess.Popen[bytes]) -> None:
    pytest.importorskip("textual")
    from rlmem.report.dashboard import Dashboard

    watching = watch_all([target.pid], interval_s=0.05)

    async def drive() -> None:
        app = Dashboard(LiveTargets(watching), interval_s=0.05)
        async with app.run_test(size=(120, 45)) as pilot:
            await until(pilot, lambda: "kept" in screen_of(app) and "(heap)" in screen_of(app))
            assert f" {target.pid} " in screen_of(app)
            assert "MiB of" in text_of(app, "#status")
            await pilot.press("q")

    asyncio.run(drive())


def test_the_dashboard_runs_in_a_terminal_and_ends_with_a_summary(target: subprocess.Popen[bytes]) -> None:
    pytest.importorskip("textual")
    parent, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "rlmem", "watch", str(target.pid), "--interval", "0.05", "--for", "1s"],
        stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(SRC), "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(terminal)
    shown, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(parent)
    assert child.wait(timeout=20) == 0
    assert f"watched {target.pid} for ".encode() in shown
    assert b"Traceback" not in shown


def test_classes_of_memory_stand_among_the_owners_and_small_ones_are_added_up() -> None:
    sizes = {"heap": 6 * GIB, "library code": 300 * MIB, "thread stacks": 92 << 10, "kernel": 4 << 10}
    portions = tuple(Portion(name=name, resident_bytes=size) for name, size in sizes.items())
    small = tuple(
        Holding(path=f"net.w{number}", kind="tensor", type="torch.Tensor", nbytes=MIB, resident_bytes=MIB)
        for number in range(5)
    )
    frame = make_frame()
    rows = views.owner_table(drawn_of(make_frame(portions=portions, holdings=(*(frame.holdings or ()), *small)))).rows
    assert [row[:2] for row in rows] == [
        ("buffer.obs", "10.0 GiB"),
        ("(heap)", "6.00 GiB"),
        ("self.episode_infos", "1.00 GiB"),
        ("(library code)", "300 MiB"),
        ("(thread stacks)", "92.0 KiB"),
        ("(7 smaller)", "6.00 MiB"),
    ]
    assert views.owner_table(drawn_of(make_frame(holdings=None))).rows == ()
