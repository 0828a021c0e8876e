"""Pages and answers of ``rlmem serve``: the planner, stored runs, and processes that were recorded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from fastapi.testclient import TestClient

from golden.harness import Around, Case, lines_of_html, own_folder, steady
from golden.machine import _Clock as Clock
from golden.stored_facts import moments, pid_of, process, run_id, store, watches
from rlmem.serve.app import make_app
from rlmem.serve.live import Hub, Watched
from rlmem.serve.settings import Settings
from rlmem.watch.watching import watch_all

_SETTINGS = Settings(token="a-token")
_TOKEN = {"authorization": f"Bearer {_SETTINGS.token}"}
_PART = {"hx-request": "true"}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request to the server."""

    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    post: bool = False
    around: Around = contextlib.nullcontext


def _answer(name: str, question: Question) -> Case:
    """A case of the answer: status and text; a page with one element to a line, JSON as data."""

    def make() -> Any:
        with own_folder() as folder, question.around(), mock.patch("rlmem.app.zoo._folder", lambda _: None):
            with TestClient(make_app(_SETTINGS), base_url=_SETTINGS.url, raise_server_exceptions=False) as client:
                if isinstance(question.body, str):
                    response = client.post(question.path, content=question.body, headers=question.headers)
                elif question.post or question.body is not None:
                    response = client.post(question.path, json=question.body, headers=question.headers)
                else:
                    response = client.get(question.path, headers=question.headers)
            text = steady(response.text, folder)
        asked = f"{'POST' if question.post or question.body is not None else 'GET'} {question.path}"
        if name.endswith(".json"):
            return {"asked": asked, "status": response.status_code, "answer": json.loads(text)}
        own = {key: value for key, value in response.headers.items() if key.startswith(("x-rlmem", "hx-"))}
        head = [asked, f"{response.status_code} {response.headers.get('content-type', '')}"]
        return "\n".join([*head, *(f"{key}: {value}" for key, value in sorted(own.items())), lines_of_html(text)])

    return Case(f"pages/{name}", make)


