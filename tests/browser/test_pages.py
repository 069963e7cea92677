"""Every page opens, is accessible in both themes, and says nothing to the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious
from tests.browser.places import EXPERIMENT, READY, STEP, pages, with_flag

Ask = Callable[..., Any]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", sorted(READY))
def test_a_page_opens_and_is_accessible(
    name: str, theme: str, address: str, ask: Ask, browse: Callable[..., Page]
) -> None:
    page = browse(color_scheme=theme)
    page.goto(address + pages(ask)[name])
    page.wait_for_selector(READY[name])
    assert serious(page) == []


@pytest.mark.parametrize("name", sorted(READY))
def test_a_page_fits_into_1024_pixels_and_speaks_chinese(
    name: str, address: str, ask: Ask, browse: Callable[..., Page]
) -> None:
    page = browse(viewport={"width": 1024, "height": 768}, locale="zh-CN")
    page.goto(address + pages(ask)[name])
    page.wait_for_selector(READY[name])
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024


def test_the_page_has_no_inline_script_and_loads_nothing_from_elsewhere(address: str, page: Page) -> None:
    answer = page.goto(address)
    assert answer is not None
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert page.evaluate("document.querySelectorAll('script:not([src])').length") == 0


def test_the_breadcrumb_leads_up(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{with_flag(ask, 'prefix_break')}")
    crumbs = page.get_by_role("navigation", name="Where you are")
    crumbs.get_by_role("link", name="grpo-7b").click()
    page.wait_for_url(f"**{EXPERIMENT}")
    page.wait_for_selector(READY["experiment"])


def test_a_click_on_a_chart_opens_the_step_and_dragging_zooms(address: str, page: Page) -> None:
    page.goto(address + EXPERIMENT)
    chart = page.locator(".chart .u-over").first
    chart.wait_for()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20, steps=8)
    page.mouse.up()
    page.wait_for_url("**x=*")
    page.get_by_role("button", name="Show all steps").click()
    chart.click(position={"x": box["width"] - 2, "y": 20})
    page.wait_for_url(f"**{STEP}")


def test_the_jump_box_goes_to_a_step_an_id_and_a_filter(address: str, ask: Ask, page: Page) -> None:
    trajectory = with_flag(ask, "prefix_break")
    page.goto(address + EXPERIMENT)
    page.wait_for_selector(READY["experiment"])
    for typed, lands in (("2", "**/step/2"), (trajectory[:8], f"**/t/{trajectory}")):
        page.keyboard.press("/")
        page.keyboard.type(typed)
        expect(page.get_by_role("option").first).to_contain_text(typed)
        page.keyboard.press("Enter")
        page.wait_for_url(lands)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Jump to")).to_be_focused()
    page.keyboard.type("liv")
    expect(page.get_by_role("option").first).to_contain_text("/live")
    assert serious(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/live")


def test_the_list_of_keys_shows_those_of_the_page(address: str, page: Page) -> None:
    page.goto(address + STEP)
    page.wait_for_selector(READY["groups"])
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("compare what is selected")
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_unknown_page_says_so(address: str, page: Page) -> None:
    page.goto(f"{address}/no/such/page")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_rewards_of_selected_experiments_are_laid_over_each_other(address: str, page: Page) -> None:
    page.goto(address)
    for name in ("verl / tool-agent", "maths / grpo-7b"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    expect(page.get_by_role("img", name="Reward of 2 experiments")).to_be_visible()
    assert serious(page) == []
