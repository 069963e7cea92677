"""The viewer behind real reverse proxies, in a real browser: pages work, and ask for nothing outside the prefix."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.places import EXPERIMENT, READY, of_sample, pages
from tests.browser.processes import viewing
from tests.browser.proxy import proxied

Ask = Callable[..., Any]


class Proxy(NamedTuple):
    """A way to be behind a proxy."""

    prefix: str
    how: dict[str, bool]
    options: tuple[str, ...] = ()


PROXIES = {
    "jupyterhub": Proxy("/user/me/proxy/7655", {"decode": True}),
    "code-server": Proxy("/proxy/7655", {}),
    "nginx": Proxy("/tools/rolltrace", {"keep_prefix": True}, ("--root-path", "/tools/rolltrace")),
}


PAGES = ("experiments", "experiment", "groups", "conversation", "tokens", "compare", "live", "search")


@pytest.mark.timeout(600)  # many pages
@pytest.mark.parametrize("name", PROXIES)
def test_every_page_works_behind_a_proxy(name: str, demo_store: Path, ask: Ask, page: Page) -> None:
    proxy = PROXIES[name]
    requested: list[str] = []
    page.context.on("request", lambda request: requested.append(request.url))
    with viewing(demo_store, *proxy.options) as server, proxied(server, proxy.prefix, **proxy.how) as address:
        for path in PAGES:
            page.goto(address + pages(ask)[path])
            page.wait_for_selector(READY[path])
        page.goto(address + pages(ask)["conversation"])
        crumbs = page.get_by_role("navigation", name="Where you are")
        crumbs.get_by_role("link", name="grpo-7b").click()  # inside the page, without a load
        page.wait_for_url(f"{address}{EXPERIMENT}")
        page.wait_for_selector(READY["experiment"])
        page.reload()
        page.wait_for_selector(READY["experiment"])
        page.go_back()
        page.wait_for_selector(READY["conversation"])
        link = page.get_by_role("navigation", name="Where you are").get_by_role("link", name="grpo-7b")
        assert link.get_attribute("href") == f"{urlsplit(address).path}{EXPERIMENT}"  # what a new tab would open
        page.goto("about:blank")  # ends the event stream
    assert {url for url in requested if not url.startswith((f"{address}/", "data:", "blob:", "about:"))} == set()


def test_the_link_with_the_token_works_behind_a_proxy(demo_store: Path, ask: Ask, page: Page) -> None:
    trajectory = of_sample(ask, "0")[0]
    token = "a-token-of-some-length"
    with viewing(demo_store, "--token", token) as server, proxied(server, "/user/me/proxy/7655") as address:
        page.goto(f"{address}/t/{trajectory}?tab=ops&token={token}")
        page.wait_for_selector(READY["ops"])
        expect(page).to_have_url(re.compile(rf"{re.escape(address)}/t/{trajectory}\?tab=ops"))
        (cookie,) = page.context.cookies()
        assert cookie["path"] == "/user/me/proxy/7655"  # other users of the hub do not get it
        assert cookie["httpOnly"] is True
        page.goto("about:blank")
