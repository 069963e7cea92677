"""Light and dark, English and Chinese: by the system at first, then as chosen."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.places import READY, STEP

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(21, 22, 26)"


def expect_background(page: Page, colour: str) -> None:
    expect(page.locator("body")).to_have_css("background-color", colour)


def test_the_theme_follows_the_system_until_it_is_chosen(address: str, browse: Callable[..., Page]) -> None:
    page = browse(color_scheme="dark")
    page.goto(address + STEP)
    expect_background(page, DARK)
    page.emulate_media(color_scheme="light")
    expect_background(page, LIGHT)
    page.get_by_role("button", name="Switch between light and dark").click()
    expect_background(page, DARK)
    page.reload()
    expect_background(page, DARK)


def test_the_language_is_switched_and_kept(address: str, page: Page) -> None:
    page.goto(address + STEP)
    page.wait_for_selector(READY["groups"])
    page.get_by_role("button", name="切换到中文").click()
    expect(page.get_by_role("columnheader", name="样本")).to_be_visible()
    expect(page.get_by_role("button", name="分组")).to_be_visible()
    page.reload()
    expect(page.get_by_role("columnheader", name="样本")).to_be_visible()
    page.get_by_role("button", name="Switch to English").click()
    expect(page.get_by_role("columnheader", name="sample")).to_be_visible()
