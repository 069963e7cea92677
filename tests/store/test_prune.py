"""Space is given back, the summary stays, and what was removed is counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rolltrace.record.tables import SCORES, SPANS, TEXTS, TRAJECTORIES
from rolltrace.store import Partition, compact, list_parts, prepare, prune, write_part


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two trajectories, `a` and `b`, of three ops each, in one part."""
    prepare(tmp_path)
    where = {"project": "p", "experiment": "e", "step": 1}
    place = Partition("p", "e", 1)
    spans = [
        {**where, "trajectory_id": name, "op_id": n, "tokens": [1] * 500, "prompt_tokens": 500, "payload": "x" * 900}
        for name in "ab"
        for n in range(3)
    ]
    write_part(tmp_path, place, SPANS, "w-000000", spans)
    write_part(tmp_path, place, TRAJECTORIES, "w-000000", [{**where, "trajectory_id": name} for name in "ab"])
    write_part(tmp_path, place, SCORES, "w-000000", [{**where, "trajectory_id": name, "value": 1.0} for name in "ab"])
    return tmp_path


def rows(store: Path, table: str) -> list[dict[str, object]]:
    return [row for part in list_parts(store, table) for row in pq.read_table(part, partitioning=None).to_pylist()]


def test_payloads_go_and_small_columns_stay(store: Path) -> None:
    pruned = prune(store, {"a"})
    assert (pruned.trajectories, pruned.rows) == (1, 3)
    by_id = {(row["trajectory_id"], row["op_id"]): row for row in rows(store, "spans")}
    assert len(by_id) == 6
    assert (by_id["a", 0]["payload"], by_id["a", 0]["tokens"], by_id["a", 0]["prompt_tokens"]) == (None, None, 500)
    assert (by_id["b", 0]["payload"], by_id["b", 0]["tokens"]) == ("x" * 900, [1] * 500)


def test_texts_that_came_later_go_with_the_payloads(store: Path) -> None:
    where = {"project": "p", "experiment": "e", "step": 1}
    texts = [{**where, "trajectory_id": name, "op_id": 0, "text": "x" * 900, "piece_chars": [900]} for name in "ab"]
    write_part(store, Partition("p", "e", 1), TEXTS, "w-000000", texts)
    prune(store, {"a"})
    assert {row["trajectory_id"]: row["text"] for row in rows(store, "texts")} == {"a": None, "b": "x" * 900}


def test_whole_trajectories_go_and_their_summary_stays(store: Path) -> None:
    prune(store, {"a"}, whole=True)
    assert {row["trajectory_id"] for row in rows(store, "spans")} == {"b"}
    assert {row["trajectory_id"] for row in rows(store, "trajectories")} == {"a", "b"}
    assert len(rows(store, "scores")) == 2


def test_model_and_tool_calls_keep_what_the_summary_counts(store: Path) -> None:
    where = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "c"}
    calls = [{**where, "op_id": n, "kind": kind, "payload": "x"} for n, kind in enumerate(["llm", "tool", "other"])]
    write_part(store, Partition("p", "e", 1), SPANS, "w-000007", calls)
    assert prune(store, {"c"}, whole=True).trajectories == 1
    left = [row for row in rows(store, "spans") if row["trajectory_id"] == "c"]
    assert [(row["kind"], row["payload"]) for row in left] == [("llm", None), ("tool", None)]
    assert prune(store, {"c"}, whole=True).trajectories == 0


def test_what_was_removed_is_counted_per_step(store: Path) -> None:
    prune(store, {"a", "b"})
    (loss,) = rows(store, "losses")
    assert (loss["reason"], loss["step"], loss["count"]) == ("pruned_payload", 1, 2)


def test_pruning_again_changes_nothing(store: Path) -> None:
    prune(store, {"a"})
    before = list_parts(store)
    assert prune(store, {"a"}) == (0, 0, 0)
    assert list_parts(store) == before


def test_a_part_whose_segment_still_exists_is_left_for_the_next_time(store: Path) -> None:
    (store / "journal" / "host").mkdir(parents=True)
    segment = store / "journal" / "host" / "w-000000.seg"
    segment.touch()
    assert prune(store, {"a"}).trajectories == 0
    segment.unlink()
    assert prune(store, {"a"}).trajectories == 1


def test_pruned_parts_can_be_compacted(store: Path) -> None:
    prune(store, {"a"})
    late = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "c", "op_id": 9, "payload": "late"}
    write_part(store, Partition("p", "e", 1), SPANS, "w-000001", [late])
    compact(store)
    assert sorted(str(row["payload"])[:4] for row in rows(store, "spans")) == ["None"] * 3 + ["late"] + ["xxxx"] * 3
