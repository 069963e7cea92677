"""Shared files in a real browser: opened from the disk, with every request forbidden and counted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import rolltrace
from tests.browser.conftest import Watch
from tests.browser.places import EXPERIMENT, LAST_STEP, READY, Ask, of_sample, with_flag
from tests.draining import drain
from tests.view.stores import write_demo
from tests.view.texts import HOSTILE

MOST_WITHOUT_DATA = 1_000_000
TABS = {"Tokens": "tokens", "Ops": "ops", "Raw": "raw", "Conversation": "conversation"}


def export(store: Path, out: Path, *arguments: str) -> Path:
    command = [sys.executable, "-m", "rolltrace", "export", "html", str(store), "-o", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def open_file(browse: Callable[..., Page], watch: Watch) -> Callable[..., Page]:
    """Call it with a file: its page. Any request but that for the file itself fails the test."""

    def opened(path: Path, place: str = "", **how: Any) -> Page:
        page = browse(**how)
        address = path.as_uri()

        def request(url: str) -> None:
            if url.partition("#")[0] != address and not url.startswith("data:image/png;base64,"):
                watch.seen.append(f"request: {url[:100]}")

        page.on("request", lambda each: request(each.url))
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        watch.expected.append(f"request: {address}")
        page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error(`policy: ${e.violatedDirective}`))"
        )
        page.goto(address + (f"#{place}" if place else ""))
        expect(page.locator(".frame")).to_be_visible()
        return page

    return opened


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with groups of eight."""
    rolltrace.shutdown()
    return write_demo(tmp_path_factory.mktemp("eight") / "store", steps=2, samples=1, size=8)


def test_a_trajectory_opens_from_the_disk_with_all_its_tabs(
    demo_store: Path, ask: Ask, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    broken = with_flag(ask, "prefix_break")
    page = open_file(export(demo_store, tmp_path / "one.html", broken))
    expect(page.locator(".message").first).to_be_visible()
    for tab, name in TABS.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(READY[name]).first).to_be_visible()
    page.get_by_role("tab", name="Ops").click()
    page.locator(".op-button").first.click()
    expect(page.locator(".op-detail .json").first).to_be_visible()
    expect(page.get_by_role("link", name="step")).to_have_count(0)
    page.wait_for_url(re.compile("op="))  # it is written a moment later
    page.reload()
    expect(page.locator(".op-detail .json").first).to_be_visible()


