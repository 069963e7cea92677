"""Every export, read back by the rules of its format."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rolltrace
from rolltrace.errors import ConfigError
from rolltrace.exchange import EXPORTS, IMPORTS
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.exchange.selection import Exported, select
from rolltrace.query import Store, open_store
from tests.shared_pages import SharedPage

from .conftest import HOSTILE, generate, search, start, wait


def export(store: Path | Store, name: str, **choice: Any) -> tuple[str, Exported]:
    out = io.StringIO()
    done = EXPORTS[name].write(select(store if isinstance(store, Store) else open_store(store), **choice), out)
    return out.getvalue(), done


def records(text: str) -> list[dict[str, Any]]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text[:-1].split("\n")]


def test_jsonl_has_one_valid_record_per_trajectory(reader: Store) -> None:
    text, done = export(reader, "jsonl")
    found = records(text)
    listed = reader.trajectories().rows()
    assert [record["trajectory_id"] for record in found] == [row["trajectory_id"] for row in listed]
    assert done.written == len(found) == 12
    for record, row in zip(found, listed):
        assert (record["sample_index"], record["step"], record["status"]) == (
            row["sample_index"], row["step"], row["status"],
        )  # fmt: skip


def test_jsonl_holds_what_was_recorded(reader: Store) -> None:
    found = records(export(reader, "jsonl", where="sample_index = 7 and step = 1 and rollout_n = 0")[0])
    (record,) = found
    (top,) = record["ops"]
    first, tool, second = top["children"]
    assert first["outputs"]["token_ids"] == list(range(8))
    assert first["outputs"]["logprobs"][1] == {"$float": "nan"}
    assert first["response_tokens"] == 8
    assert tool["outputs"]["numbers"] == [1.0, {"$float": "nan"}, {"$float": "inf"}]
    assert tool["outputs"]["hits"] == ["page", HOSTILE]
    assert second["kind"] == "llm"
    assert [message["role"] for message in record["conversation"]] == [
        "system", "user", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert record["transitions"][0]["reward"] == 0.5
    assert record["scores"][0]["terms"] == {"format": 1.0}
    assert record["notes"][0]["body"]["text"] == HOSTILE
    assert record["tags"] == {"difficulty": HOSTILE}


@pytest.mark.parametrize("name", ["jsonl", "sft", "dpo", "chrome"])
def test_nothing_that_a_terminal_obeys_is_in_an_export(name: str, reader: Store) -> None:
    text = export(reader, name)[0].replace("\n", "")
    assert text.isprintable()


def test_an_export_reads_what_it_is_told_to(reader: Store) -> None:
    assert {record["step"] for record in records(export(reader, "jsonl", step=1)[0])} == {1}
    ids = [row["trajectory_id"] for row in reader.trajectories(step=1).rows()][::-1]
    found = records(export(reader, "jsonl", trajectory_ids=[each[:12] for each in ids])[0])
    assert [record["trajectory_id"] for record in found] == ids
    assert export(reader, "jsonl", step=99) == ("", Exported(0))


@pytest.mark.parametrize("depth", [100, 400])
def test_ops_inside_each_other_do_not_stop_an_export(depth: int, tmp_path: Path) -> None:
    @rolltrace.rollout_trace_op
    def down(levels: int) -> None:
        if levels:
            down(levels - 1)

    start(tmp_path)
    for levels in (depth, 0):
        with rolltrace.rollout_trace_attr(levels, step=1):
            down(levels)
    rolltrace.shutdown()
    text, done = export(tmp_path, "jsonl")
    assert len(records(text)) == done.written
    assert done.written + done.skipped.get("nested too deeply", 0) == 2
    assert (done.written == 2) or depth > 100


def test_sft_has_the_messages_and_the_reward(reader: Store) -> None:
    text, done = export(reader, "sft")
    found = records(text)
    assert len(found) == done.written == 8
    assert done.skipped == {"no reply of the model": 4}
    assert found[0]["messages"][-1] == {"role": "assistant", "content": "answer 0!"}
    assert (found[1]["reward"], found[1]["step"], found[1]["sample_index"], found[1]["rollout_n"]) == (1.0, 1, 7, 1)


def test_sft_leaves_out_what_still_runs(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1):
        generate([{"role": "user", "content": "q"}], "answer")
        assert export(tmp_path, "sft") == ("", Exported(0, {"still running": 1}))


def test_dpo_pairs_the_best_with_the_worst(reader: Store) -> None:
    text, done = export(reader, "dpo")
    found = records(text)
    assert done.written == len(found) == 3
    assert done.skipped == {"all rewards alike": 1, "fewer than two rewards": 3, "no sample_index": 1}
    for pair in found:
        assert [message["role"] for message in pair["prompt"]] == ["system", "user"]
        assert (pair["chosen_reward"], pair["rejected_reward"]) == (1.0, 0.0)
        assert pair["chosen"][-1]["content"] == "answer 1!"
        assert pair["rejected"][-1]["content"] == "answer 0!"
        chosen = reader.trajectory(pair["chosen_id"])
        assert (chosen.step, chosen.sample_index, chosen.rollout_n) == (pair["step"], pair["sample_index"], 1)


def test_dpo_does_not_pair_answers_to_different_prompts(tmp_path: Path) -> None:
    start(tmp_path)
    for n in range(2):
        with rolltrace.rollout_trace_attr(1, step=1, rollout_n=n) as trajectory:
            generate([{"role": "user", "content": f"question {n}"}], "answer")
            trajectory.reward(n)
    rolltrace.shutdown()
    assert export(tmp_path, "dpo") == ("", Exported(0, {"different prompts": 1}))


def test_chrome_events_nest_on_every_line(tmp_path: Path) -> None:
    start(tmp_path)

    async def many() -> None:
        await asyncio.gather(*(wait() for _ in range(3)))

    for n in range(2):
        with rolltrace.rollout_trace_attr(1, step=1, rollout_n=n) as trajectory:
            asyncio.run(many())
            thread = threading.Thread(target=search, args=("in a thread",), name="worker")
            thread.start()
            thread.join()
            trajectory.reward(1.0)
    rolltrace.shutdown()
    trace = json.loads(export(tmp_path, "chrome")[0])
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "i"}
    assert all({"name", "pid", "tid", "ts"} <= event.keys() for event in events)
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert len(processes) == 2
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1]
    assert threads == ["main", "main (2)", "main (3)", "worker"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == 8
    assert min(event["ts"] for event in complete) >= 0
    for line in {(event["pid"], event["tid"]) for event in complete}:
        on_line = sorted((e["ts"], e["ts"] + e["dur"]) for e in complete if (e["pid"], e["tid"]) == line)
        for (_, end), (begin, inner_end) in pairwise(on_line):
            assert begin >= end or inner_end <= end


def test_chrome_shows_what_never_ended(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1):

        @rolltrace.rollout_trace_op
        def outer() -> str:
            search("x")
            return export(tmp_path, "chrome")[0]

        trace = json.loads(outer())
    (running,) = [event for event in trace["traceEvents"] if event["name"].endswith("outer")]
    assert running["dur"] > 0
    assert running["args"]["status"] == "running"


@pytest.mark.parametrize("count", [1, 3])
def test_html_shows_hostile_text_and_obeys_none_of_it(count: int, reader: Store) -> None:
    rows = reader.trajectories(step=1).rows()
    ids = [row["trajectory_id"] for row in rows[:count]]
    page = SharedPage(export(reader, "html", trajectory_ids=ids)[0])
    assert (page.tags["script"], page.tags["style"]) == (3, 1)
    assert not {"img", "iframe", "svg", "a", "link", "object", "form"} & set(page.tags)
    assert page.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "id", "type"}
    assert page.policy.startswith("default-src 'none'")
    assert page.may_run()
    assert not {"\x1b", "\x9b", "\u202e"} & set(page.plain)
    assert ("<script>alert(1)</script>" in page.plain) == (count == 1)
    assert page.about["trajectories"] == ids
    assert page.about["kind"] == ("trajectory" if count == 1 else "comparison")
    head = page.answers[f"/api/trajectory/{ids[0]}"]
    assert head["row"]["tags"]["difficulty"] == HOSTILE
    if count > 1:
        assert page.answers[f"/api/compare {','.join(sorted(ids))}"]["first_diverging_turn"] == 0


def test_html_of_nothing_or_too_much_is_an_error(tmp_path: Path) -> None:
    start(tmp_path)
    for sample in range(17):
        with rolltrace.rollout_trace_attr(sample, step=1):
            search("x")
    rolltrace.shutdown()
    store = open_store(tmp_path)
    with pytest.raises(ConfigError, match="no trajectory was chosen"):
        export(store, "html", step=5)
    with pytest.raises(ConfigError, match="17 trajectories were chosen"):
        export(store, "html")


def test_parquet_is_a_store_of_the_chosen_trajectories(reader: Store, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    EXPORTS["parquet"].write_folder(select(reader, step=1), folder)
    assert records(export(folder, "jsonl")[0]) == records(export(reader, "jsonl", step=1)[0])
    (file,) = (folder / "ops").rglob("*.parquet")
    assert set(pq.read_table(file, partitioning=None)["step"].to_pylist()) == {1}
    with pytest.raises(ConfigError, match="not empty"):
        EXPORTS["parquet"].write_folder(select(reader), folder)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_parquet_takes_what_was_outside_any_trajectory_along(reader: Store, exported: str, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    EXPORTS["parquet"].write_folder(select(reader), folder)
    assert export(folder, "jsonl")[0] == exported


def test_late_scores_travel_with_their_trajectory(run: Path, tmp_path: Path) -> None:
    original = open_store(run)
    first, second, *_ = original.trajectories(step=1, sample_index=7).rows()
    start(run)
    rolltrace.score(first["trajectory_id"], "reward", 3.0)
    rolltrace.score((1, 7, 1), "fate", "filtered", reason="why")
    rolltrace.score((99, 7, 1), "reward", 7.0)
    rolltrace.shutdown()
    original.refresh()
    EXPORTS["parquet"].write_folder(select(original, step=1), tmp_path / "exported")
    exported = open_store(tmp_path / "exported")
    lines = tmp_path / "run.jsonl"
    lines.write_text(export(exported, "jsonl")[0])
    import_files(IMPORTS["jsonl"].reader, [lines], ImportTarget(tmp_path / "imported"))
    for store in (exported, open_store(tmp_path / "imported")):
        assert store.trajectory(first["trajectory_id"]).reward == 3.0
        other = store.trajectory(second["trajectory_id"])
        assert (other.reward, other.fate, other.fate_reason) == (1.0, "filtered", "why")
        assert len(store.unmatched_scores()) == 0
    assert '"value": "filtered"' in export(original, "chrome", step=1)[0].replace('":"', '": "')
