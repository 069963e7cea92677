"""Whoever guesses tokens is slowed down; whoever has the right one still comes in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from rolltrace.view.limits import FREE_GUESSES, GUESSES_SEC, MAX_ADDRESSES, MAX_SLOWED
from rolltrace.view.security import Guesses

TOKEN = "a-token-of-some-length"
Serve = Callable[..., httpx.Client]


def test_guesses_at_once_are_refused_and_the_right_token_is_answered(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)

    def guess(number: int) -> int:
        return client.get("/api/status", headers={"Authorization": f"Bearer {number}"}).status_code

    assert [guess(number) for number in range(FREE_GUESSES)] == [401] * FREE_GUESSES
    with ThreadPoolExecutor(3 * MAX_SLOWED) as threads:
        statuses = list(threads.map(guess, range(3 * MAX_SLOWED)))
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= 2 * MAX_SLOWED
    assert client.get("/api/status", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/api/status").status_code == 401  # shows none, and so is no guess


def test_one_address_does_not_slow_down_another_and_is_forgiven_after_a_while() -> None:
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    for _ in range(FREE_GUESSES):
        guesses.wrong("2001:db8::1")
    assert guesses.is_slowed("2001:db8::ffff")  # the same network
    assert not guesses.is_slowed("10.0.0.1")
    assert asyncio.run(guesses.may_try("10.0.0.1"))
    now[0] += GUESSES_SEC + 1
    assert not guesses.is_slowed("2001:db8::1")


def test_few_addresses_are_remembered() -> None:
    guesses = Guesses(lambda: 0.0)
    for number in range(3 * MAX_ADDRESSES):
        guesses.wrong(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(guesses._wrong) == MAX_ADDRESSES
