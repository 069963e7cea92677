"""Values of 10 MB, where nobody expects them: in a message, in the names of tools, in a tag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from tests.draining import drain

HUGE = "<b>" + "long " * 2_000_000
"""10 MB that would be HTML."""
MOST_CHARACTERS = 200_000
"""More than this on a page makes it slow."""
STEP = "/e/sizes/huge/step/0"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trajectory."""
    made = tmp_path_factory.mktemp("huge") / "store"
    rolltrace.init("sizes", "huge", "rolltrace", store=made, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, str]]) -> dict[str, object]:
        call = {"id": "call-1", "type": "function", "function": {"name": HUGE, "arguments": "{}"}}
        return {"role": "assistant", "content": HUGE, "tool_calls": [call]}

    @rolltrace.rollout_trace_op(name=HUGE, kind="tool")
    def tool(query: str) -> str:
        return HUGE

    with rolltrace.rollout_trace_attr(0, 0, 0, name="agent", remark=HUGE) as trajectory:
        generate([{"role": "user", "content": HUGE}])
        tool("short")
        trajectory.reward(1.0)
    rolltrace.shutdown()
    drain(made)
    return made


def test_huge_texts_are_cut_and_the_pages_stay_usable(view: Callable[[Path], str], store: Path, page: Page) -> None:
    address = view(store)
    page.goto(f"{address}{STEP}?view=list&cols=name,tags")
    row = page.locator(".list-row a").first
    expect(row).to_be_visible()
    assert _characters(page) < MOST_CHARACTERS
    row.click()
    expect(page.locator(".message").first).to_contain_text("<b>long long")
    assert _characters(page) < MOST_CHARACTERS
    assert page.locator("main b", has_text="long long").count() == 0
    for tab, content in (("Ops", ".op-track i"), ("Raw", ".json")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(content).first).to_be_visible()
        assert _characters(page) < MOST_CHARACTERS
    page.goto(f"{address}/search?q=long")
    expect(page.locator(".hit").first).to_be_visible()
    assert _characters(page) < MOST_CHARACTERS
    page.goto(f"{address}/live")
    expect(page.locator(".figures")).to_be_visible()


def _characters(page: Page) -> int:
    return int(page.evaluate("document.documentElement.outerHTML.length"))
