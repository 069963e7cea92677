"""Imports: what comes in, what is refused, and that nothing is there twice."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import rolltrace
from rolltrace.drain import Drainer
from rolltrace.errors import ConfigError, StoreError
from rolltrace.exchange import EXPORTS, IMPORTS
from rolltrace.exchange.importer import BadLine, ImportReport, Target, import_files
from rolltrace.exchange.selection import select
from rolltrace.query import Store, open_store
from rolltrace.store import compact

from .conftest import HOSTILE


def export(store: Path, name: str = "jsonl") -> str:
    out = io.StringIO()
    EXPORTS[name].write(select(open_store(store)), out)
    return out.getvalue()


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


class Importer:
    """Imports into one store, and remembers what was refused."""

    def __init__(self, store: Path) -> None:
        self.path = store
        self.bad: list[BadLine] = []

    def __call__(self, name: str, *paths: Path, project: str | None = "p", **target: Any) -> ImportReport:
        self.bad.clear()
        where = Target(self.path, project, target.pop("experiment", project and "e"), **target)
        return import_files(IMPORTS[name].reader, paths, where, on_bad=self.bad.append)

    @property
    def store(self) -> Store:
        return open_store(self.path)

    def count(self, table: str) -> int:
        found: int = self.store.sql(f"SELECT count(*) AS n FROM {table}").rows()[0]["n"]
        return found


@pytest.fixture
def into(tmp_path: Path) -> Importer:
    return Importer(tmp_path / "target")


# Our own records


def test_own_records_survive_the_round_trip(run: Path, tmp_path: Path, into: Importer) -> None:
    first = export(run)
    file = tmp_path / "run.jsonl"
    file.write_text(first)
    assert into("jsonl", file, project=None) == ImportReport(12, 0, 0)
    assert export(into.path) == first
    for table in ("spans", "scores", "notes", "transitions"):
        assert into.count(table) == open_store(run).sql(f"SELECT count(*) AS n FROM {table}").rows()[0]["n"]


def test_token_columns_survive_the_round_trip(run: Path, tmp_path: Path, into: Importer) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(export(run))
    into("jsonl", file, project=None)
    question = "SELECT op_id, prompt_tokens, response_tokens, response_ids, logprobs, outputs FROM spans ORDER BY op_id"
    before, after = open_store(run).sql(question).rows(), into.store.sql(question).rows()
    assert repr(after) == repr(before)  # repr, because NaN is not NaN


def test_records_come_back_into_the_store_they_are_from_only_once(run: Path, tmp_path: Path) -> None:
    before = export(run)
    file = tmp_path / "run.jsonl"
    file.write_text(before)
    assert Importer(run)("jsonl", file, project=None) == ImportReport(0, 12, 0)
    assert export(run) == before


def test_records_in_another_experiment_are_other_trajectories(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(export(run))
    again = Importer(run)
    assert again("jsonl", file, project="p", experiment="copy") == ImportReport(12, 0, 0)
    rows = again.store.experiments().rows()
    assert {row["experiment"]: row["trajectories"] for row in rows} == {"e": 12, "copy": 12}
    inner = again.store.trajectories(experiment="copy", sample_index="inner").rows()[0]["trajectory_id"]
    outer = again.store.trajectories(experiment="copy", sample_index="outer").rows()[0]["trajectory_id"]
    assert again.store.trajectory(inner).parent_trajectory_id == outer


def test_the_parts_of_a_large_file_are_cut_the_same_way_each_time(
    run: Path, tmp_path: Path, into: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolltrace.exchange.importer._CHUNK_BYTES", 1000)
    file = tmp_path / "run.jsonl"
    file.write_text(export(run))
    for _ in range(2):
        into("jsonl", file, project=None)
        assert export(into.path) == export(run)
    assert len(list(into.path.rglob("trajectories--*.parquet"))) > 2


OWN = {
    "rolltrace": 1, "trajectory_id": "0" * 31 + "1", "project": "p", "experiment": "e", "name": "n", "start_ns": 1,
    "ops": [{"op_id": 1, "name": "o", "kind": "llm", "start_ns": 1}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
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
        ({"ops": {}}, None),
        ({"ops": 5}, "ops must be a list"),
        ({"ops": [1]}, "ops must be a list"),
        ({"ops": [{"name": "o"}]}, "no op_id"),
        ({"ops": [{"op_id": 1 << 64, "name": "o", "start_ns": 1}]}, "op_id does not fit"),
        ({"ops": [{"op_id": 1, "name": "o", "start_ns": 1, "prompt_tokens": 1 << 40}]}, "prompt_tokens does not fit"),
        ({"ops": [{"op_id": 1, "name": "o", "start_ns": 1, "children": 7}]}, "children must be"),
        ({"scores": [{"name": "reward", "value": "high"}]}, "value must be a number"),
        ({"scores": [{"name": "reward", "value": 10**400}]}, "value is too large"),
        ({"notes": [{"event": 4}]}, "event must be text"),
    ],
)
def test_a_damaged_record_is_refused_and_the_rest_imported(
    change: dict[str, Any], reason: str | None, tmp_path: Path, into: Importer
) -> None:
    good = {**OWN, "trajectory_id": "f" * 32}
    file = write(tmp_path / "x.jsonl", [{**OWN, **change}, good])
    done = into("jsonl", file, project=None)
    assert (done.imported, done.malformed) == ((2, 0) if reason is None else (1, 1))
    if reason is not None:
        assert reason in str(into.bad[0])
        assert str(into.bad[0]).startswith(f"{file}:1: ")


def test_an_id_that_is_twice_in_a_file_is_refused(tmp_path: Path, into: Importer) -> None:
    assert into("jsonl", write(tmp_path / "x.jsonl", [OWN, OWN]), project=None) == ImportReport(1, 0, 1)
    assert "was in this file before" in into.bad[0].reason


def test_what_was_running_is_not_running_here(tmp_path: Path, into: Importer) -> None:
    into("jsonl", write(tmp_path / "x.jsonl", [{**OWN, "status": "running"}]), project=None)
    assert into.store.trajectory(OWN["trajectory_id"]).status == "interrupted"  # type: ignore[arg-type]
    assert len(into.store.live().rows()) == 0


# verl


def verl_lines(step: int) -> list[dict[str, Any]]:
    return [
        {
            "input": f"user\nquestion {at // 2}", "output": f"answer {at}", "gts": "42", "score": at / 4, "step": step,
            "acc": at % 2 == 0, "format_reward": 0.5, "pred": "41",
        }
        for at in range(4)
    ]  # fmt: skip


def test_verl_dumps_become_groups_of_rollouts(tmp_path: Path, into: Importer) -> None:
    for step in (1, 2, 10):
        write(tmp_path / "dumps" / f"{step}.jsonl", verl_lines(step))
    assert into("verl", tmp_path / "dumps") == ImportReport(12, 0, 0)
    rows = into.store.trajectories(step=10).rows()
    assert [(row["sample_index"], row["rollout_n"], row["reward"]) for row in rows] == [
        (0, 0, 0.0), (0, 1, 0.25), (2, 0, 0.5), (2, 1, 0.75),
    ]  # fmt: skip
    trajectory = into.store.trajectory(rows[3]["trajectory_id"])
    assert trajectory.conversation == [
        {"role": "user", "content": "user\nquestion 1"}, {"role": "assistant", "content": "answer 3"},
    ]  # fmt: skip
    assert trajectory.tags == {"gts": "42", "pred": "41"}
    assert trajectory.scores[0]["terms"] == {"acc": 0.0, "format_reward": 0.5}
    assert into.store.trajectories(where="group.spread > 0.2 and tag.gts = '42'").rows()


def test_verl_lines_without_a_step_take_that_of_the_file(tmp_path: Path, into: Importer) -> None:
    line = {"input": "q", "output": "a", "score": math.nan}
    for step in (3, 4):
        write(tmp_path / f"{step}.jsonl", [line, line])
    assert into("verl", tmp_path / "3.jsonl", tmp_path / "4.jsonl").imported == 4
    assert [row["step"] for row in into.store.trajectories().rows()] == [3, 3, 4, 4]
    assert math.isnan(into.store.trajectories().rows()[0]["reward"])


def test_validation_dumps_are_told_apart(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "1.jsonl", verl_lines(1))
    into("verl", file)
    into("verl", file, validate=True)
    assert [row["validate"] for row in into.store.trajectories().rows()] == [False] * 4 + [True] * 4


def test_verl_needs_project_and_experiment(tmp_path: Path, into: Importer) -> None:
    with pytest.raises(ConfigError, match="--project"):
        into("verl", write(tmp_path / "1.jsonl", verl_lines(1)), project=None)


# tinker


SUMMARY = {
    "schema_version": 1, "split": "train", "iteration": 3, "group_idx": 5, "traj_idx": 1, "tags": ["math"],
    "sampling_client_step": 2, "total_reward": 1.5, "final_reward": 1.0,
    "trajectory_metrics": {"correct": 1, "difficulty": "hard"}, "final_ob_len": 60,
    "steps": [
        {"step_idx": 0, "ob_len": 20, "ac_len": 8, "reward": 0.5, "episode_done": False, "metrics": {"valid": 1.0},
         "logs": {"action": HOSTILE}},
        {"step_idx": 1, "ob_len": 40, "ac_len": 12, "reward": 0.0, "episode_done": True, "metrics": {}, "logs": {}},
    ],
}  # fmt: skip


def test_tinker_summaries_keep_coordinates_rewards_and_steps(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "train_rollout_summaries.jsonl", [SUMMARY])
    assert into("tinker", file) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    wanted = {
        "step": 3, "sample_index": 5, "rollout_n": 1, "validate": False, "reward": 1.5, "turns": 2,
        "prompt_tokens": 40, "response_tokens": 20, "policy_version_min": 2,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert [each["reward"] for each in trajectory.transitions] == [0.5, 0.0]
    assert trajectory.transitions[0]["fields"]["logs"] == {"action": HOSTILE}
    assert trajectory.transitions[1]["fields"]["episode_done"] is True
    assert trajectory.scores[0]["terms"] == {"correct": 1.0, "final_reward": 1.0}
    assert trajectory.tags == {"split": "train", "tags": ["math"], "final_ob_len": 60, "difficulty": "hard"}


def test_tinker_evaluations_of_one_iteration_stay_apart(tmp_path: Path, into: Importer) -> None:
    lines = [{**SUMMARY, "split": split} for split in ("train", "eval/gsm8k", "eval/math")]
    into("tinker", write(tmp_path / "x.jsonl", lines))
    rows = into.store.trajectories().rows()
    assert [(row["sample_index"], row["validate"]) for row in rows] == [
        (5, False), ("eval/gsm8k/5", True), ("eval/math/5", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"steps": None}, {"steps": [3]}, {"iteration": "x"}, {"total_reward": "much"},
     {"trajectory_metrics": [1]}, {"steps": [{"ob_len": 1 << 40}]}, {"traj_idx": 0.5}],
)  # fmt: skip
def test_a_damaged_summary_is_refused(change: dict[str, Any], tmp_path: Path, into: Importer) -> None:
    assert into("tinker", write(tmp_path / "x.jsonl", [{**SUMMARY, **change}, SUMMARY])) == ImportReport(1, 0, 1)


# Chat


CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": HOSTILE},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "done"},
]


def test_a_conversation_becomes_ops(tmp_path: Path, into: Importer) -> None:
    line = {"messages": CHAT, "reward": 0.5, "step": 4, "sample_index": "a", "rollout_n": 2, "source": {"web": True}}
    assert into("chat", write(tmp_path / "x.jsonl", [line])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert (row["step"], row["sample_index"], row["rollout_n"], row["reward"]) == (4, "a", 2, 0.5)
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert [(op.kind, op.name) for op in trajectory.ops] == [
        ("llm", "assistant"), ("tool", "search"), ("llm", "assistant"),
    ]  # fmt: skip
    assert trajectory.ops[2].inputs == {"messages": CHAT[:4]}
    assert trajectory.ops[2].outputs == {"content": "done"}
    assert (trajectory.ops[1].inputs, trajectory.ops[1].outputs) == ('{"q": "x"}', "found")
    assert trajectory.conversation == CHAT
    assert trajectory.tags == {"source": {"web": True}}


def test_what_follows_the_last_reply_is_kept(tmp_path: Path, into: Importer) -> None:
    messages = [*CHAT, {"role": "user", "content": "thanks"}]
    into("chat", write(tmp_path / "x.jsonl", [{"messages": messages}, {"messages": messages[:2]}]))
    for row, said in zip(into.store.trajectories(order="start_ns").rows(), (messages[5:], messages[:2])):
        assert into.store.trajectory(row["trajectory_id"]).ops[-1].outputs == {"messages": said}


def test_sft_lines_come_back_as_the_same_trajectories(run: Path, tmp_path: Path, into: Importer) -> None:
    lines = export(run, "sft")
    file = tmp_path / "sft.jsonl"
    file.write_text(lines)
    assert into("chat", file, project=None).imported == 8
    assert export(into.path, "sft") == lines


@pytest.mark.parametrize(
    "line",
    ['{"messages": []}', '{"messages": "hi"}', '{"messages": [{"content": "x"}]}', '{"messages": [1]}', "[1]", "7",
     "null", '{"messages": [{"role": "user"}], "reward": "1"}', "{", "\x00", "[" * 100_000, '{"a": ' * 100_000,
     '{"messages": [{"role": "user"}], "name": 5}', '{"messages": [{"role": "user"}], "validate": 5}', "\ufeffno"],
)  # fmt: skip
def test_a_malformed_line_is_named_and_the_rest_imported(line: str, tmp_path: Path, into: Importer) -> None:
    good = {"messages": CHAT}
    file = write(tmp_path / "x.jsonl", [good, "", line, good])
    assert into("chat", file) == ImportReport(2, 0, 1)
    assert (into.bad[0].path, into.bad[0].number) == (file, 3)
    assert len(into.store.trajectories().rows()) == 2


def test_odd_but_valid_text_is_imported(tmp_path: Path, into: Importer) -> None:
    line = '{"messages": [{"role": "assistant", "content": "\\ud800 \\u0000 x"}], "reward": NaN, "t\\udfff": 1e999}'
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n" + b'{"messages": "\xff"}')
    assert into("chat", file) == ImportReport(1, 0, 1)
    (row,) = into.store.trajectories().rows()
    assert math.isnan(row["reward"])
    assert into.store.trajectory(row["trajectory_id"]).tags == {"t\\udfff": math.inf}


def test_secrets_are_taken_out(tmp_path: Path, into: Importer) -> None:
    secret = "sk-proj-" + "a1" * 20
    file = write(tmp_path / "x.jsonl", [{"messages": [{"role": "assistant", "content": secret}], "api_key": secret}])
    into("chat", file)
    assert secret not in export(into.path)
    assert "[redacted: openai key]" in export(into.path)


# Repeating


def test_importing_again_changes_nothing(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "x.jsonl", [{"messages": CHAT, "reward": 1}] * 3)
    into("chat", file)
    before = export(into.path)
    assert into("chat", file) == ImportReport(3, 0, 0)
    assert export(into.path) == before
    assert into.count("spans") == 9


def test_importing_again_after_compaction_changes_nothing(tmp_path: Path, into: Importer) -> None:
    files = [write(tmp_path / f"{n}.jsonl", [{"messages": CHAT, "n": n}]) for n in range(3)]
    into("chat", *files)
    before = export(into.path)
    assert compact(into.path) > 0
    into("chat", *files)
    assert (export(into.path), into.count("spans")) == (before, 9)


def test_a_file_that_has_grown_adds_only_what_is_new(tmp_path: Path, into: Importer) -> None:
    lines: list[Any] = [{"messages": CHAT, "at": 1}, "broken", {"messages": CHAT, "at": 1}]
    file = write(tmp_path / "x.jsonl", lines)
    assert into("chat", file) == ImportReport(2, 0, 1)
    lines[1] = {"messages": CHAT, "at": 2}
    write(file, [*lines, {"messages": CHAT, "at": 3}])
    for _ in range(2):
        assert into("chat", file) == ImportReport(2, 2, 0)
        assert (len(into.store.trajectories().rows()), into.count("spans")) == (4, 12)


def test_the_same_file_can_be_two_experiments(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "x.jsonl", [{"messages": CHAT}])
    into("chat", file, experiment="a")
    into("chat", file, experiment="b")
    assert (len(into.store.trajectories().rows()), into.count("spans")) == (2, 6)


def test_imports_stand_beside_what_was_traced(run: Path, tmp_path: Path) -> None:
    into = Importer(run)
    into("chat", write(tmp_path / "x.jsonl", [{"messages": CHAT, "step": 1}]))
    drainer = Drainer(run)
    with drainer.working():
        drainer.drain()
    assert len(into.store.trajectories().rows()) == 13


# Files and folders


def test_a_file_that_is_not_there_is_reported(tmp_path: Path, into: Importer) -> None:
    good = write(tmp_path / "x.jsonl", [{"messages": CHAT}])
    (tmp_path / "empty").mkdir()
    assert into("chat", tmp_path / "gone.jsonl", tmp_path / "empty", good) == ImportReport(1, 0, 2)
    assert {bad.path.name: bad.reason for bad in into.bad} == {
        "gone.jsonl": "No such file or directory", "empty": "no .jsonl file in this folder",
    }  # fmt: skip


def test_a_folder_of_other_things_does_not_become_a_store(tmp_path: Path) -> None:
    file = write(tmp_path / "mine" / "x.jsonl", [{"messages": CHAT}])
    with pytest.raises(StoreError, match="is not a store"):
        Importer(tmp_path / "mine")("chat", file)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["x.jsonl"]


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
    first = export(run)
    file = tmp_path / "run.jsonl"
    file.write_text(first)
    assert into("jsonl", file, project=None) == ImportReport(1, 0, 0)
    assert export(into.path) == first
    question = "SELECT prompt_text, response_text, piece_chars, tokenizer FROM spans ORDER BY start_ns"
    after = into.store.sql(question).rows()
    assert after == open_store(run).sql(question).rows()
    assert [row["prompt_text"] for row in after] == ["你好 🚀 \x1b", "你好 🚀"]


@pytest.mark.parametrize("wrong", [[1, "x"], [1 << 40], "text", [[1]]])
def test_pieces_that_are_no_numbers_are_refused(tmp_path: Path, into: Importer, wrong: Any) -> None:
    op = {"op_id": 1, "name": "n", "start_ns": 1, "piece_chars": wrong}
    record = {"rolltrace": 1, "trajectory_id": "a" * 32, "project": "p", "experiment": "e", "name": "n", "start_ns": 1}
    assert into("jsonl", write(tmp_path / "x.jsonl", [{**record, "ops": [op]}])).malformed == 1
    assert "piece_chars must be whole numbers" in str(into.bad[0])
