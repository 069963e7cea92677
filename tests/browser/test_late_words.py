"""What is said later about a rollout, and about its group as a whole: amendments, records, the step that trained."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

Ask = Callable[..., Any]
STEP = "/e/games/gridworld/step/1"


@pytest.fixture
def episode(ask: Ask) -> str:
    """The id of an episode whose last step was amended twice."""
    where = "sample_index = 0 and rollout_n = 0"
    return str(ask("trajectories", project="games", step=1, where=where, limit=1)["rows"][0]["trajectory_id"])


def test_an_amended_step_shows_its_value_and_on_demand_what_it_was(address: str, episode: str, page: Page) -> None:
    page.goto(f"{address}/t/{episode}?tab=transitions")
    page.get_by_role("log", name="Transitions").press("End")
    last = page.get_by_role("article", name="step 4")
    expect(last.get_by_text("reward 0.75")).to_be_visible()
    before = last.get_by_text(re.compile("^was 0.5 until"))
    expect(before).to_be_hidden()
    last.get_by_text("reward changed 2 times").click()
    expect(before).to_be_visible()
    last.locator("section", has_text="metrics").get_by_text("changed later").click()
    expect(last.locator("section", has_text="metrics")).to_contain_text("was {won: null}")
    expect(page.get_by_role("article", name="step 0").get_by_text("changed")).to_have_count(0)


def test_the_records_of_a_group_are_reached_from_its_step_sample_and_rollouts(
    address: str, episode: str, page: Page
) -> None:
    page.goto(address + STEP)
    page.locator(".group-row").filter(has=page.get_by_role("link", name="0", exact=True)).get_by_role(
        "link", name="1 record"
    ).click()
    expect(page.get_by_role("complementary", name="Facts")).to_contain_text("for all 2 rollouts of this sample")
    expect(page.get_by_role("navigation", name="Where you are")).to_contain_text("preferences")
    page.locator(".op-button", has_text="prefer").first.click()
    expect(page.get_by_role("tree", name="outputs")).to_contain_text("it reached the key with fewer moves")
    page.keyboard.press("h")
    expect(page.get_by_role("complementary", name="Facts")).to_contain_text("trained in")
    page.keyboard.press("l")
    page.wait_for_selector(".pill.group[aria-current]")
    page.goto(f"{address}{STEP}/sample/0")
    page.get_by_role("region", name="1 group record").get_by_role("link", name="preferences").click()
    page.wait_for_selector(".pill.group[aria-current]")
    page.goto(f"{address}/t/{episode}")
    page.get_by_role("navigation", name="siblings").get_by_role("link", name="preferences").click()
    page.wait_for_selector(".pill.group[aria-current]")


def test_the_step_that_trained_on_a_rollout_leads_to_those_that_it_trained_on(
    address: str, episode: str, page: Page
) -> None:
    page.goto(f"{address}/t/{episode}")
    page.get_by_role("complementary", name="Facts").get_by_role("link", name="step 3 (+2)").click()
    page.wait_for_url("**/step/1?*where=*")
    expect(page.get_by_role("combobox", name="Filter", exact=True)).to_have_value("trained_step = 3")
    expect(page.locator(".list-row:not(.grid-head)")).to_have_count(4)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitem", name="trained in").click()
    expect(page.get_by_role("columnheader", name="trained in")).to_be_visible()
