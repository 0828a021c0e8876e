"""How pages look and to whom they speak: dark and light, phones, and what axe finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from browser.conftest import PHONE, Live, Stored, Visits, drawn, expect, is_dark, unfold_all, width_over


def test_the_page_follows_the_system_and_a_button_that_is_remembered(visits: Visits, shot: Callable) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB", color_scheme="dark")
    button = page.locator('[data-do="theme"]')
    assert is_dark(page)
    expect(button).to_have_text("Switch to light")
    page.emulate_media(color_scheme="light")
    assert not is_dark(page)
    expect(button).to_have_text("Switch to dark")
    button.click()
    assert is_dark(page)
    shot(page, "planner-dark")
    page.reload()
    assert is_dark(page)
    expect(button).to_have_text("Switch to light")
    visits.go(page, "/runs")
    assert is_dark(page)
    button.click()
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert not is_dark(page)


# -- every page there is -------------------------------------------------------------------------------------------------


def _planner(page: Any) -> None:
    drawn(page)
    page.get_by_role("button", name="Make it fit").click()
    page.locator(".steps").wait_for()


def _live(page: Any) -> None:
    page.locator("#processes tbody tr").first.wait_for()


def _process(page: Any) -> None:
    page.get_by_role("button", name="Explain now").click()
    page.locator("#explained .bars").wait_for()
    page.locator("#over-time .plot").wait_for()


def _nothing(page: Any) -> None:
    pass


#: How each page comes to show everything it can.
READY = {
    "planner": _planner,
    "untried": _nothing,
    "live": _live,
    "process": _process,
    "refused": _nothing,
    "runs": _nothing,
    "run": _nothing,
    "saved plan": _nothing,
    "compare runs": _nothing,
    "compare plans": _nothing,
    "plan report": _nothing,
    "recorded report": _nothing,
}
every_page = pytest.mark.parametrize("name", READY)


@pytest.fixture
def show(visits: Visits, request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Opens a page by its name, everything on it unfolded."""

    def see(name: str, **options: Any) -> Any:
        page = visits.context(token=name in ("live", "process"), **options).new_page()
        page.goto(address(name))
        READY[name](page)
        unfold_all(page)
        return page

    def address(name: str) -> str:
        if name in ("process", "refused", "live"):
            training: Live = request.getfixturevalue("training")
            return visits.url("/live" if name == "live" else f"/live/{training.pid}")
        if name.endswith("report"):
            return request.getfixturevalue("reports")[name.removesuffix(" report")].as_uri()
        stored: Stored = request.getfixturevalue("stored")
        return visits.url(
            {
                "planner": "/?of=drone-swarm&ram=4GB",
                "untried": "/?of=zoo:a2c/CartPole-v1",
                "runs": "/runs",
                "run": f"/runs/{stored['training']}",
                "saved plan": f"/runs/{stored['plan']}",
                "compare runs": f"/runs/compare?left={stored['small']}&right={stored['large']}",
                "compare plans": f"/runs/compare?left={stored['plan']}&right={stored['roomy plan']}",
            }[name]
        )

    yield see


def violations(page: Any, **options: Any) -> list[str]:
    """What axe finds, as lines with the rule's id and the element."""
    found = axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]


@cache
def axe() -> Any:
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


@every_page
def test_axe_finds_nothing_in_light_in_dark_and_at_the_width_of_a_phone(show: Callable, name: str) -> None:
    page = show(name, color_scheme="light")
    found = {"light": violations(page)}
    page.emulate_media(color_scheme="dark")
    found["dark"] = violations(page, runOnly=["cat.color"])  # nothing else depends on it
    page.set_viewport_size({"width": 390, "height": 844})
    found["phone"] = violations(page)
    assert not any(found.values()), json.dumps(found, indent=1)


@every_page
def test_on_a_phone_no_page_scrolls_sideways(show: Callable, shot: Callable, name: str) -> None:
    page = show(name, **PHONE)
    over = width_over(page)
    shot(page, f"phone-{name.replace(' ', '-')}", full=True)
    assert over <= 0, _wide(page)


def _wide(page: Any) -> list[str]:
    """Elements that reach beyond the edge, the outermost ones."""
    return page.evaluate(
        """() => {
            const wide = (each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5;
            return [...document.querySelectorAll('main *')]
                .filter((each) => wide(each) && !wide(each.parentElement) && !each.closest('.scroll, .code'))
                .map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 60)}`);
        }"""
    )
