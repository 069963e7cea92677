"""Our own records come back as they were, once, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import rolltrace
from rolltrace.exchange.importer import ImportReport
from rolltrace.query import Store, open_store

from .conftest import Importer, export, start, write


def test_own_records_survive_the_round_trip(reader: Store, exported: str, tmp_path: Path, into: Importer) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(exported)
    assert into("jsonl", file, project=None) == ImportReport(12, 0, 0)
    assert export(into.store) == exported
    for table in ("spans", "scores", "notes", "transitions"):
        assert into.count(table) == reader.sql(f"SELECT count(*) AS n FROM {table}").rows()[0]["n"]
    # Token columns; as repr, because NaN is not NaN.
    question = "SELECT op_id, prompt_tokens, response_tokens, response_ids, logprobs, outputs FROM spans ORDER BY op_id"
    assert repr(into.store.sql(question).rows()) == repr(reader.sql(question).rows())


def test_a_last_word_and_a_trained_step_survive_the_round_trip(tmp_path: Path, into: Importer) -> None:
    start(tmp_path / "run")
    with rolltrace.rollout_trace_attr(7, step=1, rollout_n=0) as handle:
        handle.transition({"prompt": "p"}, reward=0.25, metrics={"a": 1})
        handle.transition({"prompt": "q"}, reward=0.5, episode_done=False)
        handle.amend_transition(turn=0, reward=None, metrics={"b": 2})
        handle.amend_transition(episode_done=True, stop_reason="max_turns")
        handle.amend_transition(turn=9, reward=1.0)
    with rolltrace.rollout_trace_group(7, 1):
        pass
    rolltrace.score(handle, "fate", "trained", trained_step=3)
    rolltrace.shutdown()
    file = tmp_path / "run.jsonl"
    file.write_text(export(tmp_path / "run"))
    assert into("jsonl", file, project=None) == ImportReport(1, 0, 0)
    assert export(into.store) == file.read_text()
    assert len(into.store.trajectories(where="trained_step = 3")) == 1


def test_records_come_back_into_the_store_they_are_from_only_once(run: Path, exported: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(exported)
    assert Importer(run)("jsonl", file, project=None) == ImportReport(0, 12, 0)
    assert export(run) == exported


def test_records_in_another_experiment_are_other_trajectories(run: Path, exported: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(exported)
    again = Importer(run)
    assert again("jsonl", file, project="p", experiment="copy") == ImportReport(12, 0, 0)
    rows = again.store.experiments().rows()
    assert {row["experiment"]: row["trajectories"] for row in rows} == {"e": 12, "copy": 12}
    inner = again.store.trajectories(experiment="copy", sample_index="inner").rows()[0]["trajectory_id"]
    outer = again.store.trajectories(experiment="copy", sample_index="outer").rows()[0]["trajectory_id"]
    assert again.store.trajectory(inner).parent_trajectory_id == outer


def test_the_batches_of_a_large_file_are_cut_the_same_way_each_time(
    exported: str, tmp_path: Path, into: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolltrace.exchange.importer._CHUNK_BYTES", 1000)
    file = tmp_path / "run.jsonl"
    file.write_text(exported)
    for _ in range(2):
        into("jsonl", file, project=None)
        assert export(into.store) == exported
    assert len(list((into.path / "trajectories").rglob("*.parquet"))) > 2


OWN = {
    "rolltrace": 1, "trajectory_id": "0" * 31 + "1", "project": "p", "experiment": "e", "name": "n", "start_ns": 1,
    "ops": [{"op_id": 1, "name": "o", "kind": "llm", "start_ns": 1}],
}  # fmt: skip


DAMAGED: list[tuple[dict[str, Any], str]] = [
    ({"rolltrace": None}, "not a record of"),
    ({"rolltrace": 2}, "newer rolltrace"),
    ({"trajectory_id": "../../etc"}, "32 hexadecimal"),
    ({"parent_trajectory_id": 5}, "32 hexadecimal"),
    ({"project": None}, "project and experiment"),
    ({"step": "three"}, "step must be a whole number"),
    ({"step": True}, "step must be a whole number"),
    ({"step": 1 << 70}, "step must be a whole number"),
    ({"rollout_n": 0.5}, "rollout_n must be a whole number"),
    ({"sample_index": [1]}, "sample_index must be"),
    ({"validate": "no"}, "validate must be"),
    ({"start_ns": 1 << 64}, "start_ns does not fit"),
    ({"name": 5}, "name and start_ns"),
    ({"ops": 5}, "ops must be a list"),
    ({"ops": [1]}, "ops must be a list"),
    ({"ops": [{"name": "o"}]}, "no op_id"),
    ({"ops": [{"op_id": 1 << 64, "name": "o", "start_ns": 1}]}, "op_id does not fit"),
    ({"ops": [{"op_id": 1, "name": "o", "start_ns": 1, "prompt_tokens": 1 << 40}]}, "prompt_tokens does not fit"),
    ({"ops": [{"op_id": 1, "name": "o", "start_ns": 1, "children": 7}]}, "children must be"),
    ({"scores": [{"name": "reward", "value": "high"}]}, "value must be a number"),
    ({"scores": [{"name": "reward", "value": 10**400}]}, "value is too large"),
    ({"notes": [{"event": 4}]}, "event must be text"),
]
"""What is wrong in a record -> what is said of it."""


def test_a_damaged_record_is_refused_and_the_rest_imported(tmp_path: Path, into: Importer) -> None:
    good = [{**OWN, "trajectory_id": letter * 32} for letter in "ef"]
    no_ops = {**OWN, "ops": {}}  # as some write an empty list
    records = [good[0], *({**OWN, **change} for change, _ in DAMAGED), no_ops, good[1]]
    file = write(tmp_path / "x.jsonl", records)
    assert into("jsonl", file, project=None) == ImportReport(3, 0, len(DAMAGED))
    for number, (bad, (_, reason)) in enumerate(zip(into.bad, DAMAGED, strict=True), start=2):
        assert reason in str(bad)
        assert str(bad).startswith(f"{file}:{number}: ")


def test_an_id_that_is_twice_in_a_file_is_refused(tmp_path: Path, into: Importer) -> None:
    assert into("jsonl", write(tmp_path / "x.jsonl", [OWN, OWN]), project=None) == ImportReport(1, 0, 1)
    assert "was in this file before" in into.bad[0].reason


def test_what_was_running_is_not_running_here(tmp_path: Path, into: Importer) -> None:
    into("jsonl", write(tmp_path / "x.jsonl", [{**OWN, "status": "running"}]), project=None)
    assert into.store.trajectory(OWN["trajectory_id"]).status == "interrupted"  # type: ignore[arg-type]
    assert len(into.store.live().rows()) == 0


def test_text_survives_the_round_trip(tmp_path: Path, byte_level: Tokenizer, into: Importer) -> None:
    class Letters:
        def decode(self, ids: list[int]) -> str:
            return "".join(map(chr, ids))

    class Agent:
        def __init__(self, tokenizer: Any) -> None:
            self.tokenizer = tokenizer

        @rolltrace.rollout_trace_op(kind="llm")
        def generate(self, prompt_ids: list[int]) -> dict[str, Any]:
            return {"token_ids": prompt_ids[::-1]}

    run = tmp_path / "run"
    rolltrace.init("p", "e", "rolltrace", store=run, token2text=True, drain="off")
    with rolltrace.rollout_trace_attr(1, step=1):
        Agent(byte_level).generate(byte_level.encode("你好 🚀 \x1b").ids)
        Agent(Letters()).generate(list(map(ord, "你好 🚀")))
    rolltrace.shutdown()
    recorded = open_store(run)
    first = export(recorded)
    file = tmp_path / "run.jsonl"
    file.write_text(first)
    assert into("jsonl", file, project=None) == ImportReport(1, 0, 0)
    assert export(into.store) == first
    question = "SELECT prompt_text, response_text, piece_chars, tokenizer FROM spans ORDER BY start_ns"
    after = into.store.sql(question).rows()
    assert after == recorded.sql(question).rows()
    assert [row["prompt_text"] for row in after] == ["你好 🚀 \x1b", "你好 🚀"]


@pytest.mark.parametrize("wrong", [[1, "x"], [1 << 40], "text", [[1]]])
def test_pieces_that_are_no_numbers_are_refused(tmp_path: Path, into: Importer, wrong: Any) -> None:
    op = {"op_id": 1, "name": "n", "start_ns": 1, "piece_chars": wrong}
    record = {"rolltrace": 1, "trajectory_id": "a" * 32, "project": "p", "experiment": "e", "name": "n", "start_ns": 1}
    assert into("jsonl", write(tmp_path / "x.jsonl", [{**record, "ops": [op]}])).malformed == 1
    assert "piece_chars must be whole numbers" in str(into.bad[0])
