"""A trajectory is a skeleton: what is large is read when it is asked for, and is the same as if it had been there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rolltrace.query import Store, open_store
from rolltrace.query import contents as contents_module
from rolltrace.query.contents import Contents, OpKey, Pace
from rolltrace.tables import Place, data_file
from tests.tables.conftest import Tables

from .conftest import files_of, prune

TURNS = 90
ID = f"{7:032x}"
PLACE = Place("p", "e", 1)


def turn(number: int, prompt: list[int], reply: list[int], **more: Any) -> dict[str, Any]:
    messages = ",".join(f'{{"role":"user","content":"word {each}"}}' for each in range(number + 1))
    pieces = [f"<{token}>" for token in [*prompt, *reply]]
    return {
        **PLACE._asdict(), "trajectory_id": ID, "validate": False, "worker": "w",
        "op_id": 1000 - number, "name": f"turn {number}", "kind": "llm", "status": "ok", "start_ns": number,
        "end_ns": number + 1, "policy_version": number // 50, "prompt_tokens": len(prompt),
        "response_tokens": len(reply), "tokens": [*prompt, *reply], "logprobs": [-0.5] * len(reply),
        "response_mask": [1] * len(reply),
        "payload": f'{{"inputs":{{"messages":[{messages}],"ids":{{"$column":"prompt_ids"}}}},'
        f'"outputs":{{"content":"reply {number}"}}}}',
        "text": "".join(pieces), "prompt_chars": sum(map(len, pieces[: len(prompt)])),
        "piece_chars": [len(piece) for piece in pieces], **more,
    }  # fmt: skip


def write(store: Path, spans: list[dict[str, Any]]) -> None:
    own = {"trajectory_id": ID, "name": "long", "start_ns": 0, "end_ns": 9, "status": "ok", "tags": '{"level":3}'}
    counts = {"status_rank": 4, "tags_ns": 1, "turns": len(spans), "tool_calls": 0, "tool_errors": 0}
    tokens = [{**span, "ids": span["tokens"], "mask": span["response_mask"]} for span in spans]
    Tables(store).add(place=PLACE, trajectories=[{**own, **counts}], ops=spans, tokens=tokens)


def growing() -> list[dict[str, Any]]:
    spans, seen = [], list[int]()
    for number in range(TURNS):
        prompt, reply = [*seen, number, number + 1], [number + 2]
        spans.append(turn(number, prompt, reply))
        seen = [*prompt, *reply]
    return spans


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("contents") / "store"
    write(store, growing())
    return store


@pytest.fixture(scope="module")
def store(path: Path) -> Store:
    return open_store(path)


def questions_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that the store is asked from now on."""
    asked: list[str] = []
    query = store._engine.query

    def noted(sql: str, *more: Any) -> Any:
        asked.append(sql)
        return query(sql, *more)

    monkeypatch.setattr(store._engine, "query", noted)
    return asked


