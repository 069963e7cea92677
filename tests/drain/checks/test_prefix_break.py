"""A turn must extend what was said before, to the token."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import rolltrace
from rolltrace.drain.checks.check import OpFacts, TrajectoryPast
from rolltrace.drain.checks.turns import prefix_break
from rolltrace.journal import journal_files
from rolltrace.query import open_store
from tests.draining import drain

from .conftest import Find, findings_of, names, turn


def facts(prompt: list[int], response: list[int], number: int, *, start_ns: int, end_ns: int) -> OpFacts:
    fields = {
        "name": "generate", "kind": "llm", "op_id": number, "start_ns": start_ns, "end_ns": end_ns,
        "prompt_tokens": len(prompt), "response_tokens": len(response),
        "tokens": pa.array(prompt + response, type=pa.int32()),
    }  # fmt: skip
    return OpFacts(fields, {}, {})


def test_turns_that_grow_have_none(find: Find) -> None:
    def rollout() -> None:
        turn([1, 2], [3, 4])
        turn([1, 2, 3, 4, 5], [6])
        turn([1, 2, 3, 4, 5, 6], [7])
        turn([1, 2, 3, 4, 5, 6, 7, 8, 9], [10])

    assert find(rollout) == []


def test_a_response_that_was_tokenised_anew_breaks_the_prefix(find: Find) -> None:
    def rollout() -> None:
        turn([1, 2], [3, 4])
        turn([1, 2, 3, 40, 5], [6, 7])
        turn([1, 2, 3, 40, 5, 6, 7, 8], [9])

    (found,) = find(rollout, read=findings_of)
    assert found["flag"] == "prefix_break"
    detail = found["detail"]
    assert (detail["previous_tokens"], detail["prompt_tokens"], detail["first_difference"]) == (4, 5, 3)


def test_the_detail_names_the_turn_before_and_the_op_is_the_one_after(find: Find, tmp_path: Path) -> None:
    def rollout() -> None:
        turn([1], [2])
        turn([9], [2])

    (found,) = find(rollout, read=findings_of)
    (row,) = open_store(tmp_path / "store").trajectories().rows()
    first, second = open_store(tmp_path / "store").trajectory(row["trajectory_id"]).ops
    assert (found["detail"]["previous_op_id"], found["op_id"]) == (first.op_id, second.op_id)


def test_a_prompt_that_lost_its_end_breaks_the_prefix(find: Find) -> None:
    def rollout() -> None:
        turn([1, 2, 3], [4, 5])
        turn([1, 2, 3, 4], [6])

    (found,) = find(rollout, read=findings_of)
    assert found["detail"]["first_difference"] == 4


def test_the_same_prompt_again_is_another_sample(find: Find) -> None:
    def rollout() -> None:
        turn([1, 2], [3])
        turn([1, 2], [4])
        turn([1, 2, 4, 5], [6])
        turn([1, 2, 3, 5], [6])  # the other sample is gone on with, too

    assert find(rollout) == []


def test_calls_at_the_same_time_are_not_turns_after_one_another(find: Find) -> None:
    def rollout() -> None:
        inside, outside = threading.Event(), threading.Event()

        @rolltrace.rollout_trace_op(kind="llm", name="generate")
        def waiting(prompt_ids: list[int]) -> dict[str, list[int]]:
            inside.set()
            assert outside.wait(30)
            return {"token_ids": [9]}

        thread = threading.Thread(target=waiting, args=([5, 6],))
        thread.start()
        assert inside.wait(30)
        turn([1, 2], [3])
        outside.set()
        thread.join()
        turn([5, 6, 9, 1], [2])
        turn([1, 2, 3, 4], [5])

    assert find(rollout) == []


def test_the_agent_loop_around_has_a_chain_of_its_own(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def run() -> dict[str, list[int]]:
        turn([1, 2], [3])
        turn([1, 2, 3, 4], [5])
        return {"prompt_ids": [1, 2], "response_ids": [3, 4, 5]}

    assert find(run) == []


def test_what_only_takes_tokens_is_no_turn(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def parse(prompt_ids: list[int], response_ids: list[int]) -> str:
        return "parsed"

    def rollout() -> None:
        parse([1], [2])
        parse([3], [4])

    assert find(rollout) == []


def test_one_break_is_one_finding_for_conversations_side_by_side(find: Find) -> None:
    def rollout() -> None:
        turn([1, 1], [1])
        turn([2, 2], [2])
        turn([2, 2, 2, 0], [2])
        turn([1, 1, 1, 0], [1])
        turn([1, 1, 1, 7], [1])
        turn([2, 2, 2, 0, 2], [2])

    # The second begins a new conversation, the fifth goes back: those do not extend anything.
    assert [found["detail"]["first_difference"] for found in find(rollout, read=findings_of)] == [0, 3]


@pytest.mark.parametrize("offset", [1, 7])
def test_slices_of_larger_arrays_are_read_where_they_are(offset: int) -> None:
    known = TrajectoryPast()
    for number, (prompt, response) in enumerate([([1, 2], [3]), ([1, 2, 3, 4], [5])]):
        op = facts(prompt, response, number, start_ns=2 * number, end_ns=2 * number + 1)
        padded = pa.array([*[0] * offset, *prompt, *response, 8, 8], type=pa.int32())
        op.fields["tokens"] = padded.slice(offset, len(prompt) + len(response))  # type: ignore[index]
        assert prefix_break(op, known) is None


def test_an_overlap_is_no_turn_before() -> None:
    known = TrajectoryPast()
    assert prefix_break(facts([1], [2], 1, start_ns=0, end_ns=10), known) is None
    assert prefix_break(facts([7], [8], 2, start_ns=9, end_ns=20), known) is None
    found = prefix_break(facts([3], [4], 3, start_ns=20, end_ns=30), known)
    assert found is not None
    assert found.detail is not None
    assert found.detail["previous_op_id"] == 2


def test_what_is_remembered_stays_small() -> None:
    known = TrajectoryPast()
    for number in range(100):
        op = facts([number], [number], number, start_ns=2 * number, end_ns=2 * number + 1)
        op.fields["name"] = f"op {number % 40}"  # type: ignore[index]
        prefix_break(op, known)
    assert len(known.turns) <= 16
    for number in range(100):
        prefix_break(facts([number], [0], number, start_ns=2 * number, end_ns=2 * number + 1), known)
    assert len(known.turns["generate"]) <= 16


def test_a_break_across_a_segment_border_is_found_once_by_drainers_one_after_the_other(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off", limits={"segment_bytes": "64KiB"})
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        turn([1, 2], [3, 4])
        _next_segment()
        drain(tmp_path)  # with a drainer of its own, which is gone afterwards
        assert len(journal_files(tmp_path)) == 1
        turn([1, 2, 3, 40], [5])
        _next_segment()
        assert names(findings_of(tmp_path, trajectory.id)) == ["prefix_break"], "while it runs"
        drain(tmp_path)
        turn([1, 2, 3, 40, 5, 6], [7])
    rolltrace.shutdown()
    drain(tmp_path)
    assert names(findings_of(tmp_path, trajectory.id)) == ["prefix_break"]
    assert not list(tmp_path.glob("journal/*/*.state"))


def test_a_turn_after_a_segment_border_that_fits_is_no_break(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        turn([1, 2], [3, 4])
        _next_segment()
        drain(tmp_path)
        turn([1, 2, 3, 4, 5], [6])
    rolltrace.shutdown()
    drain(tmp_path)
    assert findings_of(tmp_path, trajectory.id) == []


def test_draining_a_segment_twice_doubles_nothing(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        turn([1, 2], [3, 4])
        _next_segment()
        turn([9], [5])
    rolltrace.shutdown()
    kept = {path: path.read_bytes() for path in journal_files(tmp_path)}
    for _ in range(2):
        for path, content in kept.items():
            path.write_bytes(content)
        drain(tmp_path)
        assert names(findings_of(tmp_path, trajectory.id)) == ["prefix_break"]


def test_a_trajectory_that_goes_on_in_another_process_is_remembered_there(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        context = rolltrace.current_context()
    rolltrace.shutdown()
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.use_context(context):
        turn([1, 2], [3, 4])
        _next_segment()
        drain(tmp_path)
        turn([7], [8])
    rolltrace.shutdown()
    drain(tmp_path)
    assert names(findings_of(tmp_path, trajectory.id)) == ["prefix_break"]


def _next_segment() -> None:
    recorder = rolltrace._runtime.active().recorder  # type: ignore[attr-defined, union-attr]
    recorder.sink.turn_over()


def test_the_filter_finds_it(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for sample, second in ((1, [1, 2, 3]), (2, [9])):
        with rolltrace.rollout_trace_attr(step=1, sample_index=sample):
            turn([1], [2])
            turn(second, [4])
    rolltrace.shutdown()
    drain(tmp_path)
    found = open_store(tmp_path).trajectories(where="flag = 'prefix_break'").rows()
    assert [(row["sample_index"], row["flags"]) for row in found] == [(2, ["prefix_break"])]
    others = open_store(tmp_path).trajectories(where="not flag = 'prefix_break'").rows()
    assert [row["sample_index"] for row in others] == [1]
