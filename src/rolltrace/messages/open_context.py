"""The conversations of a trajectory that may go on: which rows the last call of each was given, and its reply.

A rollout may have several at once: sub-agents, samples of one prompt, branches. A prompt belongs to the one that it
has the longest beginning in common with.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import xxhash

from rolltrace.messages.message import Message, as_arguments, canonical_json, encode_sorted
from rolltrace.messages.transcript_rows import PRINT_BYTES, RowBook, expand_ranges, write_ranges

MAX_CONTEXTS = 8
"""So many conversations of a trajectory are kept open; the one that was longest silent is forgotten."""
_EXCERPT_CHARS = 48
_MIN_EXCERPT_CHARS = 12


class OpenCall(msgspec.Struct, array_like=True):
    """A tool call of the last reply, for which a result may come."""

    id: str | None
    name: str
    arguments: int
    """Hash of its arguments."""


class TextPrefix(msgspec.Struct, array_like=True):
    """The beginning of a prompt that came as text."""

    chars: int
    digest: int

    @classmethod
    def of(cls, text: str) -> TextPrefix:
        return cls(len(text), hash_text(text))

    def begins(self, text: str) -> bool:
        return len(text) >= self.chars and hash_text(text[: self.chars]) == self.digest


class RawPrefix(NamedTuple):
    """The encoded messages of a prompt, so that the next one need not be read from its beginning."""

    place: str
    """The argument in which they stood; empty if they were all of the arguments."""
    system: int
    """Hash of the system's message that stood beside them."""
    size: int
    digest: bytes
    items: int
    messages: int
    """How many messages they are, the system's included."""
    ends_open: bool
    """The last one is the model's: an item of a response could go on with it."""


class ContextState(msgspec.Struct, array_like=True):
    """What is saved of a conversation."""

    ranges: list[list[int]]
    seen: int
    """How many of its rows the last call was given; the others are its reply."""
    calls: list[OpenCall] = []
    stripped: list[int] = []
    """Rows whose reasoning the last call was not given."""
    parent_id: int = 0
    end_ns: int = 0
    tokens: int | None = None
    """How many tokens the last call was given and produced."""
    response_id: str | None = None
    excerpts: list[str] = []
    """A few characters of the task and of the last reply: a summary that replaces them often quotes one."""
    prompt_text: TextPrefix | None = None
    whole_text: TextPrefix | None = None
    """Of a call that was given text: the prompt, and the prompt with its reply."""


class OpenContext:
    """An open conversation."""

    def __init__(self, state: ContextState, book: RowBook) -> None:
        self.state = state
        self.seqs = array("i", [seq for seq in expand_ranges(state.ranges) if not book.is_rewrite(seq)])
        self.prints = bytearray().join(book.prints[seq * PRINT_BYTES : (seq + 1) * PRINT_BYTES] for seq in self.seqs)
        self.raw: RawPrefix | None = None

    @classmethod
    def begin(cls, seqs: Sequence[int], book: RowBook) -> OpenContext:
        return cls(ContextState(book.to_ranges(seqs), len(seqs)), book)

    def __len__(self) -> int:
        return len(self.seqs)

    def branch(self, count: int, book: RowBook) -> OpenContext:
        """A conversation that begins with so many of the same rows."""
        other = OpenContext.begin(self.seqs[:count], book)
        other.state.stripped = list(self.state.stripped)
        other.state.excerpts = list(self.state.excerpts)
        other.raw = self.raw if self.raw is not None and self.raw.messages <= count else None
        return other

    def append(self, seq: int, book: RowBook) -> None:
        book.add_to_ranges(self.state.ranges, seq)
        self.seqs.append(seq)
        self.prints += book.prints[seq * PRINT_BYTES : (seq + 1) * PRINT_BYTES]

    def common(self, prints: bytes) -> int:
        """How many messages it begins with together with these."""
        return common_prefix(self.prints, prints)

    def saw(self) -> str:
        """Its rows as text."""
        return write_ranges(self.state.ranges)

    def note_reply(self, reply: Message) -> None:
        """Remember what a next prompt may refer to."""
        self.state.calls = [OpenCall(call.id, call.name, hash_arguments(call.arguments)) for call in reply.calls]
        self.state.excerpts = [*self.state.excerpts[:1], excerpt(reply.text)]


def common_prefix(a: bytes | bytearray, b: bytes | bytearray) -> int:
    """How many fingerprints two runs of them begin with together."""
    high = min(len(a), len(b)) // PRINT_BYTES
    if a[: high * PRINT_BYTES] == b[: high * PRINT_BYTES]:
        return high
    low = 0
    while low + 1 < high:  # comparing slices is many times faster than comparing one after the other
        middle = (low + high) // 2
        if a[low * PRINT_BYTES : middle * PRINT_BYTES] == b[low * PRINT_BYTES : middle * PRINT_BYTES]:
            low = middle
        else:
            high = middle
    return low


def hash_text(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def hash_arguments(arguments: Any) -> int:
    """A hash of the arguments of a tool call, the same for a dict and its JSON text."""
    if not isinstance(arguments, str):
        try:
            return xxhash.xxh3_64_intdigest(encode_sorted(arguments))
        except (TypeError, ValueError, OverflowError, RecursionError):
            arguments = as_arguments(arguments)
    return hash_text(canonical_json(arguments.strip() or "{}"))


def excerpt(text: str) -> str:
    """Characters from the middle of a text, by which it is known where it is quoted; empty if it is too short."""
    text = text.strip()
    if len(text) < _MIN_EXCERPT_CHARS:
        return ""
    start = max(0, (len(text) - _EXCERPT_CHARS) // 2)
    return text[start : start + _EXCERPT_CHARS]
