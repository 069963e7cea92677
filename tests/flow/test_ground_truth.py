"""An own agent loop in two runs, scored late by a process that outlives both: every row is what the loop wrote down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rolltrace.query import Store, open_store
from tests.draining import drain
from tests.nightly import nightly

LOOP = """
import json, os, random, sys
from multiprocessing.connection import Client
import rolltrace

store, judge, truth, run = sys.argv[1:]
chance = random.Random(run)
rolltrace.init("own", "loop", store=store)


@rolltrace.rollout_trace_op(kind="llm")
def think(prompt_ids):
    count = chance.randint(1, 9)
    return {"text": "x" * count, "token_ids": list(range(count)), "logprobs": [-0.5] * count}


@rolltrace.rollout_trace_op(kind="tool")
def search(query):
    return query


def roll_out(step, sample, n):
    prompts, replies = [list(range(step + sample + 1))], []
    with rolltrace.rollout_trace_attr(step=step, sample_index=sample, rollout_n=n) as trajectory:
        for _ in range(chance.randint(1, 4)):
            reply = think(prompts[-1])
            search(reply["text"])
            replies.append(reply["token_ids"])
            prompts.append(prompts[-1] + reply["token_ids"])
        reward, terms = None, {}
        how = chance.choice(["own", "late", "both", "never"])
        if how in ("own", "both"):
            terms = {"correct": float(chance.randint(0, 1)), "format": 0.25}
            reward = sum(terms.values())
            trajectory.reward(reward, terms=terms)
    if how in ("late", "both"):
        terms = {"judged": chance.random()}
        reward = 10 * int(run) + terms["judged"]
        with Client(judge) as connection:
            connection.send(((step, sample, n), reward, terms))
            connection.recv()
    return {
        "trajectory_id": trajectory.id, "run": os.environ["ROLLTRACE_RUN"], "step": step, "sample_index": sample,
        "rollout_n": n, "status": "ok", "reward": reward, "terms": terms, "turns": len(replies),
        "tool_calls": len(replies), "prompt_tokens": len(prompts[-2]), "response_tokens": sum(map(len, replies)),
    }


with open(truth, "a") as file:
    for step in (1, 2, 3):
        for sample in range(4):
            for n in range(3):
                print(json.dumps(roll_out(step, sample, n)), file=file)
"""
JUDGE = """
import sys
from multiprocessing.connection import Listener
import rolltrace

rolltrace.init("own", "loop", store=sys.argv[1])
waiting = []
with Listener(sys.argv[2]) as listener:
    print("ready", flush=True)
    while True:
        with listener.accept() as connection:
            asked = connection.recv()
            if asked is None:
                break
            if asked != "judge":
                waiting.append(asked)
            else:  # long after the rollouts: they, and the process that made them, are gone
                for target, reward, terms in waiting:
                    rolltrace.score(target, "reward", reward, terms=terms)
                waiting.clear()
            connection.send("done")
"""
COLUMNS = ("trajectory_id", "run", "step", "sample_index", "rollout_n", "status", "reward", "turns", "tool_calls",
           "prompt_tokens", "response_tokens")  # fmt: skip
TERMS = ("correct", "format", "judged")


class Recorded(NamedTuple):
    store: Path
    truth: list[dict[str, Any]]
    second_run: str


@pytest.fixture(scope="module")
def loop_twice(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("truth")
    store, judge, truth = folder / "store", str(folder / "judge"), folder / "truth.jsonl"
    environment = {name: value for name, value in os.environ.items() if name != "ROLLTRACE_RUN"}

    def ask(question: str | None) -> None:
        with Client(judge) as connection:
            connection.send(question)
            if question is not None:
                assert connection.recv() == "done"

    server = subprocess.Popen(
        [sys.executable, "-c", JUDGE, str(store), judge], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    for run in ("1", "2"):
        subprocess.run([sys.executable, "-c", LOOP, str(store), judge, str(truth), run], env=environment, check=True)
        ask("judge")
    ask(None)
    assert server.wait() == 0
    server.stdout.close()
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    return Recorded(store, _in_order(rows), rows[-1]["run"])


@pytest.fixture(scope="module", params=nightly(["journals", "drained", "compacted"], ["journals", "compacted"]))
def recorded(
    request: pytest.FixtureRequest, loop_twice: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    store = shutil.copytree(loop_twice.store, tmp_path_factory.mktemp(request.param) / "store")
    if request.param != "journals":
        drain(store, compacted=request.param == "compacted")
    return loop_twice._replace(store=store)


@pytest.fixture(scope="module")
def store(recorded: Recorded) -> Iterator[Store]:
    with open_store(recorded.store) as store:
        yield store


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["trajectory_id"]))


def test_every_trajectory_in_python_is_the_one_that_the_loop_made(recorded: Recorded, store: Store) -> None:
    assert len(recorded.truth) == 2 * 3 * 4 * 3
    assert len({row["run"] for row in recorded.truth}) == 2
    rows = []
    for row in store.trajectories(all_runs=True).rows():
        trajectory = store.trajectory(row["trajectory_id"])
        score = trajectory.newest_scores.get("reward")
        assert (trajectory.run, trajectory.reward, trajectory.turns) == (row["run"], row["reward"], row["turns"])
        rows.append({**{name: row[name] for name in COLUMNS}, "terms": {} if score is None else score.terms})
    assert _in_order(rows) == recorded.truth
    assert len(store.unmatched_scores()) == 0


def test_every_line_of_ls_is_a_rollout_that_the_loop_made(recorded: Recorded) -> None:
    columns = ",".join((*COLUMNS, *(f"term.{name}" for name in TERMS)))
    command = ["ls", "--json", "--all-runs", "--columns", columns, str(recorded.store)]
    printed = subprocess.run(
        [sys.executable, "-m", "rolltrace", *command], capture_output=True, text=True, check=True
    ).stdout
    rows = []
    for line in map(json.loads, printed.splitlines()):
        terms = {name: line[f"term.{name}"] for name in TERMS if line[f"term.{name}"] is not None}
        rows.append({**{name: line[name] for name in COLUMNS}, "terms": terms})
    assert _in_order(rows) == recorded.truth


def test_every_row_in_sql_is_a_rollout_that_the_loop_made(recorded: Recorded, store: Store) -> None:
    columns = ", ".join(f"t.{name}" for name in COLUMNS)
    sql = (
        f"SELECT {columns}, s.terms FROM trajectories t LEFT JOIN latest_scores s "
        "ON s.trajectory_id = t.trajectory_id AND s.name = 'reward'"
    )
    rows = [
        {**row, "sample_index": int(row["sample_index"]), "terms": json.loads(row["terms"] or "{}")}
        for row in store.sql(sql)
    ]
    assert _in_order(rows) == recorded.truth


def test_without_all_runs_the_rows_are_those_of_the_second_run(recorded: Recorded, store: Store) -> None:
    rows = [{name: row[name] for name in COLUMNS} for row in store.trajectories().rows()]
    expected = [{name: row[name] for name in COLUMNS} for row in recorded.truth if row["run"] == recorded.second_run]
    assert _in_order(rows) == expected
