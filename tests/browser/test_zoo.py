"""An RL Zoo entry in the browser: picked, tried for real, turned, shared."""

from __future__ import annotations

import re

import pytest

from browser.conftest import Visits, answer, drawn, expect, knob, sentence

ENTRY = "zoo:ppo/CartPole-v1"


def pick(page, entry: str) -> None:
    page.get_by_text("Pick an RL Zoo entry").click()
    page.get_by_label("RL Zoo entry").fill(entry)
    page.get_by_role("button", name="Open").click()


@pytest.mark.truth
@pytest.mark.long
def test_an_entry_is_tried_once_and_then_its_knobs_turn(visits: Visits) -> None:
    pytest.importorskip("rl_zoo3", reason="the 'truth' extra is not installed")
    page = visits.context(token=True).new_page()
    visits.go(page, "/")
    assert page.locator(f'#zoo-entries option[value="{ENTRY}"]').count() == 1
    pick(page, ENTRY)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("heading", name="Knobs")).to_be_visible()
    expect(knob(page, "n_envs")).to_have_value("8")  # as its hyperparameters say
    before = sentence(page)
    knob(page, "n_steps").fill("65536")
    expect(page).to_have_url(re.compile("n_steps=65536"))
    assert sentence(page) != before
    drawn(page)
    expect(page.locator(".notes")).to_contain_text("moved by what the dry run saw")
    there = visits.context().new_page()  # without the token: it has been tried, so that it can be looked at
    there.goto(page.url)
    assert sentence(there) == sentence(page)
    expect(answer(there)).to_have_attribute("data-verdict", "fits")
    page.get_by_text("As text").click()
    expect(page.get_by_label("Command")).to_have_text(f"rlmem plan {ENTRY} --set n_steps=65536")


def test_an_entry_that_cannot_be_tried_says_why(visits: Visits) -> None:
    pytest.importorskip("rl_zoo3", reason="the 'truth' extra is not installed")
    page = visits.context(token=True).new_page()
    visits.go(page, "/?of=zoo:ppo/Nowhere-v7")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_contain_text("Nowhere-v7")
    expect(page.get_by_role("button", name="Try it")).to_be_visible()


def test_trying_wants_the_token(visits: Visits) -> None:
    page = visits.open(f"/?of={ENTRY.replace('CartPole', 'Acrobot')}")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
