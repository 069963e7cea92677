"""The wire format of protobuf, as far as OTLP needs it: fields of messages, written and read.

By hand, because it is little and frozen, and protobuf's runtime is what training environments disagree about most.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_MASK = (1 << 64) - 1


def varint(value: int) -> bytes:
    """A number in as few bytes as it takes; of a negative one its two's complement in 64 bits."""
    value &= _MASK
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(number: int, value: int) -> bytes:
    """A field with a number."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, body: bytes) -> bytes:
    """A field with bytes, a text or a message."""
    return varint(number << 3 | BYTES) + varint(len(body)) + body


def fixed64_field(number: int, body: bytes) -> bytes:
    """A field with eight bytes: a time or a float."""
    return varint(number << 3 | FIXED64) + body


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: numbers, and the bytes of everything else.

    Raises:
        ValueError: it is no message.
        IndexError: it is cut off within a number.
    """
    at, size = 0, len(body)
    while at < size:
        key, at = _read_varint(body, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _read_varint(body, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _read_varint(body, at)
        elif kind in _SIZES:
            length = _SIZES[kind]
        else:
            raise ValueError(f"not protobuf: a field of wire type {kind}")
        if number == 0 or at + length > size:
            raise ValueError("not protobuf, or cut off")
        yield number, body[at : at + length]
        at += length


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
    raise ValueError("not protobuf: a number of more than 10 bytes")
