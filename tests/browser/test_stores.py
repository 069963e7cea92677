"""Stores that are empty, alive, damaged, pruned, deleted, and servers that go away."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable
from playwright.sync_api import Page, expect

from tests.browser.axe import serious
from tests.browser.conftest import NO_ANSWER, Watch
from tests.browser.places import EXPERIMENT, READY, STEP
from tests.browser.processes import viewing

View = Callable[[Path], str]

ROLLOUT = """
import sys
import rolltrace

rolltrace.init("live", "right-now", store=sys.argv[1], drain="off", quiet=True)

@rolltrace.rollout_trace_op(name="generate", kind="llm")
def generate(messages):
    return {"role": "assistant", "content": "I look it up."}

@rolltrace.rollout_trace_op(name="search", kind="tool")
def search(query):
    print("searching", flush=True)
    return sys.stdin.readline()

for sample in range(100):
    with rolltrace.rollout_trace_attr(sample, 1, 0, name="agent") as trajectory:
        generate([{"role": "user", "content": "Where is my bag?"}])
        search("bag")
        trajectory.reward(1.0)
"""


@contextmanager
def rollout(store: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a tool call; a line that it is sent ends one trajectory and begins another."""
    command = [sys.executable, "-c", ROLLOUT, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for_call(process)
            yield process
        finally:
            process.kill()


def wait_for_call(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "searching\n"


def test_the_live_page_follows_a_process_until_it_is_killed(view: View, tmp_path: Path, page: Page) -> None:
    store = tmp_path / "store"
    with rollout(store) as process:
        page.goto(f"{view(store)}/live")
        row = page.locator("tbody tr", has_text="sample 0")
        expect(row).to_contain_text("search")
        expect(page.get_by_text("updates as it happens")).to_be_visible()
        assert serious(page) == []
        assert process.stdin is not None
        process.stdin.write("found\n")
        process.stdin.flush()
        wait_for_call(process)
        expect(page.locator("tbody tr", has_text="sample 1")).to_contain_text("search")
        expect(row).to_have_count(0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        expect(page.get_by_role("heading", name="Nothing is running")).to_be_visible()


def test_a_store_of_one_running_trajectory(view: View, tmp_path: Path, page: Page) -> None:
    store = tmp_path / "store"
    with rollout(store):
        address = view(store)
        page.goto(address)
        expect(page.locator("tbody tr")).to_contain_text("recording")
        page.goto(f"{address}/e/live/right-now/step/1")
        page.locator(".cell").click()
        expect(page.get_by_role("complementary", name="Facts")).to_contain_text("running")
        expect(page.locator(".message").first).to_contain_text("Where is my bag?")
        page.keyboard.press("o")
        expect(page.locator(".op-line", has_text="search")).to_contain_text("running")
        page.goto(f"{address}/e/live/right-now")
        expect(page.locator(".steps-row.line")).to_have_count(1)


def test_an_empty_folder_is_an_empty_store_in_which_a_run_may_begin(view: View, tmp_path: Path, page: Page) -> None:
    page.goto(view(tmp_path))
    expect(page.get_by_role("heading", name="Nothing is recorded yet")).to_be_visible()
    record = "import sys, rolltrace; rolltrace.init('a', 'begun', store=sys.argv[1], quiet=True)"
    record += "\nwith rolltrace.rollout_trace_attr(0, 1, 0): pass"
    subprocess.run([sys.executable, "-c", record, str(tmp_path)], check=True)
    expect(page.get_by_role("link", name="begun")).to_be_visible()


def test_an_empty_store_says_what_to_type(view: View, tmp_path: Path, page: Page) -> None:
    started = "import sys, rolltrace; rolltrace.init('a', 'b', store=sys.argv[1], drain='off', quiet=True)"
    subprocess.run([sys.executable, "-c", started, str(tmp_path / "store")], check=True)
    address = view(tmp_path / "store")
    page.goto(address)
    expect(page.get_by_role("heading", name="Nothing is recorded yet")).to_be_visible()
    expect(page.get_by_text("rolltrace.init(")).to_be_visible()
    assert serious(page) == []
    page.goto(f"{address}/live")
    expect(page.get_by_role("heading", name="Nothing is running")).to_be_visible()
    page.goto(f"{address}/compare")
    expect(page.get_by_role("heading", name="Compare two to eight")).to_be_visible()


def test_a_damaged_data_file_is_told_and_the_rest_is_shown(view: View, copy: Path, page: Page) -> None:
    # Files that a compaction replaced are still there and are not read.
    in_use = map(Path, DeltaTable(copy / "trajectories").file_uris())
    part = next(path for path in in_use if path.match("maths-grpo-7b/step-0/*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    address = view(copy)
    page.goto(address + EXPERIMENT)
    page.wait_for_selector(READY["experiment"])
    page.goto(address + STEP)
    banner = page.get_by_role("status").filter(has_text="cannot be read")
    expect(banner).to_be_visible()
    banner.get_by_role("button", name="Details").click()
    expect(banner).to_contain_text(part.name)


def test_what_is_pruned_under_the_page_is_told(view: View, copy: Path, page: Page) -> None:
    page.goto(f"{view(copy)}{EXPERIMENT}/step/0")
    page.wait_for_selector(READY["groups"])
    command = [sys.executable, "-m", "rolltrace", "store", "prune", str(copy), "--where", "step = 0", "--yes"]
    subprocess.run(command, check=True, capture_output=True)
    page.locator(".cell").first.click()
    expect(page.get_by_role("status").filter(has_text="were pruned")).to_be_visible()
    expect(page.get_by_role("heading", name="No conversation was recorded")).to_be_visible()
    expect(page.get_by_role("complementary", name="Facts")).to_contain_text("advantage")
    expect(page.get_by_role("status").filter(has_text="lost")).to_have_count(0)


def test_a_step_that_is_not_there_says_so(address: str, page: Page) -> None:
    page.goto(f"{address}{EXPERIMENT}/step/99")
    expect(page.get_by_role("heading", name="Step 99 has no trajectories")).to_be_visible()
    page.get_by_role("link", name="All steps of the experiment").click()
    page.wait_for_selector(READY["experiment"])


def test_a_store_that_is_deleted_leaves_the_page_and_a_banner(view: View, copy: Path, page: Page, watch: Watch) -> None:
    watch.expected.append(NO_ANSWER)
    page.goto(view(copy) + STEP)
    page.wait_for_selector(READY["groups"])
    shutil.rmtree(copy)
    expect(page.get_by_role("status").filter(has_text="The store cannot be read any more")).to_be_visible()
    expect(page.locator(".cell").first).to_be_visible()


def test_a_server_that_ends_is_told_and_what_was_there_stays(copy: Path, page: Page, watch: Watch) -> None:
    watch.expected.append(NO_ANSWER)
    watch.expected.append("ERR_CONNECTION_REFUSED")
    with viewing(copy) as address:
        page.goto(address + STEP)
        page.wait_for_selector(READY["groups"])
    expect(page.get_by_role("status").filter(has_text="The server does not answer")).to_be_visible()
    expect(page.locator(".cell").first).to_be_visible()
