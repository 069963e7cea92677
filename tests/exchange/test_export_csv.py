"""`export csv`: a table of trajectories that is safe in a terminal and in a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import rolltrace
from rolltrace.query import Store

from .conftest import export, start


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_line_is_a_trajectory_with_its_scores_terms_and_tags(reader: Store) -> None:
    rows = rows_of(export(reader, "csv"))
    listed = reader.trajectories().rows()
    assert [row["trajectory_id"] for row in rows] == [row["trajectory_id"] for row in listed]
    first = next(row for row in rows if row["sample_index"] == "7" and row["rollout_n"] == "1" and row["step"] == "1")
    assert (first["reward"], first["term.format"], first["validate"]) == ("1.0", "1.0", "false")
    assert first["tag.difficulty"].startswith("<script>")
    assert "\\x1b[31mred" in first["tag.difficulty"], "shown, not obeyed"
    assert "tool_error" in first["flags"]


def test_text_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr("=1+1", step=1, name="@SUM(A1)", negative="-5", ratio=-0.5) as trajectory:
        rolltrace.score(trajectory, "note", "+cmd|' /C calc'!A0")
    rolltrace.shutdown()
    (row,) = rows_of(export(tmp_path, "csv"))
    assert (row["sample_index"], row["name"], row["score.note"]) == ("'=1+1", "'@SUM(A1)", "'+cmd|' /C calc'!A0")
    assert (row["tag.negative"], row["tag.ratio"]) == ("-5", "-0.5"), "numbers are harmless"


def test_a_store_without_trajectories_gives_the_names_alone(tmp_path: Path) -> None:
    start(tmp_path)
    rolltrace.shutdown()
    assert export(tmp_path, "csv").startswith("trajectory_id,project,experiment,step")
    assert export(tmp_path, "csv").count("\n") == 1
