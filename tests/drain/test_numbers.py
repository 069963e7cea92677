"""A growing prompt is decoded once, and is what it was whatever came before it."""

from __future__ import annotations

import math
import random
import sys
from typing import Any

import msgspec
import numpy
import pyarrow as pa
import pytest

from rolltrace.drain.numbers import NumberLists


def packed(ids: object) -> bytes:
    return msgspec.msgpack.encode(ids)


def test_prompts_that_grow_shrink_and_change_are_read_right() -> None:
    chance = random.Random(1)
    lists = NumberLists()
    prompts: dict[bytes, list[int]] = {bytes([n]) * 16: [] for n in range(5)}
    for _ in range(400):
        name = chance.choice(list(prompts))
        ids = prompts[name]
        keep = chance.choice([len(ids), len(ids), chance.randrange(len(ids) + 1), 0])
        ids = ids[:keep] + [chance.randrange(chance.choice([100, 1000, 150_000])) for _ in range(chance.randrange(300))]
        prompts[name] = ids
        found = lists.read("prompt_ids", name, packed(ids))
        assert found is None or found.to_pylist() == ids
        assert found is not None or len(packed(ids)) < 512


def test_what_is_no_list_of_token_ids_is_left_alone() -> None:
    lists = NumberLists()
    name = b"x" * 16
    assert lists.read("prompt_ids", name, packed(list(range(1000)))) is not None
    for value in ([*range(1000), "a"], [0.5] * 1000, [[1]] * 1000, [1 << 40] * 1000, "x" * 1000, {"a": [1] * 1000}):
        assert lists.read("prompt_ids", name, packed(value)) is None
    assert lists.read("prompt_ids", name, packed(list(range(1000)))).to_pylist() == list(range(1000))


def test_bytes_that_end_too_early_are_left_alone() -> None:
    raw = packed(list(range(1000)))
    assert NumberLists().read("prompt_ids", b"x" * 16, raw[:-1]) is None


@pytest.mark.parametrize("has_numpy", [True, False])
def test_logprobs_are_32_bits_wide_with_numpy_and_without(has_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_numpy:
        monkeypatch.setitem(sys.modules, "numpy", numpy)
    else:
        monkeypatch.delitem(sys.modules, "numpy")
    chance = random.Random(1)
    values = [*(-chance.expovariate(1) for _ in range(200)), 0.0, -0.0, 1e300, -1e300, 1e-300, math.inf, -math.inf]
    logprobs = NumberLists().read("logprobs", b"x" * 16, packed(values))
    assert logprobs is not None
    assert logprobs.equals(pa.array(values, pa.float64()).cast(pa.float32()))
    assert math.isnan(NumberLists().read("logprobs", b"x" * 16, packed([math.nan] * 100))[99].as_py())


def opened(lists: NumberLists, trajectory_id: bytes, payload: dict[str, Any]) -> dict[str, Any]:
    fields = lists.fields(trajectory_id, packed(payload))
    assert fields is not None
    return {
        name: field.to_pylist() if isinstance(field, pa.Array) else msgspec.msgpack.decode(field)
        for name, field in fields.items()
    }


def test_the_fields_of_an_agent_loop_are_what_was_given_and_in_its_order() -> None:
    chance = random.Random(2)
    lists, name = NumberLists(), b"x" * 16
    first = [chance.randrange(150_000) for _ in range(400)]
    ids, mask, logprobs = first, [], []
    for turn in range(5):
        messages = [{"role": "user", "content": "so " * 200}] * turn
        given = {"request_id": f"r{turn}", "best_of": 1, "prompt_ids": ids, "messages": messages, "stop": None}
        response = [chance.randrange(150_000) for _ in range(300)]
        scores = [-chance.random() for _ in response]
        answer = {"response_ids": response, "logprobs": scores, "finish_reason": "stop"}
        for payload in (given, answer, {"token_ids": response}):
            expected = payload | ({"logprobs": narrow(scores)} if "logprobs" in payload else {})
            read = opened(lists, name, payload)
            assert (read, list(read)) == (expected, list(expected))
        ids = ids + response
        mask, logprobs = mask + [1] * len(response), logprobs + scores
    whole = {"prompt_ids": first, "response_ids": ids[400:], "response_mask": mask, "logprobs": logprobs, "turns": 5}
    assert opened(lists, name, whole) == whole | {"logprobs": narrow(logprobs)}


def narrow(values: list[float]) -> list[float]:
    return pa.array(values, pa.float32()).to_pylist()


def test_fields_that_follow_a_known_list_are_found_whatever_they_are() -> None:
    lists, name = NumberLists(), b"x" * 16
    ids = list(range(1000))
    for after in (["text"], {"deep": [1, {"a": None}]}, "x" * 70_000, b"bytes", 1 << 40, -1, 0.5, True, [], ids, "ü"):
        payload = {"prompt_ids": ids, "after": after, "token_ids": ids[:500], "ö" * 20: 1}
        assert opened(lists, name, payload) == payload
    longer = {"prompt_ids": [*ids, "no id"], "after": 1}
    assert opened(lists, name, longer) == longer
    assert opened(lists, name, {"prompt_ids": ids[:999]}) == {"prompt_ids": ids[:999]}


def test_what_is_no_dict_with_names_has_no_fields() -> None:
    for value in ([1, 2], "text", {1: 2}, {"a": 1, 2: 3}, None):
        assert NumberLists().fields(b"x" * 16, packed(value)) is None
    assert NumberLists().fields(b"x" * 16, packed({"prompt_ids": list(range(1000)), "a": "b"})[:-1]) is None
    assert NumberLists().fields(b"x" * 16, b"") is None