def test_transitions_are_in_the_file(
    demo_store: Path, ask: Ask, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    episode = ask("trajectories", project="games", limit=1)["rows"][0]["trajectory_id"]
    page = open_file(export(demo_store, tmp_path / "episode.html", episode))
    page.keyboard.press("s")
    expect(page.locator(".transition").first).to_be_visible()


def test_a_file_is_small_and_says_so(demo_store: Path, ask: Ask, tmp_path: Path) -> None:
    (one, *_) = of_sample(ask, "0")
    path = export(demo_store, tmp_path / "one.html", one)
    data = re.search(r'id="rolltrace-data">([^<]*)<', path.read_text())
    assert data is not None
    assert path.stat().st_size - len(data[1]) < MOST_WITHOUT_DATA // 2


def test_a_group_of_eight_is_walked_through_and_compared_with_the_keyboard(
    eight: Path, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    place = ["--experiment", "grpo-7b", "--step", "1", "--sample", "0", "--train"]
    page = open_file(export(eight, tmp_path / "group.html", *place))
    expect(page.locator(".cell")).to_have_count(8)
    expect(page.locator(".list .list-row a")).to_have_count(8)
    for key in ("j", "x", "j", "x", "c"):
        page.keyboard.press(key)
    expect(page.locator(".compare-head")).to_have_count(2)
    expect(page.locator(".compare-row").first).to_be_visible()
    page.go_back()
    page.locator(".cell").nth(3).click()
    expect(page.locator(".pill[aria-current=true]")).to_contain_text("n3")
    page.keyboard.press("l")
    expect(page.locator(".pill[aria-current=true]")).to_contain_text("n4")
    page.keyboard.press("Escape")
    expect(page.locator(".cell")).to_have_count(8)
    page.get_by_role("columnheader", name="reward", exact=True).click()
    rewards = [float(each) for each in page.locator(".list [role=cell]:nth-child(5)").all_inner_texts()]
    assert rewards == sorted(rewards, reverse=True)
    assert len(rewards) == 8


@pytest.mark.parametrize("count", [2, 8])
def test_a_comparison_shows_all_and_leads_to_each(
    count: int, eight: Path, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    rows = rolltrace.open(eight).trajectories(experiment="grpo-7b", step=1, sample_index=0, validate=False)
    ids = [row["trajectory_id"] for row in rows]
    page = open_file(export(eight, tmp_path / "compared.html", *ids[:count]))
    expect(page.locator(".compare-head")).to_have_count(count)
    page.get_by_role("radio", name="Tokens").or_(page.get_by_role("button", name="Tokens")).first.click()
    expect(page.locator(".reply-tokens").first).to_be_visible()
    page.locator(".compare-name").nth(1).click()
    expect(page.locator(".message").first).to_be_visible()
    page.go_back()
    expect(page.locator(".compare-head")).to_have_count(count)


def test_language_theme_and_keys_work_in_a_file(
    demo_store: Path, ask: Ask, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    (one, *_) = of_sample(ask, "0")
    path = export(demo_store, tmp_path / "one.html", one)
    page = open_file(path, color_scheme="dark")
    expect(page.locator("html")).to_have_class(re.compile("dark"))
    page.get_by_role("button", name="◐").or_(page.locator("header button").nth(1)).first.click()
    expect(page.locator("html")).not_to_have_class(re.compile("dark"))
    page.locator("header button").first.click()
    expect(page.locator("html")).to_have_attribute("lang", re.compile("zh"))
    expect(page.get_by_role("tab", name="对话")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    expect(page.locator(".token-block").first).to_be_visible()


def test_without_scripts_a_file_shows_the_facts(
    demo_store: Path, ask: Ask, tmp_path: Path, browse: Callable[..., Page], watch: Watch
) -> None:
    (one, *_) = of_sample(ask, "0")
    path = export(demo_store, tmp_path / "one.html", one)
    page = browse(java_script_enabled=False)
    watch.expected.append(f"request: {path.as_uri()}")
    page.goto(path.as_uri())
    expect(page.locator(".plain")).to_be_visible()
    expect(page.locator(".plain")).to_contain_text(one)


def _hostile_store(folder: Path) -> list[str]:
    rolltrace.shutdown()
    for text in HOSTILE:
        name = text.encode(errors="replace").decode()
        rolltrace.init(name, name, "rolltrace", store=folder, drain="off", quiet=True)

        @rolltrace.rollout_trace_op(name=text, kind="llm")
        def generate(messages: Any, text: str = text) -> dict[str, Any]:
            call = {"id": text, "type": "function", "function": {"name": text, "arguments": json.dumps({text: text})}}
            return {"role": text, "content": f"<think>{text}</think>{text}", "tool_calls": [call], text: text,
                    "token_ids": [1, 2], "finish_reason": text}  # fmt: skip

        @rolltrace.rollout_trace_op(name=text, kind="tool")
        def tool(value: Any, text: str = text) -> Any:
            raise ValueError(text)

        for n in range(2):
            with rolltrace.rollout_trace_attr(text, 0, n, name=text, **{"remark": text}) as trajectory:
                generate([{"role": text, "name": text, "content": [{"type": "text", "text": f"{text} {n}"}]}])
                try:
                    tool({text: text})
                except ValueError:
                    pass
                trajectory.note(text)
                trajectory.transition({"prompt": text, "env_state": {text: text}, "extra": {text: text}}, reward=0.5)
                trajectory.reward(float(n), terms={text: 1.0})
                rolltrace.score(trajectory.id, text, 1.0)
        rolltrace.shutdown()
    drain(folder)
    rows = rolltrace.open(folder).trajectories().rows()
    return [row["trajectory_id"] for row in rows]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Text that means harm, in every field."""
    folder = tmp_path_factory.mktemp("hostile") / "store"
    return folder, _hostile_store(folder)


def test_no_traced_text_is_obeyed_in_a_file_whatever_field_it_is_in(
    hostile: tuple[Path, list[str]], tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    store, ids = hostile
    assert len(ids) == 2 * len(HOSTILE)
    for at in range(0, len(ids), 8):
        page = open_file(export(store, tmp_path / f"{at}.html", *ids[at : at + 8]))
        expect(page.locator(".compare-row").first).to_be_visible()
        _is_harmless(page)
        for each in ids[at : at + 8 : 2]:
            for tab in ("conversation", "tokens", "ops", "transitions", "raw"):
                page.evaluate(f"location.hash = '/t/{each}?tab={tab}'")
                expect(page.locator(f"#tab-{tab}[aria-selected=true]")).to_be_visible()
                expect(page.locator(READY[tab]).first).to_be_visible()
                _is_harmless(page)
        page.context.close()


def _is_harmless(page: Page) -> None:
    assert page.locator("script").count() == 4, "the two of the page, and what they hold"
    assert page.locator("iframe, object, embed, svg[onload], img[onerror], a[href^=javascript], style").count() == 1


def test_a_trajectory_of_a_thousand_turns_opens_and_scrolls(tmp_path: Path, open_file: Callable[..., Page]) -> None:
    store = tmp_path / "store"
    rolltrace.shutdown()
    rolltrace.init("long", "long", "rolltrace", store=store, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, str]], turn: int) -> dict[str, Any]:
        return {"role": "assistant", "content": f"answer {turn}", "token_ids": list(range(40))}

    history: list[dict[str, str]] = []
    with rolltrace.rollout_trace_attr(0, 0, 0) as made:
        for turn in range(1000):
            history.append({"role": "user", "content": f"question {turn}"})
            history.append({"role": "assistant", "content": generate(history, turn)["content"]})
        made.reward(1.0)
    rolltrace.shutdown()
    drain(store)
    path = export(store, tmp_path / "long.html")
    assert path.stat().st_size < 3_000_000, "prompts repeat what came before, and the file does not"
    page = open_file(path)
    expect(page.locator(".message").first).to_be_visible()
    assert page.locator(".message").count() < 200
    for key in ("t", "o", "m"):
        page.keyboard.press(key)
    last = page.locator(".outline .o").first
    expect(last).to_be_visible()
    page.locator(".outline .pane-scroll").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    page.locator(".outline .o").last.click()
    expect(page.locator(".message", has_text="answer 999").first).to_be_visible()


def test_the_share_link_of_each_page_downloads_the_file(
    address: str, ask: Ask, tmp_path: Path, page: Page, open_file: Callable[..., Page]
) -> None:
    ids = of_sample(ask, "0")
    places = {
        f"/t/{ids[0]}": ".message",
        f"/compare?ids={','.join(ids[:2])}": ".compare-row",
        f"{EXPERIMENT}/step/{LAST_STEP}/sample/0?where=validate%20%3D%20false": ".cell",
    }
    for number, (place, content) in enumerate(places.items()):
        page.goto(address + place)
        with page.expect_download() as download:
            page.get_by_role("link", name="Share").click()
        path = tmp_path / f"{number}.html"
        download.value.save_as(path)
        assert re.fullmatch(r"rolltrace-\w+-\w{8}\.html", download.value.suggested_filename)
        expect(open_file(path).locator(content).first).to_be_visible()


def test_a_store_shows_its_experiments_and_their_charts(
    demo_store: Path, tmp_path: Path, open_file: Callable[..., Page]
) -> None:
    path = tmp_path / "store.html"
    rolltrace.view(demo_store).save(path)
    page = open_file(path)
    page.get_by_role("link", name="grpo-7b").first.click()
    expect(page.locator(".charts canvas").first).to_be_visible()
