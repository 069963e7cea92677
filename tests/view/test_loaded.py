"""What the server keeps of trajectories that somebody looked at."""

from __future__ import annotations

import pytest

from rolltrace.query import Store
from rolltrace.view import loaded as loaded_module
from rolltrace.view.loaded import Loaded


def ids_of(demo: Store) -> list[str]:
    rows = demo.trajectories(experiment="grpo-7b", step=1, limit=6).rows()
    return [str(row["trajectory_id"]) for row in rows]


def test_what_was_read_of_a_trajectory_is_kept(demo: Store) -> None:
    loaded = Loaded(demo)
    first, *_ = ids_of(demo)
    assert loaded.messages(first) is loaded.messages(first)
    assert loaded.trajectory(first) is loaded.trajectory(first[:12])


def test_no_more_is_kept_than_fits(demo: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Loaded(demo)
    first, *others = ids_of(demo)
    messages = loaded.messages(first)
    monkeypatch.setattr(loaded_module, "_MOST_BYTES", 20_000)
    for each in others:
        loaded.messages(each)
        loaded.tokens(each)
        loaded.ops(each)
    assert loaded._bytes == sum(entry.size_bytes for entry in loaded._entries.values()) <= 20_000
    assert loaded.messages(first) is not messages
    assert loaded.messages(first) == messages


def test_payloads_are_given_back_when_another_trajectory_is_looked_at(demo: Store) -> None:
    loaded = Loaded(demo)
    first, second, *_ = ids_of(demo)
    trajectory = loaded.trajectory(first)
    op = next(op for op in trajectory.walk() if op.kind == "llm")
    inputs = op.inputs
    contents = trajectory.tokens._contents  # type: ignore[attr-defined]
    assert contents._payload._read is not None
    loaded.trajectory(second)
    assert contents._payload._read is None
    assert op.inputs == inputs
