"""A power cut while a flushed journal becomes the store: at every moment all that was confirmed is there, whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image
from tokenizers import Tokenizer

import rolltrace
from rolltrace.drain import follower
from rolltrace.keeper import vacuum
from rolltrace.tables import TableStore, address_in, table
from tests.draining import compact, drain, rows
from tests.nightly import nightly
from tests.power_cut import SimulatedDisk


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], picture: Any) -> dict[str, Any]:
    return {"token_ids": prompt_ids[::-1], "text": "answer"}


def record(store: Path, tokenizer: Tokenizer, folder: Path) -> None:
    page = folder / "tokenizer.json"
    tokenizer.save(str(page))
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", tokenizer=page, limits={"segment_bytes": "64KiB"})
    for number in range(6):
        with rolltrace.rollout_trace_attr(step=number % 2, sample_index=number) as trajectory:
            generate(list(range(300)), Image.new("RGB", (4, 4), (number, 0, 0)))
            trajectory.reward(float(number))
            with rolltrace.rollout_trace_attr(step=0, sample_index=100 + number):
                rolltrace._runtime.active().recorder.sink.turn_over()  # type: ignore[union-attr]
    assert rolltrace.flush()


def contents(store: Path) -> tuple[Any, ...]:
    """What a reader finds, texts and pictures included."""
    opened = rolltrace.open(store)
    found = opened.sql(
        "SELECT sample_index, payload, text, len(tokens) AS tokens FROM spans ORDER BY sample_index::INT"
    ).rows()
    listed = sorted((str(row["sample_index"]), row["status"], row["reward"]) for row in opened.trajectories())
    blobs = sorted((row["hash"], row["data"]) for row in rows(store, "blobs"))
    return [tuple(row.values()) for row in found], listed, blobs


@pytest.mark.parametrize("names", ["synced", "all"])
def test_nothing_that_was_confirmed_is_lost_at_any_moment(
    power: SimulatedDisk,
    tmp_path: Path,
    byte_level: Tokenizer,
    names: Literal["synced", "all"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = power.folder / "store"
    monkeypatch.setattr(follower, "MAX_BATCH_BYTES", 5 << 10)
    monkeypatch.setitem(table._CONFIGURATION, "delta.checkpointInterval", "3")  # type: ignore[attr-defined]
    record(store, byte_level, tmp_path)
    rolltrace.shutdown()
    confirmed = power.points()[-1]
    shutil.copytree(store, tmp_path / "whole")
    drain(tmp_path / "whole")
    expected = contents(tmp_path / "whole")
    assert len(expected[0]) == len(expected[2]) == 6
    assert all(row[2] for row in expected[0]), "every op has text"
    assert drain(store).batches > 1
    compact(store)
    vacuum(TableStore(address_in(store)))
    last = power.points()[-1]
    assert last - confirmed > 60
    for point in [*range(confirmed, last, nightly(1, 101)), last]:
        after = power.after_cut(point, names=names) / "store"
        for marker in (after / "tokenizers").glob("*.pending"):
            marker.unlink()  # it is too old to count when the power is back
        drain(after)
        assert contents(after) == expected, f"after sync {point}"
