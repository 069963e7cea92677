"""Every field that can hold traced text holds HTML and script, and every page is opened: nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from tests.browser.conftest import Watch
from tests.browser.processes import viewing
from tests.browser.proxy import proxied
from tests.view.hostile_text import EXPERIMENT, PROJECT, SAMPLE, hostile, write_hostile_store

ALIVE = "script, iframe, object, embed, img[src=x], a[href^=java], svg[onload], [onerror], [onload]"
"""What traced text must never become."""
COLUMNS = "name,sample_index,tags,error,run,worker,flags,status,fate"


class Served:
    """A viewer of the hostile store."""

    def __init__(self, address: str, ids: list[str]) -> None:
        self.address, self.ids = address, ids


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("hostile") / "store"
    ids = write_hostile_store(store)
    with viewing(store) as address:
        yield Served(address, ids)


def part(name: str) -> str:
    """A name in the path of a page."""
    return quote(name.replace("%", "%25").replace("/", "%2F"), safe="")


def everywhere(ids: list[str]) -> dict[str, str]:
    """Every page, and what is there once it is."""
    step = f"/e/{part(PROJECT)}/{part(EXPERIMENT)}/step/1"
    return {
        "/": "tbody tr",
        f"/e/{part(PROJECT)}/{part(EXPERIMENT)}": ".charts canvas",
        step: ".cell",
        f"{step}?view=list&cols={COLUMNS}": ".list-row a",
        f"{step}/sample/{part(SAMPLE)}": ".list-row a",
        f"{step}?where={quote(PROJECT)}": ".where-problem",
        **{f"/t/{ids[-1]}{tab}": ready for tab, ready in {
            "": ".message", "?tab=tokens": ".token-block", "?tab=ops": ".op-track i", "?tab=transitions": ".transition",
            "?tab=raw": ".json",
        }.items()},
        f"/compare?ids={','.join(ids[:4])}": "main table",
        "/live": ".figures",
        "/search?q=onerror": ".hit",
        f"/nothing/{part(PROJECT)}": ".empty, .problem, main a",
    }  # fmt: skip


@pytest.mark.timeout(600)  # many pages
def test_no_field_becomes_html_on_any_page(served: Served, page: Page, watch: Watch) -> None:
    for path, ready in everywhere(served.ids).items():
        page.goto(served.address + path)
        page.locator(ready).first.wait_for()
        for fold in page.locator("main .fold, main .j-toggle[aria-label^=Expand]").all()[:8]:
            fold.click()
        assert page.locator("#root").locator(ALIVE).count() == 0, path
        if path != "/live":  # where nothing runs
            shows = "body => body.innerText.includes('onerror') || body.querySelector('canvas') !== null"
            assert page.locator("body").evaluate(shows), path
        assert watch.problems() == [], path


def test_what_runs_right_now_shows_hostile_text_as_text(
    tmp_path: Path, view: Callable[[Path], str], page: Page, watch: Watch
) -> None:
    rolltrace.init(PROJECT, EXPERIMENT, "rolltrace", store=tmp_path, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name=hostile("op"), kind="tool")
    def look() -> None:
        page.goto(f"{view(tmp_path)}/live")
        row = page.locator("main tbody tr").first
        for field in ("op", "experiment", "sample_index"):
            expect(row).to_contain_text(f"alert('{field}')")
        assert page.locator("#root").locator(ALIVE).count() == 0
        assert watch.problems() == []
        row.locator("a").nth(1).click()
        expect(page.locator("main")).to_contain_text("alert('op')")
        assert page.locator("#root").locator(ALIVE).count() == 0

    with rolltrace.rollout_trace_attr(SAMPLE, 1, 0, name=hostile("trajectory"), remark=hostile("tag")):
        look()
    page.goto("about:blank")
    rolltrace.shutdown()


def test_markdown_of_hostile_text_makes_no_links_that_run(served: Served, page: Page) -> None:
    page.goto(f"{served.address}/t/{served.ids[0]}")
    page.locator(".message").first.wait_for()
    for message in page.locator(".message").all():
        message.hover()
        button = message.get_by_role("button", name="Markdown")
        if button.count():
            button.first.click()
    expect(page.locator(".markdown").first).to_be_visible()
    assert page.locator("main").locator(ALIVE).count() == 0


def test_the_jump_box_shows_hostile_text_as_text(served: Served, page: Page) -> None:
    page.goto(served.address)
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    assert page.locator("#root").locator(ALIVE).count() == 0


def test_names_with_slashes_and_dots_are_found_behind_a_proxy_that_decodes_them(served: Served, page: Page) -> None:
    with proxied(served.address, "/user/me/proxy/7655", decode=True) as address:
        page.goto(f"{address}/")
        page.locator("tbody tr a").first.click()
        page.locator(".charts canvas").first.wait_for()
        page.reload()
        page.locator(".charts canvas").first.wait_for()
        page.goto("about:blank")
