"""What nobody should send: descriptions that are huge, hollow, deep or not text. A sentence comes back, and life goes on."""

from __future__ import annotations

import http.client
import json
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser.conftest import Server, Visits, answer, expect

HUGE = 4 << 20
#: Nine levels of nine: 2 KB that unfold to a billion.
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
)
RUN = "schema: rlmem.run/1\nextends: pidog-sac\n"
BAD = {
    "alias bomb": BOMB,
    "alias bomb in a field": RUN + BOMB + "name: *a9\n",
    "alias of itself": RUN + "observation: &a [*a]\n",
    "merge of itself": "a: &a\n  <<: *a\n",
    "deep lists": "[" * 50_000,
    "deep maps": "{a: " * 50_000,
    "deep blocks": "\n".join(" " * level + "a:" for level in range(600)),
    "deep JSON": '{"network": ' * 20_000 + "1" + "}" * 20_000,
    "a list": "- 1\n- 2\n",
    "a number": "17",
    "a word": "hello",
    "nothing": "   \n",
    "only a comment": "# nothing\n",
    "two documents": RUN + "---\n" + RUN,
    "wrong types": RUN + "buffer_size: [1, 2]\nn_envs: {a: 1}\n",
    "a map for a name": RUN + "name: {a: 1}\n",
    "a key that is a list": RUN + "? [1, 2]\n: 3\n",
    "a key that is a number": RUN + "5: 3\n",
    "an unknown field": RUN + "bufer_size: 3\n",
    "a negative size": RUN + "buffer_size: -1\n",
    "no number": RUN + "buffer_size: .nan\n",
    "endless": RUN + "buffer_size: .inf\n",
    "a size of 5000 digits": RUN + f"buffer_size: {'9' * 5000}\n",
    "a size in sixties": RUN + f"buffer_size: {'9' * 400}:59:59\n",
    "a date": RUN + "buffer_size: 2001-13-45\n",
    "an observation of nothing": RUN + "observation: {}\n",
    "a shape of words": RUN + "observation: {box: [a, b], dtype: float32}\n",
    "a huge shape": RUN + f"observation: {{box: [{'9' * 30}], dtype: float32}}\n",
    "code": "!!python/object/apply:os.system ['touch /tmp/rlmem-was-here']\n",
    "a file": "extends: /etc/passwd\n",
    "a path upwards": "extends: ../../../../etc/passwd\n",
    "itself": "extends: run.yaml\n",
    "a broken escape": '{"name": "\\ud800", "extends": "pidog-sac", "n_envs": "x"}',
    "tabs": "\tschema: x\n",
    "zeros": RUN + "name: a\x00b\n",
    "broken YAML": "a: [1, 2\nb: }",
}
BYTES = {
    "binary": bytes(range(256)) * 400,
    "an ELF file": b"\x7fELF\x02\x01\x01" + bytes(4000),
    "zipped": zlib.compress(b"name: x" * 1000),
    "UTF-16": RUN.encode("utf-16"),
    "half a character": RUN.encode() + b"name: \xe2\x82",
}


def is_sentence(text: str) -> bool:
    """Something a person can read: one short line without a trace of Python."""
    return (
        0 < len(text.strip()) < 600
        and "\n" not in text.strip()
        and not any(word in text for word in ("Traceback", 'File "', "Error(", "object at 0x", "Internal Server"))
    )


@pytest.fixture
def planner(visits: Visits) -> Iterator[Any]:
    """A planner with the field for descriptions open; afterwards the server still plans."""
    visits.refuses("/planner/config")
    page = visits.open("/?of=pidog-sac&ram=10GB")
    page.get_by_text("Paste or upload your own").click()
    yield page
    assert visits.go(page, "/?of=pidog-sac&ram=64GB").status == 200
    expect(answer(page)).to_have_attribute("data-verdict", "fits")


def said(page: Any) -> Any:
    return page.locator(".config .said")


def send(page: Any, text: str) -> None:
    page.get_by_label("A description as YAML or JSON").fill(text)
    page.get_by_role("button", name="Plan this").click()


def test_four_megabytes_that_are_pasted_are_refused(planner: Any, shot: Callable) -> None:
    send(planner, "name: " + "x" * HUGE)
    expect(said(planner)).to_have_text("too large: 4,194,310 B; a description has at most 262,144 B")
    shot(planner, "too-large")
    send(planner, "name: 5\nextends: [")
    expect(said(planner)).not_to_contain_text("too large")
    assert is_sentence(said(planner).inner_text())


