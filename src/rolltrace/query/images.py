"""Images that values point to, as PNG: the store keeps pixels, and a browser takes files."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rolltrace.errors import NotFoundError, QueryError
from rolltrace.record import BLOB_NAME

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_MODES = {"1": (_GREY, 1, 1), "L": (_GREY, 8, 1), "P": (_PALETTE, 8, 1), "RGB": (_RGB, 8, 3), "I;16": (_GREY, 16, 2),
          "LA": (_GREY_ALPHA, 8, 2), "RGBA": (_RGBA, 8, 4), "RGBX": (_RGBA, 8, 4)}  # fmt: skip
"""Mode of Pillow -> colour type and bit depth of PNG, and bytes a pixel."""
_MAX_PIXELS = 1 << 26
_FILES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that a browser shows as they are."""


class _Bytes(msgspec.Struct):
    content: bytes = msgspec.field(default=b"", name="$bytes")


class _Pixels(msgspec.Struct):
    mode: str
    size: tuple[int, int]
    palette: _Bytes = msgspec.field(default_factory=_Bytes)


class ImageFile(NamedTuple):
    """An image for a browser."""

    media_type: str
    data: bytes


def read_image(store: Store, name: str) -> ImageFile:
    """The image of this hash.

    Raises:
        QueryError: there is none, or it is of a kind that no browser shows.
    """
    if not BLOB_NAME.fullmatch(name):
        raise QueryError(f"the name of an image is a hash of 16 to 64 hexadecimal digits, not {name[:80]!r}")
    row = next(iter(store._ask("SELECT media, info, data FROM blobs WHERE hash = ? LIMIT 1", [name])), None)
    if row is None:
        raise NotFoundError(f"there is no image {name}: it is not drained yet, or was pruned")
    if row["media"] in _FILES:
        return ImageFile(row["media"], row["data"])
    if row["media"] != "image/raw":
        raise QueryError(f"{name} is not an image")
    try:
        pixels = msgspec.json.decode(row["info"] or "{}", type=_Pixels)
    except msgspec.MsgspecError as error:
        raise QueryError(f"the image {name} cannot be read: {error}") from None
    return ImageFile("image/png", _png(name, pixels, row["data"]))


def _png(name: str, pixels: _Pixels, data: bytes) -> bytes:
    (width, height), mode = pixels.size, pixels.mode
    if mode not in _MODES:
        raise QueryError(f"the image {name} is of the mode {mode[:20]!r}, which cannot be shown")
    colour, depth, bytes_a_pixel = _MODES[mode]
    row_bytes = -(-width // 8) if mode == "1" else width * bytes_a_pixel
    if not 0 < width * height <= _MAX_PIXELS or row_bytes * height != len(data):
        raise QueryError(f"the image {name} is damaged: {len(data)} bytes for {width} x {height} pixels")
    if mode == "I;16":  # PNG wants the high byte first
        swapped = bytearray(data)
        swapped[0::2], swapped[1::2] = data[1::2], data[0::2]
        data = bytes(swapped)
    rows = b"".join(b"\0" + data[at : at + row_bytes] for at in range(0, len(data), row_bytes))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))]
    if colour == _PALETTE:
        palette = pixels.palette.content[:768]
        chunks.append((b"PLTE", palette.ljust(768, b"\0") if len(palette) % 3 or not palette else palette))
    chunks += [(b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
