"""The built site (`make docs`) in a real browser, from its folder: search works, and nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, TimeoutError, sync_playwright

from tests.browser.processes import launched
from tests.docs.pages import ROOT

SITE = ROOT / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.mark.parametrize(
    ("page", "words", "found"),
    [
        ("index.html", "staleness", "concepts.html"),
        ("howto/verl.html", "rollout_data_dir", "migrate.html"),
        ("zh/start.html", "陈旧", "zh/concepts.html"),
    ],
)
def test_search_finds_a_page_without_a_server(browser: Browser, page: str, words: str, found: str) -> None:
    asked: list[str] = []
    with browser.new_page() as tab:
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((SITE / page).as_uri())
        for attempt in range(12):  # what is typed before the page listens is lost
            tab.fill("input.md-search__input", words)
            tab.press("input.md-search__input", "End")  # the theme looks at the field when a key is released
            try:
                tab.wait_for_selector(f".md-search-result__item a[href*='{found}']", state="attached", timeout=5_000)
                break
            except TimeoutError:
                assert attempt < 11
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
