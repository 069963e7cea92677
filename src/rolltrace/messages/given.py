"""What model calls were given: the conversations of a trajectory that may go on, and the prompts that go on with them.

A rollout may have several conversations at once: sub-agents, samples of one prompt, branches. A prompt belongs to the
one that it has the longest beginning in common with.

A prompt of turn 1,000 repeats what all prompts before it had, so as little of it as possible is read. Its encoded
messages are compared with those of the last prompt of each open conversation by a hash over the whole beginning; only
what follows is decoded. Where the beginning was changed, messages that were read before are known again by a hash of
their bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import xxhash
from msgspec import Raw

from rolltrace.messages.formats import is_item, read_message, read_messages
from rolltrace.messages.message import Message, as_text, canonical_json, encode_sorted, fingerprint
from rolltrace.messages.model_calls import (
    CONFIG_KEYS,
    MESSAGES_KEYS,
    SYSTEM_KEYS,
    places,
    read_given_messages,
    read_inside,
    read_system,
)
from rolltrace.messages.transcript_rows import PRINT_BYTES, RowBook, expand_ranges, write_ranges
from rolltrace.record import Marker, decode_value

MAX_CONTEXTS = 8
"""So many conversations of a trajectory are kept open; the one that was longest silent is forgotten."""
MAX_REMEMBERED = 1 << 14
"""So many messages of a trajectory are known again by their bytes."""
_EXCERPT_CHARS = 48
_MIN_EXCERPT_CHARS = 12
_BESIDE = frozenset({*SYSTEM_KEYS, *CONFIG_KEYS})
"""Where the system's message may stand."""
_PLACES = frozenset(MESSAGES_KEYS)
Decode = Callable[[Raw], Any]
_Source = tuple[Raw, int, Decode]
"""The encoded item that a message stands in, which of its messages it is, and how to open it."""
_fields_decoder = msgspec.msgpack.Decoder(dict[str, Raw])
_items_decoder = msgspec.msgpack.Decoder(list[Raw])


def _encode_marker(value: Any) -> Any:
    if isinstance(value, Marker):
        return value.ext()
    raise TypeError(type(value).__name__)


_encode = msgspec.msgpack.Encoder(enc_hook=_encode_marker).encode


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
        return cls(len(text), _hash_text(text))

    def begins(self, text: str) -> bool:
        return len(text) >= self.chars and _hash_text(text[: self.chars]) == self.digest


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

    def count_common(self, prints: bytes) -> int:
        """How many messages it begins with together with these."""
        high = min(len(self.prints), len(prints)) // PRINT_BYTES
        if self.prints[: high * PRINT_BYTES] == prints[: high * PRINT_BYTES]:
            return high
        low = 0
        while low + 1 < high:  # comparing slices is many times faster than comparing one after the other
            middle = (low + high) // 2
            half = slice(low * PRINT_BYTES, middle * PRINT_BYTES)
            if self.prints[half] == prints[half]:
                low = middle
            else:
                high = middle
        return low

    def saw(self) -> str:
        """Its rows as text."""
        return write_ranges(self.state.ranges)

    def note_reply(self, reply: Message) -> None:
        """Remember what a next prompt may refer to."""
        self.state.calls = [OpenCall(call.id, call.name, hash_arguments(call.arguments)) for call in reply.calls]
        self.state.excerpts = [*self.state.excerpts[:1], excerpt(reply.text)]


