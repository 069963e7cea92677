"""Images that stand in a payload as base64, taken out and kept as blobs, as images of Pillow are.

Understood are data URLs anywhere (OpenAI's `image_url`, `input_image`, any text that is nothing but one), Anthropic's
`source` and Gemini's `inline_data`. Each becomes an `Image` that points to the blob. What is no valid base64, and no
file of a known kind, stays as it is.
"""

from __future__ import annotations

import base64
import struct
from typing import Any, NamedTuple

import msgspec
import xxhash

from rolltrace.record import Blob, Cut, Image

MAX_IMAGE_BYTES = 32 << 20
"""A larger image stays in the payload, where the limits of payloads apply."""
MIN_IMAGE_CHARS = 32
"""A shorter text is no image."""
_DATA_URL = "data:image/"
_MODES = {0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}
"""Colour type of PNG -> mode of Pillow."""
_JPEG_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_MEDIA_NAMES = ("media_type", "mime_type", "mimeType", "mediaType")
_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


class TakenImages(NamedTuple):
    """A payload without its images, and these."""

    value: Any
    """The payload itself if there are none: nothing is copied then."""
    blobs: list[Blob]


class Picture(NamedTuple):
    """What the head of an image file says."""

    format: str
    mode: str
    size: tuple[int, int]


def take_images(value: Any) -> TakenImages:
    """Replace the images in a decoded payload by references to blobs."""
    blobs: dict[str, Blob] = {}
    taken = _take(value, blobs)
    return TakenImages(taken, list(blobs.values()))


def _take(value: Any, blobs: dict[str, Blob]) -> Any:
    kind = type(value)
    if kind is str:
        return _take_url(value, blobs) if value.startswith(_DATA_URL) else value
    if kind is dict:
        data = value.get("data")
        if type(data) in (str, bytes) and any(_is_image(value.get(name)) for name in _MEDIA_NAMES):
            image = _keep(data, blobs)
            if image is not None:
                return {**value, "data": image}
        return _take_items(value, blobs)
    if kind is list:
        if value and type(value[0]) in (int, float):  # token ids, logprobs
            return value
        items = [_take(item, blobs) for item in value]
        return value if all(new is old for new, old in zip(items, value)) else items
    if kind is Cut:
        kept = _take(value.kept, blobs) if type(value.kept) in (dict, list) else value.kept
        return value if kept is value.kept else Cut(value.limit, value.full_length, kept)
    return value


def _take_items(value: dict[Any, Any], blobs: dict[str, Blob]) -> dict[Any, Any]:
    changed = {}
    for name, item in value.items():
        if type(item) in (str, dict, list, Cut):
            taken = _take(item, blobs)
            if taken is not item:
                changed[name] = taken
    return {**value, **changed} if changed else value


def _is_image(media: Any) -> bool:
    return isinstance(media, str) and media.startswith("image/")


def _take_url(url: str, blobs: dict[str, Blob]) -> Any:
    head, comma, _ = url[:100].partition(",")
    if not comma or not head.endswith(";base64"):
        return url
    image = _keep(url[len(head) + 1 :], blobs)
    return url if image is None else image


def _keep(data: str | bytes, blobs: dict[str, Blob]) -> Image | None:
    """Keep an image file as a blob; None if it is none."""
    content = data if isinstance(data, bytes) else _decode(data)
    picture = None if content is None or len(content) > MAX_IMAGE_BYTES else read_head(content)
    if content is None or picture is None:
        return None
    name = xxhash.xxh3_128_hexdigest(content)
    if name not in blobs:
        info = msgspec.Raw(msgspec.msgpack.encode({"mode": picture.mode, "size": picture.size}))
        blobs[name] = Blob(name, _FORMATS[picture.format], info, content)
    return Image(name, picture.mode, picture.size, picture.format)


def _decode(data: str) -> bytes | None:
    if not MIN_IMAGE_CHARS <= len(data) <= MAX_IMAGE_BYTES * 4 // 3 + 4:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:  # binascii.Error is one too; so is text that is not ASCII
        return None


def read_head(content: bytes) -> Picture | None:
    """Format, mode and size of an image file, by its first bytes; None if it is of no known kind."""
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", content, 16)
            return Picture("PNG", _MODES.get(colour, "RGB"), (width, height))
        if content.startswith(b"\xff\xd8\xff"):
            return _jpeg(content)
        if content[:6] in (b"GIF87a", b"GIF89a"):
            return Picture("GIF", "P", struct.unpack_from("<HH", content, 6))
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return _webp(content)
    except (struct.error, IndexError):
        pass
    return None


def _jpeg(content: bytes) -> Picture | None:
    at = 2
    while at + 9 < len(content):
        if content[at] != 0xFF:
            return None
        marker = content[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, components = struct.unpack_from(">HHB", content, at + 5)
            return Picture("JPEG", _JPEG_MODES.get(components, "RGB"), (width, height))
        if marker == 0xFF:  # padding
            at += 1
        elif marker in (0x01, *range(0xD0, 0xD9)):  # without a length
            at += 2
        else:
            at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return None


def _webp(content: bytes) -> Picture | None:
    kind = content[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
        return Picture("WEBP", "RGBA" if content[20] & 0x10 else "RGB", (width, height))
    if kind == b"VP8L" and content[20] == 0x2F:
        bits = int.from_bytes(content[21:25], "little")
        return Picture("WEBP", "RGBA" if bits >> 28 & 1 else "RGB", ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
    if kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", content, 26)
        return Picture("WEBP", "RGB", (width & 0x3FFF, height & 0x3FFF))
    return None
