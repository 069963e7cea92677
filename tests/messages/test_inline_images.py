"""Images that a payload holds as base64 become blobs."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from msgspec import Raw
from PIL import Image as Pillow

from rolltrace.messages import EndedOp, Transcript, read_messages, take_images
from rolltrace.messages.inline_images import MAX_IMAGE_BYTES
from rolltrace.record import Cut, Image, Snapshotter, decode_value, to_json


def picture(kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (20, 10), **options: Any) -> bytes:
    file = io.BytesIO()
    image = Pillow.new(mode, size)
    image.putpixel((1, 1), 7 if mode in "LP" else tuple(range(7, 7 + len(mode))))
    image.save(file, kind, **options)
    return file.getvalue()


PNG = picture()
ENCODED = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{ENCODED}"
PARTS = {
    "openai": {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
    "responses": {"type": "input_image", "image_url": URL},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
    "gemini": {"inline_data": {"mime_type": "image/png", "data": ENCODED}},
    "gemini JSON": {"inlineData": {"mimeType": "image/png", "data": ENCODED}},
    "gemini bytes": {"inline_data": {"mime_type": "image/png", "data": PNG}},
    "mcp": {"type": "image", "mimeType": "image/png", "data": ENCODED},
    "langchain": {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": ENCODED},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_an_image_becomes_a_blob_and_the_message_points_to_it(part: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "what?"}, part]}]
    taken = take_images({"messages": messages})
    (blob,) = taken.blobs
    assert (blob.media, blob.data) == ("image/png", PNG)
    assert ENCODED not in str(taken.value)
    (said,) = read_messages(taken.value["messages"]) or []
    assert said.images == [blob.hash]
    assert said.text == "what?"
    image = {"hash": blob.hash, "mode": "RGB", "size": [20, 10], "format": "PNG"}
    assert said.parts == [{"type": "text", "text": "what?"}, {"type": "image", "image": {"$image": image}}]
    assert read_messages(to_json(taken.value["messages"])) == [said]


def test_an_image_of_pillow_is_the_same_kind_of_reference() -> None:
    blobs: list[str] = []
    snapshot = Snapshotter(keep_blob=lambda name, info, data: blobs.append(name)).take(
        [{"role": "user", "content": [{"type": "image", "image": Pillow.new("RGB", (2, 1))}]}]
    )
    (said,) = read_messages(decode_value(snapshot)) or []
    assert said.images == blobs
    assert said.parts is not None
    assert said.parts[0]["type"] == "image"


@pytest.mark.parametrize(
    ("content", "head"),
    [
        (picture("JPEG"), ("JPEG", "RGB", (20, 10))),
        (picture("JPEG", "L"), ("JPEG", "L", (20, 10))),
        (picture("GIF", "P"), ("GIF", "P", (20, 10))),
        (picture("PNG", "RGBA"), ("PNG", "RGBA", (20, 10))),
        (picture("PNG", "L"), ("PNG", "L", (20, 10))),
        (picture("WEBP"), ("WEBP", "RGB", (20, 10))),
        (picture("WEBP", lossless=True), ("WEBP", "RGB", (20, 10))),
        (picture("WEBP", "RGBA", lossless=True), ("WEBP", "RGBA", (20, 10))),
    ],
    ids=["JPEG", "grey JPEG", "GIF", "PNG with alpha", "grey PNG", "WebP", "lossless WebP", "WebP with alpha"],
)
def test_the_reference_says_what_the_image_is(content: bytes, head: tuple[Any, ...]) -> None:
    taken = take_images(f"data:image/x;base64,{base64.b64encode(content).decode()}")
    assert isinstance(taken.value, Image)
    assert (taken.value.format, taken.value.mode, taken.value.size) == head


def test_one_image_is_one_blob_however_often_it_stands_there() -> None:
    taken = take_images([{"image_url": URL}, {"image_url": URL}])
    assert len(taken.blobs) == 1


@pytest.mark.parametrize(
    "value",
    [
        "data:image/png;base64,%%%" + "A" * 100,
        "data:image/png;base64," + "A" * 100,  # no image
        "data:image/png," + "A" * 100,
        "data:image/svg+xml;base64," + base64.b64encode(b"<svg>" + b" " * 100).decode(),
        "data:image/png;base64,é" + "A" * 100,
        {"media_type": "image/png", "data": "not base64 " * 20},
        {"media_type": "text/plain", "data": ENCODED},
        {"data": ENCODED},
        {"prompt_ids": [1, 2, 3], "text": "an image", "other": [None, True, 2.5]},
    ],
)
def test_what_is_no_image_stays_as_it_is(value: Any) -> None:
    taken = take_images(value)
    assert taken.value is value
    assert taken.blobs == []


def test_an_image_over_the_limit_stays_as_it_is() -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG + bytes(MAX_IMAGE_BYTES)).decode()
    assert take_images({"url": url}).blobs == []


def test_an_image_inside_what_was_kept_of_a_long_list_is_taken() -> None:
    taken = take_images(Cut("items", 9, [{"image_url": URL}]))
    assert len(taken.blobs) == 1
    assert isinstance(taken.value.kept[0]["image_url"], Image)


def test_images_of_an_encoded_prompt_are_taken_by_who_opens_it() -> None:
    blobs: list[str] = []

    def decode(raw: Raw) -> Any:
        taken = take_images(decode_value(raw))
        blobs.extend(blob.hash for blob in taken.blobs)
        return taken.value

    transcript = Transcript(decode=decode)
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "what?"}, PARTS["openai"]]}]
    for turn in range(3):
        op = EndedOp(op_id=turn, kind="llm", inputs=Raw(Snapshotter().take({"messages": messages})), outputs="a zebra")
        rows = transcript.op_ended(op).rows
        assert [row.images for row in rows if row.images] == ([blobs] if turn == 0 else [])
        messages += [{"role": "assistant", "content": "a zebra"}, {"role": "user", "content": "sure?"}]
    assert len(blobs) == 1
