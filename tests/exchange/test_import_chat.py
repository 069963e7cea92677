"""Conversations become ops; lines that are none are named."""

from __future__ import annotations

import math
from pathlib import Path

from rolltrace.exchange.importer import ImportReport
from rolltrace.query import Store

from .conftest import CHAT, Importer, export, write


def test_a_conversation_becomes_ops(tmp_path: Path, into: Importer) -> None:
    line = {"messages": CHAT, "reward": 0.5, "step": 4, "sample_index": "a", "rollout_n": 2, "source": {"web": True}}
    assert into("chat", write(tmp_path / "x.jsonl", [line])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert (row["step"], row["sample_index"], row["rollout_n"], row["reward"]) == (4, "a", 2, 0.5)
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert [(op.kind, op.name) for op in trajectory.ops] == [
        ("llm", "assistant"), ("tool", "search"), ("llm", "assistant"),
    ]  # fmt: skip
    assert trajectory.ops[2].inputs == {"messages": CHAT[:4]}
    assert trajectory.ops[2].outputs == {"content": "done"}
    assert (trajectory.ops[1].inputs, trajectory.ops[1].outputs) == ('{"q": "x"}', "found")
    assert trajectory.conversation == CHAT
    assert trajectory.tags == {"source": {"web": True}}


def test_what_follows_the_last_reply_is_kept(tmp_path: Path, into: Importer) -> None:
    messages = [*CHAT, {"role": "user", "content": "thanks"}]
    into("chat", write(tmp_path / "x.jsonl", [{"messages": messages}, {"messages": messages[:2]}]))
    for row, said in zip(into.store.trajectories(order="start_ns").rows(), (messages[5:], messages[:2])):
        assert into.store.trajectory(row["trajectory_id"]).ops[-1].outputs == {"messages": said}


def test_sft_lines_come_back_as_the_same_trajectories(reader: Store, tmp_path: Path, into: Importer) -> None:
    lines = export(reader, "sft")
    file = tmp_path / "sft.jsonl"
    file.write_text(lines)
    assert into("chat", file, project=None).imported == 8
    assert export(into.store, "sft") == lines


MALFORMED = (
    '{"messages": []}', '{"messages": "hi"}', '{"messages": [{"content": "x"}]}', '{"messages": [1]}', "[1]", "7",
    "null", '{"messages": [{"role": "user"}], "reward": "1"}', "{", "\x00", "[" * 100_000, '{"a": ' * 100_000,
    '{"messages": [{"role": "user"}], "name": 5}', '{"messages": [{"role": "user"}], "validate": 5}', "\ufeffno",
)  # fmt: skip


def test_a_malformed_line_is_named_and_the_rest_imported(tmp_path: Path, into: Importer) -> None:
    good = {"messages": CHAT}
    file = write(tmp_path / "x.jsonl", [good, "", *(each for line in MALFORMED for each in (line, good))])
    assert into("chat", file) == ImportReport(1 + len(MALFORMED), 0, len(MALFORMED))
    assert [(bad.path, bad.number) for bad in into.bad] == [(file, 3 + 2 * at) for at in range(len(MALFORMED))]
    assert len(into.store.trajectories().rows()) == 1 + len(MALFORMED)


def test_odd_but_valid_text_is_imported(tmp_path: Path, into: Importer) -> None:
    line = '{"messages": [{"role": "assistant", "content": "\\ud800 \\u0000 x"}], "reward": NaN, "t\\udfff": 1e999}'
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n" + b'{"messages": "\xff"}')
    assert into("chat", file) == ImportReport(1, 0, 1)
    (row,) = into.store.trajectories().rows()
    assert math.isnan(row["reward"])
    assert into.store.trajectory(row["trajectory_id"]).tags == {"t\\udfff": math.inf}


def test_secrets_are_taken_out(tmp_path: Path, into: Importer) -> None:
    secret = "sk-proj-" + "a1" * 20
    file = write(tmp_path / "x.jsonl", [{"messages": [{"role": "assistant", "content": secret}], "api_key": secret}])
    into("chat", file)
    text = export(into.path)
    assert secret not in text
    assert "[redacted: openai key, 48 chars]" in text
