"""The rows of a transcript: their numbers, their ids, and what must be remembered of each to recognise it again.

A row is remembered as a fingerprint of eight bytes and a mark of one byte. Ids are made of the fingerprint and of how
often the same was said before in the trajectory, so a transcript that is built again has the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import xxhash

from rolltrace.messages.message import Author, Message, ToolCall, fingerprint

_T = TypeVar("_T")
PRINT_BYTES = 8
_ROLES = ("user", "assistant", "system", "tool")
_ROLE_CODES = {**{role: code for code, role in enumerate(_ROLES)}, "developer": 2, "function": 3}
_ID_LETTERS = {"message": "", "variant": "v", "rewrite": "r"}
_ROLE_BITS, _THINKS, _VARIANT, _REWRITE = 3, 4, 8, 16
_encode = msgspec.json.Encoder().encode
_CALLS = msgspec.json.Decoder(list[ToolCall])
_PARTS = msgspec.json.Decoder(list[dict[str, Any]])
_DETAIL = msgspec.json.Decoder(dict[str, Any])


class MessageRow(msgspec.Struct, omit_defaults=True):
    """A row of the table `messages`, without trajectory and coordinates. JSON columns are text."""

    message_id: str
    seq: int
    kind: str
    time_ns: int
    turn: int
    op_id: int | None = None
    role: str | None = None
    author: Author | None = None
    text: str | None = None
    reasoning: str | None = None
    calls: str | None = None
    tool_name: str | None = None
    call_id: str | None = None
    images: list[str] | None = None
    parts: str | None = None
    is_error: bool | None = None
    tokens: int | None = None
    detail: str | None = None

    def to_message(self) -> Message:
        """The message that the row holds."""
        return Message(
            self.role or "user", self.text or "", self.reasoning, self.read_calls(), self.tool_name, self.call_id,
            self.is_error, self.images or [], self.read_parts(), None, self.author,
        )  # fmt: skip

    def read_calls(self) -> list[ToolCall]:
        """The tool calls that it makes; a column that cannot be read is one call of that text."""
        calls = _read_column(_CALLS, self.calls)
        return ([ToolCall("", self.calls)] if self.calls else []) if calls is None else calls

    def read_parts(self) -> list[dict[str, Any]] | None:
        """Its content as parts, if it is more than text; None if that cannot be read."""
        return _read_column(_PARTS, self.parts)

    def read_detail(self) -> dict[str, Any]:
        """What a rewrite or a variant says about itself."""
        return _read_column(_DETAIL, self.detail) or {}

    def read_rewrite(self) -> Rewrite:
        """What a row of kind `rewrite` says."""
        detail = self.read_detail()
        lists = {name: detail.get(name) for name in ("dropped", "changed", "added", "reasoning_stripped")}
        counts = {name: len(rows) for name, rows in lists.items() if isinstance(rows, list)}
        tokens = detail.get("tokens")
        before, after = (tokens.get("before"), tokens.get("after")) if isinstance(tokens, dict) else (None, None)
        return Rewrite(**counts, tokens_before=before, tokens_after=after)


def _read_column(decoder: msgspec.json.Decoder[_T], text: str | None) -> _T | None:
    try:
        return decoder.decode(text) if text else None
    except msgspec.MsgspecError:
        return None


class Rewrite(NamedTuple):
    """What a prompt changed in the history that it repeats."""

    dropped: int = 0
    """How many messages it leaves out."""
    changed: int = 0
    """How many it has in another form."""
    added: int = 0
    """How many it has in the place of others, such as a summary."""
    reasoning_stripped: int = 0
    """From how many it leaves out the reasoning."""
    tokens_before: int | None = None
    tokens_after: int | None = None

    def __str__(self) -> str:
        dropped = f"{self.dropped} {'message' if self.dropped == 1 else 'messages'} dropped"
        parts = [dropped, f"{self.changed} changed"] if self.dropped or self.changed or self.added else []
        if self.added:
            parts.append(f"{self.added} added")
        if self.reasoning_stripped:
            parts.append(f"reasoning of {self.reasoning_stripped} left out")
        return f"history rewritten here: {', '.join(parts)}"


class Moment(msgspec.Struct):
    """When a row is made, and by what."""

    time_ns: int
    turn: int
    op_id: int | None = None


class RowBook:
    """Numbers rows and remembers their fingerprints; holds those made since they were last taken."""

    def __init__(self, prints: bytes = b"", marks: bytes = b"") -> None:
        self.prints = bytearray(prints)
        self.marks = bytearray(marks)
        self.fresh: list[MessageRow] = []
        self._messages: dict[int, list[int]] = {}
        self._others: dict[tuple[int, int], int] = {}
        """How many variants and rewrites there are with this fingerprint."""
        for seq in range(len(self.marks)):
            self._remember(seq, self.print_at(seq))

    def __len__(self) -> int:
        return len(self.marks)

    def take(self) -> list[MessageRow]:
        rows, self.fresh = self.fresh, []
        return rows

    def print_at(self, seq: int) -> int:
        return int.from_bytes(self.prints[seq * PRINT_BYTES : (seq + 1) * PRINT_BYTES], "little")

    def role_at(self, seq: int) -> str:
        """The role of a row; of roles that are none of the usual, `tool`-like or not is all that is known."""
        return _ROLES[self.marks[seq] & _ROLE_BITS]

    def thinks(self, seq: int) -> bool:
        """Whether the row has reasoning."""
        return bool(self.marks[seq] & _THINKS)

    def is_rewrite(self, seq: int) -> bool:
        return bool(self.marks[seq] & _REWRITE)

    def to_ranges(self, seqs: Iterable[int]) -> list[list[int]]:
        """Rows as pairs of first and last, those that follow each other together."""
        ranges: list[list[int]] = []
        for seq in seqs:
            self.add_to_ranges(ranges, seq)
        return ranges

    def add_to_ranges(self, ranges: list[list[int]], seq: int) -> None:
        """Add a row at the end; rewrites between it and the row before do not begin a new range."""
        if ranges:
            following = ranges[-1][1] + 1
            while following < seq and self.is_rewrite(following):
                following += 1
            if following == seq:
                ranges[-1][1] = seq
                return
        ranges.append([seq, seq])

    def find(self, digest: int) -> Sequence[int]:
        """The messages with this fingerprint, oldest first."""
        return self._messages.get(digest, ())

    def add(
        self, message: Message, moment: Moment, *, digest: int | None = None, tokens: int | None = None,
        detail: dict[str, Any] | None = None, kind: str = "message",
    ) -> int:  # fmt: skip
        """Add the row of a message."""
        digest = fingerprint(message) if digest is None else digest
        mark = role_code(message.role) | (_THINKS if message.reasoning else 0) | (_VARIANT if kind == "variant" else 0)
        row = self._number(kind, digest, mark, moment)
        row.role, row.author, row.text, row.reasoning = message.role, message.author, message.text, message.reasoning
        row.calls = _encode(message.calls).decode() if message.calls else None
        row.tool_name, row.call_id = message.tool_name or message.name, message.call_id
        row.images, row.is_error, row.tokens = message.images or None, message.is_error, tokens
        row.parts = None if message.parts is None else _encode(message.parts).decode()
        row.detail = None if detail is None else _encode(detail).decode()
        return row.seq

    def add_variant(
        self, message: Message, moment: Moment, stands_for: int, *, digest: int, is_first_showing: bool = False
    ) -> int:
        """Add the form in which a later prompt has a message; `is_first_showing` if no prompt had it before."""
        detail = {"of": stands_for, **({"shown": True} if is_first_showing else {})}
        return self.add(message, moment, digest=digest, detail=detail, kind="variant")

    def add_rewrite(self, detail: dict[str, Any], moment: Moment) -> None:
        """Add the mark of a prompt that changed history."""
        text = _encode(detail)
        self._number("rewrite", xxhash.xxh3_64_intdigest(text), _REWRITE, moment).detail = text.decode()

    def fill_in(self, seq: int, moment: Moment, message: Message) -> None:
        """Add a partial row that says which call an earlier row answers: rows of one id become one."""
        digest = self.print_at(seq)
        message_id = _make_id("message", digest, self._messages[digest].index(seq) + 1)
        self._make_row(message_id, seq, "message", moment).call_id = message.call_id

    def _number(self, kind: str, digest: int, mark: int, moment: Moment) -> MessageRow:
        """A fresh row with the next number."""
        seq = len(self.marks)
        self.prints += digest.to_bytes(PRINT_BYTES, "little")
        self.marks.append(mark)
        return self._make_row(_make_id(kind, digest, self._remember(seq, digest)), seq, kind, moment)

    def _make_row(self, message_id: str, seq: int, kind: str, moment: Moment) -> MessageRow:
        row = MessageRow(message_id, seq, kind, moment.time_ns, moment.turn, moment.op_id)
        self.fresh.append(row)
        return row

    def _remember(self, seq: int, digest: int) -> int:
        """How many rows of its kind and fingerprint there are now."""
        mark = self.marks[seq]
        if mark & (_VARIANT | _REWRITE):
            key = (mark & _REWRITE, digest)
            self._others[key] = self._others.get(key, 0) + 1
            return self._others[key]
        rows = self._messages.setdefault(digest, [])
        rows.append(seq)
        return len(rows)


def _make_id(kind: str, digest: int, count: int) -> str:
    letter = _ID_LETTERS[kind]
    return f"{digest:016x}{letter}" if count == 1 else f"{digest:016x}{letter}.{count - 1}"


def role_code(role: str) -> int:
    """The number by which a role is remembered."""
    return _ROLE_CODES.get(role, 0)


def plain_role(role: str) -> str:
    """The usual role that a role is remembered as."""
    return _ROLES[role_code(role)]


def write_ranges(ranges: Sequence[Sequence[int]]) -> str:
    """Ranges of rows as text: `0-6,9`."""
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in ranges)


def read_ranges(text: str) -> list[int]:
    """The numbers of the rows that a `saw` names, in the order of the prompt.

    Rows of kind `rewrite` that stand inside a range are no messages: leave them out.
    """
    bounds = [part.partition("-") for part in text.split(",")] if text else []
    return expand_ranges([[int(start), int(end or start)] for start, _, end in bounds])


def expand_ranges(ranges: Sequence[Sequence[int]]) -> list[int]:
    return [seq for start, end in ranges for seq in range(start, end + 1)]
