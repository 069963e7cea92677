"""Rows that come without Arrow are the same as those that come with it."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Store, open_store
from tests.draining import drain

QUESTIONS = {
    "listing": "SELECT * FROM _listing ORDER BY trajectory_id",
    "scores": "SELECT * FROM scores ORDER BY trajectory_id, name, time_ns",
    "spans": "SELECT * FROM _spans ORDER BY trajectory_id, start_ns",
    "nothing": "SELECT trajectory_id, flags, reward FROM _listing WHERE false",
    "other types": "SELECT 1::HUGEINT AS huge, DATE '2026-01-02' AS day, {'a': 1} AS object, [[1]] AS lists, NULL AS n",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path: Path = tmp_path_factory.mktemp("store")
    rolltrace.init("p", "e", store=path, drain="off", quiet=True)
    call = rolltrace.rollout_trace_op(kind="llm")(lambda prompt_ids: {"response_ids": [4, 5], "log_probs": [-0.5, -1]})
    for at, (sample, value) in enumerate([(1, 0.5), ("text", float("nan")), (None, None), (2**70, float("inf"))]):
        with rolltrace.rollout_trace_attr(sample_index=sample, step=at // 2, rollout_n=at, difficulty="ü") as handle:
            call(prompt_ids=[1, 2, 3])
            if value is not None:
                handle.reward(value, terms={"correct": value})
    rolltrace.shutdown()
    drain(path)
    return open_store(path)


@pytest.mark.parametrize("question", QUESTIONS)
def test_plain_rows_are_those_of_the_arrow_table(question: str, store: Store) -> None:
    plain, arrow = (store._ask(QUESTIONS[question], plain=each) for each in (True, False))
    assert plain.columns == arrow.columns
    assert len(plain) == len(arrow)
    assert repr(plain.rows()) == repr(arrow.rows())  # NaN too
    assert repr(plain[:1]) == repr(arrow[:1])
    assert plain.arrow().schema == arrow.arrow().schema
    assert repr(plain.arrow().to_pylist()) == repr(arrow.arrow().to_pylist())
    assert repr(plain) == repr(arrow)


def test_a_row_that_somebody_changed_is_the_same_when_it_is_read_again(store: Store) -> None:
    listing = store.trajectories(limit=1)
    listing.rows()[0]["flags"].append("mine")
    assert "mine" not in listing[0]["flags"]
