"""A growing prompt is decoded once, and is what it was whatever came before it."""

from __future__ import annotations

import random

import msgspec

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
