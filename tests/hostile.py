"""Journals that no rolltrace would write: any bytes in frames whose checksums are right, under any header."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from rolltrace.journal import journal_folder
from rolltrace.journal.segment import (
    FILE_HEAD,
    FILE_MAGIC,
    FRAME,
    FRAME_MAGIC,
    HEADER_BYTES,
    LOSSES_AT,
    LOSSES_HEAD,
    META_AT,
    SEALED,
    VERSION,
)

_SALT = 12345
META = {"project": "p", "experiment": "e", "writer": "w", "checks": "all", "backends": [], "token2text": True}


def write_segment(
    store: Path,
    bodies: Iterable[bytes],
    *,
    meta: Any = META,
    losses: bytes | None = None,
    name: str = "20261116T000000-1-00000000",
    number: int = 0,
) -> Path:
    """A sealed segment of this host with these records; `meta` may be bytes, whatever they are."""
    folder = journal_folder(store)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{name}-{number:06d}.seg"
    described = meta if isinstance(meta, bytes) else msgspec.msgpack.encode(meta)
    data = bytearray(HEADER_BYTES)
    FILE_HEAD.pack_into(
        data, 0, FILE_MAGIC, VERSION, SEALED, _SALT, 0, xxh3_64_intdigest(described), len(described) & 0xFFFFFFFF
    )
    fitting = described[: LOSSES_AT - META_AT]
    data[META_AT : META_AT + len(fitting)] = fitting
    if losses is not None:
        head = LOSSES_HEAD.pack(xxh3_64_intdigest(losses), len(losses))
        data[LOSSES_AT : LOSSES_AT + len(head) + len(losses)] = head + losses
        del data[HEADER_BYTES:]
    for body in bodies:
        start = len(data)
        data += FRAME.pack(FRAME_MAGIC, xxh3_64_intdigest(body, _SALT + start), len(body)) + body
        data += bytes(-len(data) % 8)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


class Packed:
    """msgpack bytes that stand as they are in a structure that `pack` writes."""

    def __init__(self, body: bytes) -> None:
        self.body = body


class Extension:
    """A msgpack extension whose content is a structure."""

    def __init__(self, code: int, value: Any) -> None:
        self.code = code
        self.value = value


class Pairs(list):  # type: ignore[type-arg]
    """A map as pairs: keys may stand twice and be anything."""


def unpack(raw: bytes) -> Any:
    """A structure in which everything of the bytes is: maps as pairs, extensions opened."""
    return _opened(msgspec.msgpack.decode(raw, ext_hook=Extension))


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((_opened(key), _opened(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return [_opened(item) for item in value]
    if isinstance(value, Extension):
        data = bytes(value.value)
        try:
            return Extension(value.code, unpack(data)) if value.code <= 5 else Extension(value.code, data)
        except Exception:
            return Extension(value.code, data)
    return value


def pack(value: Any) -> bytes:
    """The bytes of such a structure."""
    if isinstance(value, Packed):
        return value.body
    if isinstance(value, Pairs):
        inside = b"".join(pack(key) + pack(item) for key, item in value)
        return b"\xdf" + struct.pack(">I", len(value)) + inside
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    if isinstance(value, Extension):
        data = value.value if isinstance(value.value, bytes) else pack(value.value)
        return b"\xc9" + struct.pack(">Ib", len(data), value.code) + data
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return b"\xdb" + struct.pack(">I", len(data)) + data
    return msgspec.msgpack.encode(value)
