"""A real Chromium before a real ``rlmem serve``: what both need, what a test may ask of a page, and a clean end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rlmem.runner.store import open_store

try:
    from playwright.sync_api import expect, sync_playwright
except ModuleNotFoundError:  # the fixture below says so
    expect = sync_playwright = None

SRC = Path(__file__).parents[2] / "src"
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
#: The longest that anything may take on a slow machine; nothing waits for it to pass.
PATIENCE_S = 60.0
SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"
RLMEM = (sys.executable, "-m", "rlmem")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("browser")


# -- programs ------------------------------------------------------------------------------------------------------------

#: DQN on an environment with 64 KiB observations, slowly: a buffer of 390 MB that fills by 128 KiB a step.
TRAIN = """
import sys, time
import gymnasium, numpy, torch
from stable_baselines3 import DQN

class Wide(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (16384,), dtype=numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}
    def observe(self):
        return self.np_random.random(16384, dtype=numpy.float32)
    def step(self, action):
        time.sleep(float(sys.argv[2]))
        self.count += 1
        return self.observe(), float(action), self.count >= 50, False, {}

torch.set_num_threads(1)
model = DQN("MlpPolicy", Wide(), buffer_size=3_000, learning_starts=64, train_freq=16, batch_size=16,
            policy_kwargs=dict(net_arch=[32]), seed=7, device="cpu")
print("ready", flush=True)
model.learn(int(sys.argv[1]))
"""
#: Holds some memory until its input ends.
WAIT = "data = bytearray(30 << 20); print('ready', flush=True); input()"
#: Holds as many MiB as it is told for a second.
SHORT = "import sys, time; data = bytearray(int(sys.argv[1]) << 20); time.sleep(1)"


@dataclass(frozen=True, slots=True)
class Home:
    """A user's folders that nobody else has."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "HOME": self.folder / "home",
            "RLMEM_DATA_DIR": self.folder / "data",
            "RLMEM_CACHE_DIR": self.folder / "cache",
            "PYTHONPATH": SRC,
        }
        return {**os.environ, **{name: str(path) for name, path in own.items()}, "OMP_NUM_THREADS": "1"}

    def rlmem(self, *words: str, ends: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return finished(self.start(*words), ends)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start one command, in a process group of its own."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*RLMEM, *words],
            **{**pipes, **options},
            env=self.environment,
            cwd=self.folder,
            text=True,
            start_new_session=True,
        )


