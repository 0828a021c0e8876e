"""The planner in a browser: knobs, links, steps that make a run fit, and two tabs at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from browser.conftest import PHONE, SCRIPT, YAML, Visits, answer, drawn, expect, knob, ram, sentence


def asked(page: Any) -> dict[str, str]:
    """What the address of a page says."""
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def pasted(page: Any, text: str) -> None:
    """Paste a description and send it."""
    page.get_by_text("Paste or upload your own").click()
    page.get_by_label("A description as YAML or JSON").fill(text)
    page.get_by_role("button", name="Plan this").click()


def test_a_number_typed_into_a_knob_changes_the_verdict_and_the_address(visits: Visits, shot: Callable) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB")
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")
    before = sentence(page)
    page.get_by_label("replay buffer", exact=True).fill("50000")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    expect(page).to_have_url(re.compile("buffer_size=50000"))
    assert asked(page) == {"of": "pidog-sac", "ram": "10GB", "buffer_size": "50000"}
    assert sentence(page) != before
    drawn(page)
    shot(page, "planner", full=True)


def test_sizes_of_the_machine_change_the_verdict(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=64GB")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    ram(page).fill("8GB")
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")
    expect(page).to_have_url(re.compile("ram=8GB"))


def test_a_slider_moves_with_the_keyboard_and_writes_its_number(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB")
    slider = page.get_by_label("replay buffer, slider")
    slider.focus()
    slider.press("Home")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    expect(knob(page, "buffer_size")).to_have_value("25000")
    expect(page).to_have_url(re.compile("buffer_size=25000"))
    expect(slider).to_have_attribute("aria-valuetext", "25000")
    slider.press("ArrowRight")
    expect(knob(page, "buffer_size")).not_to_have_value("25000")
    expect(page).not_to_have_url(re.compile("buffer_size=25000(&|$)"))
    assert asked(page)["buffer_size"] == knob(page, "buffer_size").input_value()
    slider.press("End")
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")


def test_a_choice_changes_the_verdict_and_back_again_leaves_no_trace(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB")
    own = knob(page, "storage").input_value()
    knob(page, "storage").select_option("compact")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    assert asked(page)["storage"] == "compact"
    knob(page, "storage").select_option(own)
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")
    assert "storage" not in asked(page)


def test_knobs_that_nobody_turned_follow_the_others_and_stay_out_of_the_address(visits: Visits) -> None:
    page = visits.open("/?of=drone-swarm&ram=4GB")
    expect(knob(page, "batch_size")).to_have_value("102400")
    expect(knob(page, "rollout.dtype")).to_have_count(0)
    knob(page, "agents").fill("2048")
    expect(knob(page, "batch_size")).to_have_value("204800")
    assert asked(page) == {"of": "drone-swarm", "ram": "4GB", "agents": "2048"}
    knob(page, "storage").select_option("stream")
    expect(knob(page, "rollout.dtype")).to_have_value("float16")  # a knob that matters now
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    expect(knob(page, "agents")).to_have_value("2048")
    assert asked(page) == {"of": "drone-swarm", "ram": "4GB", "agents": "2048", "storage": "stream"}
    knob(page, "rollout.dtype").select_option("float32")
    expect(page).to_have_url(re.compile("rollout.dtype=float32"))
    knob(page, "storage").select_option("plain")
    expect(knob(page, "rollout.dtype")).to_have_count(0)
    expect(knob(page, "batch_size")).to_have_value("204800")


def test_a_slider_of_few_values_moves_by_one(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB&n_envs=1")
    slider = page.get_by_label("environments, slider")
    slider.focus()
    for wanted in ("2", "3", "4"):
        slider.press("ArrowRight")
        expect(knob(page, "n_envs")).to_have_value(wanted)
        expect(slider).to_have_attribute("aria-valuetext", wanted)


def test_what_cannot_be_is_said_where_the_picture_was(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB")
    knob(page, "buffer_size").fill("many")
    expect(page.get_by_role("alert")).to_contain_text("buffer_size: 'many' is not a whole number")
    expect(answer(page)).to_have_count(0)  # no verdict of a run that cannot be
    knob(page, "buffer_size").fill("40000")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(answer(page)).to_have_attribute("data-verdict", "fits")


def test_a_shared_link_shows_the_same_verdict_and_the_same_knob(visits: Visits) -> None:
    here = visits.open("/?of=pidog-sac&ram=10GB")
    knob(here, "buffer_size").fill("123000")
    expect(here).to_have_url(re.compile("buffer_size=123000"))
    there = visits.context().new_page()
    there.goto(here.url)
    assert sentence(there) == sentence(here)
    expect(knob(there, "buffer_size")).to_have_value("123000")
    expect(ram(there)).to_have_value("10GB")


def test_a_link_to_a_pasted_description_holds_all_of_it(visits: Visits) -> None:
    here = visits.open("/")
    pasted(here, YAML)
    expect(here).to_have_title(re.compile("^mine"))
    ram(here).fill("6GB")
    knob(here, "buffer_size").fill("20000")
    expect(here).to_have_url(re.compile("config=.*buffer_size=20000"))
    there = visits.context().new_page()
    there.goto(here.url)
    expect(there).to_have_title(re.compile("^mine"))
    assert sentence(there) == sentence(here)
    expect(knob(there, "buffer_size")).to_have_value("20000")
    expect(there.get_by_label("A description as YAML or JSON")).to_have_value(YAML)


def test_a_description_from_a_file_is_planned(visits: Visits) -> None:
    page = visits.open("/")
    page.get_by_text("Paste or upload your own").click()
    file = {"name": "run.yaml", "mimeType": "text/yaml", "buffer": YAML.encode()}
    page.get_by_label("or a file").set_input_files(file)
    expect(page.locator(".config .said")).to_contain_text("run.yaml is in the field above")
    page.get_by_role("button", name="Plan this").click()
    expect(page).to_have_title(re.compile("^mine"))
    expect(knob(page, "buffer_size")).to_have_value("30000")


def test_a_description_named_like_markup_is_shown_as_text(visits: Visits) -> None:
    page = visits.open("/")
    pasted(page, YAML.replace("mine", f'"{SCRIPT}"'))
    expect(page).to_have_title(re.compile(re.escape(SCRIPT)))
    drawn(page)
    expect(page.locator("body script")).to_have_count(0)


@pytest.mark.parametrize(("run", "size", "steps"), [("pidog-sac", "10GB", 1), ("drone-swarm", "4GB", 2)])
def test_applied_steps_make_it_fit_and_say_what_they_cost(
    visits: Visits, shot: Callable, run: str, size: str, steps: int
) -> None:
    page = visits.open(f"/?of={run}&ram={size}")
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")
    page.get_by_role("button", name="Make it fit").click()
    rows = page.locator(".steps > li")
    expect(rows).to_have_count(steps)
    for number in range(steps):
        row = rows.nth(number)
        expect(row.locator("summary .size")).to_have_text(re.compile(r"^saves [\d.]+ [GM]iB"))
        expect(row.locator(".step b")).to_have_text(re.compile(r"[GM]iB → .*[GM]iB"))
        row.locator("summary").press("Enter")
        expect(row.locator("dd").first).to_contain_text("learning does not change")
        expect(row.locator(".diff")).to_be_visible()
    shot(page, f"make-{run}-fit")
    for left in range(steps - 1, -1, -1):
        promised = rows.first.locator(".step b").inner_text().partition(" → ")[2]
        page.get_by_text("Apply this step").click()
        expect(answer(page).locator(".verdict p").first).to_contain_text(f"RAM peaks at {promised} ")
        expect(rows).to_have_count(left)
    expect(page.locator("#fit")).to_contain_text("It fits as it is")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    page.reload()  # the address has the steps
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    page.go_back()
    expect(answer(page)).to_have_attribute("data-verdict", "does-not-fit")


def test_two_tabs_with_other_runs_and_knobs_do_not_disturb_each_other(visits: Visits) -> None:
    context = visits.context()
    left, right = context.new_page(), context.new_page()
    visits.go(left, "/?of=pidog-sac&ram=10GB")
    visits.go(right, "/?of=drone-swarm&ram=64GB")
    for value, agents in (("50000", "512"), ("60000", "640"), ("300000", "768")):
        knob(left, "buffer_size").fill(value)
        knob(right, "agents").fill(agents)
        expect(left).to_have_url(re.compile(f"buffer_size={value}"))
        expect(right).to_have_url(re.compile(f"agents={agents}"))
    expect(answer(left)).to_have_attribute("data-verdict", "does-not-fit")
    expect(answer(right)).to_have_attribute("data-verdict", "fits")
    assert asked(left) == {"of": "pidog-sac", "ram": "10GB", "buffer_size": "300000"}
    assert asked(right) == {"of": "drone-swarm", "ram": "64GB", "agents": "768"}
    left.reload()
    expect(knob(left, "buffer_size")).to_have_value("300000")
    expect(knob(right, "agents")).to_have_value("768")


def test_on_a_phone_the_verdict_is_in_view_after_a_knob_was_turned(visits: Visits, shot: Callable) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB", **PHONE)
    drawn(page)
    field = knob(page, "buffer_size")
    field.scroll_into_view_if_needed()
    field.fill("50000")
    expect(answer(page)).to_have_attribute("data-verdict", "fits")
    expect(answer(page).locator(".verdict p").first).to_be_in_viewport()
    expect(field).to_be_in_viewport()
    shot(page, "planner-on-a-phone")


def test_the_same_plan_can_be_taken_away(visits: Visits) -> None:
    page = visits.open("/?of=pidog-sac&ram=10GB&buffer_size=50000")
    page.get_by_text("As text").click()
    expect(page.get_by_label("Command")).to_have_text("rlmem plan pidog-sac --ram 10GB --set buffer_size=50000")
    with page.expect_download() as found:
        page.get_by_role("link", name="Report").click()
    assert found.value.suggested_filename == "pidog-sac.html"
    assert found.value.path().read_text().startswith("<!doctype html>")
