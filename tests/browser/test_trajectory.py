"""A trajectory: siblings, tokens, ops, and text that means harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from tests.browser.conftest import Watch
from tests.browser.places import LAST_STEP, of_sample, with_flag
from tests.view.texts import HOSTILE

Ask = Callable[..., Any]
ALIVE = "script, iframe, style, svg[onload], img[src=x], a[href^=java]"
"""What traced text would be if it became HTML."""


def test_keys_walk_through_the_siblings_and_over_the_steps(address: str, ask: Ask, page: Page) -> None:
    ids = of_sample(ask, "0")
    page.goto(f"{address}/t/{ids[0]}?tab=ops")
    page.wait_for_selector(".pill")
    page.keyboard.press("l")
    page.wait_for_url(f"**/t/{ids[1]}?tab=ops")
    expect(page.locator(".pill[aria-current]")).to_contain_text("n1")
    page.keyboard.press("h")
    page.wait_for_url(f"**/t/{ids[0]}?tab=ops")
    expect(page.locator(".pill[aria-current]")).to_contain_text("n0")
    page.keyboard.press("[")
    page.wait_for_url(f"**/t/{of_sample(ask, '0', LAST_STEP - 1)[0]}?tab=ops")


def test_the_same_sample_in_another_experiment_is_a_click_away(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{of_sample(ask, '0')[0]}?tab=ops")
    others = page.get_by_role("navigation", name="Same sample in")
    others.get_by_role("link", name="interrupted", exact=True).click()
    expect(others.get_by_role("link", name="grpo-7b", exact=True)).to_be_visible()


def test_a_token_tells_what_it_is_when_hovered_and_by_arrow_keys(address: str, ask: Ask, page: Page) -> None:
    trajectory = with_flag(ask, "prefix_break")
    tokens = ask(f"trajectory/{trajectory}/tokens")
    first = next(each for each in tokens["segments"] if each["kind"] == "response")
    page.goto(f"{address}/t/{trajectory}?tab=tokens")
    page.wait_for_selector(".token-block")
    page.hover(f'[data-tip="{first["start"]}"]')
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text(f"id {tokens['ids'][first['start']]}")
    expect(tip).to_contain_text("logprob")
    page.locator(f'[data-tip="{first["start"]}"]').click()
    page.locator(".tokens-scroll").press("ArrowRight")
    page.wait_for_url(f"**#tok={first['start'] + 1}")
    expect(page.locator(".token-line")).to_contain_text(f"position {first['start'] + 1}")


def test_tokens_are_filled_by_the_advantage_where_there_is_one(address: str, ask: Ask, page: Page) -> None:
    scored = ask("trajectories", experiment="grpo-7b", where="score.advantage < 0", limit=1)["rows"][0]["trajectory_id"]
    tokens = ask(f"trajectory/{scored}/tokens")
    first = next(each for each in tokens["segments"] if each["kind"] == "response")["start"]
    page.goto(f"{address}/t/{scored}?tab=tokens")
    page.get_by_role("button", name="advantage").click()
    page.wait_for_url("**fill=advantage*")
    expect(page.get_by_text("each pushed by \N{MINUS SIGN}")).to_be_visible()
    expect(page.locator(f'[data-tip="{first}"]')).to_have_attribute("style", re.compile("--heat"))
    unscored = with_flag(ask, "prefix_break")
    page.goto(f"{address}/t/{unscored}?tab=tokens&fill=advantage")
    expect(page.get_by_role("button", name="advantage")).to_be_disabled()
    expect(page.get_by_role("button", name="logprob")).to_have_attribute("aria-pressed", "true")


def test_two_rollouts_are_compared_token_by_token(address: str, ask: Ask, page: Page) -> None:
    ids = of_sample(ask, "d5f1c2aa-uuid")[:2]
    first = ask("compare", ids=",".join(ids))["first_difference"]
    page.goto(f"{address}/compare?ids={','.join(ids)}")
    page.get_by_role("button", name="Tokens").click()
    page.wait_for_url("**diff=tokens*")
    for column, place in enumerate(first["sequence_index"]):
        reply = page.locator(".compare-row.first .compare-cell").nth(column).locator(".reply-tokens")
        expect(reply.locator(".differs").first).to_have_attribute("data-tip", str(place))
    page.locator(".reply-tokens .differs").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(f"id {first['values'][0]}")


def test_a_break_of_the_prefix_shows_both_versions(address: str, ask: Ask, page: Page) -> None:
    trajectory = with_flag(ask, "prefix_break")
    page.goto(f"{address}/t/{trajectory}")
    page.get_by_role("complementary", name="Facts").get_by_role("link", name="prefix_break").click()
    page.wait_for_url("**tab=tokens#*tok=*")
    note = page.get_by_role("note")
    expect(note.first).to_contain_text("tokenised anew")
    expect(note.first).to_contain_text("the next prompt has")


def test_the_least_likely_tokens_are_a_key_away(address: str, ask: Ask, page: Page) -> None:
    trajectory = of_sample(ask, "d5f1c2aa-uuid")[0]
    least = ask(f"trajectory/{trajectory}/tokens")["least_likely"][0]["index"]
    page.goto(f"{address}/t/{trajectory}?tab=tokens")
    page.wait_for_selector(".token-block")
    page.keyboard.press("u")
    page.wait_for_url(f"**#tok={least}")
    expect(page.locator(".k.at")).to_be_in_viewport()


def test_errors_are_found_with_a_key_and_shown_in_the_conversation(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{with_flag(ask, 'tool_error')}")
    page.wait_for_selector(".message")
    page.keyboard.press("e")
    page.wait_for_url("**#op=*")
    expect(page.locator(".message.here .call.failed")).to_contain_text("fare_new")


def test_an_op_shows_its_inputs_and_the_waterfall_zooms(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{of_sample(ask, '0')[0]}?tab=ops")
    page.locator(".op-button", has_text="generate").first.click()
    expect(page.get_by_role("tree", name="inputs")).to_contain_text("messages")
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url("**t=*")
    page.get_by_role("button", name="Whole trajectory").click()
    page.wait_for_url(lambda url: "t=0" not in url)


def test_panes_are_closed_and_opened(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{of_sample(ask, '0')[0]}")
    facts = page.get_by_role("complementary", name="Facts")
    expect(facts).to_be_visible()
    page.keyboard.press("i")
    expect(facts).to_have_count(0)
    page.get_by_role("button", name="Show the facts").click()
    expect(facts).to_be_visible()


@pytest.mark.parametrize("tab", ["", "?tab=tokens", "?tab=ops", "?tab=raw"])
def test_hostile_text_is_shown_as_text(tab: str, address: str, ask: Ask, page: Page, watch: Watch) -> None:
    for trajectory in of_sample(ask, "hostile-<b>"):
        page.goto(f"{address}/t/{trajectory}{tab}")
        page.wait_for_selector(".message, .token-block, .op-track i, .json")
        for fold in page.locator(".fold, .j-toggle[aria-label^=Expand]").all()[:6]:
            fold.click()
        assert page.locator("main").locator(ALIVE).count() == 0
    assert watch.problems() == []


def test_hostile_names_are_shown_as_text_in_lists_and_search(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/e/maths/grpo-7b/step/{LAST_STEP}?view=list&cols=name,sample_index,tags,error")
    expect(page.get_by_text(HOSTILE[0]).first).to_be_visible()
    page.goto(f"{address}/search?q=onerror")
    expect(page.locator("mark").first).to_have_text("onerror")
    ids = of_sample(ask, "hostile-<b>")
    page.goto(f"{address}/compare?ids={','.join(ids)}")
    page.wait_for_selector(".compare-row")
    assert page.locator("main").locator(ALIVE).count() == 0


def test_markdown_is_drawn_on_demand_and_its_links_do_nothing(address: str, ask: Ask, page: Page) -> None:
    page.goto(f"{address}/t/{of_sample(ask, 'hostile-<b>')[2]}")
    message = page.locator(".message", has_text="click me").first
    message.hover()
    message.get_by_role("button", name="Markdown").click()
    expect(message.locator(".markdown")).to_contain_text("javascript:alert(1)")
    assert message.locator(".markdown a").count() == 0


def test_the_same_sample_at_another_step_and_elsewhere_is_compared_with_one_click(
    address: str, ask: Ask, page: Page
) -> None:
    here = of_sample(ask, "0")[0]
    before = of_sample(ask, "0", LAST_STEP - 1)[0]
    page.goto(f"{address}/t/{here}")
    page.get_by_role("link", name=f"Compare with the same sample: step {LAST_STEP - 1}").click()
    page.wait_for_url(f"**/compare?ids={here},{before}")
    page.go_back()
    page.get_by_role("link", name="Compare with the same sample: interrupted").click()
    page.wait_for_url(f"**/compare?ids={here},*")
    page.wait_for_selector(".compare-row")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name="Filter").click()
    page.get_by_text("Copied").wait_for()
    assert here in page.evaluate("navigator.clipboard.readText()")


def test_code_is_coloured_and_results_of_tools_are_tables(
    view: Callable[[Path], str], tmp_path: Path, page: Page
) -> None:
    record_tables(tmp_path / "store")
    page.goto(f"{view(tmp_path / 'store')}/e/a/b/step/0")
    page.locator(".cell").first.click()
    said = page.locator(".message", has_text="Here it is").first
    expect(said.locator(".c-word").first).to_have_text("for")
    expect(said).to_contain_text("```python\nfor x in rows:")
    table = page.get_by_role("table").filter(has_text="HAT136")
    expect(table.get_by_role("columnheader")).to_have_text(["id", "seats"])
    expect(table.get_by_role("row")).to_have_count(3)
    page.get_by_role("button", name="JSON").click()
    expect(table).to_have_count(0)
    page.get_by_role("button", name="Table of 2 rows").click()
    expect(table).to_be_visible()
    assert page.locator("main").locator(ALIVE).count() == 0


def record_tables(store: Path) -> None:
    """One rollout: a reply with code in it, and a tool that gives a table."""
    rolltrace.init("a", "b", "rolltrace", store=store, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, str]]) -> dict[str, object]:
        call = {"id": "1", "type": "function", "function": {"name": "flights", "arguments": "{}"}}
        return {
            "role": "assistant",
            "content": "Here it is:\n```python\nfor x in rows: pass\n```",
            "tool_calls": [call],
        }

    @rolltrace.rollout_trace_op(name="flights", kind="tool")
    def flights() -> str:
        return json.dumps([{"id": "HAT136", "seats": 4}, {"id": "<script>alert(1)</script>", "seats": 0}])

    with rolltrace.rollout_trace_attr(0, 0, 0):
        generate([{"role": "user", "content": "?"}])
        flights()
    rolltrace.shutdown()
