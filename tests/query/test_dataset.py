"""The same answers, wherever the drainer has come to."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import FormatError, StoreError
from rolltrace.query import FilterError, QueryError, Store, open_store
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from tests.background import eventually
from tests.draining import drain
from tests.nightly import NIGHTLY, nightly

from .conftest import STATES, agent, generate, search, start


def test_each_trajectory_is_listed_once_with_its_summary(reader: Store) -> None:
    result = reader.trajectories()
    assert result.columns == list(TRAJECTORY_COLUMNS)
    assert len(result) == 17
    assert len({row["trajectory_id"] for row in result}) == 17
    (row,) = reader.trajectories(step=10, sample_index=2, rollout_n=1).rows()
    expected = {
        "project": "p", "experiment": "e", "step": 10, "sample_index": 2, "rollout_n": 1, "validate": False,
        "name": "rollout_trace", "status": "ok", "error": None, "turns": 2, "tool_calls": 2, "tool_errors": 2,
        "prompt_tokens": 4, "response_tokens": 8, "reward": 2.1, "policy_version_min": 3, "policy_version_max": 4,
        "flags": ["mixed_policy", "prefix_break", "tool_error"],
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["tags"] == {"difficulty": "schwer"}
    assert row["duration_s"] == pytest.approx((row["end_ns"] - row["start_ns"]) / 1e9)


def test_no_row_of_any_table_is_lost_or_doubled(reader: Store) -> None:
    counts = {
        name: reader.sql(f"SELECT count(*) AS n FROM {name}").rows()[0]["n"]
        for name in ("trajectories", "spans", "transitions", "scores", "notes", "tokens", "latest_scores")
    }
    assert counts == {
        "trajectories": 17, "spans": 12 * 5 + 3, "transitions": 12, "scores": 24, "notes": 12, "tokens": 24,
        "latest_scores": 12,
    }  # fmt: skip
    assert reader.sql("SELECT count(DISTINCT op_id) AS n FROM spans").rows() == [{"n": 63}]


def test_what_was_never_ended_is_interrupted(reader: Store) -> None:
    (row,) = reader.trajectories(where="name = 'never left'").rows()
    assert (row["status"], row["flags"], row["end_ns"], row["duration_s"]) == (
        "interrupted",
        ["interrupted"],
        None,
        None,
    )


def test_an_exception_is_the_status_of_its_trajectory(reader: Store) -> None:
    (row,) = reader.trajectories(sample_index=4).rows()
    assert (row["status"], row["error"], row["sample_index"]) == ("error", "RuntimeError: kaputt", "4")
    assert "raise RuntimeError" in (reader.trajectory(row["trajectory_id"]).traceback or "")


def test_an_op_outside_any_trajectory_is_one_without_coordinates(reader: Store) -> None:
    (row,) = reader.trajectories(where="step is null").rows()
    assert (row["name"], row["sample_index"], row["validate"], row["tool_calls"]) == ("search", None, False, 1)
    assert reader.trajectory(row["trajectory_id"]).ops[0].inputs == {"query": "no trajectory around"}


def test_nested_trajectories_are_linked(reader: Store) -> None:
    outer, inner = reader.trajectories(sample_index="3f2a-uuid", order="-validate")
    assert (outer["name"], outer["turns"], inner["name"], inner["tool_calls"]) == ("outer", 0, "inner", 1)
    assert reader.trajectory(inner["trajectory_id"]).parent_trajectory_id == outer["trajectory_id"]


def test_steps_and_experiments_are_counted(reader: Store) -> None:
    (experiment,) = reader.experiments()
    assert (experiment["trajectories"], experiment["steps"], experiment["last_step"]) == (17, 3, 10)
    steps = [(row["step"], row["validate"], row["trajectories"]) for row in reader.steps()]
    assert steps == [(-1, False, 4), (0, False, 7), (0, True, 1), (10, False, 4), (None, False, 1)]
    assert reader.steps().rows()[0]["reward_mean"] == pytest.approx(6.05)


def test_a_group_and_its_history(reader: Store) -> None:
    assert [row["rollout_n"] for row in reader.group(-1, "10")] == [0, 1]
    history = reader.history(10).rows()
    assert [(row["step"], row["sample_index"], row["size"]) for row in history] == [
        (-1, 10, 2),
        (0, 10, 2),
        (10, 10, 2),
    ]
    assert history[0]["mean"] == pytest.approx(10.05)
    assert history[0]["spread"] == pytest.approx(0.1)


def test_numbers_sort_as_numbers_and_before_other_texts(reader: Store) -> None:
    rows = reader.trajectories(step=0, order="sample_index,rollout_n").rows()
    assert [row["sample_index"] for row in rows] == [2, 2, "4", 5, 10, 10, "3f2a-uuid", "3f2a-uuid"]
    best = reader.trajectories(order="-reward", limit=2, offset=1).rows()
    assert [row["reward"] for row in best] == [10.1, 10.1]


def test_filters_join_the_other_conditions(reader: Store) -> None:
    found = reader.trajectories(step=0, where="reward > 5 and tool = 'search' and flag = 'tool_error'").rows()
    assert [(row["sample_index"], row["rollout_n"]) for row in found] == [(10, 1)]
    assert len(reader.trajectories(where="text ~ 'certificate'")) == 6
    with pytest.raises(FilterError):
        reader.trajectories(where="rewrd < 1")


def test_the_losses_of_a_run(tmp_path: Path) -> None:
    start(tmp_path, max_samples_per_step_per_worker=1)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=7):
            pass
    rolltrace.shutdown()
    store = open_store(tmp_path)
    before = store.losses().rows()
    drain(tmp_path)
    store.refresh()
    assert before == store.losses().rows()
    assert [(row["step"], row["reason"], row["count"]) for row in before] == [(7, "sample_limit", 2)]


HOSTILE_NAMES = (
    "../x/y", "step=3", 'it\'s "quoted"; drop table spans', "项目 ☃", "n" * 300, ".", "a\nb", "%2E", "*[a]?",
)  # fmt: skip


@pytest.mark.parametrize("drained", [False, True])
def test_hostile_names_come_back_as_they_were(tmp_path: Path, drained: bool) -> None:
    path = tmp_path / "it's a [store] *?"
    for name in HOSTILE_NAMES:
        start(path, project_name=name, experiment_name=name)
        with rolltrace.rollout_trace_attr(name, step=1, name=name):
            search(name)
        rolltrace.shutdown()
    if drained:
        drain(path)
    store = open_store(path)
    for name in HOSTILE_NAMES:
        kept = name[:200]  # what a journal's header has room for
        (row,) = store.trajectories(sample_index=name, project=kept, experiment=kept).rows()
        assert (row["project"], row["experiment"], row["sample_index"], row["name"]) == (kept, kept, name, name)
        assert [row["trajectories"] for row in store.steps(project=kept)] == [1]
    assert set(tmp_path.iterdir()) == {path}


@pytest.mark.parametrize("drained", [False, True])
def test_a_sample_index_has_the_type_it_was_given(tmp_path: Path, drained: bool) -> None:
    start(tmp_path)
    unique = str(uuid.uuid4())
    for step, index in enumerate([3, "3", unique, -1, None]):
        with rolltrace.rollout_trace_attr(index, step=step):
            pass
    rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    store = open_store(tmp_path)
    assert [row["sample_index"] for row in store.trajectories()] == [3, "3", unique, -1, None]
    assert [row["step"] for row in store.trajectories(sample_index=3)] == [0, 1]
    assert store.trajectories(sample_index=3).rows() == store.trajectories(sample_index="3").rows()
    assert store.trajectories(step=0).arrow().schema.field("sample_index").type == "int64"


def test_running_trajectories_are_seen_and_end(tmp_path: Path) -> None:
    start(tmp_path, limits={"segment_bytes": "64KiB"})
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 0

    @rolltrace.rollout_trace_op
    def outer() -> None:
        search("x" * 70_000)  # the next segment, in which the start is not
        inner()

    @rolltrace.rollout_trace_op(kind="env")
    def inner() -> None:
        drain(tmp_path)
        store.refresh()
        (row,) = store.live().rows()
        assert (row["sample_index"], row["current_op"].rpartition(".")[2], row["tool_calls"]) == (1, "inner", 1)
        assert 0 <= row["op_age_s"] <= row["age_s"] < 60
        assert store.trajectories().rows()[0]["status"] == "running"
        assert store.trajectory(row["trajectory_id"]).ops[0].children[1].status == "running"

    with rolltrace.rollout_trace_attr(1, step=0):
        outer()
    store.refresh()
    assert [row["status"] for row in store.trajectories()] == ["ok"]
    assert len(store.live()) == 0


def test_new_data_is_seen_by_asking_again(tmp_path: Path) -> None:
    start(tmp_path)
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 0
    with rolltrace.rollout_trace_attr(1, step=0):
        agent("q")
    eventually(lambda: len(store.trajectories()) == 1)


KILLED = """
import os, sys, rolltrace
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], drain="off")
@rolltrace.rollout_trace_op(kind="tool")
def wait():
    print("inside", flush=True)
    sys.stdin.read()