def finished(process: subprocess.Popen[str], ends: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in ends, errors
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def own_home(folder: Path) -> Home:
    (folder / "home").mkdir(parents=True)
    return Home(folder)


def in_session(session: int) -> list[str]:
    """Processes that a command left behind: it leads a session, which they are in."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session and words[0] not in {"Z", "X"}:
            found.append(f"{path.parent.name} {(path.parent / 'cmdline').read_bytes()!r}")
    return found


def ended(process: subprocess.Popen[str], ends: tuple[int, ...]) -> None:
    """End a command as Ctrl-C does, and see that nothing of it is left."""
    process.send_signal(signal.SIGINT)
    try:
        finished(process, ends)
        assert not in_session(process.pid)
    finally:
        for each in in_session(process.pid):
            os.kill(int(each.split()[0]), signal.SIGKILL)


def child_of(parent: int) -> int:
    """The only child of a process."""
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(child)


# -- the server and what it serves ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and the link it printed."""

    home: Home
    process: subprocess.Popen[str]
    link: str
    log: Path

    @property
    def url(self) -> str:
        return self.link.partition("token/")[0]


def served(home: Home) -> Server:
    log = home.folder / "serve.log"
    with log.open("w") as errors:
        process = home.start("serve", "--port", "0", stderr=errors)
    line = process.stdout.readline()
    assert "http://127.0.0.1:" in line, log.read_text()
    return Server(home, process, line.split()[-1], log)


def stopped(server: Server) -> None:
    """Ctrl-C: it ends at once, leaves no process behind and has had nothing to complain of."""
    ended(server.process, (130,))
    said = server.log.read_text().strip()
    assert said.startswith("rlmem: interrupted") and "\n" not in said, said


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return own_home(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="session")
def server(home: Home) -> Iterator[Server]:
    found = served(home)
    yield found
    stopped(found)


@dataclass(slots=True)
class Stored:
    """Ids of the runs in the store, by what they are."""

    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.ids[name]


@pytest.fixture(scope="session")
def stored(home: Home) -> Stored:
    """Two plans, a recorded training, two other recorded runs, and one with a name that would be markup."""
    pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed")
    train = home.folder / "short.py"
    train.write_text(TRAIN)
    python = ("--", sys.executable)
    under_way = {
        "training": home.start("run", "--interval", "0.25", *python, str(train), "2500", "0.001"),
        "small": home.start("run", "--interval", "0.1", *python, "-c", SHORT, "20"),
        "large": home.start("run", "--interval", "0.1", *python, "-c", SHORT, "60"),
        "script": home.start("run", "--", "/bin/echo", SCRIPT),
    }
    for ram in ("10GB", "64GB"):
        under_way[ram] = home.start("plan", "pidog-sac", "--ram", ram, "--save")
    for process in under_way.values():
        finished(process, (0, 1))
    with open_store(home.folder / "data" / "runs.db") as store:
        commands = {run.id: " ".join(run.command) for run in store.runs()}
    marks = {
        "plan": "--ram 10GB",
        "roomy plan": "--ram 64GB",
        "training": "short.py",
        "script": SCRIPT,
        "small": f"{SHORT} 20",
        "large": f"{SHORT} 60",
    }
    found = Stored()
    for name, mark in marks.items():
        (found.ids[name],) = (run for run, words in commands.items() if mark in words)
    return found


@pytest.fixture(scope="session")
def reports(home: Home, stored: Stored) -> dict[str, Path]:
    """The report of a plan and that of a recorded training, as the commands write them."""
    found = {name: home.folder / f"{name}.html" for name in ("plan", "recorded")}
    plan = home.start("plan", "pidog-sac", "--ram", "10GB", "--html", str(found["plan"]))
    home.rlmem("assess", stored["training"], "--html", str(found["recorded"]))
    finished(plan, (1,))
    return found


@dataclass(frozen=True, slots=True)
class Live:
    """A training that goes on, under ``rlmem run``."""

    pid: int


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Its records go elsewhere: the store has runs that are over."""
    pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed")
    home = own_home(tmp_path_factory.mktemp("training"))
    (home.folder / "train.py").write_text(TRAIN)
    process = home.start("run", "--", sys.executable, "train.py", "1000000", "0.01")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    yield Live(child_of(process.pid))
    ended(process, (130,))


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Processes with rlmem's agent whose command lines would be markup."""
    home = own_home(tmp_path_factory.mktemp("named"))
    command = ("run", "--no-record", "--", sys.executable, "-c", WAIT)
    started = {text: home.start(*command, text, stdin=subprocess.PIPE) for text in (SCRIPT, IMAGE)}
    for process in started.values():
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    yield {text: child_of(process.pid) for text, process in started.items()}
    for process in started.values():
        process.communicate("\n", timeout=PATIENCE_S)
        assert process.returncode == 0
        assert not in_session(process.pid)


# -- the browser ---------------------------------------------------------------------------------------------------------


def _without_browser(why: str) -> None:
    if os.environ.get("RLMEM_NEED_BROWSER"):
        pytest.fail(f"{why}, and RLMEM_NEED_BROWSER is set")
    pytest.skip(why)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for a module: while it is there, an event loop is, and tests elsewhere start loops of their own."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        _without_browser("no Chromium is installed")
    if sync_playwright is None:
        _without_browser("playwright is not installed")
    expect.set_options(timeout=PATIENCE_S / 2 * 1000)
    with sync_playwright() as playwright:
        options = {"args": ["--no-sandbox"]} if os.geteuid() == 0 else {}
        found = playwright.chromium.launch(executable_path=program, **options)
        yield found
        found.close()


class Visits:
    """The browser contexts of one test. What a page complains of is collected, and fails the test in the end."""

    def __init__(self, browser: Any, server: Server | None = None) -> None:
        self._browser, self._server = browser, server
        self._contexts: list[Any] = []
        self.complaints: list[str] = []
        self.refused: list[str] = []

    def context(self, *, token: bool = False, **options: Any) -> Any:
        """A new one, as if the browser had never been here; with the token, it has opened the link."""
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE_S / 2 * 1000)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.complaints.append(f"page error: {error.error}"))
        context.on("dialog", self._asked)
        self._contexts.append(context)
        if token:
            page = context.new_page()
            page.goto(self._server.link)
            page.wait_for_url(self._server.url)
            page.close()
        return context

    def open(self, path: str = "/", *, token: bool = False, **options: Any) -> Any:
        """A page in a context of its own."""
        page = self.context(token=token, **options).new_page()
        self.go(page, path)
        return page

    def go(self, page: Any, path: str) -> Any:
        """Somewhere on the server; what came back."""
        return page.goto(self.url(path))

    def url(self, path: str) -> str:
        """The whole address of a path."""
        return self._server.url + path.lstrip("/")

    def refuses(self, *parts: str) -> None:
        """Chromium writes every answer of 400 and more to the console; these addresses are meant to be refused."""
        self.refused += parts

    def _heard(self, message: Any) -> None:
        if message.type != "error":
            return
        address = message.location.get("url", "")
        meant = re.search(r"status of 4\d\d", message.text) and any(part in address for part in self.refused)
        text = f"{message.text} ({address})"
        if message.text.startswith(
            "htmx:sendAbort"
        ):  # given up for a newer one, or left with its page: told in two lines
            self.complaints.remove(text.replace("sendAbort", "afterRequest"))
        elif not meant:
            self.complaints.append(text)

    def _asked(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visits(browser: Any, server: Server) -> Iterator[Visits]:
    found = Visits(browser, server)
    yield found
    found.close()
    assert not found.complaints, "\n".join(found.complaints)


@pytest.fixture
def shot(tmp_path: Path) -> Callable[..., None]:
    """Takes a picture, to be looked at when a test fails, or in the artifacts."""
    folder = Path(os.environ.get("RLMEM_SCREENSHOTS") or tmp_path)

    def take(page: Any, name: str, *, full: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png", full_page=full)

    return take


# -- what pages have in common -------------------------------------------------------------------------------------------

YAML = textwrap.dedent(
    """
    schema: rlmem.run/1
    extends: pidog-sac
    name: mine
    buffer_size: 30000
    """
).lstrip()


def answer(page: Any) -> Any:
    """The plan's answer, with its verdict in data-verdict."""
    return page.locator("#verdict .answer")


def sentence(page: Any) -> str:
    """The first sentence of the verdict."""
    return answer(page).locator(".verdict p").first.inner_text()


def knob(page: Any, path: str) -> Any:
    """The field of a knob."""
    return page.locator(f'[id="knob-{path}"]')


def ram(page: Any) -> Any:
    """The field for the machine's memory."""
    return page.get_by_role("textbox", name="RAM", exact=True)


def drawn(page: Any) -> None:
    """Wait until the slower parts of a plan's picture are there too."""
    page.locator("#capacity .plot").wait_for()


def is_dark(page: Any) -> bool:
    """Whether the background that is really shown is dark."""
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) < 3 * 128


def width_over(page: Any) -> int:
    """By how much a page can be scrolled sideways."""
    return page.evaluate("() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")


def unfold_all(page: Any) -> None:
    """Open whatever unfolds, so that it is looked at too."""
    page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true; }")
