"""What pass means, in the viewer: said beside every figure, chosen on the page, stored for everybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from rolltrace.query import open_store
from tests.browser.processes import viewing

View = Callable[..., str]


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Rewards above 0, of which one in four is of a right answer."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in (1, 2):
        for n, (reward, correct) in enumerate(((1.2, 1.0), (0.9, 0.0), (0.5, 0.0), (0.3, 0.0))):
            with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n) as trajectory:
                pass
            rolltrace.score(trajectory, "reward", reward, terms={"correct": correct})
    rolltrace.shutdown()
    return tmp_path


def test_pass_is_chosen_on_the_experiment_page_and_counts_on_all_pages(graded: Path, view: View, page: Page) -> None:
    page.goto(f"{view(graded)}/e/p/e")
    figure = page.locator(".figure", has_text="reward > 0")
    expect(figure.locator(".big")).to_have_text("100 %")
    expect(page.get_by_text("pass rate")).to_have_count(0)
    page.locator(".pass-choice summary").click()
    page.get_by_label("value").select_option("correct")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".pass-choice summary")).to_have_text("pass: correct >= 1")
    figure = page.locator(".figure", has_text="pass rate")
    expect(figure.locator(".big")).to_have_text("25 %")
    expect(figure.locator(".note")).to_have_text("correct >= 1")
    assert open_store(graded).pass_meanings()[0].text == "pass: correct >= 1"
    page.get_by_role("link", name="2", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="1/4")).to_have_count(1)
    expect(page.locator(".pass-choice summary")).to_have_text("pass: correct >= 1")
    facet = page.locator(".facets section", has_text="Pass: correct >= 1")
    facet.get_by_role("button", name="yes").click()
    expect(page.locator(".summary").first).to_contain_text("1 group")
    page.locator(".pass-choice summary").click()
    page.get_by_role("button", name="Take the choice back").click()
    expect(page.locator(".pass-choice summary")).to_have_text("reward > 0")
    expect(page.get_by_role("row").filter(has_text="4/4")).to_have_count(1)


def test_a_viewer_that_only_reads_says_why_nothing_can_be_chosen(graded: Path, page: Page) -> None:
    with viewing(graded, "--read-only") as address:
        page.goto(f"{address}/e/p/e")
        page.locator(".pass-choice summary").click()
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        expect(page.locator(".pass-form .err")).to_contain_text("this server only reads")
