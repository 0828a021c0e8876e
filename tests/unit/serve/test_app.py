"""The server, asked without a browser: who may ask, what is answered, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema import validate

from rlmem.documents.contract import schema_of, to_json
from rlmem.documents.fit import FitDocument
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.runner.store import open_store, save_plan
from rlmem.serve.app import make_app
from rlmem.serve.settings import Settings
from rlmem.serve.state import LARGEST_CONFIG

BASE = "http://127.0.0.1:8642"
SETTINGS = Settings(token="a-token")


@pytest.fixture(scope="module")
def app() -> Any:
    return make_app(SETTINGS)


@pytest.fixture
def client(app: Any) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"authorization": f"Bearer {SETTINGS.token}"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8642",
        "127.0.0.1:9999",
        "127.0.0.1.evil.example",
        "",
        "localhost.:8642",
        "127.0.0.1",
        "[::1]:8642",
    ],
)
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "LOCALHOST:8642"])
def test_our_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/presets", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://localhost.evil.example:8642",
        "http://127.0.0.1",
        "http://localhost",
        "https://127.0.0.1:8642",
        "http://localhost:8642",  # we were asked as 127.0.0.1
        "http://[",
    ],
)
def test_a_foreign_origin_is_refused(client: TestClient, origin: str) -> None:
    assert client.post("/planner/config", content="extends: pidog-sac", headers={"origin": origin}).status_code == 403


def test_a_page_of_another_site_may_link_here_and_fetch_nothing(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert client.get("/", headers=link).status_code == 200
        for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe")):
            asked = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            assert client.get("/live/1", headers=asked).status_code == 403
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
    assert client.get("/", headers=own).status_code == 200


@pytest.mark.parametrize(
    ("way", "path"),
    [
        ("GET", "/live/1/now"),
        ("GET", "/api/processes/1/now"),
        ("POST", "/api/processes/1/explain"),
    ],
)
def test_what_acts_on_a_process_wants_the_token(client: TestClient, way: str, path: str) -> None:
    assert client.request(way, path).status_code == 403
    wrong = {"authorization": "Bearer another"}
    assert client.request(way, path, headers=wrong).status_code == 403


@pytest.mark.parametrize("path", ["/live/1/explain", "/planner/try?of=zoo:ppo/CartPole-v1"])
def test_a_button_without_the_token_says_where_to_get_it(client: TestClient, path: str) -> None:
    assert "token" in client.post(path, headers={"hx-request": "true"}).text


def test_the_link_gives_the_page_the_token_and_no_cookie_which_other_ports_would_get(client: TestClient) -> None:
    answer = client.get(f"/token/{SETTINGS.token}")
    assert answer.status_code == 200
    assert f'data-token="{SETTINGS.token}"' in answer.text
    assert "set-cookie" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    refused = client.get("/token/wrong")
    assert refused.status_code == 403
    assert SETTINGS.token not in refused.text
    cookie = {"cookie": f"rlmem-token={SETTINGS.token}; rlmem-token-8642={SETTINGS.token}"}
    assert client.get("/live/1/now", headers=cookie).status_code == 403


def test_opening_the_page_of_a_process_begins_no_watch(client: TestClient, app: Any) -> None:
    assert client.get("/live/1").status_code == 200
    assert app.state.desk.hub._watches == {}


@pytest.mark.parametrize("field", ["of", "config", "ram", "machine"])
@pytest.mark.parametrize("path", ["/api/plan", "/api/fit", "/api/capacity", "/api/report"])
def test_what_is_no_character_is_refused_in_words(client: TestClient, path: str, field: str) -> None:
    body = json.dumps({"of": "pidog-sac", field: "a\ud800b"})
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "text",
    [
        "extends: pidog-sac\nn_envs: 0x" + "f" * 6000,
        "extends: pidog-sac\nn_envs: " + "1:" * 100_000 + "1",
        "extends: pidog-sac\nn_envs: " + "9" * 400 + ":59.5",
        "extends: pidog-sac\nnetwork: {n_critics: 1000000000000}",
        "extends: pidog-sac\nnetwork: {net_arch: [" + "64, " * 2000 + "64]}",
        "extends: pidog-sac\nnetwork: {lstm_layers: 10000000000000}",
    ],
)
def test_numbers_that_would_never_end_are_refused(client: TestClient, text: str) -> None:
    answer = client.post("/planner/config", content=text)
    assert answer.status_code == 400
    assert len(answer.json()["error"]) < 300
    assert client.post("/api/plan", json={"config": text}).status_code == 400


def test_a_recorded_command_that_is_no_text_is_still_json(client: TestClient) -> None:
    with open_store(write=True) as store:
        run = store.begin("run", "evil", document={"target": "evil\udcff", "command": ["python", "\udcff\udcfe<b>"]})
    answer = client.get(f"/api/runs/{run.id}")
    assert answer.status_code == 200
    assert answer.json()["target"] == "evil\udcff"
    assert client.get(f"/runs/{run.id}").status_code == 200
    assert client.get(f"/runs/{run.id}/report.html").status_code == 200


def test_a_mistake_of_ours_is_said_and_the_server_goes_on(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("rlmem.serve.pages.runs.stored_runs", fail)
    answer = client.get("/runs")
    assert answer.status_code == 500
    assert "a mistake of ours: ZeroDivisionError: ours" in answer.text
    assert client.get("/api/presets").status_code == 200


@pytest.mark.parametrize("path", ["/", "/live", "/runs", "/api/docs", "/static/serve.js", "/nothing"])
def test_every_answer_is_sealed(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_pages_run_no_script_from_inside_themselves(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "'unsafe-eval'" not in policy


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/app.py", "/static/htmx.LICENSE.txt", "/runs/..%2f..%2fetc", "/runs/%2fetc%2fpasswd", "/api/runs/..", "/runs/abcd/../../x"]
)  # fmt: skip
def test_nothing_outside_the_store_and_the_table_is_served(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert "root:" not in answer.text


def test_a_large_body_is_refused_with_and_without_its_length(client: TestClient) -> None:
    big = b"a" * (4 << 20)
    assert client.post("/planner/config", content=big).status_code == 413
    assert client.post("/planner/config", content=iter([big])).status_code >= 400
    assert client.post("/api/plan", content=big).status_code == 413
    assert client.get("/api/presets").status_code == 200


def bomb() -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(rows)


@pytest.mark.parametrize(
    "text",
    [
        bomb(),
        "[" * 5000,
        "{a: " * 3000,
        "!!python/object/apply:os.system ['true']",
        "a: 1\na: 2",
        "n_envs: -1",
        "n_envs: 1e400",
        f"n_envs: {'9' * 5000}",
        "observation: 3",
        "extends: /etc/passwd",
        "just words",
        "\x00\x01",
        "",
        "x" * (LARGEST_CONFIG + 1),
    ],
)
def test_a_hostile_description_gets_one_sentence(client: TestClient, text: str) -> None:
    answer = client.post("/planner/config", content=text.encode())
    assert answer.status_code in (400, 413)
    assert len(answer.json()["error"].splitlines()) == 1
    assert "Traceback" not in answer.text


def test_bytes_that_are_no_text_are_said_to_be(client: TestClient) -> None:
    answer = client.post("/planner/config", content=b"\xff\xfe\x00")
    assert answer.status_code == 400
    assert "UTF-8" in answer.text


def test_a_description_gets_a_link_that_shows_it(client: TestClient) -> None:
    url = client.post("/planner/config", content="extends: pidog-sac\nbuffer_size: 50k\n").json()["url"]
    assert 'value="50000"' in client.get(url).text


@pytest.mark.parametrize(
    "query",
    ["of=nothing", "of=/etc/passwd", "ram=5", "ram=lots", "machine=abacus", "n_envs=0", "n_envs=many", "buffer_size=1e99", "unknown=1", "config=xx", "observation=%7B", "vram=-1GB"],
)  # fmt: skip
def test_a_wrong_address_gets_a_sentence_as_page_part_and_json(client: TestClient, query: str) -> None:
    page = client.get(f"/?{query}")
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    part = client.get(f"/planner/picture?{query}", headers={"hx-request": "true"})
    assert part.status_code == 200
    assert part.text.startswith('<section id="verdict"')  # no verdict of a run that cannot be
    assert part.text.count('role="alert"') == 1
    answer = client.get(f"/api/plan?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_picture_brings_the_address_it_stands_for(client: TestClient) -> None:
    answer = client.get("/planner/picture?of=pidog-sac&ram=10GB&n_envs=4&buffer_size=200k")
    assert answer.headers["hx-replace-url"] == "/?of=pidog-sac&ram=10GB&buffer_size=200000"
    assert 'hx-swap-oob="true"' in answer.text


def test_the_api_plans_as_the_command_does(client: TestClient) -> None:
    from rlmem import Planner, load, make_budget

    truth = json.loads(to_json(plan_document(Planner(make_budget(ram="30GB")).plan(load("pidog-sac", ["n_envs=2"])))))
    got = client.get("/api/plan?of=pidog-sac&ram=30GB&n_envs=2").json()
    posted = client.post("/api/plan", json={"of": "pidog-sac", "ram": "30GB", "sets": {"n_envs": 2}}).json()
    assert got["peaks"] == posted["peaks"] == truth["peaks"]
    validate(got, schema_of(PlanDocument))


def test_the_api_fits_reports_and_finds_capacity(client: TestClient) -> None:
    asked = {"of": "pidog-sac", "ram": "10GB"}
    fit = client.post("/api/fit", json=asked).json()
    validate(fit, schema_of(FitDocument))
    assert fit["status"] == "fits"
    assert client.post("/api/capacity", json=asked).json()["curve"]["knob"] == "buffer_size"
    assert client.post("/api/report", json=asked).json()["schema"] == "rlmem.report/2"
    assert client.post("/api/plan", json={}).status_code == 400


def test_the_api_describes_itself(client: TestClient) -> None:
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/plan", "/api/fit", "/api/processes", "/api/runs", "/api/compare"} <= set(paths)
    assert not [path for path in paths if not path.startswith("/api/")]
    docs = client.get("/api/docs").text
    assert "//cdn" not in docs
    assert "https://" not in docs.replace("https://fastapi.tiangolo.com/img/favicon.png", "")


def test_make_it_fit_offers_links_that_fit(client: TestClient) -> None:
    import html
    import re

    part = client.get("/planner/fit?of=pidog-sac&ram=10GB").text
    link = html.unescape(re.findall(r'href="(/\?[^"]+)"', part)[-1])
    assert 'data-verdict="fits"' in client.get(link).text
    assert "learning does not change" in part


def test_runs_are_listed_filtered_shown_and_compared(client: TestClient) -> None:
    from rlmem import Planner, load, make_budget

    planner = Planner(make_budget(ram="30GB"))
    left, right = (
        save_plan(plan_document(planner.plan(load("pidog-sac", [f"buffer_size={size}"]))), command=["rlmem", "plan"])
        for size in ("100k", "400k")
    )
    with open_store(write=True) as store:
        evil = store.begin("run", "<script>alert(1)</script>", document={"target": "<script>alert(1)</script>"}).id
    page = client.get("/runs").text
    assert left in page
    assert "<script>alert" not in page
    assert right not in client.get("/runs?kind=run").text
    assert evil not in client.get("/runs?text=pidog").text
    assert "buffer_size" in client.get(f"/runs/compare?left={left}&right={right}").text
    assert client.get(f"/api/compare?left={left}&right={right}").json()["schema"] == "rlmem.compare/1"
    assert client.get(f"/runs/compare?left={left}&right={evil}").status_code == 400
    assert "<script>alert" not in client.get(f"/runs/{evil}").text
    assert client.get(f"/runs/{evil}/report.html").status_code == 200
    assert client.get(f"/runs/{left}/report.html").status_code == 400
    assert client.get("/runs/zzzz").status_code == 400
    assert client.get("/runs/compare").status_code == 400


def test_a_store_that_cannot_be_read_is_said_to_be(client: TestClient, tmp_path: Any) -> None:
    folder = tmp_path / "rlmem-data"
    folder.mkdir()
    (folder / "runs.db").write_bytes(b"this is no database at all" * 100)
    answer = client.get("/runs")
    assert answer.status_code == 422
    assert "runs.db" in answer.text


@pytest.mark.parametrize("pid", ["0", "-1", "99999999", "x"])
def test_a_process_that_is_not_there_gets_a_sentence(client: TestClient, bearer: dict[str, str], pid: str) -> None:
    assert client.get(f"/live/{pid}", headers=bearer).status_code in (400, 422)
    assert client.post(f"/api/processes/{pid}/explain", headers=bearer).status_code in (400, 422)


def test_an_entry_that_is_not_one_is_not_tried(client: TestClient, bearer: dict[str, str]) -> None:
    answer = client.post("/planner/try?of=zoo:ppo", headers={**bearer, "hx-request": "true"})
    assert "zoo:ALGO/ENV" in answer.text
