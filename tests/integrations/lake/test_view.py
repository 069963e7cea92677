"""The viewer on a lake: everything can be looked at, nothing can be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

import rolltrace
from tests.browser.processes import PATIENCE_MS, launched, viewing
from tests.integrations.lake.answers import rounded
from tests.integrations.lake.conftest import LABELLED

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a fresh browser, which must not complain."""
    complaints = []
    with sync_playwright() as playwright:
        browser = launched(playwright)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, locale="en-US")
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        yield page
        browser.close()
    assert complaints == []


def test_a_lake_is_browsed_from_its_experiments_to_a_comparison(shipped: Path, lake: str, page: Page) -> None:
    with viewing(lake) as address:
        page.goto(address)
        page.locator("tbody tr", has_text="first").locator("a").first.click()
        expect(page.locator(".charts canvas").first).to_be_visible()
        page.goto(f"{address}/e/lake/first/step/2?view=list")
        expect(page.locator(".list-row a")).to_have_count(12)
        page.goto(f"{address}/e/lake/first/step/2?view=list&where={quote(LABELLED)}")
        page.locator(".list-row a").first.click()
        expect(page.locator(".said .label-chip")).to_have_text("good")
        expect(page.locator(".labels .reason")).to_have_text(
            f"the store '{lake}' can only be read: it is a lake, which is filled from stores: write to one of these, "
            "and ship it"
        )
        page.goto(f"{page.url.partition('?')[0]}?tab=ops")
        expect(page.locator(".op-track i").first).to_be_visible()
        with rolltrace.open(shipped) as store:
            ids = [row["trajectory_id"] for row in store.trajectories(step=2, experiment="first", limit=2)]
        page.goto(f"{address}/compare?ids={','.join(ids)}")
        expect(page.locator(".compare-row").first).to_be_visible()


def test_the_viewer_answers_of_a_lake_what_it_answers_of_the_store(shipped: Path, lake: str) -> None:
    with rolltrace.open(shipped) as store:
        ids = [row["trajectory_id"] for row in store.trajectories(step=2, experiment="first", limit=2)]
    with viewing(lake) as of_lake, viewing(shipped) as of_store:
        for path in (
            "experiments", "experiment?project=lake&experiment=first",
            "groups?project=lake&experiment=first&step=2", "trajectories?project=lake&experiment=first&step=2",
            f"trajectory/{ids[0]}", f"compare?ids={','.join(ids)}", "search?q=question",
        ):  # fmt: skip
            answers = [httpx.get(f"{address}/api/{path}", timeout=60) for address in (of_lake, of_store)]
            assert [answer.status_code for answer in answers] == [200, 200], (path, answers[0].text)
            assert rounded(answers[0].text) == rounded(answers[1].text), path


def test_a_label_is_refused_with_what_to_do_instead(shipped: Path, lake: str) -> None:
    with rolltrace.open(shipped) as store:
        (row,) = store.trajectories(limit=1)
    with viewing(lake) as address:
        label = {"trajectory_ids": [row["trajectory_id"]], "name": "good", "value": "yes"}
        answer = httpx.post(
            f"{address}/api/label", json=label, headers={"origin": address, "x-rolltrace": "write"}, timeout=60
        )
        assert (answer.status_code, answer.json()["error"]) == (403, "read_only"), answer.text
        assert "write to one of these, and ship it" in answer.text
