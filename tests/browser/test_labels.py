"""Labels and notes: by keys, on a trajectory and on a turn, in lists, by two people, on a store that is only read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.places import LAST_STEP, STEP
from tests.browser.processes import viewing
from tests.view.texts import HOSTILE

View = Callable[..., str]
ALIVE = "script, iframe, style, svg[onload], img[src=x], a[href^=java]"


def some_trajectory(address: str) -> str:
    answer = httpx.get(
        f"{address}/api/trajectories", params={"experiment": "grpo-7b", "step": LAST_STEP, "limit": 1}, timeout=60
    )
    return str(answer.json()["rows"][0]["trajectory_id"])


def labels(page: Page) -> Locator:
    return page.get_by_role("region", name="Labels")


def test_a_key_gives_a_label_and_takes_it_back_and_the_history_stays(copy: Path, view: View, page: Page) -> None:
    address = view(copy)
    page.goto(f"{address}/t/{some_trajectory(address)}")
    key = labels(page).get_by_role("button", name="hack", exact=True)
    expect(key).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("3")
    expect(key).to_have_attribute("aria-pressed", "true")
    expect(labels(page).locator(".said .label-chip")).to_have_text("hack")
    page.keyboard.press("3")
    expect(key).to_have_attribute("aria-pressed", "false")
    expect(labels(page).locator(".said")).to_have_count(0)
    labels(page).get_by_text("history (2)").click()
    expect(labels(page)).to_contain_text("took back hack")


def test_a_note_is_written_changed_and_removed(copy: Path, view: View, page: Page) -> None:
    address = view(copy)
    page.goto(f"{address}/t/{some_trajectory(address)}")
    expect(labels(page)).to_be_visible()
    for text in ("guesses first\nand explains later", "no, it does look it up"):
        page.keyboard.press("n")
        note = labels(page).get_by_role("textbox", name="note")
        expect(note).to_be_focused()
        note.fill(text)
        note.press("Control+Enter")
        expect(labels(page).locator(".note-text")).to_have_text(text)
    labels(page).get_by_role("button", name="Take back: note").click()
    expect(labels(page).locator(".note-text")).to_have_count(0)


def test_a_label_on_a_turn_stands_at_its_message(copy: Path, view: View, page: Page) -> None:
    address = view(copy)
    trajectory = some_trajectory(address)
    head = httpx.get(f"{address}/api/trajectory/{trajectory}", timeout=60).json()
    op = next(each for each in head["outline"] if each["kind"] == "llm")
    page.goto(f"{address}/t/{trajectory}#op={op['op_id']}")
    expect(labels(page).get_by_role("button", name=f"turn {op['turn']}")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("2")
    expect(page.locator(".message .label-chip")).to_have_text("bad")
    said = httpx.get(f"{address}/api/trajectory/{trajectory}", timeout=60).json()["labels"]
    assert [(each["name"], each["op_id"]) for each in said] == [("bad", op["op_id"])]


def test_selected_rows_are_labelled_at_once_and_a_facet_finds_them(copy: Path, view: View, page: Page) -> None:
    page.goto(f"{view(copy)}{STEP}?view=list")
    boxes = page.get_by_role("table").get_by_role("checkbox")
    expect(boxes.first).to_be_visible()
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.keyboard.press("1")
    expect(page.locator(".list-row .label-chip")).to_have_count(2)
    page.get_by_role("complementary", name="Facets").get_by_role("button", name="good").click()
    page.wait_for_url("**where=label.good*")
    expect(page.locator(".list-row .label-chip")).to_have_count(2)
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "2")


def test_two_people_label_the_same_trajectory_and_both_count(
    copy: Path, view: View, browse: Callable[..., Page]
) -> None:
    address = view(copy)
    where = f"{address}/t/{some_trajectory(address)}"
    for name in ("Ann", "Bob"):
        page = browse()
        page.goto(where)
        labels(page).get_by_text(re.compile("writing as")).click()
        labels(page).get_by_label("Your name").fill(name)
        labels(page).get_by_label("Labels of the keys").fill("odd, wrong tool")
        labels(page).get_by_role("button", name="Save").click()
        expect(labels(page).get_by_role("button", name="wrong tool", exact=True)).to_be_visible()
        page.keyboard.press("2")
        expect(labels(page).get_by_role("button", name="wrong tool", exact=True)).to_have_attribute(
            "aria-pressed", "true"
        )
    page.reload()
    expect(labels(page).locator(".said .label-chip")).to_have_text(["wrong tool", "wrong tool"])
    expect(labels(page).locator(".said").first).to_contain_text("Ann")
    expect(labels(page).get_by_role("button", name="Take back")).to_have_count(1)  # one's own


def test_labels_and_notes_that_mean_harm_are_text(copy: Path, view: View, page: Page) -> None:
    address = view(copy)
    trajectory = some_trajectory(address)
    text = "\n".join(HOSTILE).encode(errors="replace").decode()
    for name, value in (("note", text), ("<img src=x onerror=alert(1)>", "yes"), ("javascript:alert(1)", "</script>")):
        label = {"trajectory_ids": [trajectory], "name": name, "value": value, "author": "<svg onload=alert(2)>"}
        headers = {"Origin": address, "X-Rolltrace": "write"}
        assert httpx.post(f"{address}/api/label", json=label, headers=headers, timeout=60).status_code == 200
    page.goto(f"{address}/t/{trajectory}")
    expect(labels(page).locator(".said")).to_have_count(3)
    expect(labels(page)).to_contain_text("<svg onload=alert(2)>")
    assert page.locator(f".facts :is({ALIVE})").count() == 0
    page.goto(f"{address}{STEP}?view=list")
    page.get_by_role("complementary", name="Facets").get_by_role("button", name="<img src=x onerror=alert(1)>").click()
    expect(page.locator(".list-row .label-chip").first).to_be_visible()
    assert page.locator(f"main :is({ALIVE})").count() == 0


def test_a_server_that_only_reads_shows_labels_and_gives_none(copy: Path, view: View, page: Page) -> None:
    address = view(copy)
    trajectory = some_trajectory(address)
    label = {"trajectory_ids": [trajectory], "name": "hack", "value": "yes", "author": "Ann"}
    headers = {"Origin": address, "X-Rolltrace": "write"}
    assert httpx.post(f"{address}/api/label", json=label, headers=headers, timeout=60).status_code == 200
    with viewing(copy, "--read-only") as reading:
        page.goto(f"{reading}/t/{trajectory}")
        expect(labels(page).locator(".said .label-chip")).to_have_text("hack")
        expect(labels(page)).to_contain_text("only reads")
        page.keyboard.press("1")
        expect(labels(page).get_by_role("button")).to_have_count(0)