def test_opening_a_trajectory_reads_no_payload_and_no_tokens(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions_of(store, monkeypatch)
    trajectory = store.trajectory(ID)
    assert [(op.name, op.prompt_tokens, op.response_tokens) for op in trajectory.ops[:2]] == [
        ("turn 0", 2, 1),
        ("turn 1", 5, 1),
    ]
    assert not any("payload" in sql or "logprobs" in sql for sql in asked)


def test_every_op_has_what_was_written_in_whatever_order_they_are_asked(store: Store) -> None:
    trajectory = store.trajectory(ID)
    wanted = growing()
    for number in (89, 0, 50, 1, 88, *range(TURNS)):
        op, span = trajectory.ops[number], wanted[number]
        assert len(op.inputs["messages"]) == number + 1
        assert op.inputs["ids"] == span["tokens"][:-1]
        assert op.outputs == {"content": f"reply {number}"}
        assert op.response_text == f"<{number + 2}>"
        tokens = op.tokens
        assert tokens is not None
        assert (tokens.response_ids, tokens.logprobs, tokens.response_mask) == ([number + 2], [-0.5], [1])
    assert [each.op_id for each in trajectory.tokens] == [span["op_id"] for span in wanted]
    assert trajectory.tokens[3] == trajectory.ops[3].tokens


def test_a_walk_through_all_ops_makes_few_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trajectory = store.trajectory(ID)
    asked = questions_of(store, monkeypatch)
    assert sum(len(op.inputs["messages"]) for op in trajectory.walk()) == TURNS * (TURNS + 1) // 2
    assert len(asked) <= 4


def test_so_many_ops_are_read_at_once_as_fit() -> None:
    pace = Pace()
    first = pace.ops
    pace.learn(first, 100)
    assert pace.ops > first
    pace.learn(pace.ops, 1 << 40)
    assert pace.ops == 1


def test_an_op_that_is_pruned_after_it_was_listed_has_no_payload(tmp_path: Path) -> None:
    write(tmp_path, growing()[:3])
    store = open_store(tmp_path)
    trajectory = store.trajectory(ID)
    prune(tmp_path, {ID})
    again = open_store(tmp_path).trajectory(ID)
    assert again.ops[0].pruned is not None
    assert again.ops[0].inputs == again.ops[0].pruned.mark
    assert list(again.tokens) == []
    store.refresh()  # within a second of its last look it may still read the file that was replaced
    assert trajectory.ops[0].inputs is None  # it is read now, not when the trajectory was opened


def test_large_rows_are_written_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(data_file, "_MAX_GROUP_BYTES", 20_000)
    write(tmp_path, growing())
    (file,) = files_of(tmp_path, "ops")
    assert pq.read_metadata(file).num_row_groups > 3
    assert len(open_store(tmp_path).trajectory(ID).ops[89].inputs["messages"]) == TURNS


def test_the_tokens_of_all_turns_are_one_sequence(store: Store) -> None:
    sequence = store.trajectory(ID).token_sequence()
    assert sequence.ids == growing()[-1]["tokens"]
    assert sequence.breaks == []
    assert [(each.start, each.end, each.kind) for each in sequence.segments[:3]] == [
        (0, 2, "prompt"),
        (2, 3, "response"),
        (3, 5, "prompt"),
    ]
    assert {each.policy_version for each in sequence.segments} == {0, 1}


def test_results_are_sequences_and_tags_are_objects(path: Path) -> None:
    with open_store(path) as store:
        found = store.trajectories()
        assert found[0]["trajectory_id"] == found[-1]["trajectory_id"] == ID
        assert found[0]["tags"] == {"level": 3} == store.trajectory(ID).tags
        assert found[:5] == found.rows() == list(found)
        assert len(found) == found.total == 1
        with pytest.raises(IndexError):
            found[1]
    assert len(store.trajectories()) == 1  # a closed store opens again


def test_threads_that_look_at_one_trajectory_do_not_get_the_payload_of_another_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [OpKey(ID, number, number) for number in range(8)]
    pace = Pace()
    pace.ops = 1
    monkeypatch.setattr(Pace, "learn", lambda *_: None)

    def read(wanted: Sequence[OpKey], columns: Sequence[str]) -> pa.Table:
        return pa.table({"op_id": [key.op_id for key in wanted], "payload": [str(key.op_id) for key in wanted]})

    contents = Contents(keys, read, set, (pace, Pace()))
    wrong: list[object] = []

    def look(op_id: int) -> None:
        for _ in range(500):
            if (value := contents.value(op_id, "payload")) != str(op_id):
                wrong.append(value)
            contents.release()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=look, args=(key.op_id,)) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_windows_of_prompts_that_grow_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents_module, "_WINDOW_BYTES", 100_000)
    keys, sizes = [OpKey(ID, number, number) for number in range(1_000)], []

    def read(wanted: Sequence[OpKey], columns: Sequence[str]) -> pa.Table:
        table = pa.table({"op_id": [key.op_id for key in wanted], "payload": ["x" * key.op_id for key in wanted]})
        sizes.append(table.nbytes)
        return table

    contents = Contents(keys, read, set)
    for key in keys:
        assert contents.value(key.op_id, "payload") == "x" * key.op_id
    assert max(sizes) < 200_000
