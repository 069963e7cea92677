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
MAX_CHARACTERS = 200_000
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
    assert _characters(page) < MAX_CHARACTERS
    row.click()
    expect(page.locator(".message").first).to_contain_text("<b>long long")
    assert _characters(page) < MAX_CHARACTERS
    assert page.locator("main b", has_text="long long").count() == 0
    for tab, content in (("Ops", ".op-track i"), ("Raw", ".json")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(content).first).to_be_visible()
        assert _characters(page) < MAX_CHARACTERS
    page.goto(f"{address}/search?q=long")
    expect(page.locator(".hit").first).to_be_visible()
    assert _characters(page) < MAX_CHARACTERS
    page.goto(f"{address}/live")
    expect(page.locator(".figures")).to_be_visible()


def _characters(page: Page) -> int:
    return int(page.evaluate("document.documentElement.outerHTML.length"))


def test_of_a_long_sequence_few_more_tokens_are_drawn_than_are_in_sight(
    tmp_path: Path, view: Callable[[Path], str], page: Page
) -> None:
    rolltrace.init("sizes", "long", "rolltrace", store=tmp_path, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(prompt_ids: list[int]) -> dict[str, list[object]]:
        return {"response_ids": list(range(20_000)), "logprobs": [-0.5] * 20_000}

    with rolltrace.rollout_trace_attr(0, 0, 0) as trajectory:
        generate([1, 2, 3])
    rolltrace.shutdown()
    drain(tmp_path)
    page.goto(f"{view(tmp_path)}/t/{trajectory.trajectory_id}?tab=tokens")
    boxes = page.locator(".k")
    expect(boxes.first).to_be_visible()
    for share in (0.3, 1):
        page.locator(".tokens-scroll").evaluate(f"each => each.scrollTop = each.scrollHeight * {share}")
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        in_sight = boxes.evaluate_all(
            "all => all.filter(each => { const at = each.getBoundingClientRect();"
            " return at.bottom > 0 && at.top < innerHeight }).length"
        )
        assert 100 < in_sight <= boxes.count() < in_sight + 1_000
