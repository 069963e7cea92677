"""image_missing: a prompt has image tokens, and no image was given to its op or to an op before or around it.

Whatever may be an image counts as one: a false alarm costs more than a miss. The op around it, which often has the
images, ends after it, so the question is answered when the top op ends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from rolltrace.drain.checks.check import Finding, OpFacts, TrajectoryPast
from rolltrace.record import Array, ArraySummary, Cut, Image, Marker, Opaque

PLACEHOLDERS = (
    "<|image_pad|>", "<|vision_start|>", "<|image|>", "<|image_1|>", "<|media_pad|>", "<|begin_of_image|>",
    "<start_of_image>", "<image_soft_token>", "<IMG_CONTEXT>", "<image_placeholder>", "<image>", "[IMG]",
)  # fmt: skip
"""What stands for an image in the prompts of Qwen-VL, Llama, Phi, Kimi-VL, GLM-V, Gemma, InternVL, DeepSeek-VL, LLaVA
and verl's datasets, Pixtral."""
_CLOSED = {"<image>": "</image>", "[IMG]": "[/IMG]"}
"""Where this follows, it is somebody's XML, and no placeholder."""
_MAX_PLACEHOLDER_CHARS = max(map(len, PLACEHOLDERS))

_IMAGE_KEYS = frozenset(
    {"image", "images", "image_data", "image_url", "image_urls", "image_path", "image_paths", "input_image",
     "multi_modal_data", "multi_modal_inputs", "mm_data", "pixel_values", "video", "videos", "video_data", "video_url"}
)  # fmt: skip
_PART_TYPES = frozenset({"image", "image_url", "input_image"})
_PART_DATA = frozenset({"url", "source", "data", "path", "file_id", "bytes"})
_TOLD_BY = _IMAGE_KEYS | {"type"}
_OTHERS_WORDS = ("assistant", "tool", "function")
_OTHERS_TYPES = ("ai", "AIMessageChunk", "tool", "function")
"""What LangChain calls them."""
_WORDS = ("image", "video", "pixel_values", "multi_modal", "mm_data")
_MAX_VALUES = 5_000
"""How much of one op is looked through. Beyond that there may be an image."""


class ImageSigns(NamedTuple):
    """What was found in a value."""

    has_image: bool
    placeholder: str = ""


def image_missing(op: OpFacts, past: TrajectoryPast) -> Finding | None:
    if past.has_image or past.image_told:
        return None
    if not past.placeholder and op.fields.get("text") is None and not may_want_image(op.fields["payload"]):
        return None
    is_wanted = op.is_model_call and not past.placeholder
    in_inputs = look(op.inputs, is_prompt=is_wanted)
    if in_inputs.has_image or look(op.outputs, is_prompt=False).has_image:
        past.has_image, past.placeholder = True, ""
        return None
    if is_wanted:
        past.placeholder = in_inputs.placeholder or _in_new_text(op, past)
        past.placeholder_op = op.fields["op_id"] if past.placeholder else 0
    if past.placeholder and op.fields["parent_id"] is None:
        past.image_told = True
        return Finding("image_missing", {"placeholder": past.placeholder}, past.placeholder_op)
    return None


def _in_new_text(op: OpFacts, past: TrajectoryPast) -> str:
    """A placeholder in the decoded prompt, as far as it was not searched at the turn before."""
    text, chars = op.fields.get("text"), op.fields.get("prompt_chars")
    if not isinstance(text, str) or chars is None:
        return ""
    begin = past.text_seen - _MAX_PLACEHOLDER_CHARS if chars >= past.text_seen else 0
    past.text_seen = chars
    return placeholder_in(text[max(0, begin) : chars])


def placeholder_in(text: str) -> str:
    """The placeholder of an image in a text; empty if there is none."""
    if "<" in text or "[" in text:  # quickly told, and most texts have neither
        for placeholder in PLACEHOLDERS:
            if placeholder in text and _CLOSED.get(placeholder, "\0") not in text:
                return placeholder
    return ""


def may_want_image(payload: str | None) -> bool:
    """Whether there may be an image or a placeholder in a payload, by its JSON: of most it is soon told."""
    if payload is None or any(word in payload for word in _WORDS):
        return True
    if payload.count('"$') > payload.count('"$column"'):  # of what is no plain value
        return True
    return ("<" in payload or "[IMG]" in payload) and any(each in payload for each in PLACEHOLDERS)


def look(value: Any, *, is_prompt: bool) -> ImageSigns:
    """Whether there is an image in a value, and a placeholder in those words of a prompt that no model or tool said."""
    if not is_prompt and type(value) is str:
        return ImageSigns(value.startswith("data:image/"))
    placeholder, left = "", _MAX_VALUES
    waiting: list[tuple[Collection[Any], bool]] = [((value,), is_prompt)]
    while waiting:
        values, is_given = waiting.pop()
        left -= len(values)
        if left < 0:
            return ImageSigns(has_image=True)
        for each in values:
            kind = type(each)
            if kind is str:
                if each.startswith("data:image/"):
                    return ImageSigns(has_image=True)
                if is_given and not placeholder:
                    placeholder = placeholder_in(each)
            elif kind is dict:
                if not _TOLD_BY.isdisjoint(each):
                    if _shows_image(each):
                        return ImageSigns(has_image=True)
                    if is_prompt and "type" in each:
                        placeholder = placeholder or _part_type(each)
                waiting.append((each.values(), is_given and not _is_of_others(each)))
            elif kind is list:
                if each and not isinstance(each[0], int | float):
                    waiting.append((each, is_given))
            elif isinstance(each, Marker):
                if _is_image(each):
                    return ImageSigns(has_image=True)
                if isinstance(each, Cut):
                    waiting.append(((each.kept,), is_given))
    return ImageSigns(False, placeholder)


def _is_of_others(message: dict[Any, Any]) -> bool:
    """Whether a model or a tool said it."""
    role, kind = message.get("role"), message.get("type")
    return role in _OTHERS_WORDS or (role is None and "content" in message and kind in _OTHERS_TYPES)


def _is_image(value: Marker) -> bool:
    if isinstance(value, Array | ArraySummary):
        return len(value.shape) > 2
    return isinstance(value, Image) or (isinstance(value, Opaque) and "image" in value.type.lower())


def _shows_image(value: dict[Any, Any]) -> bool:
    if not _IMAGE_KEYS.isdisjoint(value) and any(_is_there(value[key]) for key in _IMAGE_KEYS if key in value):
        return True
    return "type" in value and _part_type(value) != "" and any(_is_there(value.get(key)) for key in _PART_DATA)


def _part_type(value: dict[Any, Any]) -> str:
    """The type of a part of a message that should hold an image; empty if it is no such."""
    kind = value.get("type")
    return kind if isinstance(kind, str) and kind in _PART_TYPES else ""


def _is_there(value: Any) -> bool:
    """Whether it is something, and not an empty list of images or `{"image": None}`."""
    if isinstance(value, dict):
        return any(_is_there(item) for item in value.values())
    if isinstance(value, list):
        return any(_is_there(item) for item in value)
    return value is not None and value not in ("", False)