def _hash_text(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def hash_arguments(arguments: Any) -> int:
    """A hash of the arguments of a tool call, the same for a dict and its JSON text."""
    if not isinstance(arguments, str):
        try:
            return xxhash.xxh3_64_intdigest(encode_sorted(arguments))
        except (TypeError, ValueError, OverflowError, RecursionError):
            arguments = as_text(arguments)
    return _hash_text(canonical_json(arguments.strip() or "{}"))


def excerpt(text: str) -> str:
    """Characters from the middle of a text, by which it is known where it is quoted; empty if it is too short."""
    text = text.strip()
    if len(text) < _MIN_EXCERPT_CHARS:
        return ""
    start = max(0, (len(text) - _EXCERPT_CHARS) // 2)
    return text[start : start + _EXCERPT_CHARS]


@dataclass(slots=True)
class GivenMessage:
    """A message of a prompt: what is needed to recognise it, and the message itself when it is asked for."""

    digest: int
    role: str
    thinks: bool
    seq: int | None = None
    """The row that it is, if that is known without comparing."""
    source: _Source | None = None
    read: Message | None = None

    @classmethod
    def of(cls, message: Message) -> GivenMessage:
        return cls(fingerprint(message), message.role, bool(message.reasoning), read=message)

    @property
    def message(self) -> Message:
        if self.read is None:
            assert self.source is not None, "a message that is a row already is not read again"
            item, at, decode = self.source
            self.read = (read_message(decode(item)) or [])[at]
        return self.read


class GivenPrompt(NamedTuple):
    """What a call was given."""

    messages: list[GivenMessage]
    """All, or those that follow the known ones."""
    base: OpenContext | None = None
    known: int = 0
    """It begins with so many messages of `base`."""
    raw: RawPrefix | None = None
    previous: str | None = None
    """The id of the response that it goes on with, if it names one."""

    @classmethod
    def of(cls, messages: Iterable[Message], base: OpenContext | None = None, known: int = 0) -> GivenPrompt:
        return cls([GivenMessage.of(message) for message in messages], base, known)

    def prints(self) -> bytes:
        """The fingerprints of all its messages."""
        before = b"" if self.base is None else bytes(self.base.prints[: self.known * PRINT_BYTES])
        return before + b"".join(given.digest.to_bytes(PRINT_BYTES, "little") for given in self.messages)


class PromptReader:
    """Reads the prompts of one trajectory."""

    def __init__(self, decode: Decode = decode_value) -> None:
        self._decode = decode
        self._seen: dict[int, list[tuple[int, str, bool]]] = {}
        """Hash of an encoded message -> digest and role of the messages that it is, and whether they have reasoning."""

    def read(self, inputs: Any, contexts: Sequence[OpenContext]) -> GivenPrompt | None:
        """The messages among the arguments of a call; None if there are none.

        Args:
            inputs: The arguments: decoded, or as they are encoded.
            contexts: The open conversations, the likeliest first.
        """
        decode = self._decode
        if not isinstance(inputs, Raw):
            if not isinstance(inputs, dict | list):
                return None
            try:
                inputs, decode = Raw(_encode(inputs)), decode_value
            except (TypeError, ValueError, OverflowError, RecursionError):
                messages = read_given_messages(inputs)
                return None if messages is None else GivenPrompt.of(messages)
        fields = _open(inputs)
        if fields is None:
            return None
        fields = _unwrap(fields)
        system = 0
        if not _BESIDE.isdisjoint(fields):
            system = xxhash.xxh3_64_intdigest(b"".join(bytes(fields[name]) for name in _BESIDE if name in fields)) | 1
        for context in contexts:
            raw = context.raw
            if raw is not None and raw.system == system and raw.place in fields:
                prompt = _go_on(context, raw, fields[raw.place], decode)
                if prompt is not None:
                    return prompt
        prompt = self._read_all(fields, system, decode, is_first=not contexts)
        if prompt is not None and "previous_response_id" in fields:
            previous = decode(fields["previous_response_id"])
            return prompt._replace(previous=previous if isinstance(previous, str) else None)
        return prompt

    def _read_all(self, fields: dict[str, Raw], system: int, decode: Decode, *, is_first: bool) -> GivenPrompt | None:
        for place in places(fields):
            body = fields[place]
            count, start = _list_head(memoryview(body))
            if not start:
                given = _given(read_inside(decode(body), place)) if _is_map(body) else None
            elif is_first:
                given = _given(read_messages(decode(body)))
            else:
                given = self._read_items(body, decode)
            if given:
                if system:
                    beside = {name: decode(fields[name]) for name in _BESIDE if name in fields}
                    given = [*map(GivenMessage.of, read_system(beside)), *given]
                raw = _remember(place, system, memoryview(body)[start:], count, given, len(given)) if start else None
                return GivenPrompt(given, raw=raw)
        return None

    def _read_items(self, body: Raw, decode: Decode) -> list[GivenMessage] | None:
        try:
            items = _items_decoder.decode(body)
        except msgspec.MsgspecError:
            return None
        given: list[GivenMessage] = []
        for item in items:
            key = xxhash.xxh3_64_intdigest(item)
            seen = self._seen.get(key)
            if seen is None:
                value = decode(item)
                if is_item(value):  # several of them are one message
                    return _given(read_messages(decode(body)))
                fresh = _given(read_message(value))
                if fresh is None:
                    return None
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen[key] = [(each.digest, each.role, each.thinks) for each in fresh]
                given += fresh
            else:
                given += [GivenMessage(*each, None, (item, at, decode)) for at, each in enumerate(seen)]
        return given


def _go_on(context: OpenContext, raw: RawPrefix, body: Raw, decode: Decode) -> GivenPrompt | None:
    """The messages after those of the prompt before; None if it does not begin with them."""
    data = memoryview(body)
    count, start = _list_head(data)
    end = start + raw.size
    if count < raw.items or end > len(data) or xxhash.xxh3_128_digest(data[start:end]) != raw.digest:
        return None
    if count == raw.items:
        return GivenPrompt([], context, raw.messages, raw)
    added = decode(Raw(b"\xdd" + (count - raw.items).to_bytes(4, "big") + bytes(data[end:])))
    if not isinstance(added, list) or (raw.ends_open and is_item(added[0])):
        return None
    given = _given(read_messages(added))
    if given is None:
        return None
    now = _remember(raw.place, raw.system, data[start:], count, given, raw.messages + len(given))
    return GivenPrompt(given, context, raw.messages, now)


def _given(messages: list[Message] | None) -> list[GivenMessage] | None:
    return None if messages is None else [GivenMessage.of(message) for message in messages]


def _remember(
    place: str, system: int, body: memoryview, items: int, given: list[GivenMessage], messages: int
) -> RawPrefix:
    ends_open = bool(given) and given[-1].role == "assistant"
    return RawPrefix(place, system, len(body), xxhash.xxh3_128_digest(body), items, messages, ends_open)


def _open(inputs: Raw) -> dict[str, Raw] | None:
    """The arguments by their names; a list of messages under the empty name."""
    if _list_head(memoryview(inputs))[1]:
        return {"": inputs}
    try:
        return _fields_decoder.decode(inputs) if _is_map(inputs) else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _unwrap(fields: dict[str, Raw]) -> dict[str, Raw]:
    """The arguments, or the fields of the whole request that is one of them."""
    if _PLACES.isdisjoint(fields):
        for value in fields.values():
            inner = _open(value) if _is_map(value) else None
            if inner is not None and any(name in inner and _list_head(memoryview(inner[name]))[0] for name in _PLACES):
                return inner
    return fields


def _list_head(data: memoryview) -> tuple[int, int]:
    """How many items an encoded list has, and where they begin; zeros if it is no list."""
    first = data[0] if len(data) else 0
    if 0x90 <= first <= 0x9F:
        return first & 0x0F, 1
    if first == 0xDC:
        return int.from_bytes(data[1:3], "big"), 3
    return (int.from_bytes(data[1:5], "big"), 5) if first == 0xDD else (0, 0)


def _is_map(raw: Raw) -> bool:
    first = memoryview(raw)[0] if len(memoryview(raw)) else 0
    return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)
