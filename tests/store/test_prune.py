"""Space is given back, the summary stays, and what was removed is counted."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rolltrace.journal import journal_folder
from rolltrace.record.tables import FLAGS, NOTES, SCORES, SPANS, TEXTS, TRAJECTORIES, TRANSITIONS
from rolltrace.store import (
    Partition,
    compact,
    finish_pruning,
    list_parts,
    prepare,
    prunable,
    prune,
    pruning_is_planned,
    remove_replaced,
    write_part,
)
from tests.draining import rows
from tests.nightly import nightly


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
    assert {row["trajectory_id"]: row["text"] for row in rows(store, "texts")} == {"b": "x" * 900}


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
    journal_folder(store).mkdir(parents=True)
    segment = journal_folder(store) / "w-000000.seg"
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


def test_texts_go_and_the_words_of_an_error_stay(store: Path) -> None:
    where = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "t", "op_id": 5}
    place = Partition("p", "e", 1)
    said = {"text": "a long text", "piece_chars": [1, 2], "prompt_chars": 3}
    failed = {"error": "ValueError: x", "traceback": "Traceback ...", "finish_reason": "length", "tokenizer": "f00"}
    write_part(store, place, SPANS, "w-000003", [{**where, **said, **failed, "kind": "llm", "logprobs": [0.5]}])
    write_part(store, place, TEXTS, "w-000003", [{**where, **said}])
    write_part(store, place, TRANSITIONS, "w-000003", [{**where, "trace": "{}", "reward": 1.5, "stop_reason": "done"}])
    write_part(store, place, NOTES, "w-000003", [{**where, "event": "note", "body": "{}"}])
    write_part(store, place, FLAGS, "w-000003", [{**where, "flag": "cut", "detail": "{}"}])
    assert prune(store, {"t"}).trajectories == 1
    (span,) = [row for row in rows(store, "spans") if row["trajectory_id"] == "t"]
    assert [span[name] for name in ("text", "piece_chars", "traceback", "logprobs")] == [None] * 4
    assert {name: span[name] for name in failed if name != "traceback"} == {
        "error": "ValueError: x", "finish_reason": "length", "tokenizer": "f00"
    }  # fmt: skip
    (transition,) = rows(store, "transitions")
    assert (transition["trace"], transition["reward"], transition["stop_reason"]) == (None, 1.5, "done")
    assert rows(store, "texts") == []
    assert [row["body"] for row in rows(store, "notes") if row["event"] == "note"] == [None]
    assert [row["detail"] for row in rows(store, "flags")] == ["{}"], "flags are part of the summary"


def test_a_reason_can_be_given(store: Path) -> None:
    prune(store, {"a"}, reason="retention")
    assert [row["reason"] for row in rows(store, "losses")] == ["retention"]


def test_only_the_steps_that_are_meant_are_looked_at(store: Path) -> None:
    assert prune(store, {"a"}, steps=lambda folder: folder.name == "step=2") == (0, 0, 0)
    assert prune(store, {"a"}, steps=lambda folder: folder.name == "step=1").trajectories == 1


def test_what_could_be_pruned_is_what_has_something_to_lose(store: Path) -> None:
    place = Partition("p", "e", 1)
    assert prunable(store, {"a", "b", "unknown"}).steps == {place: {"a", "b"}}
    prune(store, {"a"})
    assert prunable(store, {"a", "b"}).steps == {place: {"b"}}
    assert prunable(store, {"a"}, whole=True).steps == {place: {"a"}}


@pytest.mark.parametrize("whole", [False, True])
def test_how_many_bytes_would_go_is_known_before(tmp_path: Path, whole: bool) -> None:
    where = {"project": "p", "experiment": "e", "step": 1}
    noise = random.Random(0)
    spans = [
        {**where, "trajectory_id": name, "op_id": n, "payload": noise.randbytes(20_000).hex(), "name": "act"}
        for name in "abcd"
        for n in range(3)
    ]
    write_part(tmp_path, Partition("p", "e", 1), SPANS, "w-000000", spans)
    foreseen = prunable(tmp_path, {"a"}, whole=whole).bytes
    assert foreseen == pytest.approx(prune(tmp_path, {"a"}, whole=whole).bytes, rel=0.25)


class Killed(BaseException):
    """Stands for a kill at this very moment."""


@contextmanager
def killed_at(operation: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The process is killed just before its nth rename, link or removal of a file. Gives how many there were."""
    done, thread = [0], threading.get_ident()

    def counting(name: str) -> Callable[..., Any]:
        real = os.link if name == "link" else getattr(Path, name)

        def act(path: Path, *args: Any, **options: Any) -> Any:
            is_tidying = path.name.startswith(".") and name == "unlink"  # which a killed process does not do
            if threading.get_ident() == thread and not is_tidying:  # a keeper of an earlier test may still end
                done[0] += 1
                if done[0] == operation:
                    raise Killed
            return real(path, *args, **options)

        return act

    with monkeypatch.context() as patch:
        for name in ("rename", "unlink"):
            patch.setattr(Path, name, counting(name))
        patch.setattr(os, "link", counting("link"))
        try:
            yield done
        except Killed:
            pass


@pytest.mark.parametrize("whole", [False, True])
def test_killed_at_any_moment_and_done_again_gives_the_same(
    store: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    where = {"project": "p", "experiment": "e", "step": 2, "payload": "y" * 99}
    for part in range(2):
        spans = [{**where, "trajectory_id": name, "op_id": part} for name in "cd"]
        write_part(store, Partition("p", "e", 2), SPANS, f"w-00000{part}", spans)
    copies = tmp_path_factory.mktemp("copies")
    for operation in range(1 + whole, 100, nightly(1, 3)):
        copy = Path(shutil.copytree(store, copies / str(operation)))
        with killed_at(operation, monkeypatch) as done:
            prune(copy, {"a", "c", "d"}, whole=whole, reason="retention")
            remove_replaced(copy, grace_sec=0)
        prune(copy, {"a", "c", "d"}, whole=whole, reason="retention")
        remove_replaced(copy, grace_sec=0)
        assert {row["step"]: row["count"] for row in rows(copy, "losses")} == {1: 1, 2: 2}, f"killed at {operation}"
        left = {row["trajectory_id"] for row in rows(copy, "spans") if row["payload"] is not None}
        assert left == {"b"}
        assert len(rows(copy, "spans")) == (3 if whole else 10)
        assert not pruning_is_planned(copy)
        if done[0] < operation:
            break
    assert operation > 8


def test_a_plan_that_a_killed_run_left_is_carried_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with killed_at(4, monkeypatch):  # the plan is there, no part is
        prune(store, {"a"})
    assert pruning_is_planned(store)
    finish_pruning(store)
    assert [row["count"] for row in rows(store, "losses")] == [1]
    assert not pruning_is_planned(store)


def test_a_plan_that_cannot_be_read_is_no_plan(store: Path) -> None:
    plans = store / "upkeep" / "plans"
    plans.mkdir(parents=True)
    (plans / "00000001.json").write_text("nonsense")
    assert prune(store, {"a"}).trajectories == 1
    assert not pruning_is_planned(store)
