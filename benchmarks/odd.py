"""A store of odd trajectories: very many turns, ops or tokens, a huge message, a large group, many terms and tags.

Each stands in a step of its own of one experiment, so that a page of it shows nothing else.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import rolltrace
from benchmarks.stores import drain, settle
from benchmarks.workload import WORDS

PLACE = ("odd", "odd")


class Sizes(NamedTuple):
    """How odd."""

    turns: int = 1_000
    ops: int = 30_000
    tokens: int = 200_000
    message_bytes: int = 5_000_000
    group: int = 512
    terms: int = 300
    tags: int = 5_000
    step: int = 8_000

    def by(self, factor: float) -> "Sizes":
        return Sizes(*(max(2, round(each * factor)) for each in self))


class Oddity(NamedTuple):
    """A page to open."""

    name: str
    path: str
    ready: str
    """What is on the page when it is there: a key of `tests.browser.places.READY`."""


def oddities(store: Path, sizes: Sizes) -> list[Oddity]:
    """The pages of the store that `build_odd` writes."""
    first = "select step, min(trajectory_id) as id from trajectories group by step"
    with rolltrace.open(store) as opened:
        ids = {row["step"]: row["id"] for row in opened.sql(first)}

    def trajectory(step: int, tab: str = "") -> str:
        return f"/t/{ids[step]}{tab and f'?tab={tab}'}"

    def step(number: int) -> str:
        return f"/e/{'/'.join(PLACE)}/step/{number}"

    return [
        Oddity(f"{sizes.turns:,} turns, conversation", trajectory(1), "conversation"),
        Oddity(f"{sizes.turns:,} turns, {sizes.turns * 100:,} tokens", trajectory(1, "tokens"), "tokens"),
        Oddity(f"{sizes.ops:,} ops", trajectory(2, "ops"), "ops"),
        Oddity(f"{sizes.tokens:,} response tokens", trajectory(3, "tokens"), "tokens"),
        Oddity(f"message of {sizes.message_bytes:,} bytes", trajectory(4), "conversation"),
        Oddity(f"group of {sizes.group:,} rollouts", step(5), "groups"),
        Oddity(f"a rollout of these {sizes.group:,}", trajectory(5), "conversation"),
        Oddity(f"{sizes.terms:,} reward terms", trajectory(6), "conversation"),
        Oddity(f"{sizes.tags:,} distinct tags", step(7), "groups"),
        Oddity(f"step of {sizes.step:,} trajectories, groups", step(8), "groups"),
        Oddity(f"step of {sizes.step:,} trajectories, list", f"{step(8)}?view=list", "list"),
    ]


def build_odd(store: Path, sizes: Sizes) -> None:
    """Record the store, and settle it."""
    shutil.rmtree(store, ignore_errors=True)
    rolltrace.init(
        *PLACE, "rolltrace", store=store, drain="off", quiet=True, run="run-1", limits={"max_unsent_bytes": "64GiB"}
    )
    _record_group(1, lambda _: _talk(sizes.turns))
    _record_group(2, lambda _: _nest(sizes.ops))
    _record_group(3, lambda _: _answer_at_length(sizes.tokens))
    _record_group(4, lambda _: _generate([_user("a question")], "word " * (sizes.message_bytes // 5)))
    _record_group(5, _answer, sizes.group, size=sizes.group)
    _record_group(6, _answer, terms={f"term_{at}": at / sizes.terms for at in range(sizes.terms)})
    _record_group(7, _answer, sizes.tags, tags=lambda number: {f"tag_{number}": number})
    _record_group(8, _answer, sizes.step)
    rolltrace.shutdown()
    drain(store)
    settle(store)
    (store / "complete").touch()


def _record_group(
    step: int,
    act: Callable[[int], object],
    count: int = 1,
    *,
    size: int = 8,
    terms: dict[str, float] | None = None,
    tags: Callable[[int], dict[str, Any]] = lambda number: {},
) -> None:
    for number in range(count):
        with rolltrace.rollout_trace_attr(
            number // size, step=step, rollout_n=number % size, **tags(number)
        ) as trajectory:
            act(number)
            trajectory.reward(float(number % 3 == 0), terms=terms)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@rolltrace.rollout_trace_op(name="generate", kind="llm", inputs=["messages"])
def _generate(messages: list[dict[str, Any]], reply: str, tokens: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": reply, **(tokens or {})}


@rolltrace.rollout_trace_op(name="search", kind="tool")
def _search(query: str) -> str:
    return f"results of {query}"


def _answer(number: int) -> None:
    _generate([_user("a question")], "a reply")


def _talk(turns: int) -> None:
    rng = random.Random(1)
    messages = [_user("a long task")]
    for turn in range(turns):
        reply = " ".join(rng.choices(WORDS, k=80))
        ids = {"response_ids": [rng.randrange(150_000) for _ in range(100)], "prompt_ids": [turn]}
        _generate(list(messages), reply, {**ids, "logprobs": [-rng.random() for _ in range(100)]})
        messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "tool", "content": _search(f"{turn} {rng.choice(WORDS)}")})


def _nest(count: int) -> None:
    """Tools in tools."""

    @rolltrace.rollout_trace_op(name="plan", kind="tool")
    def plan(number: int) -> int:
        for at in range(9):
            _search(str(number + at))
        return number

    for number in range(0, count, 10):
        plan(number)


def _answer_at_length(count: int) -> None:
    rng = random.Random(2)
    ids = [rng.randrange(150_000) for _ in range(count)]
    tokens = {"prompt_ids": list(range(10)), "response_ids": ids, "logprobs": [-rng.random() for _ in ids]}
    _generate([_user("a question")], " ".join(rng.choices(WORDS, k=count)), {**tokens, "response_mask": [1] * count})
