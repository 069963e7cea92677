"""Images that stand in a prompt as base64, in the shapes of three providers, are kept once, as blobs."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import messages_of_trajectory, read_image


def png() -> bytes:
    """A red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


DATA = base64.b64encode(png()).decode()
TEXT = {"type": "text", "text": "What is this?"}
PROMPTS: dict[str, dict[str, Any]] = {
    "openai": {
        "messages": [
            {
                "role": "user",
                "content": [TEXT, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}],
            }
        ]
    },
    "responses": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
                ],
            }
        ]
    },
    "anthropic": {
        "messages": [
            {
                "role": "user",
                "content": [
                    TEXT,
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                ],
            }
        ]
    },
    "gemini": {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "What is this?"}, {"inline_data": {"mime_type": "image/png", "data": DATA}}],
            }
        ]
    },
}


@rolltrace.rollout_trace_op(kind="llm")
def ask(**request: Any) -> str:
    return "A red pixel."


@pytest.mark.parametrize("provider", PROMPTS)
def test_an_image_of_a_prompt_is_a_blob(tmp_path: Path, provider: str) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        for _ in range(2):
            ask(**PROMPTS[provider])
    rolltrace.shutdown()
    store = rolltrace.open(tmp_path)
    trajectory = store.trajectory(handle.id)
    assert all(DATA not in str(op.inputs) for op in trajectory.ops)
    (user,) = [row for row in trajectory.messages if row.role == "user"]
    assert user.text == "What is this?"
    assert user.images is not None
    (name,) = user.images
    text, image = messages_of_trajectory(trajectory)[0].parts
    assert (text.kind, image.kind, image.blob, image.detail) == ("text", "image", name, "RGB 1 x 1")
    assert store.sql("SELECT count(*) AS n FROM blobs").rows() == [{"n": 1}]
    kept = read_image(store, name)
    assert (kept.media_type, kept.data) == ("image/png", png())
