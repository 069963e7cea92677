"""A rollout for tests: model and tool calls in the order in which they end, and what must hold of their transcript."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from rolltrace.messages import (
    EndedOp,
    Message,
    MessageRow,
    OpRows,
    Transcript,
    fingerprint,
    read_prompt,
    read_ranges,
    read_replies,
)
from rolltrace.record import Snapshotter

_take = Snapshotter().take


class Rollout:
    """Feeds a transcript, and remembers what every call was really given and answered."""

    def __init__(self, *, raw: bool = True, save: bool = False) -> None:
        self.transcript = Transcript()
        self.rows: list[MessageRow] = []
        self.given: list[tuple[str, list[Message], int]] = []
        """`saw` of each call, the messages of its prompt, and how many rows there were then."""
        self.produced: list[int] = []
        """Fingerprints of all replies."""
        self.clock = 0
        self._op_id = 0
        self._raw = raw
        self._save = save
        """Whether the state is saved and restored after every op."""

    def feed(self, kind: str, inputs: Any, outputs: Any, **fields: Any) -> OpRows:
        """An op that ended."""
        self._op_id += 1
        start = fields.pop("start_ns", self.clock + 1)
        self.clock = max(self.clock + 2, start + 1)
        encoded = (Raw(_take(value)) for value in (inputs, outputs)) if self._raw else (inputs, outputs)
        inputs_as_given, outputs_as_given = encoded
        op = EndedOp(
            op_id=fields.pop("op_id", self._op_id), kind=kind, name=fields.pop("name", kind), start_ns=start,
            end_ns=self.clock, inputs=inputs_as_given, outputs=outputs_as_given, **fields,
        )  # fmt: skip
        added = self.transcript.op_ended(op)
        for row in added.rows:
            if row.seq < len(self.rows):  # a partial row: fills in what is null
                known = self.rows[row.seq]
                assert known.message_id == row.message_id
                known.call_id = known.call_id or row.call_id
            else:
                self.rows.append(row)
        if self._save:
            self.transcript = Transcript(self.transcript.save())
        return added

    def llm(self, messages: list[Any], reply: Any, **fields: Any) -> OpRows:
        """A model call with these messages."""
        inputs = {"model": "m", "messages": [dict(each) if isinstance(each, dict) else each for each in messages]}
        added = self.feed("llm", inputs, reply, **fields)
        assert added.saw is not None
        self.given.append((added.saw, read_prompt(inputs) or [], len(self.rows)))
        self.produced += [fingerprint(each) for each in read_replies(reply)]
        return added

    def tool(self, name: str, inputs: Any, outputs: Any, **fields: Any) -> OpRows:
        return self.feed("tool", inputs, outputs, name=name, **fields)

    def check(self) -> None:
        """Nothing produced is missing, rows are numbered, and each call can be seen as it was given."""
        self.rows += self.transcript.finish().rows
        assert [row.seq for row in self.rows] == list(range(len(self.rows)))
        assert len({row.message_id for row in self.rows}) == len(self.rows)
        replies = [fingerprint(row.to_message()) for row in self.rows if row.op_id is not None and _is_reply(row)]
        assert replies == self.produced
        stripped: set[int] = set()
        for saw, prompt, count in self.given:
            seqs = self.seen(saw)
            assert all(seq < count for seq in seqs)
            rows = [self.rows[seq].to_message() for seq in seqs]
            assert [fingerprint(row) for row in rows] == [fingerprint(message) for message in prompt]
        for row in self.rows:
            stripped.update(detail_of(row).get("reasoning_stripped", ()))
        thoughts: dict[int, set[str | None]] = {}  # replies that say the same are not told apart by their reasoning
        for row in self.rows:
            thoughts.setdefault(fingerprint(row.to_message()), set()).add(row.reasoning)
        for saw, prompt, _ in self.given:
            for seq, message in zip(self.seen(saw), prompt):
                assert message.reasoning in thoughts[fingerprint(message)] or seq in stripped

    def seen(self, saw: str) -> list[int]:
        """The rows that a call was given."""
        return [seq for seq in read_ranges(saw) if self.rows[seq].kind != "rewrite"]

    def texts(self, kind: str = "message") -> list[str | None]:
        return [row.text for row in self.rows if row.kind == kind]

    def rewrites(self) -> list[dict[str, Any]]:
        return [detail_of(row) for row in self.rows if row.kind == "rewrite"]


def _is_reply(row: MessageRow) -> bool:
    return row.kind == "message" and row.role == "assistant" and row.author == "policy"


def detail_of(row: MessageRow) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(row.detail) if row.detail else {}
    return detail


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def said(text: str, *calls: tuple[str, str, Any], thought: str | None = None) -> dict[str, Any]:
    """A reply with tool calls: id, name, arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for call_id, name, arguments in calls
        ]
    if thought is not None:
        message["reasoning_content"] = thought
    return message


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def play(rollout: Rollout, turns: int, view: Any, thought: str | None = None) -> list[dict[str, Any]]:
    """A whole rollout: a reply with a tool call, its result, and so on; `view` says what each call is given."""
    history = [system("Be kind."), user("Find the zebra.")]
    for turn in range(turns):
        own = None if thought is None else f"{thought} {turn}"
        reply = said(f"reply {turn}", (f"c{turn}", "search", {"query": turn}), thought=own)
        rollout.llm(view(history, turn), reply)
        rollout.tool("search", {"query": turn}, f"found {turn}")
        history = [*history, reply, result(f"c{turn}", f"found {turn}")]
    rollout.llm(view(history, turns), said("The zebra is here."))
    return history