def test_a_file_of_four_megabytes_is_refused_and_not_read(planner: Any) -> None:
    file = {"name": "huge.yaml", "mimeType": "text/yaml", "buffer": b"# " + b"x" * HUGE}
    planner.get_by_label("or a file").set_input_files(file)
    expect(said(planner)).to_contain_text("too large: 4,194,306 B")
    expect(planner.get_by_label("A description as YAML or JSON")).to_have_value("")


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "without its length"])
def test_four_megabytes_that_are_posted_are_refused(server: Server, planner: Any, chunked: bool) -> None:
    body = json.dumps({"config": "x" * HUGE}).encode()
    for path in ("/planner/config", "/api/plan", "/api/fit"):
        pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        with suppress(ConnectionError):  # it need not listen to the end
            connection.request(
                "POST", path, pieces if chunked else body, {"content-type": "application/json"}, encode_chunked=chunked
            )
        reply = connection.getresponse()
        assert reply.status == 413
        assert "too large: a description has at most 262,144 B" in reply.read().decode()
        connection.close()
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("name", ["alias bomb", "deep lists", "wrong types", "code"])
def test_a_hostile_description_that_is_pasted_gets_a_sentence(planner: Any, name: str) -> None:
    send(planner, BAD[name])
    expect(said(planner)).not_to_have_text("…")
    assert is_sentence(said(planner).inner_text()), said(planner).inner_text()
    assert "config=" not in planner.url


def test_no_description_brings_the_server_down_or_out_of_words(planner: Any, server: Server) -> None:
    ask = planner.context.request
    found = {}
    bodies = {**{name: text.encode() for name, text in BAD.items()}, **BYTES}
    for name, body in bodies.items():
        reply = ask.post(f"{server.url}planner/config", data=body, headers={"content-type": "text/plain"})
        words = reply.json().get("error", "") if "json" in reply.headers["content-type"] else reply.text()
        if reply.status not in (400, 413) or not is_sentence(words):
            found[name] = (reply.status, words[:300])
    for name, text in BAD.items():
        reply = ask.post(
            f"{server.url}api/plan", data=json.dumps({"config": text}), headers={"content-type": "application/json"}
        )
        if reply.status not in (400, 413, 422) or "Traceback" in reply.text():
            found[f"{name}, by the API"] = (reply.status, reply.text()[:300])
    assert not found, "\n".join(f"{name}: {told}" for name, told in found.items())


def packed(data: bytes) -> str:
    return urlsafe_b64encode(zlib.compress(data, 9)).rstrip(b"=").decode()


ADDRESSES = {
    "a zipped bomb": f"/?config={packed(bytes(30 << 20))}",
    "a link cut short": f"/?config={packed(RUN.encode())[:-9]}",
    "not a link of ours": "/?config=%00%ff",
    "a description of bytes": f"/?config={packed(bytes(range(256)))}",
    "an unknown run": "/?of=../../etc/passwd",
    "an unknown field": "/?of=pidog-sac&nope=1",
    "an endless number": f"/?of=pidog-sac&buffer_size={'9' * 5000}",
    "a huge number": "/?of=pidog-sac&buffer_size=1e300",
    "a negative number": "/?of=pidog-sac&n_envs=-4",
    "a list for a number": "/?of=pidog-sac&n_envs=[1,2]",
    "a bomb for a space": "/?of=pidog-sac&observation=" + "[" * 3000,
    "a strange size": "/?of=pidog-sac&ram=lots",
    "an endless size": f"/?of=pidog-sac&ram={'9' * 5000}GB",
    "no size": "/?of=pidog-sac&ram=nanGB",
    "an unknown machine": "/?of=pidog-sac&machine=<script>",
    "a picture of nonsense": "/planner/picture?of=pidog-sac&n_envs=x",
    "steps of nonsense": "/planner/fit?of=pidog-sac&n_envs=x",
    "a report of nonsense": "/planner/report.html?of=pidog-sac&n_envs=x",
    "process 0": "/live/0",
    "a negative process": "/live/-1",
    "a process beyond all numbers": f"/live/{'9' * 40}",
    "a process that is a word": "/live/self",
    "a run that is a path": "/runs/..%2f..%2fetc%2fpasswd",
    "a run of zeros": "/runs/%00",
    "two runs that are not there": "/runs/compare?left=aaaa&right=bbbb",
    "one run": "/runs/compare?left=aaaa",
    "a file upwards": "/static/..%2fapp.py",
    "a file of ours": "/static/app.py",
}


def test_no_address_brings_a_traceback(planner: Any, visits: Visits) -> None:
    ask, found = planner.context.request, {}
    for name, path in ADDRESSES.items():
        reply = ask.get(visits.url(path))
        if not 400 <= reply.status < 500 or "Traceback" in reply.text():
            found[name] = (reply.status, reply.text()[-300:])
    assert not found, "\n".join(f"{name}: {told}" for name, told in found.items())


def test_an_address_of_nonsense_is_answered_with_a_sentence_on_a_page(visits: Visits) -> None:
    visits.refuses("/?")
    page = visits.context().new_page()
    for name in ("a zipped bomb", "a link cut short", "an unknown field", "a strange size"):
        visits.go(page, ADDRESSES[name])
        assert is_sentence(page.get_by_role("alert").locator("p").inner_text()), name
        expect(page.get_by_role("link", name="To the planner")).to_be_visible()


def test_pages_elsewhere_cannot_ask(server: Server, planner: Any) -> None:
    netloc = urlsplit(server.url).netloc
    for headers in ({"host": "evil.example"}, {"host": netloc, "origin": "http://evil.example"}):
        connection = http.client.HTTPConnection(netloc, timeout=30)
        connection.request("GET", "/api/runs", headers=headers)
        reply = connection.getresponse()
        assert reply.status == 403
        assert reply.read().decode().startswith("refused: asked ")
        connection.close()