with rolltrace.rollout_trace_attr(1, step=0):
    wait()
"""


def test_a_killed_process_leaves_interrupted_trajectories(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"inside\n"
        store = open_store(tmp_path)
        assert [row["status"] for row in store.trajectories()] == ["running"]
        process.send_signal(signal.SIGKILL)
    store.refresh()
    before = store.trajectories().rows()
    drain(tmp_path)
    store.refresh()
    assert before == store.trajectories().rows()
    assert (before[0]["status"], before[0]["flags"], before[0]["tool_calls"]) == ("interrupted", ["interrupted"], 1)
    assert store.trajectory(before[0]["trajectory_id"]).ops[0].status == "interrupted"


@pytest.mark.parametrize("drained", [False, True])
def test_the_newest_reward_counts_whatever_it_is(tmp_path: Path, drained: bool) -> None:
    start(tmp_path)
    for index, last in enumerate([1.0, None, float("nan"), float("inf")]):
        with rolltrace.rollout_trace_attr(index, step=0, rollout_n=0) as trajectory:
            trajectory.reward(0.25)
        trajectory.reward(last)
    rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    store = open_store(tmp_path)
    assert [str(row["reward"]) for row in store.trajectories()] == ["1.0", "None", "nan", "inf"]
    assert len(store.sql("SELECT * FROM groups")) == 4
    assert [score["value"] for score in store.trajectory(store.trajectories().rows()[0]["trajectory_id"]).scores] == [
        0.25,
        1.0,
    ]


def test_a_trajectory_is_found_by_the_first_letters_of_its_id(reader: Store) -> None:
    ids = [row["trajectory_id"] for row in reader.trajectories()]
    for full in (ids[0], ids[-1]):
        assert reader.trajectory(full[:12].upper()).trajectory_id == full
    absent = next(text for text in (f"{n:04x}" for n in range(99)) if not any(each.startswith(text) for each in ids))
    with pytest.raises(QueryError, match="no trajectory has the id"):
        reader.trajectory(absent)
    for wrong in ("abc", "xyz!", "", "' or 1=1 --", "a" * 33):
        with pytest.raises(QueryError, match="32 hexadecimal digits"):
            reader.trajectory(wrong)


def test_an_ambiguous_id_names_the_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    recorder = rolltrace.capture.scope.recorder
    assert recorder is not None
    numbers = iter(range(100))
    monkeypatch.setattr(recorder, "random_bytes", lambda size: b"\xab\xcd" + bytes(size - 3) + bytes([next(numbers)]))
    for _ in range(3):
        search("x")
    rolltrace.shutdown()
    with pytest.raises(QueryError, match=r"several trajectory ids start with abcd: abcd0*0, abcd0*1, abcd0*2"):
        open_store(tmp_path).trajectory("abcd")


def test_wrong_arguments_are_explained(reader: Store) -> None:
    with pytest.raises(QueryError, match="did you mean 'reward'"):
        reader.trajectories(order="-rewrad")
    with pytest.raises(QueryError, match="limit must be a whole number"):
        reader.trajectories(limit="1; drop")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="step must be a whole number"):
        reader.trajectories(step="three")  # type: ignore[arg-type]


def test_what_is_no_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        open_store(tmp_path / "absent")
    assert len(open_store(tmp_path).trajectories()) == 0
    (tmp_path / "notes.txt").touch()
    with pytest.raises(StoreError, match="which is a folder of other things"):
        open_store(tmp_path)
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "format.json").write_text('{"format": 1}')
    with pytest.raises(FormatError, match="has format 1, and this rolltrace reads format 2"):
        open_store(tmp_path)


@pytest.mark.parametrize("state", STATES if NIGHTLY else ("drained", "some steps settled"))
def test_several_threads_may_ask_at_once(reader_of: Callable[[str], Store], state: str) -> None:
    reader = reader_of(state)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: len(reader.trajectories(step=n % 3 - 1)), range(nightly(48, 9))))
    assert found == [4, 8, 0] * nightly(16, 3)


def test_a_payload_of_every_kind_is_readable_again(reader: Store) -> None:
    (row,) = reader.trajectories(step=0, sample_index=2, rollout_n=0)
    assert generate.__name__ == "generate"
    assert reader.compare([row["trajectory_id"], row["trajectory_id"]]).identical
