"""Results: columns for notebooks, dicts for programs, a table for people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rolltrace
from rolltrace.query import Result, open_store
from rolltrace.testing import rollouts


def sample(indexes: list[str | None], are_ints: list[bool]) -> Result:
    return Result(
        pa.table({"sample_index": pa.array(indexes, pa.string()), "reward": [0.5] * len(indexes), "_is_int": are_ints})
    )


def test_the_same_rows_in_every_form() -> None:
    result = sample(["3", "4"], [True, True])
    expected = [{"sample_index": 3, "reward": 0.5}, {"sample_index": 4, "reward": 0.5}]
    assert result.rows() == list(result) == result.arrow().to_pylist() == result.pl().to_dicts() == expected
    assert result.df().to_dict("records") == expected
    assert isinstance(result.df(), pd.DataFrame)
    assert isinstance(result.pl(), pl.DataFrame)
    assert (len(result), result.columns) == (2, ["sample_index", "reward"])


def test_mixed_sample_indexes_are_a_text_column_and_typed_rows() -> None:
    result = sample(["3", "3", "a-b", None], [True, False, False, False])
    assert [row["sample_index"] for row in result] == [3, "3", "a-b", None]
    assert result.arrow()["sample_index"].to_pylist() == ["3", "3", "a-b", None]


def test_no_rows_and_no_columns() -> None:
    assert len(sample([], [])) == 0
    assert repr(sample([], [])).endswith("0 rows")
    assert repr(Result(pa.table({}))).endswith("0 rows")
    assert "0 rows" in Result(pa.table({}))._repr_html_()


def test_a_table_is_aligned_cut_and_counted() -> None:
    lines = repr(Result(pa.table({"name": ["a", "中文"], "text": ["x" * 100, "y"], "n": [1.0, None]}))).split("\n")
    assert lines[0].split() == ["name", "text", "n"]
    assert lines[2].startswith("a     " + "x" * 39 + "…  1")
    assert lines[3].startswith("中文  y")
    assert lines[-1] == "2 rows"
    assert repr(Result(pa.table({"n": list(range(50))}))).endswith("50 rows, the first 20 shown")


def test_columns_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert repr(Result(pa.table({f"c{n}": ["x" * 12] for n in range(5)}))).endswith("1 row; 3 more columns")


@pytest.mark.parametrize("hostile", ["\x1b[31mred\x1b[0m", "a\rb", "a\nb", "\x9b2J", "\u202etxt", "\x00", "\u2028"])
def test_text_cannot_steer_a_terminal(hostile: str) -> None:
    shown = repr(Result(pa.table({hostile: [hostile], "list": [[hostile]]})))
    assert all(letter.isprintable() for line in shown.split("\n") for letter in line)
    assert len(shown.split("\n")) == 4


def test_a_listing_shows_the_reward_within_80_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with rollouts(tmp_path), rolltrace.rollout_trace_attr(sample_index="sample-7", step=120, rollout_n=3) as handle:
        handle.reward(0.625)
    listing = open_store(tmp_path).trajectories()
    head, _, row, summary = repr(listing).split("\n")
    assert {"trajectory_id", "step", "sample_index", "rollout_n", "status", "reward"} <= set(head.split())
    assert "0.625" in row.split()
    assert row.startswith(handle.trajectory_id[:12] + " ")
    assert max(map(len, (head, row))) <= 80
    assert "more columns" in summary


def test_tags_are_dicts_in_rows_and_data_frames(tmp_path: Path) -> None:
    with rollouts(tmp_path), rolltrace.rollout_trace_attr(step=1, difficulty="hard"):
        pass
    listing = open_store(tmp_path).trajectories()
    assert listing[0]["tags"] == listing.df()["tags"][0] == {"difficulty": "hard"}


def test_a_slice_gives_the_rows_of_a_list() -> None:
    result = Result(pa.table({"n": list(range(10))}))
    numbers = list(result)
    for at in (slice(2, 5), slice(-3, None), slice(None, None, 2), slice(8, 2), slice(None, None, -1), slice(5, 99)):
        assert result[at] == numbers[at]


def test_html_is_text() -> None:
    page = Result(pa.table({"<b>": ["<script>alert('x')</script>"], "l": [["<i>"]]}))._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_a_sum_of_integers_is_an_integer_in_every_form(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in (1, 2):
        with rolltrace.rollout_trace_attr(0, step=step):
            pass
    rolltrace.shutdown()
    result = rolltrace.open(tmp_path).sql("SELECT sum(step) AS steps, (1::HUGEINT << 100) AS huge FROM trajectories")
    assert [type(value) for value in result[0].values()] == [int, int]
    assert result.rows() == [{"steps": 3, "huge": 1 << 100}]
    assert result.arrow().schema.field("steps").type == pa.int64()
    assert result.df()["steps"].dtype == "int64"
    assert result.pl()["steps"].dtype == pl.Int64
