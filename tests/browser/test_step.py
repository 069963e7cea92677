"""The step: filter, facets, sorting, selecting; everything is in the address."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from tests.browser.places import EXPERIMENT, LAST_STEP, READY, STEP, groups

Ask = Callable[..., Any]


@pytest.fixture
def step(address: str, page: Page) -> Page:
    page.goto(address + STEP)
    page.wait_for_selector(READY["groups"])
    return page


def where(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query).get("where", [""])[0]


def test_a_filter_is_completed_with_fields_and_values_that_exist(step: Page) -> None:
    field = step.get_by_role("combobox", name="Filter", exact=True)
    field.click()
    field.press_sequentially("sta")
    step.get_by_role("option", name="status").wait_for()
    field.press("Tab")
    expect(field).to_have_value("status ")
    field.press_sequentially("= ")
    step.get_by_role("option", name="'ok'").wait_for()
    field.press("ArrowDown")
    field.press("Enter")
    expect(field).not_to_have_value("status = ")
    field.press("Escape")
    field.press("Enter")
    step.wait_for_url("**where=status*")
    assert where(step).startswith("status = '")


def test_a_list_that_is_a_keystroke_behind_still_completes_the_word(step: Page) -> None:
    field = step.get_by_role("combobox", name="Filter", exact=True)
    field.click()
    field.press_sequentially("s")
    step.get_by_role("option", name="status").wait_for()
    assert not step.get_by_role("option").first.inner_text().startswith("sta")
    step.route(lambda url: "/api/filter/complete" in url and "text=st" in url, lambda route: None)
    field.press_sequentially("ta")
    field.press("Tab")
    expect(field).to_have_value("status ")
    expect(field).to_be_focused()
    step.unroute_all()
    field.press_sequentially("=")
    step.get_by_role("option", name="'ok'").wait_for()
    step.route(lambda url: "/api/filter/complete" in url, lambda route: None)
    field.press("Space")
    field.press("ArrowDown")
    field.press("Enter")
    expect(field).to_have_value(re.compile("^status = '[a-z]+' $"))


def test_an_error_stands_under_the_very_character(step: Page) -> None:
    field = step.get_by_role("combobox", name="Filter", exact=True)
    field.fill("reward < 0.5 and rewrd > 1")
    field.press("Escape")
    step.keyboard.press("f")
    field.press("Enter")
    step.get_by_role("alert").wait_for()
    expect(step.get_by_role("alert")).to_contain_text("did you mean reward?")
    wrong = step.locator(".w-wrong").bounding_box()
    caret = step.locator(".where-caret").bounding_box()
    assert wrong is not None
    assert caret is not None
    assert abs(wrong["x"] - caret["x"]) < 4
    assert step.locator(".w-wrong").inner_text() == "rewrd"
    assert where(step) == ""  # what is on the page stays
    expect(step.locator(".cell").first).to_be_visible()


def test_filters_are_remembered(step: Page) -> None:
    field = step.get_by_role("combobox", name="Filter", exact=True)
    field.fill("turns > 1")
    field.press("Enter")
    step.wait_for_url("**where=turns*")
    step.get_by_role("button", name="Clear", exact=True).click()
    step.wait_for_url(lambda url: "where" not in url)
    step.get_by_role("button", name="Recent filters").click()
    step.get_by_role("menuitem", name="turns > 1").click()
    step.wait_for_url("**where=turns*")


def test_a_facet_narrows_down_and_widens_again(step: Page) -> None:
    trained = step.get_by_role("complementary", name="Facets").get_by_role("button", name="trained")
    trained.click()
    step.wait_for_url("**where=fate*")
    assert where(step) == "fate = 'trained'"
    expect(trained).to_have_attribute("aria-pressed", "true")
    trained.click()
    step.wait_for_url(lambda url: "where" not in url)


def test_a_histogram_is_brushed_with_the_mouse_and_with_keys(step: Page) -> None:
    tokens = step.get_by_role("slider", name="Response tokens")
    box = tokens.bounding_box()
    assert box is not None
    step.mouse.move(box["x"] + 2, box["y"] + 10)
    step.mouse.down()
    step.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10, steps=4)
    step.mouse.up()
    step.wait_for_url("**where=response_tokens*")
    tokens.focus()
    tokens.press("Escape")
    step.wait_for_url(lambda url: "where" not in url)


def test_groups_are_sorted_by_any_column(step: Page, ask: Ask) -> None:
    step.get_by_role("columnheader", name="std").get_by_role("button").click()
    step.wait_for_url("**sort=-std*")
    wanted = groups(ask, order="-std")[0]["cells"][0]["trajectory_id"]
    expect(step.locator(".groups .grid-body .cell").first).to_have_attribute("data-tip", wanted)
    expect(step.get_by_role("columnheader", name="std")).to_have_attribute("aria-sort", "descending")


def test_rollouts_are_selected_with_keys_and_compared(step: Page) -> None:
    for key in ("j", "x", "l", "x"):
        step.keyboard.press(key)
    expect(step.get_by_text("2 selected")).to_be_visible()
    step.keyboard.press("c")
    step.wait_for_url("**/compare?ids=*")
    step.wait_for_selector(READY["compare"])
    expect(step.locator(".compare-head")).to_have_count(2)
    expect(step.get_by_text("first difference").first).to_be_visible()


def test_the_list_has_columns_to_choose(step: Page) -> None:
    step.keyboard.press("v")
    step.wait_for_url("**view=list*")
    step.get_by_role("button", name="Columns").click()
    step.get_by_role("menuitem", name="worker").click()
    expect(step.get_by_role("columnheader", name="worker")).to_be_visible()
    step.wait_for_url("**cols=*worker*")


def test_a_permalink_shows_the_same_in_a_fresh_browser(step: Page, browse: Callable[..., Page]) -> None:
    step.get_by_role("columnheader", name="mean").get_by_role("button").click()
    with step.expect_response(lambda answer: "/groups" in answer.url and "where=fate" in answer.url):
        step.get_by_role("complementary", name="Facets").get_by_role("button", name="trained").click()
    expect(step.get_by_role("table", name="Groups")).to_have_attribute("aria-busy", "false")
    for key in ("j", "x", "j"):
        step.keyboard.press(key)
    step.wait_for_url("**sel=*#at=*")
    expect(step.get_by_text("1 selected")).to_be_visible()
    other = browse()
    other.goto(step.url)
    other.wait_for_selector(".cell.at")
    for name in (".cell.at", ".cell.selected"):
        tip = step.locator(name).get_attribute("data-tip")
        assert tip is not None
        expect(other.locator(name)).to_have_attribute("data-tip", tip)
    expect(other.get_by_role("combobox", name="Filter", exact=True)).to_have_value("fate = 'trained'")
    expect(other.get_by_role("columnheader", name="mean")).to_have_attribute("aria-sort", "descending")


def test_the_back_button_undoes_one_thing_after_the_other(step: Page) -> None:
    step.get_by_role("columnheader", name="mean").get_by_role("button").click()
    step.wait_for_url("**sort=-mean")
    step.get_by_role("complementary", name="Facets").get_by_role("button", name="trained").click()
    step.wait_for_url("**where=*")
    step.locator(".cell").first.click()
    step.wait_for_url("**/t/*")
    step.wait_for_selector(READY["conversation"])
    step.go_back()
    step.wait_for_selector(READY["groups"])
    assert where(step) == "fate = 'trained'"
    step.go_back()
    step.wait_for_url(lambda url: "where" not in url)
    expect(step.get_by_role("columnheader", name="mean")).to_have_attribute("aria-sort", "descending")


def test_the_question_is_copied_for_python(step: Page) -> None:
    step.context.grant_permissions(["clipboard-read", "clipboard-write"])
    step.get_by_role("button", name="Copy as").click()
    step.get_by_role("menuitem", name="Python").click()
    step.get_by_text("Copied").wait_for()
    text = step.evaluate("navigator.clipboard.readText()")
    assert 'store.groups(\n    project="maths",\n    experiment="grpo-7b",\n    step=3,\n)' in text


def test_brackets_go_to_the_step_before_and_after(step: Page) -> None:
    expect(step.get_by_role("button", name="Previous step")).to_be_enabled()
    step.keyboard.press("[")
    step.wait_for_url("**/step/2")
    step.keyboard.press("]")
    step.wait_for_url("**/step/3")


def test_the_question_is_copied_as_sql_with_its_filter(step: Page, demo_store: Path) -> None:
    step.context.grant_permissions(["clipboard-read", "clipboard-write"])
    field = step.get_by_role("combobox", name="Filter", exact=True)
    field.fill("turns > 1 and flag = 'tool_error'")
    field.press("Enter")
    step.wait_for_url("**where=turns*")
    step.get_by_role("button", name="Copy as").click()
    step.get_by_role("menuitem", name="SQL").click()
    step.get_by_text("Copied").wait_for()
    sql = step.evaluate("navigator.clipboard.readText()")
    rows = rolltrace.open(demo_store).sql(sql).rows()
    assert rows
    assert all("tool_error" in row["flags"] and row["step"] == LAST_STEP for row in rows)


@pytest.mark.parametrize("path", [f"{STEP}?view=list", EXPERIMENT])
def test_flags_are_read_in_full_where_nothing_is_labelled(path: str, address: str, browse: Callable[..., Page]) -> None:
    page = browse(viewport={"width": 1280, "height": 900})
    page.goto(address + path)
    chips = page.locator(".list-row .chips, .steps-row .chips")
    chips.first.wait_for()
    expect(page.get_by_role("columnheader", name="labels")).to_have_count(0)
    cut = chips.evaluate_all(
        "all => all.filter(each => each.getBoundingClientRect().right > innerWidth"
        " || each.firstElementChild.firstElementChild.scrollWidth > each.firstElementChild.clientWidth)"
        ".map(each => each.textContent)"
    )
    assert cut == []
