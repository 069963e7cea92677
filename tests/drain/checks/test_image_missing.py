"""Prompts that speak of an image which nobody gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import rolltrace
from rolltrace.drain.checks.check import OpFacts, TrajectoryPast
from rolltrace.drain.checks.image_missing import PLACEHOLDERS, image_missing, look, placeholder_in
from rolltrace.query import open_store

from .conftest import Find, generate, names, tool


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "You see."}, {"role": "user", "content": content}]


def op(number: int = 1, **fields: Any) -> OpFacts:
    found = {"kind": "llm", "op_id": number, "parent_id": None, **fields}
    return OpFacts(found, {}, {})


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_a_placeholder_without_an_image_is_flagged(find: Find, placeholder: str) -> None:
    (found,) = find(lambda: generate(messages=user(f"{placeholder}What is this?"), output="A cat."))
    assert (found["flag"], found["detail"]) == ("image_missing", {"placeholder": placeholder})


@pytest.mark.parametrize(
    "part", [{"type": "image"}, {"type": "image", "image": None}, {"type": "image_url", "image_url": {"url": ""}}]
)
def test_a_part_of_a_message_that_should_be_an_image_is_flagged(find: Find, part: Any) -> None:
    messages = user([part, {"type": "text", "text": "What is this?"}])
    assert names(find(lambda: generate(messages=messages, output="A cat."))) == ["image_missing"]


@pytest.mark.parametrize(
    "given",
    [
        {"image_data": [Image.new("RGB", (2, 2))]},
        {"image_data": ["https://example.org/cat.png"]},
        {"multi_modal_data": {"image": [b"\x89PNG"]}},
        {"images": ["cat.png"]},
        {"anything": {"deep": [{"inside": Image.new("RGB", (2, 2))}]}},
        {"messages": user([{"type": "image", "source": {"data": "aGk="}}, {"type": "text", "text": "<image>"}])},
        {"messages": user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}])},
    ],
)
def test_with_an_image_it_is_fine(find: Find, given: dict[str, Any]) -> None:
    assert find(lambda: generate(**{"messages": user("<image>What?"), **given}, output="A cat.")) == []


@pytest.mark.parametrize(
    "given",
    [
        {"image_data": None},
        {"image_data": []},
        {"multi_modal_data": {}},
        {"multi_modal_data": {"image": None, "video": []}},
    ],
)
def test_no_image_under_the_name_of_one_is_none(find: Find, given: dict[str, Any]) -> None:
    assert names(find(lambda: generate(messages=user("<image>What?"), **given, output="A cat."))) == ["image_missing"]


@pytest.mark.parametrize(
    "content",
    [
        "What is an image?",
        "<rss><image><url>logo.png</url></image></rss>",
        "[IMG]logo.png[/IMG]",
        "a < b and [c] and <images>",
        {"type": ["image", "null"], "role": ["tool"]},
    ],
)
def test_words_about_images_are_fine(find: Find, content: Any) -> None:
    assert find(lambda: generate(messages=user(content), output="An answer.")) == []


def test_what_tools_and_the_model_said_is_not_the_prompts_own(find: Find) -> None:
    said = [{"role": "tool", "content": "<image>"}, {"role": "assistant", "content": "write <image>"}]
    assert find(lambda: generate(messages=[*user("Fetch it."), *said], output="Done: <image>")) == []


def test_an_image_of_an_earlier_op_counts(find: Find) -> None:
    def rollout() -> None:
        tool(image=Image.new("RGB", (2, 2)))
        generate(messages=user("<image>What?"), output="A cat.")

    assert find(rollout) == []


def test_an_image_that_a_tool_made_counts(find: Find) -> None:
    def rollout() -> None:
        tool(Image.new("RGB", (2, 2)))
        generate(messages=user("<image>What?"), output="A cat.")

    assert find(rollout) == []


def test_an_image_given_to_the_op_around_counts(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def run(multi_modal_data: dict[str, Any]) -> None:
        generate(messages=user("<image>What?"), output="A cat.")

    assert find(lambda: run({"image": [Image.new("RGB", (2, 2))]})) == []


def test_the_model_call_inside_an_op_has_the_flag_and_only_once(find: Find, tmp_path: Path) -> None:
    @rolltrace.rollout_trace_op
    def run() -> None:
        tool("nothing")
        generate(messages=user("<image>What?"), output="A cat.")
        generate(messages=user("<image>Are you sure?"), output="Yes.")

    (found,) = find(run)
    (row,) = open_store(tmp_path / "store").trajectories().rows()
    (outer,) = open_store(tmp_path / "store").trajectory(row["trajectory_id"]).ops
    assert found["op_id"] == outer.children[1].op_id


def test_tools_have_no_prompt(find: Find) -> None:
    assert find(lambda: tool(query="<image>", output="<|image_pad|>")) == []


def test_the_decoded_prompt_is_searched() -> None:
    found = image_missing(op(text="<|im_start|>user <|image_pad|> <|im_end|>A cat", prompt_chars=40), TrajectoryPast())
    assert found is not None
    assert found.detail == {"placeholder": "<|image_pad|>"}


def test_the_decoded_response_is_not_searched() -> None:
    assert image_missing(op(text="What? <|image_pad|>", prompt_chars=5), TrajectoryPast()) is None


def test_a_placeholder_on_the_border_of_what_was_searched_is_found() -> None:
    known = TrajectoryPast()
    text = "x" * 200 + "<|image_pad|>"
    assert image_missing(op(text=text, prompt_chars=206), known) is None
    assert image_missing(op(text=text + "y", prompt_chars=214), known) is not None


def test_a_prompt_that_begins_anew_is_searched_from_its_beginning() -> None:
    known = TrajectoryPast()
    assert image_missing(op(text="x" * 900, prompt_chars=900), known) is None
    assert image_missing(op(text="<|image_pad|>" + "x" * 100, prompt_chars=113), known) is not None


def test_a_value_too_large_to_look_through_may_hold_an_image() -> None:
    assert look([["<image>"] for _ in range(6_000)], is_prompt=True).has_image


def test_numbers_are_not_walked_through() -> None:
    assert look({"prompt_ids": list(range(100_000)), "text": "<image>"}, is_prompt=True) == (False, "<image>")


def test_a_text_without_one_has_none() -> None:
    assert placeholder_in("<|im_start|>user\nlist[int] <b>bold</b>") == ""
