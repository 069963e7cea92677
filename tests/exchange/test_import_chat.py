"""Conversations become ops; lines that are none are named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange import guess
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
    assert trajectory.ops[2].outputs == CHAT[4]
    assert (trajectory.ops[1].inputs, trajectory.ops[1].outputs) == ('{"q": "x"}', "found")
    assert trajectory.conversation == [*CHAT[:3], {**CHAT[3], "name": "search"}, CHAT[4]], "with the tool's name"
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


SHAREGPT = [{"from": "human", "value": "17+25?"}, {"from": "gpt", "value": "42"}]
PLAIN = [{"role": "user", "content": "17+25?"}, {"role": "assistant", "content": "42"}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "count"),
    [
        ([{"messages": PLAIN, "reward": 1.0}, {"messages": CHAT}], 2),
        ([PLAIN, CHAT], 2),
        (PLAIN, 1),
        ({"messages": PLAIN}, 1),
        ([{"conversations": SHAREGPT}], 1),
        ({"conversations": SHAREGPT}, 1),
        ([SHAREGPT], 1),
    ],
)
def test_json_documents_of_chats_are_read(
    document: Any, count: int, indent: int | None, tmp_path: Path, into: Importer
) -> None:
    file = tmp_path / "chats.json"
    file.write_text(json.dumps(document, indent=indent) + "\n")
    assert guess(file).format == guess(tmp_path).format == "chat"
    assert into("chat", file) == ImportReport(count, 0, 0)
    assert into("chat", file) == ImportReport(0, count, 0)
    first = into.store.trajectory(into.store.trajectories(order="start_ns").rows()[0]["trajectory_id"])
    assert first.conversation == PLAIN


def test_lines_may_be_lists_of_messages(tmp_path: Path, into: Importer) -> None:
    assert into("chat", write(tmp_path / "x.jsonl", [PLAIN, CHAT, PLAIN])) == ImportReport(3, 0, 0)


def test_items_of_an_array_that_are_no_chats_are_named_by_their_place(tmp_path: Path, into: Importer) -> None:
    (tmp_path / "x.json").write_text(json.dumps([{"messages": PLAIN}, {"messages": 5}, 7, {"messages": CHAT}]))
    assert into("chat", tmp_path / "x.json") == ImportReport(2, 0, 2)
    assert [str(bad) for bad in into.bad] == [
        f"{tmp_path / 'x.json'}:2: messages must be a non-empty list",
        f"{tmp_path / 'x.json'}:3: a record is a JSON object, not int",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "an empty JSON array"),
        ("[\n]", "an empty JSON array"),
        ("[\n" + "[" * 100_000, "nested too deeply"),
        ("[\n  oops\n]", "not JSON: Expecting value before 'oops\\n]'; the rest of the array is not read"),
    ],
)
def test_a_broken_array_is_one_problem(text: str, reason: str, tmp_path: Path, into: Importer) -> None:
    (tmp_path / "x.json").write_text(text)
    assert into("chat", tmp_path / "x.json") == ImportReport(0, 0, 1)
    assert into.bad[0].reason == reason


def test_what_comes_before_the_end_of_an_array_that_is_cut_off_is_kept(tmp_path: Path, into: Importer) -> None:
    text = json.dumps([{"messages": PLAIN}] * 3, indent=1)
    (tmp_path / "x.json").write_text(text[: text.rindex("42")])
    assert into("chat", tmp_path / "x.json") == ImportReport(2, 0, 1)
    assert into.bad[0].number == 3


def test_a_large_array_is_read_item_by_item(tmp_path: Path, into: Importer) -> None:
    """Items of more and of less than what is read at a time, with letters of several bytes across its borders."""
    texts = ["é" * 3_000_000, *("北京" * 1000 for _ in range(600)), "x" * 1_048_570]
    chats = [
        {"messages": [*PLAIN[:1], {"role": "assistant", "content": f"{text} {at}"}]} for at, text in enumerate(texts)
    ]
    (tmp_path / "x.json").write_text(json.dumps(chats, ensure_ascii=False))
    assert into("chat", tmp_path / "x.json") == ImportReport(len(texts), 0, 0)
    rows = into.store.sql("SELECT payload FROM spans ORDER BY start_ns").rows()
    assert [json.loads(row["payload"])["outputs"]["content"][-5:] for row in rows] == [
        f"{text} {at}"[-5:] for at, text in enumerate(texts)
    ]


def test_a_first_line_that_is_cut_off_costs_itself_alone(tmp_path: Path, into: Importer) -> None:
    good = json.dumps({"messages": PLAIN})
    (tmp_path / "x.jsonl").write_text('{"messages":\n' + good + "\n" + good + "\n")
    assert into("chat", tmp_path / "x.jsonl") == ImportReport(2, 0, 1)
    assert into.bad[0].number == 1


def test_token_ids_and_logprobs_of_messages_become_columns(tmp_path: Path, into: Importer) -> None:
    reply = {"role": "assistant", "content": "42", "token_ids": [5, 6], "logprobs": [-0.5, -0.25]}
    into("chat", write(tmp_path / "x.jsonl", [{"messages": [PLAIN[0], reply]}]))
    (row,) = into.store.trajectories().rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert (trajectory.tokens[0].response_ids, trajectory.tokens[0].logprobs) == ([5, 6], [-0.5, -0.25])
    assert trajectory.conversation == PLAIN
