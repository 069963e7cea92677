"""The viewer behind a real Jupyter server with jupyter-server-proxy, in a real browser.

By its port (`/proxy/7655/`), and as a server that Jupyter knows and starts itself (`/rolltrace/`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.places import EXPERIMENT, READY, pages
from tests.browser.processes import PATIENCE_MS, launched, viewing
from tests.integrations.servers import Server
from tests.view.fixtures import demo_store  # noqa: F401 - a fixture

TOKEN = "of-jupyter"
PREFIX = "/user/me"
PAGES = ("experiments", "experiment", "groups", "conversation", "tokens", "compare", "live", "search")
_SETTINGS = """
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.jpserver_extensions = {{"jupyter_server_proxy": True}}
c.ServerApp.base_url = "{prefix}/"
c.IdentityProvider.token = "{token}"
c.ServerProxy.servers = {{
    "rolltrace": {{
        "command": [{python!r}, "-m", "rolltrace", "view", {store!r}, "--port", "{{port}}", "--no-browser"],
        "timeout": 60,
        "launcher_entry": {{"title": "rolltrace"}},
    }}
}}
"""


class Jupyter(Server):
    """A Jupyter server as a hub starts one for each user."""

    health = f"{PREFIX}/api"

    def __init__(self, folder: Path, store: Path) -> None:
        super().__init__(folder)
        settings = _SETTINGS.format(port=self.port, prefix=PREFIX, token=TOKEN, python=sys.executable, store=str(store))
        (folder / "settings.py").write_text(settings)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "jupyter_server", "--config", str(self.folder / "settings.py")]


@pytest.fixture(scope="module")
def store(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811 - the fixture
    """A copy that is labelled."""
    return Path(shutil.copytree(demo_store, tmp_path_factory.mktemp("labelled") / "copy"))


@pytest.fixture(scope="module")
def jupyter(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    with Jupyter(tmp_path_factory.mktemp("jupyter"), store) as server:
        yield server.url + PREFIX


@pytest.fixture(scope="module", params=["/proxy/PORT", "/rolltrace"])
def address(request: pytest.FixtureRequest, jupyter: str, store: Path) -> Iterator[str]:
    """Where Jupyter has the viewer."""
    if request.param == "/rolltrace":
        yield jupyter + request.param
        return
    with viewing(store) as server:
        yield jupyter + request.param.replace("PORT", str(urlsplit(server).port))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser, jupyter: str) -> Iterator[Page]:
    """A page of a browser that Jupyter knows."""
    with chromium.new_context(viewport={"width": 1440, "height": 900}, locale="en-US") as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(f"{jupyter}/api/status?token={TOKEN}")
        yield page
        page.goto("about:blank")  # ends the event stream


@pytest.fixture(scope="module")
def ask(address: str) -> Callable[..., Any]:
    """Call it with an endpoint and arguments: what the viewer answers through Jupyter."""

    def get(endpoint: str, **arguments: Any) -> Any:
        sent = {"Authorization": f"token {TOKEN}"}
        return (
            httpx.get(f"{address}/api/{endpoint}", params=arguments, headers=sent, timeout=120)
            .raise_for_status()
            .json()
        )

    return get


def test_every_page_works_and_asks_for_nothing_outside_its_prefix(
    address: str, ask: Callable[..., Any], page: Page
) -> None:
    requested: list[str] = []
    page.context.on("request", lambda request: requested.append(request.url))
    for name in PAGES:
        page.goto(address + pages(ask)[name])
        page.wait_for_selector(READY[name])
    page.goto(address + pages(ask)["conversation"])
    crumbs = page.get_by_role("navigation", name="Where you are")
    crumbs.get_by_role("link", name="grpo-7b").click()  # inside the page, without a load
    page.wait_for_url(f"{address}{EXPERIMENT}")
    page.wait_for_selector(READY["experiment"])
    page.reload()
    page.wait_for_selector(READY["experiment"])
    assert {url for url in requested if not url.startswith((f"{address}/", "data:", "blob:", "about:"))} == set()


def test_a_label_is_written_through_jupyter(address: str, ask: Callable[..., Any], page: Page) -> None:
    page.goto(address + pages(ask)["conversation"])
    key = page.get_by_role("region", name="Labels").get_by_role("button", name="hack", exact=True)
    expect(key).to_have_attribute("aria-pressed", "false", timeout=PATIENCE_MS)
    page.keyboard.press("3")
    expect(key).to_have_attribute("aria-pressed", "true", timeout=PATIENCE_MS)
    assert ask("trajectories", where="label.hack")["total"] == 1
    page.keyboard.press("3")
    expect(key).to_have_attribute("aria-pressed", "false", timeout=PATIENCE_MS)


def test_who_is_not_known_to_jupyter_does_not_reach_the_viewer(address: str) -> None:
    answer = httpx.get(f"{address}/api/experiments", timeout=60)
    assert answer.status_code in (302, 403)
    assert "grpo-7b" not in answer.text
