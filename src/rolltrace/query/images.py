"""Images that values point to, as PNG: the store keeps pixels, and a browser takes files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace.errors import NotFoundError, QueryError
from rolltrace.files import open_private
from rolltrace.lake import mirror_in
from rolltrace.record import BLOB_NAME, Blob, decode_record
from rolltrace.store import blob_path

_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_MODES = {"1": (_GREY, 1, 1), "L": (_GREY, 8, 1), "P": (_PALETTE, 8, 1), "RGB": (_RGB, 8, 3), "I;16": (_GREY, 16, 2),
          "LA": (_GREY_ALPHA, 8, 2), "RGBA": (_RGBA, 8, 4), "RGBX": (_RGBA, 8, 4)}  # fmt: skip
"""Mode of Pillow -> colour type and bit depth of PNG, and bytes a pixel."""
_MOST_PIXELS = 1 << 26


class _Pixels(msgspec.Struct):
    mode: str
    size: tuple[int, int]
    palette: bytes = b""


class ImageFile(NamedTuple):
    """An image for a browser."""

    media_type: str
    data: bytes


def read_image(store: Path, name: str) -> ImageFile:
    """The image of this hash.

    Raises:
        QueryError: there is none, or it is of a kind that no browser shows.
    """
    if not BLOB_NAME.fullmatch(name):
        raise QueryError(f"the name of an image is a hash of 16 to 64 hexadecimal digits, not {name[:80]!r}")
    path = blob_path(store, name)
    try:
        if path.parent.is_symlink() or path.parent.parent.is_symlink():
            raise OSError("its folder is a link")
        if not path.exists() and (mirror := mirror_in(store)) is not None:
            mirror.fetch_blob(name)
        with open_private(path) as file:
            blob = decode_record(file.read())
    except FileNotFoundError:
        raise NotFoundError(f"there is no image {name}: it is not drained yet, or was pruned") from None
    except (OSError, msgspec.MsgspecError) as fault:
        raise QueryError(f"the image {name} cannot be read: {str(fault)[:200]}") from None
    if not isinstance(blob, Blob) or blob.media != "image/raw":
        raise QueryError(f"{name} is not an image")
    try:
        pixels = msgspec.msgpack.decode(blob.info, type=_Pixels)
    except msgspec.MsgspecError as fault:
        raise QueryError(f"the image {name} cannot be read: {fault}") from None
    return ImageFile("image/png", _png(name, pixels, blob.data))


def _png(name: str, pixels: _Pixels, data: bytes) -> bytes:
    (width, height), mode = pixels.size, pixels.mode
    if mode not in _MODES:
        raise QueryError(f"the image {name} is of the mode {mode[:20]!r}, which cannot be shown")
    colour, depth, bytes_a_pixel = _MODES[mode]
    row_bytes = -(-width // 8) if mode == "1" else width * bytes_a_pixel
    if not 0 < width * height <= _MOST_PIXELS or row_bytes * height != len(data):
        raise QueryError(f"the image {name} is damaged: {len(data)} bytes for {width} x {height} pixels")
    if mode == "I;16":  # PNG wants the high byte first
        swapped = bytearray(data)
        swapped[0::2], swapped[1::2] = data[1::2], data[0::2]
        data = bytes(swapped)
    rows = b"".join(b"\0" + data[at : at + row_bytes] for at in range(0, len(data), row_bytes))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))]
    if colour == _PALETTE:
        palette = pixels.palette[:768]
        chunks.append((b"PLTE", palette.ljust(768, b"\0") if len(palette) % 3 or not palette else palette))
    chunks += [(b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
