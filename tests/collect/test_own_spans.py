"""What the backend `otlp` sends to `rolltrace collect` is in its store as it was in the first one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.otlp import OtlpBackend
from rolltrace.query import Store, open_store
from tests.background import eventually

from .rig import Collecting, collecting

WHERE = ("project", "experiment", "run", "step", "sample_index", "sample_number", "rollout_n", "validate")
TABLES = {
    "rows": "name, start_ns, end_ns, status, error, traceback, parent_trajectory_id, parent_op_id, tags",
    "spans": "op_id, parent_id, name, kind, start_ns, end_ns, status, error, traceback, policy_version, finish_reason, "
    "prompt_tokens, response_tokens, tokens, logprobs, response_mask, payload, cached_tokens, reasoning_tokens",
    "scores": "op_id, time_ns, name, value, label, terms, reason, trained_step, author",
}  # fmt: skip
LISTED = (
    "trajectory_id", "turns", "tool_calls", "reward", "fate", "fate_reason", "trained_step", "advantage", "question",
    "answer", "prompt_tokens", "response_tokens", "status", "tags",
)  # fmt: skip


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "response_ids": [4, 5, 6], "logprobs": [-0.5, -0.25, -1.5], "response_mask": [1, 1, 0], "text": "It is 42.",
        "finish_reason": "stop", "policy_version": 3, "usage": {"cached_tokens": 2, "reasoning_tokens": 1},
    }  # fmt: skip


@rolltrace.rollout_trace_op(kind="tool")
def look_up(query: Any) -> Any:
    if query == "fail":
        raise ValueError("no: such page")
    return '{"text": "that looks like JSON"}' if query == "text" else {"odd": [math.nan, 1 << 80, None, "数"]}


def record(store: Path) -> list[str]:
    """Rollouts of all kinds; their ids."""
    rolltrace.init("math", "grpo", store=store, drain="off", quiet=True)
    ids = []
    question = [{"role": "user", "content": "17+25?"}]
    for sample, length in ((7, 3), ("7", 40_000), ("a-b", 3)):
        with rolltrace.rollout_trace_attr(
            step=1, sample_index=sample, rollout_n=0, name="rollout", level=2, odd={"a": [1]}
        ) as one:
            generate(list(range(length)), question, temperature=0.5)
            look_up("text")
            look_up({"a": 1})
            with pytest.raises(ValueError, match="no: such page"):
                look_up("fail")
            one.reward(1.0, terms={"correct": 1.0, "length": -0.5})
            with rolltrace.rollout_trace_attr(name="branch") as inner:
                generate([1], question)
        ids += [one.id, inner.id]
        rolltrace.score(one.id, "fate", "trained", reason="all of them", trained_step=4)
        rolltrace.score(one.id, "advantage", 0.25)
        rolltrace.score(one.id, "quality", math.nan)
    with pytest.raises(RuntimeError), rolltrace.rollout_trace_attr(step=2, validate=True) as failed:
        raise RuntimeError("boom")
    return [*ids, failed.id]


def rows_of(store: Store, table: str) -> list[str]:
    # A score that names a trajectory may come without its coordinates.
    where = WHERE[:2] if table == "scores" else WHERE
    columns = f"trajectory_id, {', '.join(where)}, {TABLES[table]}"
    return sorted(repr(list(row.items())) for row in store.sql(f"SELECT {columns} FROM _{table}").rows())


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with collecting(tmp_path / "second") as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


def test_nothing_is_lost_between_two_stores(tmp_path: Path, collector: Collecting) -> None:
    ids = record(tmp_path / "first")
    first = open_store(tmp_path / "first")
    backend = OtlpBackend()
    assert list(backend.send([first.trajectory(each) for each in ids])) == []
    rolltrace.score(ids[0], "advantage", 0.75)  # when all of it was sent
    first.refresh()
    backend.update([first.trajectory(ids[0])])
    second = open_store(collector.store)
    eventually(lambda: second.refresh() or len(rows_of(second, "scores")) == len(rows_of(first, "scores")))
    for table in TABLES:
        assert rows_of(second, table) == rows_of(first, table)
    for before, after in zip(listed(first), listed(second), strict=True):
        assert before == after
    for each in ids:
        before, after = first.trajectory(each), second.trajectory(each)
        assert after.conversation == before.conversation
        assert [op.tokens for op in after.walk()] == [op.tokens for op in before.walk()]


def listed(store: Store) -> list[Any]:
    names = [name for name in LISTED if name in store.trajectories().rows()[0]]
    return sorted(repr([(name, row[name]) for name in names]) for row in store.trajectories().rows())


def test_what_is_sent_again_after_a_restart_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = record(tmp_path / "first")
    first = open_store(tmp_path / "first")
    for _ in range(2):
        with collecting(tmp_path / "second") as running:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
            backend = OtlpBackend()
            backend.send([first.trajectory(each) for each in ids])
            backend.update([first.trajectory(each) for each in ids])
    second = open_store(tmp_path / "second")
    for table in TABLES:
        assert rows_of(second, table) == rows_of(first, table)
