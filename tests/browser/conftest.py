"""A real Chromium, driven by Playwright, over the real `rolltrace view`. Any console error or warning fails a test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.processes import PATIENCE_MS, launched, viewing
from tests.view.fixtures import demo_store  # noqa: F401 - a fixture, written once

expect.set_options(timeout=PATIENCE_MS)
NO_ANSWER = "Failed to load resource"
"""What Chromium itself writes when the server says no."""


@pytest.fixture
def view() -> Iterator[Callable[[Path], str]]:
    """Call it with a store: the address of a server of its own."""
    with ExitStack() as servers:
        yield lambda store: servers.enter_context(viewing(store))


@pytest.fixture(scope="session")
def address(demo_store: Path) -> Iterator[str]:  # noqa: F811 - the fixture
    """The address of a server of the demo store."""
    with viewing(demo_store) as made:
        yield made


@pytest.fixture
def copy(demo_store: Path, tmp_path: Path) -> Path:  # noqa: F811 - the fixture
    """A copy of the demo store that may be harmed."""
    return Path(shutil.copytree(demo_store, tmp_path / "copy"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


class Watch:
    """What must not happen on a page: console errors, faults, alerts, requests to anywhere else."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.expected: list[str] = []

    def attach(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda fault: self.seen.append(f"fault: {fault.error}"))
        context.on("dialog", self._dialog)
        context.on("request", lambda request: self._request(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.seen.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.seen.append(f"request: {url}")

    def problems(self) -> list[str]:
        return [each for each in self.seen if not any(text in each for text in self.expected)]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Collects what pages complain about; fails the test at its end."""
    made = Watch()
    yield made
    assert made.problems() == []


@pytest.fixture
def browse(chromium: Browser, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Call it for a page in a fresh browser: no cookies, no storage."""
    with ExitStack() as contexts:

        def fresh(**how: Any) -> Page:
            how.setdefault("viewport", {"width": 1440, "height": 900})
            context = contexts.enter_context(chromium.new_context(locale=how.pop("locale", "en-US"), **how))
            context.set_default_timeout(PATIENCE_MS)
            watch.attach(context)
            return context.new_page()

        yield fresh


@pytest.fixture
def page(browse: Callable[..., Page]) -> Page:
    """A page of a fresh browser."""
    return browse()


@pytest.fixture(scope="session")
def ask(address: str) -> Callable[..., Any]:
    """Call it with an endpoint and arguments: what the server of the demo store answers."""

    def get(endpoint: str, **arguments: Any) -> Any:
        answer = httpx.get(f"{address}/api/{endpoint}", params=arguments, timeout=60)
        answer.raise_for_status()
        return answer.json()

    return get
