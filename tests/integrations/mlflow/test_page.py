"""MLflow's own page of the run shows the trajectories, in a real browser.

    SCREENSHOTS=docs/images python -m pytest tests/integrations/mlflow/test_page.py

makes the picture in docs/howto/mlflow.md anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.query import Trajectory

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUESTIONS = ("What is 17 * 23?", "How many primes are below 50?", "鸡兔同笼，共 35 头 94 足，各几只？")


@rolltrace.rollout_trace_op(kind="llm", name="generate")
def generate(messages: list[dict[str, str]], prompt_ids: list[int], reply: str) -> dict[str, Any]:
    return {"text": reply, "token_ids": list(range(40)), "finish_reason": "stop"}


@rolltrace.rollout_trace_op(kind="tool", name="python")
def run_python(code: str) -> str:
    return str(eval(code))


@rolltrace.rollout_trace_op(name="agent_loop")
def agent_loop(question: str, code: str, answer: str) -> str:
    messages = [{"role": "user", "content": question}]
    generate(messages, list(range(90)), f"I will compute it: {code}")
    try:
        messages.append({"role": "tool", "content": run_python(code)})
    except ZeroDivisionError as fault:
        messages.append({"role": "tool", "content": str(fault)})
    generate(messages, list(range(150)), answer)
    return answer


def test_the_page_of_the_run_shows_the_trajectories(
    running_server: Any,
    ask: Any,
    read: Callable[[Path], list[Trajectory]],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from playwright.sync_api import sync_playwright

    monkeypatch.setenv("MLFLOW_TRACKING_URI", running_server.url)
    rolltrace.init("math-agent", "grpo-1", "rolltrace", store=store)
    for sample, question in enumerate(QUESTIONS):
        for n, right in enumerate((True, False, True)):
            with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=n) as trajectory:
                answer = ("391", "15", "鸡 23 只，兔 12 只")[sample] if right else "I do not know"
                agent_loop(question, "17 * 23" if right else "1 / 0", answer)
                trajectory.reward(float(right), terms={"correct": float(right), "format": 1.0})
    rolltrace.shutdown()
    trajectories = read(store)
    MlflowBackend().send(trajectories)

    mlflow = ask(running_server.url)
    (run,) = mlflow.runs("math-agent")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 720})
        page.goto(f"{running_server.url}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/traces")
        for each in trajectories:
            page.get_by_text(f"tr-{each.trajectory_id}").first.wait_for(state="attached", timeout=60_000)
        shown = page.inner_text("body")
        page.get_by_role("button", name="Close").last.click()  # MLflow's assistant, which takes a third of the page
        picture = tmp_path / "mlflow-traces.png"
        page.screenshot(path=picture)
        browser.close()
    assert all(question in shown for question in QUESTIONS)
    assert "鸡 23 只，兔 12 只" in shown
    assert "reward" in shown
    assert "9 of 9" in shown
    if "SCREENSHOTS" in os.environ:
        small = Image.open(picture).quantize(128)
        small.save(Path(os.environ["SCREENSHOTS"]) / picture.name, optimize=True)
