"""What is said of running processes and of a cluster, from facts that were recorded of real ones."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from golden.harness import Case, call, command_case, own_folder, steady
from golden.stored_facts import cluster, pid_of, process, supervised, watching

_FORMATS = ("txt", "md", "json")

_EXPLAIN = tuple(
    command_case(f"live/explain-{name}.{suffix}", ["explain", str(pid_of(name))], around=partial(process, name))
    for name in ("dqn", "gpu", "ppo", "image", "pages")
    for suffix in _FORMATS
)


def _explain(name: str, of: str, *words: str) -> Case:
    return command_case(f"live/explain-{name}", ["explain", *words], around=partial(process, of))


_PPO, _IMAGE = str(pid_of("ppo")), str(pid_of("image"))
_EXPLAIN_OTHERS = (
    _explain("trim.txt", "ppo", _PPO, "--trim"),
    _explain("no-tree.json", "ppo", _PPO, "--no-tree"),
    _explain("no-advice.txt", "image", _IMAGE, "--no-advice"),
    _explain("by-name.txt", "ppo", "--name", "ppo_long"),
    _explain("name-of-none.txt", "ppo", "--name", "sac.py"),
    _explain("no-process.txt", "ppo", "4"),
    _explain("not-a-process.txt", "ppo", "0"),
    _explain("nothing.txt", "ppo"),
    _explain("number-and-name.txt", "ppo", _PPO, "--name", "ppo"),
    _explain("html.txt", "ppo", _PPO, "--html", "page.html"),
    _explain("ray-and-number.txt", "ppo", "--ray", _PPO),
)


def _watch(name: str, of: str, *words: str) -> Case:
    return command_case(f"live/watch-{name}.txt", ["watch", *words], around=partial(watching, of))


def _moments(name: str, of: str, *words: str) -> Case:
    """A case of the lines of ``rlmem watch --json``, each as data."""

    def make() -> Any:
        with own_folder() as folder, watching(of):
            code, out, err = call(["watch", "--json", *words])
        lines = [json.loads(steady(line, folder)) for line in out.splitlines()]
        return {"command": ["watch", *words], "exit": code, "stderr": err, "lines": lines}

    return Case(f"live/watch-{name}", make)


_WATCH = (
    *(
        _watch(name.removesuffix(".py"), name, "4701", "--interval", "1")
        for name in ("dqn.py", "leak.py", "ppo.py", "slow.py", "fill.py")
    ),
    *(_moments(f"{name[:-3]}.json", name, "4701", "--every", "5s") for name in ("dqn.py", "ppo.py", "slow.py")),
    _watch("every", "leak.py", "4701", "--every", "2s", "--plain"),
    _watch("warn-at", "leak.py", "4701", "--warn-at", "500MB"),
    _watch("fail-at", "leak.py", "4701", "--fail-at", "80%"),
    _watch("fail-on", "slow.py", "4701", "--fail-on", "leaking"),
    _watch("for", "big.py", "4701", "--for", "4s"),
    _watch("two", "dqn.py", "4701", "4702", "--every", "30s"),
    _watch("nothing", "dqn.py"),
    _watch("not-a-number", "dqn.py", "train.py"),
    _watch("plain-and-json", "dqn.py", "4701", "--plain", "--json"),
    _watch("wrong-duration", "dqn.py", "4701", "--for", "soon"),
    _watch("wrong-level", "dqn.py", "4701", "--warn-at", "120%"),
)


def _run(name: str, of: str, *words: str) -> Case:
    return command_case(f"live/run-{name}.txt", ["run", *words], around=partial(supervised, of))


_COMMAND = ("--", "python", "train.py", "--seed", "1")
_RUN = (
    *(
        _run(name.removesuffix(".py"), name, *_COMMAND)
        for name in ("dqn.py", "ppo.py", "leak.py", "big.py", "slow.py", "fill.py")
    ),
    _run("no-record", "dqn.py", "--no-record", *_COMMAND),
    _run("quiet", "dqn.py", "--quiet", *_COMMAND),
    _run("quiet-and-died", "big.py", "--quiet", *_COMMAND),
    _run("no-command", "dqn.py"),
    _run("unknown-option", "dqn.py", "--max-rum", "3GB", *_COMMAND),
    _run("json-without-file", "dqn.py", "--json", *_COMMAND),
    _run("levels", "dqn.py", "--warn-at", "95", *_COMMAND),
    _run("pressure", "dqn.py", "--on-pressure", "pause", *_COMMAND),
)
_CLUSTER = (
    *(
        command_case(f"live/explain-ray.{suffix}", ["explain", "--ray"], around=cluster)
        for suffix in (*_FORMATS, "html")
    ),
    command_case("live/explain-ray-redacted.html", ["explain", "--ray", "--redact"], around=cluster),
    command_case("live/explain-address-without-ray.txt", ["explain", "4713", "--address", "head:6379"], around=cluster),
)

CASES: tuple[Case, ...] = (*_EXPLAIN, *_EXPLAIN_OTHERS, *_CLUSTER, *_WATCH, *_RUN)
