"""What others recorded is checked when it is imported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange import EXPORTS, IMPORTS
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.exchange.selection import select
from rolltrace.query import Store, Trajectory, open_store

LOOP = "I should search again. " * 40
STEP = {"ob_len": 20, "ac_len": 200, "reward": 0.5}


def imported(folder: Path, name: str, *lines: dict[str, Any]) -> Store:
    file = folder / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = import_files(IMPORTS[name].reader, [file], ImportTarget(folder / "store", "p", "e"))
    assert (done.imported + done.already_there, done.malformed) == (len(lines), 0)
    return open_store(folder / "store")


def flags(store: Store) -> list[list[str]]:
    return [row["flags"] for row in store.trajectories(order="start_ns")]


def only(store: Store) -> Trajectory:
    (row,) = store.trajectories()
    return store.trajectory(row["trajectory_id"])


def test_replies_in_dumps_of_verl_are_looked_at(tmp_path: Path) -> None:
    lines = [{"input": "2+2?", "output": output, "score": 0.0} for output in ("4", " \n", LOOP)]
    assert flags(imported(tmp_path, "verl", *lines)) == [[], ["empty_response"], ["repetition"]]


def test_a_finding_names_its_op_and_its_detail(tmp_path: Path) -> None:
    trajectory = only(imported(tmp_path, "verl", {"input": "2+2?", "output": LOOP, "step": 3}))
    (found,) = trajectory.findings
    assert (found["op_id"], found["time_ns"]) == (trajectory.ops[0].op_id, trajectory.ops[0].start_ns)
    assert (found["detail"]["unit"], found["detail"]["period"]) == ("character", len("I should search again. "))


def test_conversations_are_looked_at_message_by_message(tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "Look it up."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "search"}}]},
        {"role": "tool", "tool_call_id": "1", "content": {"isError": True}},
        {"role": "assistant", "content": "It is", "finish_reason": "length"},
    ]
    found = only(imported(tmp_path, "chat", {"messages": said})).findings
    assert [each["flag"] for each in found] == ["tool_error", "cut_by_length"]


def test_an_image_that_a_dump_does_not_hold_is_not_missed(tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "<image> What is it?"}, {"role": "assistant", "content": "A cat"}]}
    assert flags(imported(tmp_path, "chat", line)) == [[]]


def test_steps_of_which_only_lengths_and_metrics_are_known_are_looked_at(tmp_path: Path) -> None:
    steps = [STEP, {**STEP, "ac_len": 0}, {**STEP, "metrics": {"accuracy": "85%"}}]
    trajectory = only(imported(tmp_path, "tinker", {"iteration": 1, "group_idx": 0, "steps": steps}))
    assert [each["flag"] for each in trajectory.findings] == ["empty_response", "number_as_text"]
    assert trajectory.findings[1]["detail"] == {"metrics.accuracy": "85%"}


def test_importing_again_finds_nothing_twice(tmp_path: Path) -> None:
    for _ in range(2):
        store = imported(tmp_path, "verl", {"input": "2+2?", "output": ""})
    assert len(store.sql("SELECT * FROM flags")) == 1


@pytest.mark.parametrize(("checks", "expected"), [("off", []), ("-repetition", []), ("repetition", ["repetition"])])
def test_the_setting_says_what_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checks: str, expected: list[str]
) -> None:
    monkeypatch.setenv("ROLLTRACE_CHECKS", checks)
    assert flags(imported(tmp_path, "verl", {"input": "2+2?", "output": LOOP})) == [expected]


def test_what_was_found_before_an_export_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    before = imported(tmp_path, "verl", {"input": "2+2?", "output": LOOP})
    out = io.StringIO()
    EXPORTS["jsonl"].write(select(before), out)
    (tmp_path / "again").mkdir()
    after = imported(tmp_path / "again", "jsonl", json.loads(out.getvalue()))
    assert only(after).findings == only(before).findings
