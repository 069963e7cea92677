"""Pruning takes payloads, says so once, and leaves the summary as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolltrace.errors import StoreError
from rolltrace.tables import ConflictError, Place, Table, TableStore, compact_place
from rolltrace.tables.prune import find_prunable, prune_payloads
from tests.tables.conftest import Tables

A, B = "a" * 32, "b" * 32
ENDED = {"status": "ok", "status_rank": 4, "start_ns": 10, "end_ns": 40, "name": "loop", "turns": 1}


def fill(tables: Tables, place: Place | None = None, ids: tuple[str, ...] = (A, B)) -> None:
    for each in ids:
        tables.add(
            place=place,
            trajectories=[{"trajectory_id": each, **ENDED}],
            ops=[
                {"trajectory_id": each, "op_id": 1, "kind": "llm", "payload": '{"inputs": "long"}', "traceback": "t"},
                {"trajectory_id": each, "op_id": 2, "kind": "other", "payload": '{"inputs": "long"}'},
            ],
            tokens=[{"trajectory_id": each, "op_id": 1, "ids": [1, 2, 3]}],
            messages=[{"trajectory_id": each, "message_id": "1", "seq": 0, "text": "what was said"}],
            transitions=[{"trajectory_id": each, "trace": '{"prompt": "p"}', "reward": 0.5, "time_ns": 20}],
            notes=[{"trajectory_id": each, "event": "note", "body": '"said"', "time_ns": 20}],
            scores=[{"trajectory_id": each, "name": "reward", "value": 1.0, "time_ns": 50}],
        )


def chosen(tables: Tables, *ids: str) -> dict[Place, set[str]]:
    return {tables.place: set(ids)}


@pytest.fixture(params=["moving", "compacted"])
def filled(request: pytest.FixtureRequest, tables: Tables) -> Tables:
    fill(tables)
    if request.param == "compacted":
        compact_place(tables.store, tables.place)
    return tables


def payloads(tables: Tables) -> dict[str, list[Any]]:
    return {
        "ops": tables.read("ops", "trajectory_id, op_id, payload IS NOT NULL, traceback"),
        "tokens": tables.read("tokens", "trajectory_id"),
        "messages": tables.read("messages", "trajectory_id"),
        "transitions": tables.read("transitions", "trajectory_id, trace IS NOT NULL, reward"),
        "notes": tables.read("notes", "trajectory_id, event, body IS NOT NULL"),
    }


def test_payloads_go_and_the_summary_stays(filled: Tables) -> None:
    summary = filled.read()
    pruned = prune_payloads(filled.store, chosen(filled, A), policy="prune --where x")
    assert (pruned.trajectories, pruned.rows) == (1, 6)
    assert payloads(filled) == {
        "ops": [(A, 1, False, None), (A, 2, False, None), (B, 1, True, "t"), (B, 2, True, None)],
        "tokens": [(B,)],
        "messages": [(B,)],
        "transitions": [(A, False, 0.5), (B, True, 0.5)],
        "notes": [(A, "note", False), (A, "pruned", True), (B, "note", True)],
    }
    assert filled.read() == summary
    assert filled.read("losses", "reason, count, worker") == [("pruned_payload", 1, "prune")]
    notes = [json.loads(body) for (body,) in filled.read("notes", "body") if body and "policy" in body]
    assert notes == [{"policy": "prune --where x", "whole": False, "reason": "pruned_payload"}]


def test_whole_takes_all_rows_but_those_that_are_counted(filled: Tables) -> None:
    prune_payloads(filled.store, chosen(filled, A), whole=True)
    rows = payloads(filled)
    assert rows["ops"] == [(A, 1, False, None), (B, 1, True, "t"), (B, 2, True, None)]
    assert rows["transitions"] == [(B, True, 0.5)]
    assert rows["notes"] == [(A, "pruned", True), (B, "note", True)]


def test_pruning_again_changes_nothing(filled: Tables) -> None:
    prune_payloads(filled.store, chosen(filled, A))
    before = {name: filled.store.table(name).version for name in ("ops", "notes", "losses", "messages")}
    assert prune_payloads(filled.store, chosen(filled, A)) == (0, 0, 0)
    assert {name: filled.store.table(name).version for name in before} == before
    assert find_prunable(filled.store, chosen(filled, A, B)).ids == {B}


@pytest.mark.parametrize("tables_done", range(6))
def test_after_a_kill_the_next_one_finishes_and_counts_once(
    filled: Tables, tables_done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, count = Table.commit, 0

    def killed(table: Table, *arguments: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        if count > tables_done:
            raise KeyboardInterrupt
        commit(table, *arguments, **options)

    monkeypatch.setattr(Table, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        prune_payloads(filled.store, chosen(filled, A))
    monkeypatch.undo()
    prune_payloads(filled.store, chosen(filled, A, B))
    assert filled.read("losses", "sum(count)") == [(2,)]
    assert sorted(row for row in filled.read("notes", "trajectory_id, event") if row[1] == "pruned") == [
        (A, "pruned"),
        (B, "pruned"),
    ]
    assert filled.read("messages") == []


def test_two_at_once_count_once(filled: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one comes between what the first has read and its commit."""
    commit = Table.commit
    other = TableStore(filled.store.address)
    done = []

    def late(table: Table, *arguments: Any, **options: Any) -> None:
        if not done:
            done.append(True)
            prune_payloads(other, chosen(filled, A))
        commit(table, *arguments, **options)

    monkeypatch.setattr(Table, "commit", late)
    prune_payloads(filled.store, chosen(filled, A))
    assert filled.read("losses", "sum(count)") == [(1,)]
    assert [row for row in filled.read("notes", "trajectory_id, event") if row[1] == "pruned"] == [(A, "pruned")]


def test_the_bytes_are_given_back_at_once_if_somebody_waits_for_them(filled: Tables) -> None:
    before = set((filled.folder / "ops").rglob("*.parquet"))
    prune_payloads(filled.store, chosen(filled, A, B), at_once=True)
    assert not before & set((filled.folder / "ops").rglob("*.parquet"))
    assert len(filled.read("ops")) == 4


def test_a_conflict_that_never_ends_is_said(filled: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*arguments: Any, **options: Any) -> None:
        raise ConflictError("somebody else")

    before = set(filled.folder.rglob("*.parquet"))
    monkeypatch.setattr(Table, "commit", busy)
    with pytest.raises(StoreError, match="all the time; try again later"):
        prune_payloads(filled.store, chosen(filled, A))
    assert set(filled.folder.rglob("*.parquet")) == before
