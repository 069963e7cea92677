"""The messages of one prompt, of which as few as possible are read.

A prompt of turn 1,000 repeats what all prompts before it had. Its encoded messages are compared with those of the last
prompt of each open conversation by a hash over the whole beginning; only what follows is decoded. Where the beginning
was changed, messages that were read before are known again by a hash of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import xxhash
from msgspec import Raw

from rolltrace.messages.message import Message, fingerprint
from rolltrace.messages.message_list import read_message, read_messages
from rolltrace.messages.open_context import OpenContext, RawPrefix
from rolltrace.messages.prompt import (
    CONFIG_KEYS,
    MESSAGES_KEYS,
    SYSTEM_KEYS,
    places,
    read_given_messages,
    read_inside,
    read_system,
)
from rolltrace.messages.responses import is_item
from rolltrace.messages.transcript_rows import PRINT_BYTES
from rolltrace.record import Marker, decode_value

MAX_REMEMBERED = 1 << 14
"""So many messages of a trajectory are known again by their bytes."""
Decode = Callable[[Raw], Any]
_BESIDE = frozenset({*SYSTEM_KEYS, *CONFIG_KEYS})
"""Where the system's message may stand."""
_PLACES = frozenset(MESSAGES_KEYS)
_Source = tuple[Raw, int, Decode]
"""The encoded item that a message stands in, which of its messages it is, and how to open it."""
_fields_decoder = msgspec.msgpack.Decoder(dict[str, Raw])
_items_decoder = msgspec.msgpack.Decoder(list[Raw])


def _encode_marker(value: Any) -> Any:
    if isinstance(value, Marker):
        return value.ext()
    raise TypeError(type(value).__name__)


_encode = msgspec.msgpack.Encoder(enc_hook=_encode_marker).encode


class GivenMessage:
    """A message of a prompt: what is needed to recognise it, and the message itself when it is asked for."""

    __slots__ = ("_message", "_source", "digest", "role", "seq", "thinks")

    def __init__(
        self, digest: int, role: str, thinks: bool, seq: int | None = None, source: _Source | None = None
    ) -> None:
        self.digest = digest
        self.role = role
        self.thinks = thinks
        self.seq = seq
        """The row that it is, if that is known without comparing."""
        self._source = source
        self._message: Message | None = None

    @classmethod
    def of(cls, message: Message) -> GivenMessage:
        given = cls(fingerprint(message), message.role, bool(message.reasoning))
        given._message = message
        return given

    @property
    def message(self) -> Message:
        if self._message is None:
            assert self._source is not None, "a message that is a row already is not read again"
            item, at, decode = self._source
            self._message = (read_message(decode(item)) or [])[at]
        return self._message


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

    def prints(self) -> bytes:
        """The fingerprints of all its messages."""
        before = b"" if self.base is None else bytes(self.base.prints[: self.known * PRINT_BYTES])
        return before + b"".join(given.digest.to_bytes(PRINT_BYTES, "little") for given in self.messages)


class _Seen(NamedTuple):
    digest: int
    role: str
    thinks: bool


class PromptReader:
    """Reads the prompts of one trajectory."""

    def __init__(self, decode: Decode = decode_value) -> None:
        self._decode = decode
        self._seen: dict[int, tuple[_Seen, ...]] = {}
        """Hash of an encoded message -> the messages it is."""

    def read(self, inputs: Any, contexts: Iterable[OpenContext]) -> GivenPrompt | None:
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
                return _plain(inputs)
        fields = _open(inputs)
        if fields is None:
            return None
        fields = _unwrap(fields)
        system = 0
        if not _BESIDE.isdisjoint(fields):
            system = xxhash.xxh3_64_intdigest(b"".join(bytes(fields[name]) for name in _BESIDE if name in fields)) | 1
        is_first = True
        for context in contexts:
            is_first = False
            raw = context.raw
            if raw is not None and raw.system == system and raw.place in fields:
                prompt = self._go_on(context, raw, fields[raw.place], decode)
                if prompt is not None:
                    return prompt
        prompt = self._read_all(fields, system, decode, is_first=is_first)
        if prompt is not None and "previous_response_id" in fields:
            previous = decode(fields["previous_response_id"])
            return prompt._replace(previous=previous if isinstance(previous, str) else None)
        return prompt

    def _go_on(self, context: OpenContext, raw: RawPrefix, body: Raw, decode: Decode) -> GivenPrompt | None:
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
        messages = read_messages(added)
        if messages is None:
            return None
        now = _remember(raw.place, raw.system, data, start, count, raw.messages + len(messages), _ends_open(messages))
        return GivenPrompt([GivenMessage.of(message) for message in messages], context, raw.messages, now)

    def _read_all(self, fields: dict[str, Raw], system: int, decode: Decode, *, is_first: bool) -> GivenPrompt | None:
        for place in places(fields):
            body = fields[place]
            count, start = _list_head(memoryview(body))
            given = (
                self._read_inside(body, place, decode) if not start
                else _read_list(body, decode) if is_first
                else self._read_items(body, decode)
            )  # fmt: skip
            if given:
                if system:
                    beside = {name: decode(fields[name]) for name in _BESIDE if name in fields}
                    given = [*map(GivenMessage.of, read_system(beside)), *given]
                if not start:
                    return GivenPrompt(given)
                ends_open = given[-1].role == "assistant"
                raw = _remember(place, system, memoryview(body), start, count, len(given), ends_open)
                return GivenPrompt(given, raw=raw)
        return None

    def _read_inside(self, body: Raw, place: str, decode: Decode) -> list[GivenMessage] | None:
        """Messages in a dict."""
        if not _is_map(body):
            return None
        messages = read_inside(decode(body), place)
        return None if messages is None else [GivenMessage.of(message) for message in messages]

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
                    return _read_list(body, decode)
                read = read_message(value)
                if read is None:
                    return None
                fresh = [GivenMessage.of(message) for message in read]
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen[key] = tuple(_Seen(each.digest, each.role, each.thinks) for each in fresh)
                given += fresh
            else:
                given += [GivenMessage(*each, None, (item, at, decode)) for at, each in enumerate(seen)]
        return given


def _read_list(body: Raw, decode: Decode) -> list[GivenMessage] | None:
    messages = read_messages(decode(body))
    return None if messages is None else [GivenMessage.of(message) for message in messages]


def _plain(inputs: Any) -> GivenPrompt | None:
    messages = read_given_messages(inputs)
    return None if messages is None else GivenPrompt([GivenMessage.of(message) for message in messages])


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


def _ends_open(messages: list[Message]) -> bool:
    return bool(messages) and messages[-1].role == "assistant"


def _remember(
    place: str, system: int, data: memoryview, start: int, items: int, messages: int, ends_open: bool
) -> RawPrefix:
    body = data[start:]
    return RawPrefix(place, system, len(body), xxhash.xxh3_128_digest(body), items, messages, ends_open)


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
