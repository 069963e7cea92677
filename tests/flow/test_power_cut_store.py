"""A power cut while a flushed journal becomes the store: at every moment all that was confirmed is there, whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image
from tokenizers import Tokenizer

import rolltrace
from rolltrace.drain import Drainer
from rolltrace.store import compact, remove_replaced
from tests.nightly import nightly
from tests.power_cut import SimulatedDisk


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], picture: Any) -> dict[str, Any]:
    return {"token_ids": prompt_ids[::-1], "text": "answer"}


def record(store: Path, tokenizer: Tokenizer, folder: Path) -> None:
    page = folder / "tokenizer.json"
    tokenizer.save(str(page))
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", tokenizer=page, segment_bytes="64KiB")
    for number in range(12):
        with rolltrace.rollout_trace_attr(step=number % 3, sample_index=number) as trajectory:
            generate(list(range(300)), Image.new("RGB", (4, 4), (number, 0, 0)))
            trajectory.reward(float(number))
            with rolltrace.rollout_trace_attr(step=0, sample_index=100 + number):
                rolltrace._runtime.active().recorder.sink.turn_over()  # type: ignore[union-attr]
    assert rolltrace.flush()


def contents(store: Path) -> tuple[Any, ...]:
    """What a reader finds, texts and pictures included."""
    opened = rolltrace.open(store)
    rows = opened.sql(
        "SELECT sample_index, payload, text, len(tokens) AS tokens FROM spans ORDER BY sample_index::INT"
    ).rows()
    listed = sorted((str(row["sample_index"]), row["status"], row["reward"]) for row in opened.trajectories())
    blobs = sorted(path.name for path in (store / "blobs").rglob("*") if path.is_file() and path.stat().st_size)
    return [tuple(row.values()) for row in rows], listed, blobs


@pytest.mark.parametrize("names", ["synced", "all"])
def test_nothing_that_was_confirmed_is_lost_at_any_moment(
    power: SimulatedDisk, tmp_path: Path, byte_level: Tokenizer, names: Literal["synced", "all"]
) -> None:
    store = power.folder / "store"
    record(store, byte_level, tmp_path)
    rolltrace.shutdown()
    confirmed = power.points()[-1]
    rows, listed, _ = contents(store)
    assert len(rows) == 12
    assert all(row[2] for row in rows), "every op has text"
    drainer = Drainer(store)
    with drainer.working():
        drainer.drain()
        compact(store)
        remove_replaced(store, grace_sec=0)
    blobs = contents(store)[2]
    assert len(blobs) == 12
    last = power.points()[-1]
    assert last - confirmed > 60
    points = range(confirmed, last, nightly(1, 37))
    for point in [*points, last]:
        after = power.after_cut(point, names=names) / "store"
        assert contents(after)[:2] == (rows, listed), f"after sync {point}"
    Drainer(after).drain()  # what was still in a journal comes with its pictures
    assert contents(after) == (rows, listed, blobs)
