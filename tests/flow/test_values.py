"""What people really return, from their own program to what the command line shows and exports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query import Store
from tests.draining import drain
from tests.replies import CALL
from tests.shared_pages import SharedPage

ROOT = Path(__file__).parents[2]
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+2?"}
ANSWER = {"role": "assistant", "content": "It is 3."}


class Printed(NamedTuple):
    """What a command has printed."""

    code: int
    out: str
    err: str


def command(*words: str) -> Printed:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Printed(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store that the program has written, and what the program said meanwhile."""
    store = tmp_path_factory.mktemp("values") / "store"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.flow.values_rollouts"],
        cwd=ROOT,
        env={**os.environ, "ROLLTRACE_STRICT": "", "ROLLTRACE_STORE": str(store), "ROLLTRACE_DRAIN": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    drain(store)
    return store, ran.stderr


@pytest.fixture(scope="module")
def store(program: tuple[Path, str]) -> Path:
    return program[0]


@pytest.fixture(scope="module")
def opened(store: Path) -> Store:
    return rolltrace.open(store)


@pytest.fixture(scope="module")
def lines(store: Path) -> dict[str, list[dict[str, Any]]]:
    """The messages of each sample as `rolltrace export sft` writes them."""
    written = command("export", "sft", str(store), "--all-runs")
    assert written.code == 0, written.err
    rows = [json.loads(line) for line in written.out.splitlines()]
    return {row["sample_index"]: row["messages"] for row in rows}


def test_a_rollout_with_langchain_is_exported_with_its_prompt_its_tool_and_its_answer(
    lines: dict[str, list[dict[str, Any]]],
) -> None:
    assert lines["langchain"] == [
        SYSTEM,
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "3", "name": "add", "tool_call_id": "c1"},
        ANSWER,
    ]


def test_a_result_of_vllm_is_exported_as_prompt_and_answer(lines: dict[str, list[dict[str, Any]]]) -> None:
    assert lines["vllm"] == [USER, ANSWER]


def test_sdk_objects_are_exported_without_what_is_about_the_call(lines: dict[str, list[dict[str, Any]]]) -> None:
    yes = {"role": "assistant", "content": "yes", "tool_calls": [CALL]}
    assert lines["openai"] == [USER, ANSWER]
    assert lines["streamed"] == [USER, yes]
    assert lines["anthropic"] == [SYSTEM, USER, {**yes, "reasoning_content": "hm"}]


def test_tokens_logprobs_and_usage_are_columns(opened: Store) -> None:
    rows = opened.sql(
        "SELECT sample_index, prompt_ids, response_ids, logprobs, finish_reason, prompt_tokens, response_tokens, "
        "cached_tokens, reasoning_tokens FROM spans WHERE kind = 'llm' AND step = 1 ORDER BY start_ns"
    )
    found = {row.pop("sample_index"): tuple(row.values()) for row in rows if row["finish_reason"]}
    assert found == {
        "langchain": (None, None, None, "tool_calls", 10, 5, 4, 2),
        "vllm": ([1, 2], [5, 6], [-0.5, -1.0], "stop", 2, 2, 1, None),
        "openai": (None, None, [-0.5, -1.0], "stop", 10, 5, 4, 2),
        "streamed": (None, None, None, "tool_calls", 10, 5, 4, 2),
        "anthropic": (None, None, None, "tool_use", 10, 5, 4, None),
    }


def test_show_has_calls_thoughts_and_usage(store: Path, opened: Store) -> None:
    (row,) = opened.trajectories(where="sample_index = 'anthropic'").rows()
    shown = command("show", row["trajectory_id"], str(store)).out
    assert "10 prompt tokens, 5 response tokens, 4 cached tokens" in shown
    assert "thinks hm" in shown
    assert '"name": "add"' in shown


def test_nothing_of_this_is_flagged(opened: Store) -> None:
    assert opened.sql("SELECT * FROM flags").rows() == []


def test_a_reward_that_is_no_number_is_told_at_its_line_and_shown_by_stats_and_doctor(
    program: tuple[Path, str], opened: Store
) -> None:
    store, said = program
    warning = r"values_rollouts.py:\d+: UserWarning: the score 'reward' must be a number"
    assert re.search(rf"{warning}, not the text '0.9'; write float", said)
    assert re.search(rf"{warning} or None, not \[1\]", said)
    assert 'trajectory.reward("0.9")' in said
    assert "refused_score 2" in command("stats", str(store)).out
    doctor = command("doctor", str(store))
    assert doctor.code == 1
    assert "2 records lost: refused_score" in doctor.out
    (row,) = opened.trajectories(where="sample_index = 'odd'").rows()
    assert row["reward"] is None
    assert opened.trajectory(row["trajectory_id"]).scores == []


def test_images_that_were_kept_are_in_a_shared_page_and_others_stay_text(
    store: Path, opened: Store, tmp_path: Path
) -> None:
    (row,) = opened.trajectories(where="sample_index = 'images'").rows()
    page = tmp_path / "page.html"
    written = command("export", "html", str(store), row["trajectory_id"], "--output", str(page))
    assert written.code == 0, written.err
    shared = SharedPage(page.read_text())
    (image,) = shared.images.values()
    assert image.startswith("data:image/png;base64,iVBOR")
    (message, *_) = shared.answers[f"/api/trajectory/{row['trajectory_id']}/conversation"]["messages"]
    assert message["parts"][0]["text"] == "what <is> this?"
    assert [part["kind"] for part in message["parts"]] == ["text", "json", "json", "json", "json", "image"]
    assert message["parts"][-1]["blob"] in shared.images
    assert not {"img", "a"} & set(shared.tags)