@contextlib.contextmanager
def _watched(target: str) -> Iterator[None]:
    """Have a watch that has seen all moments of a run but its end, whatever process is asked about."""

    def look(self: Hub, pid: int) -> Watched:
        watched = Watched(pid=pid, watching=watch_all([pid]), since=940.0, looked_at=1000.0)
        seen = SimpleNamespace(is_set=lambda: watched.number == len(moments(target)), wait=lambda seconds: None)
        with mock.patch.object(self, "_ending", seen):
            self._sample(watched)
        return watched

    clock = SimpleNamespace(monotonic=lambda: 1000.0, thread_time=lambda: 0.0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(watches(target))
        stack.enter_context(mock.patch.object(Hub, "look", look))
        stack.enter_context(mock.patch.object(Hub.__init__, "__kwdefaults__", {"clock": clock.monotonic}))
        for home in ("rlmem.serve.live", "rlmem.serve.live_page"):
            stack.enter_context(mock.patch(f"{home}.time", clock))
        stack.enter_context(mock.patch("rlmem.serve.live.datetime", Clock))
        yield


_STATES = {
    "pidog-sac": "of=pidog-sac&ram=30GB",
    "pyboy-ppo": "of=pyboy-ppo&machine=colab-t4&n_envs=8",
    "drone-swarm": "of=drone-swarm&vram=16GB",
    "does-not-fit": "of=pidog-sac&ram=8GB&buffer_size=1000000",
    "unknown": "of=pidog-sacc",
    "unknown-field": "of=pidog-sac&n_env=4",
    "wrong-value": "of=pidog-sac&n_envs=many",
    "wrong-size": "of=pidog-sac&ram=lots",
    "untried": "of=zoo:ppo/CartPole-v1",
    "damaged": "config=abc",
}
_RUN_FILE = "extends: pidog-sac\nbuffer_size: 50000\n"
_PLANNER = (
    *(_answer(f"planner-{name}.html", Question(path=f"/?{query}")) for name, query in _STATES.items()),
    *(
        _answer(f"picture-{name}.html", Question(path=f"/planner/picture?{query}", headers=_PART))
        for name, query in _STATES.items()
    ),
    *(
        _answer(f"{part}-{name}.html", Question(path=f"/planner/{part}?{_STATES[name]}", headers=_PART))
        for part in ("more", "fit")
        for name in ("pidog-sac", "does-not-fit")
    ),
    _answer("report.html", Question(path=f"/planner/report.html?{_STATES['pidog-sac']}")),
    _answer("config.json", Question(path="/planner/config", body=_RUN_FILE)),
    _answer("config-wrong.json", Question(path="/planner/config", body="extends: pidog-sac\nn_env: 4\n")),
    _answer("config-empty.json", Question(path="/planner/config", body=" ")),
    _answer("try-without-token.html", Question(path="/planner/try?of=zoo:ppo/CartPole-v1", post=True, headers=_PART)),
    _answer("try-nothing.html", Question(path="/planner/try?of=zoo:ppo/CartPole-v1", headers=_PART)),
)

_PIDS = {name: pid_of(name) for name in ("ppo", "image")}


def _of_process(name: str, of: str, path: str, **more: Any) -> Case:
    around = partial(process, of)
    return _answer(name, Question(path=path.format(pid=_PIDS[of]), around=around, **more))


_LIVE = (
    _of_process("live.html", "ppo", "/live"),
    _of_process("live-list.html", "image", "/live/list"),
    _of_process("live-process.html", "ppo", "/live/{pid}?warn=80%25"),
    _of_process("live-no-process.html", "ppo", "/live/4"),
    _of_process("live-wrong-warning.html", "ppo", "/live/{pid}?warn=much"),
    _of_process("live-explain.html", "image", "/live/{pid}/explain", post=True, headers={**_TOKEN, **_PART}),
    _of_process("live-explain-trim.html", "ppo", "/live/{pid}/explain?trim=1", post=True, headers=_TOKEN),
    _of_process("live-explain-without-token.html", "ppo", "/live/{pid}/explain", post=True, headers=_PART),
    *(
        _answer(
            f"live-now-{name[:-3]}.html",
            Question(path="/live/4701/now", headers=_TOKEN, around=partial(_watched, name)),
        )
        for name in ("dqn.py", "slow.py", "fill.py", "ppo.py")
    ),
    _answer(
        "live-now-warning.html",
        Question(path="/live/4701/now?warn=10%25", headers=_TOKEN, around=partial(_watched, "leak.py")),
    ),
)

_DQN, _PPO, _LEAK = (run_id(name) for name in ("dqn.py", "ppo.py", "leak.py"))
_SWEEPS = (run_id("short.py", "measure"), run_id("short.py", "measure", 1))
_BENCH, _PLAN = run_id("run.yaml", "bench"), run_id("pidog-sac", "plan")
_KINDS = {"recorded": _LEAK, "filling": run_id("fill.py"), "sweep": _SWEEPS[0], "bench": _BENCH, "plan": _PLAN}
_PAIRS = {
    "recorded": (_DQN, _PPO),
    "sweeps": _SWEEPS,
    "plans": (_PLAN, _PLAN),
    "kinds": (_DQN, _PLAN),
    "one": (_DQN, ""),
}


def _of_store(name: str, path: str) -> Case:
    return _answer(name, Question(path=path, around=store))


_RUNS = (
    _of_store("runs.html", "/runs"),
    _of_store("runs-found.html", "/runs?kind=run&text=py%20ok"),
    _of_store("runs-none.html", "/runs?text=nothing"),
    *(_of_store(f"run-{kind}.html", f"/runs/{run}") for kind, run in _KINDS.items()),
    _of_store("run-unknown.html", "/runs/ffff"),
    *(_of_store(f"run-report-{kind}.html", f"/runs/{_KINDS[kind]}/report.html") for kind in ("recorded", "plan")),
    *(
        _of_store(f"runs-compare-{name}.html", f"/runs/compare?left={left}&right={right}")
        for name, (left, right) in _PAIRS.items()
    ),
)

_ASKED = {"of": "pidog-sac", "ram": "8GB", "sets": {"buffer_size": 200000}}
_API = (
    *(
        _answer(f"api-{name}.json", Question(path=f"/api/{name}{'.json' * (name == 'openapi')}"))
        for name in ("presets", "machines", "fields", "zoo", "openapi")
    ),
    _answer("api-plan.json", Question(path="/api/plan?of=pidog-sac&ram=30GB&n_envs=2")),
    *(
        _answer(f"api-{name}-asked.json", Question(path=f"/api/{name}", body=_ASKED))
        for name in ("plan", "capacity", "fit", "report")
    ),
    _answer("api-plan-of-nothing.json", Question(path="/api/plan", body={})),
    _answer("api-plan-wrong.json", Question(path="/api/plan", body={"of": ["pidog-sac"]})),
    _answer("api-plan-unknown.json", Question(path="/api/plan?of=pidog-sacc")),
    _of_process("api-processes.json", "ppo", "/api/processes"),
    _of_process("api-explain.json", "image", "/api/processes/{pid}/explain", post=True, headers=_TOKEN),
    _of_process("api-explain-without-token.json", "image", "/api/processes/{pid}/explain", post=True),
    _answer(
        "api-now.json",
        Question(path="/api/processes/4701/now", headers=_TOKEN, around=partial(_watched, "fill.py")),
    ),
    _of_store("api-runs.json", "/api/runs?limit=3"),
    *(_of_store(f"api-run-{kind}.json", f"/api/runs/{run}") for kind, run in _KINDS.items()),
    _of_store("api-run-unknown.json", "/api/runs/ffff"),
    *(
        _of_store(f"api-compare-{name}.json", f"/api/compare?left={left}&right={right}")
        for name, (left, right) in _PAIRS.items()
    ),
)

CASES: tuple[Case, ...] = (*_PLANNER, *_LIVE, *_RUNS, *_API)
