"""What agents wrote themselves: ART's trajectories, mini-swe-agent's, sessions of Claude Code and Codex."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltrace.exchange.importer import ImportReport
from rolltrace.query import Trajectory

from .conftest import Importer, write
from .mutations import SAMPLES, outcomes

ART = SAMPLES / "art" / "trajectories" / "train" / "0003.parquet"
MINI = SAMPLES / "mini_swe_agent" / "add-numbers.traj.json"
(CLAUDE,) = (SAMPLES / "claude_code").iterdir()
(CODEX,) = (SAMPLES / "codex").iterdir()


def only(into: Importer) -> Trajectory:
    (row,) = into.store.trajectories().rows()
    return into.store.trajectory(row["trajectory_id"])


def roles(trajectory: Trajectory) -> list[str]:
    return [message["role"] for message in trajectory.conversation]


def test_art_keeps_groups_rewards_and_metrics(into: Importer) -> None:
    assert into("art", SAMPLES / "art") == ImportReport(2, 0, 0)
    rows = into.store.trajectories(order="rollout_n").rows()
    names = ("step", "sample_index", "rollout_n", "validate", "reward", "turns")
    assert [[row[name] for name in names] for row in rows] == [[3, 0, 0, False, 0.0, 1], [3, 0, 1, False, 1.0, 1]]
    trajectory = into.store.trajectory(rows[1]["trajectory_id"])
    assert trajectory.conversation[-1]["content"] == "42"
    assert (trajectory.scores[0]["terms"], trajectory.tags) == ({"correct": 1.0}, {"q": "1", "split": "train"})
    assert into("art", ART) == ImportReport(0, 2, 0)


def test_art_tells_validation_and_examples_apart(tmp_path: Path, into: Importer) -> None:
    said = [
        {"role": "assistant", "content": "an example", "trainable": False},
        {"role": "user", "content": "q", "trainable": False},
        {"role": "assistant", "content": None, "trainable": True},
    ]
    calls = json.dumps([{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}])
    messages = [{"tool_calls": None, **each} for each in said]
    messages[2]["tool_calls"] = calls
    columns = {"group_index": [4], "reward": [0.5], "metrics": ["{}"], "metadata": ["not json"], "messages": [messages]}
    path = tmp_path / "trajectories" / "val" / "0007.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), path)
    into("art", tmp_path)
    trajectory = only(into)
    assert (trajectory.step, trajectory.validate, trajectory.turns) == (7, True, 1)
    assert trajectory.conversation[-1]["tool_calls"][0]["function"]["name"] == "add"


def test_a_mini_swe_agent_trajectory_keeps_commands_tokens_and_its_end(into: Importer) -> None:
    assert into("mini-swe-agent", SAMPLES / "mini_swe_agent") == ImportReport(1, 0, 0)
    trajectory = only(into)
    assert (trajectory.sample_index, trajectory.status, trajectory.error) == ("add-numbers", "error", "LimitsExceeded")
    assert [(op.name, op.kind) for op in trajectory.ops] == [
        ("assistant", "llm"), ("bash", "tool"), ("assistant", "llm"), ("messages", "env"),
    ]  # fmt: skip
    call, shell, unusable, _ = trajectory.ops
    assert (call.finish_reason, call.prompt_tokens, call.response_tokens) == ("tool_calls", 2945, 37)
    assert (shell.inputs, "42" in shell.outputs) == ('{"command": "echo 42"}', True)
    assert unusable.outputs["content"] == "The answer is 42."
    assert into("mini-swe-agent", MINI) == ImportReport(0, 1, 0)


def test_a_session_of_claude_code_keeps_turns_tools_and_usage(into: Importer) -> None:
    assert into("claude-code", SAMPLES / "claude_code") == ImportReport(1, 0, 0)
    trajectory = only(into)
    assert roles(trajectory) == ["user", "assistant", "tool", "assistant"]
    first, tool, last = trajectory.ops
    assert (first.finish_reason, first.prompt_tokens, first.response_tokens) == ("tool_use", 12185, 18)
    assert (tool.name, tool.status, tool.inputs) == ("Agent", "error", {"a": 17, "b": 25})
    assert last.outputs["content"] == "The answer is 42."
    assert trajectory.tags["version"] == "2.1.197"
    assert into("claude-code", CLAUDE) == ImportReport(0, 1, 0)


def test_a_session_that_has_grown_replaces_what_it_was(tmp_path: Path, into: Importer) -> None:
    lines = CLAUDE.read_text().splitlines(keepends=True)
    file = tmp_path / CLAUDE.name
    file.write_text("".join(lines[:6]))
    assert into("claude-code", file) == ImportReport(1, 0, 0)
    assert only(into).turns == 1
    file.write_text("".join(lines))
    assert into("claude-code", file) == ImportReport(0, 1, 0)
    assert (only(into).turns, into.count("spans")) == (2, 3)


def line(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, "id": more.pop("id", None)}
    return {"type": kind, "parentUuid": None, "sessionId": "s", "message": message, **more}


def test_blocks_of_one_answer_are_one_turn_and_side_chains_are_trajectories_of_their_own(
    tmp_path: Path, into: Importer
) -> None:
    lines = [
        line("user", "go"),
        line("assistant", [{"type": "thinking", "thinking": "hm"}], id="m1"),
        line("assistant", [{"type": "tool_use", "id": "t", "name": "Task", "input": {}}], id="m1"),
        line("user", "look", isSidechain=True, agentId="a"),
        line("assistant", [{"type": "text", "text": "found"}], id="m2", isSidechain=True, agentId="a"),
        line("user", [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]}]),
        line("user", "all that was said", isCompactSummary=True),
        line("assistant", "done", id="m3"),
    ]
    assert into("claude-code", write(tmp_path / "s.jsonl", lines)) == ImportReport(2, 0, 0)
    side, main = into.store.trajectories(order="-name").rows()
    assert into.store.trajectory(side["trajectory_id"]).parent_trajectory_id == main["trajectory_id"]
    assert side["turns"] == 1
    session = into.store.trajectory(main["trajectory_id"])
    assert [(op.kind, op.name) for op in session.ops] == [("llm", "assistant"), ("tool", "Task"), ("llm", "assistant")]
    assert session.ops[0].outputs["reasoning_content"] == "hm"
    assert session.ops[2].inputs["messages"] == [{"role": "user", "content": "all that was said"}]


def test_a_session_of_codex_keeps_turns_tools_and_usage(into: Importer) -> None:
    assert into("codex", SAMPLES / "codex") == ImportReport(1, 0, 0)
    trajectory = only(into)
    assert roles(trajectory) == ["developer", "user", "user", "assistant", "tool", "assistant"]
    first, tool, last = trajectory.ops
    assert (first.prompt_tokens, first.response_tokens, first.inputs["model"]) == (20065, 18, "fake")
    assert (tool.name, tool.inputs) == ("exec_command", '{"a": 17, "b": 25}')
    assert (last.prompt_tokens, last.outputs["content"]) == (20177, "The answer is 42.")
    assert trajectory.tags["cli_version"] == "0.169.0"
    assert into("codex", CODEX) == ImportReport(0, 1, 0)


def test_an_older_session_of_codex_has_the_items_themselves(tmp_path: Path, into: Importer) -> None:
    lines = [
        {"id": "x", "timestamp": "2026-01-01T00:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ]
    into("codex", write(tmp_path / "rollout-1.jsonl", lines))
    trajectory = only(into)
    assert roles(trajectory) == ["user", "assistant", "tool", "assistant"]
    assert trajectory.ops[0].outputs["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("name", "file"), [("art", ART), ("mini-swe-agent", MINI), ("claude-code", CLAUDE), ("codex", CODEX)]
)
def test_whatever_is_wrong_is_refused_by_name_or_read(name: str, file: Path, tmp_path: Path) -> None:
    good, _ = outcomes(name, file, tmp_path)
    assert good > 50


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_session_with_damaged_lines_is_read_without_them(name: str, tmp_path: Path, into: Importer) -> None:
    file = tmp_path / (CLAUDE if name == "claude-code" else CODEX).name
    shutil.copy(CLAUDE if name == "claude-code" else CODEX, file)
    file.write_text(file.read_text() + '{"type": "assis\n5\n')
    assert into(name, file) == ImportReport(1, 0, 2)
    assert [bad.reason.partition(":")[0] for bad in into.bad] == ["not JSON", "a line is a JSON object, not int"]
