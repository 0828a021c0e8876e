"""Live processes in a browser: a real training that streams and is explained, the token, thresholds, names as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import (
    IMAGE,
    SCRIPT,
    Live,
    Server,
    Visits,
    child_of,
    expect,
    finished,
    own_home,
    served,
    stopped,
)


def row_of(page: Any, pid: int) -> Any:
    """The row of a process in the list."""
    return page.locator("#processes tbody tr").filter(has=page.locator(f'a[href="/live/{pid}"]'))


def streamed(page: Any, more: int = 2) -> None:
    """Wait until a page has shown further moments."""
    number = int(page.locator("#now").get_attribute("data-number"))
    for later in range(number + 1, number + 1 + more):
        at_least = "|".join(str(later + each) for each in range(30))
        expect(page.locator("#now")).to_have_attribute("data-number", re.compile(f"^({at_least})$"))


def test_a_training_is_listed_and_its_page_streams(visits: Visits, training: Live, shot: Callable) -> None:
    page = visits.open("/live", token=True)
    row = row_of(page, training.pid)
    expect(row).to_contain_text("train.py")
    expect(row).to_contain_text("has rlmem's agent")
    expect(row).to_contain_text("yes")
    shot(page, "live")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Process {training.pid}")
    expect(page.locator(".about")).to_contain_text("train.py")
    streamed(page)
    expect(page.locator("#over-time .plot")).to_have_attribute("aria-label", re.compile("memory of process"))
    expect(page.locator("#members")).to_contain_text(str(training.pid))
    expect(page.locator("#owners")).to_contain_text("model.replay_buffer")
    for name in ("(heap)", "(library code)", "(thread stacks)"):
        expect(page.locator("#owners")).to_contain_text(name)
    expect(page.locator("#over-time .legend")).to_contain_text("libraries")
    expect(page.locator("#over-time .level.limit.above")).to_contain_text("limit")
    expect(page.locator("#now")).to_contain_text(re.compile(r"step [\d,]+ of 1,000,000"))


def test_explain_names_what_holds_the_memory_of_a_training(visits: Visits, training: Live, shot: Callable) -> None:
    page = visits.open(f"/live/{training.pid}", token=True)
    page.get_by_role("button", name="Explain now").click()
    bars = page.locator("#explained .bar .name")
    expect(bars.filter(has_text=re.compile(r"model\.replay_buffer\.\w*observations")).first).to_be_visible()
    shown = page.locator("#explained").inner_text()
    streamed(page, 1)  # what was explained stays while the rest goes on
    assert page.locator("#explained").inner_text() == shown
    shot(page, "live-process", full=True)


def test_a_process_can_be_named_by_its_number(visits: Visits, training: Live) -> None:
    page = visits.open("/live", token=True)
    page.get_by_label("or a process by its number").fill(str(training.pid))
    page.get_by_role("button", name="Watch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Process {training.pid}")
    visits.refuses("/live/2147483647")
    visits.go(page, "/live/2147483647")
    expect(page.get_by_role("alert")).to_contain_text("there is no process 2147483647")


def test_without_the_token_watching_and_explaining_are_refused_in_words(visits: Visits, training: Live) -> None:
    page = visits.open("/live")
    expect(row_of(page, training.pid)).to_contain_text("train.py")  # looking is allowed
    row_of(page, training.pid).get_by_role("link").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("this browser has not shown the token")
    expect(alert).to_contain_text("Open the link that 'rlmem serve' printed")
    expect(page.get_by_role("button", name="Explain now")).to_have_count(0)  # the whole page says so
    ask = page.context.request
    base = page.url.partition("/live")[0]
    words = ask.post(f"{base}/live/{training.pid}/explain", headers={"hx-request": "true"}).text()
    assert "has not shown the token" in words
    assert "replay_buffer" not in words
    for method, path in (("get", f"/live/{training.pid}/now"), ("get", f"/api/processes/{training.pid}/now"),
                         ("post", f"/api/processes/{training.pid}/explain")):  # fmt: skip
        answer = getattr(ask, method)(base + path)
        assert answer.status == 403, path
        assert "token" in answer.text()


def test_a_link_with_another_token_is_refused_in_words(visits: Visits) -> None:
    visits.refuses("/token/")
    page = visits.open("/token/of-another-server")
    expect(page.get_by_role("alert")).to_contain_text("This link is of another server")
    assert page.context.cookies() == []


def test_a_threshold_that_is_passed_is_a_warning(visits: Visits, training: Live) -> None:
    page = visits.open(f"/live/{training.pid}", token=True)
    expect(page.locator("#now .verdict")).not_to_contain_text("over")
    page.get_by_label("warn at").fill("50MB")
    page.get_by_role("button", name="Set").click()
    expect(page).to_have_url(re.compile("warn=50MB"))
    expect(page.locator("#now .verdict .warn").first).to_have_text(re.compile(r"holds .* over 50MB"))
    streamed(page)
    expect(page.locator("#now .verdict .warn").first).to_have_text(re.compile(r"holds .* over 50MB"))
    expect(page.locator("#over-time .level.threshold")).to_have_text("warn at 50MB")
    visits.refuses("warn=lots")
    page.get_by_label("warn at").fill("lots")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_role("alert")).to_contain_text("warn at")


@pytest.mark.parametrize("name", [SCRIPT, IMAGE])
def test_a_command_line_that_would_be_markup_is_shown_as_text(visits: Visits, named: dict[str, int], name: str) -> None:
    page = visits.open("/live", token=True)
    expect(row_of(page, named[name]).locator("code")).to_contain_text(name)
    page.locator("#processes").evaluate("each => each.remove()")
    visits.go(page, f"/live/{named[name]}")
    expect(page.locator(".about code")).to_contain_text(name)
    streamed(page, 1)
    page.get_by_role("button", name="Explain now").click()
    expect(page.locator("#explained .bars")).to_be_visible()
    expect(page.locator("img, body script")).to_have_count(0)


def test_a_page_says_when_its_process_has_ended(visits: Visits, tmp_path: Path) -> None:
    import subprocess
    import sys

    process = own_home(tmp_path / "own").start(
        "run", "--no-record", "--", sys.executable, "-c", "print('ready', flush=True); input()", stdin=subprocess.PIPE
    )
    assert process.stdout.readline() == "ready\n"
    page = visits.open(f"/live/{child_of(process.pid)}", token=True)
    expect(page.locator("#now .facts")).to_be_visible()
    process.stdin.write("\n")
    process.stdin.flush()
    expect(page.locator("#now .verdict .warn").first).to_contain_text("ended")
    finished(process)


def test_the_server_ends_with_ctrl_c_while_pages_watch_and_leaves_nothing(
    browser: Any, training: Live, tmp_path: Path
) -> None:
    server: Server = served(own_home(tmp_path / "own"))
    visits = Visits(browser, server)  # what its pages say of a server that is gone is meant
    page = visits.open(f"/live/{training.pid}", token=True)
    expect(page.locator("#now .facts")).to_be_visible()
    stopped(server)
    expect(page.locator("body")).to_have_attribute("data-lost", re.compile("the server does not answer"))
    visits.close()
