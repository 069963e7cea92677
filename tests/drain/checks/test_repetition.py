"""A response in a loop, and everything that only looks like one."""

from __future__ import annotations

import argparse
import asyncio.base_events
import html.entities
import inspect
import json
import random
import re
from typing import Any
from zlib import crc32

import pytest

import rolltrace
from rolltrace.drain.checks.repetition import find_loop

from .conftest import Find, generate, turn

CHINESE = (
    "天下大势，分久必合，合久必分。周末七国分争，并入于秦。及秦灭之后，楚、汉分争，又并入于汉。汉朝自高祖斩白蛇而起义，"
    "一统天下，后来光武中兴，传至献帝，遂分为三国。推其致乱之由，殆始于桓、灵二帝。桓帝禁锢善类，崇信宦官。及桓帝崩，"
    "灵帝即位，大将军窦武、太傅陈蕃共相辅佐。时有宦官曹节等弄权，窦武、陈蕃谋诛之，机事不密，反为所害，中涓自此愈横。"
)
LYRICS = "Row, row, row your boat, gently down the stream, merrily, merrily, merrily, merrily, life is but a dream.\n"
NEW_EVERY_TIME = random.Random(0)


def table() -> str:
    rows = (f"| item {n} | {NEW_EVERY_TIME.random():.3f} | {n % 3 == 0} | ok |" for n in range(60))
    return "| name | score | third | status |\n| --- | --- | --- | --- |\n" + "\n".join(rows)


def records() -> str:
    made = [{"id": n, "name": f"user_{n}", "active": True, "tags": [], "manager": None} for n in range(60)]
    return json.dumps(made, indent=2)


SOUND = {
    "python code": inspect.getsource(argparse)[:9000],
    "more code": inspect.getsource(asyncio.base_events)[:9000],
    "a long literal": inspect.getsource(html.entities)[:9000],
    "a table": table(),
    "json": records(),
    "json on one line": json.dumps(json.loads(records())),
    "chinese": CHINESE,
    "a list": "\n".join(f"{n}. Take the next step and look at the result." for n in range(1, 40)),
    "a song": LYRICS * 2,
    "a quote and its answer": 2 * inspect.getsource(argparse)[2000:6000],
    "a small matrix": "import numpy as np\n\nboard = np.array([\n" + 8 * "    [0, 0, 0, 0, 0, 0, 0, 0],\n" + "])\n"
    "print('the board is', board.shape)\n" + CHINESE + inspect.getsource(argparse)[:400],
    "a ruler": "Title\n" + "=" * 79 + "\n\nSome text follows here, and then some more.\n" + "-" * 79 + "\nThe end.",
    "short": "ha " * 20,
}  # fmt: skip
LOOPS = {
    "a word": "the " * 80,
    "a sentence": "I think the answer is 42. " * 20,
    "after a while": CHINESE + "Wait, let me check that again. " * 30,
    "cut inside": ("So we compute the sum of the first n numbers. " * 30)[:-17],
    "one letter": "a" * 800,
    "chinese": "我再想一想这个问题。" * 40,
    "a long passage": CHINESE + 4 * inspect.getsource(argparse)[2000:2400],
    "lines": "0\n" * 200,
    "most of it, then an end": "Hello. " + "Let me try again. " * 60 + "Enough: the answer is 7.",
}


def ids(text: str) -> list[int]:
    """Tokens of some kind: the same piece is the same number."""
    return [crc32(piece.encode()) % 150_000 for piece in re.findall(r"[a-zA-Z]{1,8}| +|.|\n", text)]


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_is_found_in_text_and_in_tokens(find: Find, text: str) -> None:
    def rollout() -> None:
        generate(output=text)
        generate(output={"token_ids": ids(text)})

    assert [found["detail"]["unit"] for found in find(rollout, limits={"checks": "repetition"})] == [
        "character",
        "token",
    ]


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_a_sound_text_is_none_in_text_and_in_tokens(find: Find, text: str) -> None:
    def rollout() -> None:
        generate(output=text)
        generate(output={"token_ids": ids(text)})
        generate(output={"token_ids": [ord(letter) for letter in text]})

    assert find(rollout, limits={"checks": "repetition"}) == []


def test_the_detail_says_where_and_how_long(find: Find) -> None:
    (found,) = find(lambda: turn([1, 2], [*range(100, 140), *[7, 8, 9] * 50]))
    assert (found["flag"], found["detail"]) == (
        "repetition",
        {"unit": "token", "start": 40, "length": 150, "period": 3},
    )


def test_what_tools_said_is_not_the_models_loop(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def run(mask: list[int]) -> dict[str, list[int]]:
        return {"prompt_ids": [1], "response_ids": [5, 6] * 100, "response_mask": mask}

    assert find(lambda: run([1] * 199 + [0])) == []


def test_an_agent_loop_of_the_models_own_tokens_is_looked_at(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def run() -> dict[str, list[int]]:
        return {"prompt_ids": [1], "response_ids": [5, 6] * 100, "response_mask": [1] * 200}

    assert [found["flag"] for found in find(run)] == ["repetition"]


@pytest.mark.parametrize("response", [[-1] * 100, [2_000_000_000] * 100, [None] * 100], ids=str)
def test_numbers_that_are_no_tokens_are_left_alone(find: Find, response: list[Any]) -> None:
    assert find(lambda: turn([1], response), limits={"checks": "repetition"}) == []


def test_ids_that_unicode_has_no_character_for_are_fine() -> None:
    loop = "\ud800\udc00\udfff" * 40
    assert find_loop(loop, 64) == (0, 120, 3)


@pytest.mark.parametrize("size", range(64, 90))
def test_a_loop_of_any_length_is_measured_exactly(size: int) -> None:
    head = "".join(map(chr, range(1000, 1037)))
    assert find_loop(head + ("abcdefg" * 20)[:size], 64) == (37, size, 7)


def test_long_responses_are_searched_in_a_time_that_a_test_has() -> None:
    # A search that compared everything with everything would run into the limit of a test.
    text = "".join(map(chr, NEW_EVERY_TIME.choices(range(300, 40_000), k=1_000_000)))
    assert find_loop(text, 64) is None
    assert find_loop("ab" * 1_000_000, 64) == (0, 2_000_000, 2)
    assert find_loop("a" * 999_999 + "b", 64) == (0, 999_999, 1)
