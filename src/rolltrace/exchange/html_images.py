"""Images in a page: those that were recorded are shown, those that are elsewhere are linked. Nothing is loaded.

Recorded pixels become PNG files inside the page. Of what a message says is an image, only the formats that every
browser draws and that hold nothing else are shown.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from rolltrace.record import BLOB_NAME, Blob, decode_record
from rolltrace.store import blob_path

_DATA = re.compile(r"data:image/(?:png|jpeg|jpg|gif|webp);base64,[A-Za-z0-9+/=\s]+", re.ASCII)
_MEDIA = re.compile(r"image/(?:png|jpeg|jpg|gif|webp)", re.ASCII)
_LINK = re.compile(r"https?://[^\s\"'<>]+", re.ASCII)
_COLOUR_TYPES = {"L": (0, 1), "RGB": (2, 3), "P": (3, 1), "LA": (4, 2), "RGBA": (6, 4)}
"""Mode -> what PNG calls it, and bytes per pixel."""
_MOST_IMAGES = 64
_MOST_BYTES = 16 << 20
_MOST_VALUES = 20_000


class Images:
    """The images of one page."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._seen: set[str] = set()

    def of(self, value: Any) -> str:
        """The images in a recorded value as HTML: drawn, linked, or told; each once in a page."""
        lines = []
        for image in _search(value):
            key = str(image)
            if key in self._seen:
                continue
            if len(self._seen) == _MOST_IMAGES:
                lines.append('<div class="quiet">further images are not shown</div>')
                break
            self._seen.add(key)
            lines.append(f"<div>{_html(image, self._store)}</div>")
        return "".join(lines)


def _search(value: Any) -> Iterator[Any]:
    """Recorded images, data URLs and links, in their order."""
    waiting, left = [value], _MOST_VALUES
    while waiting and left:
        left -= 1
        each = waiting.pop()
        if isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, dict):
            image = _image(each)
            if image is None:
                waiting += reversed(list(each.values()))
            else:
                yield image
        elif isinstance(each, str) and each.startswith("data:image/"):
            yield each


def _image(part: dict[str, Any]) -> Any:
    """What an image of a message points to: a marker of ours, a data URL, or an address; None if it is no image."""
    if isinstance(part.get("$image"), dict):
        return part["$image"]
    kind = part.get("type")
    if kind in ("image_url", "input_image", "image"):
        value = part.get("image_url", part.get("image", part.get("url")))
        value = value.get("url") if isinstance(value, dict) and "url" in value else value
        source = part.get("source")
        if isinstance(source, dict):  # Anthropic's
            media, data = source.get("media_type"), source.get("data")
            if isinstance(media, str) and _MEDIA.fullmatch(media) and isinstance(data, str):
                return f"data:{media};base64,{data}"
            value = source.get("url")
        return value if isinstance(value, str) else None
    return None


def _html(image: Any, store: Path) -> str:
    if isinstance(image, dict):
        png = _png_of(image, store)
        if png is None:
            size = image.get("size")
            return f'<span class="quiet">image {escape(str(size))}, whose pixels are not in the store</span>'
        image = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    if len(image) <= _MOST_BYTES and _DATA.fullmatch(image):
        return f'<img alt="" src="{escape(image)}">'
    if _LINK.fullmatch(image):
        return f'<a rel="noreferrer noopener" href="{escape(image)}">{escape(image)}</a>'
    return f'<span class="quiet">image, not shown: {escape(image[:60])}</span>'


def _png_of(image: dict[str, Any], store: Path) -> bytes | None:
    name = image.get("hash")
    if not isinstance(name, str) or not BLOB_NAME.fullmatch(name):
        return None
    try:
        blob = decode_record(blob_path(store, name).read_bytes())
        info = msgspec.msgpack.decode(blob.info) if isinstance(blob, Blob) else {}
        return png(info["mode"], info["size"], blob.data, info.get("palette", b""))  # type: ignore[union-attr]
    except (OSError, ValueError, msgspec.MsgspecError, KeyError, TypeError, AttributeError):
        return None


def png(mode: str, size: Any, pixels: bytes, palette: bytes = b"") -> bytes | None:
    """Pixels as a PNG file; None for a mode that PNG does not have, or if they are not as many as the size says."""
    width, height = size
    if mode == "1":  # packed, each row from a new byte on
        depth, (colour, row) = 1, (0, (width + 7) // 8)
    elif mode in _COLOUR_TYPES:
        depth, colour, row = 8, _COLOUR_TYPES[mode][0], width * _COLOUR_TYPES[mode][1]
    else:
        return None
    if len(pixels) != row * height or len(pixels) > _MOST_BYTES:
        return None
    rows = b"".join(b"\0" + pixels[at : at + row] for at in range(0, len(pixels), row))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))]
    if mode == "P":
        parts.append((b"PLTE", palette[: 3 * 256]))
    parts += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
