"""A real notebook: run by a real kernel, rendered by nbconvert, looked at in a real browser."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch

CELLS = (
    "import rolltrace; store = rolltrace.open({store!r})",
    "group = store.group(3, 0, experiment='grpo-7b', validate=False); group",
    "store.trajectory(group[0]['trajectory_id'])",
    "rolltrace.view(store.trajectory(group[0]['trajectory_id']))",
    "rolltrace.view(group)",
    "rolltrace.view([store.trajectory(row['trajectory_id']) for row in group[:2]])",
    "rolltrace.view({store!r}, height=400)",
)
READY = {3: ".message", 4: ".cell", 5: ".compare-row", 6: "tbody tr"}
"""Cell -> what its frame shows."""
MOST_BYTES_OF_A_PLAIN_VALUE = 20_000
MOST_BYTES_OF_A_VIEW = 1_000_000


@pytest.fixture(scope="module")
def notebook(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook with its outputs."""
    folder = tmp_path_factory.mktemp("notebook")
    kernel = folder / "kernels" / "here"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "here", "language": "python"}))
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(cell.format(store=str(demo_store))) for cell in CELLS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        NotebookClient(made, timeout=110, kernel_name="here", resources={"metadata": {"path": str(folder)}}).execute()
    return made


def _html(notebook: Any, cell: int) -> str:
    (output,) = notebook.cells[cell].outputs
    return str(output.data["text/html"])


def test_plain_values_are_small_and_views_hold_their_data(notebook: Any) -> None:
    for cell in (1, 2):
        assert len(_html(notebook, cell)) < MOST_BYTES_OF_A_PLAIN_VALUE
        assert "<script" not in _html(notebook, cell)
    for cell in READY:
        assert len(_html(notebook, cell)) < MOST_BYTES_OF_A_VIEW
        (output,) = notebook.cells[cell].outputs
        assert ".save('page.html') writes it" in output.data["text/plain"], "a terminal has words"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_rendered_notebook_shows_the_pages_in_frames_of_their_own(
    theme: str, notebook: Any, tmp_path: Path, browse: Callable[..., Page], watch: Watch
) -> None:
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{body}")
    page = browse(color_scheme=theme)
    watch.expected += [f"request: {path.as_uri()}", "request: about:srcdoc"]
    page.goto(path.as_uri())
    expect(page.locator("iframe")).to_have_count(len(READY))
    for at, (cell, content) in enumerate(READY.items()):
        page.locator("iframe").nth(at).scroll_into_view_if_needed()  # browsers draw no frame that nobody sees
        frame = page.frame_locator("iframe").nth(at)
        expect(frame.locator(content).first).to_be_visible()
        assert page.locator("iframe").nth(at).get_attribute("sandbox") == "allow-scripts allow-downloads", cell
    trajectory = page.frame_locator("iframe").first
    trajectory.get_by_role("tab", name="Tokens").click()
    expect(trajectory.locator(".token-block").first).to_be_visible()
    trajectory.locator("header button").first.click()
    expect(trajectory.locator("html")).to_have_attribute("lang", "zh-CN")
    assert page.url == path.as_uri()


def test_where_frames_are_taken_out_the_small_table_stays(
    notebook: Any, tmp_path: Path, browse: Callable[..., Page], watch: Watch
) -> None:
    exporter = HTMLExporter(template_name="basic", sanitize_html=True)
    body, _ = exporter.from_notebook_node(notebook)
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{body}")
    page = browse()
    watch.expected.append(f"request: {path.as_uri()}")
    page.goto(path.as_uri())
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_text("trajectory_id").first).to_be_attached()
