"""A store of an earlier format is refused, and one of this format is opened by every later version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import FormatError

GOLDEN = Path(__file__).parent.parent / "golden"


def test_the_first_store_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 1}')
    with pytest.raises(
        FormatError, match=r"has format 1, and this rolltrace reads format 2; record into another folder"
    ):
        rolltrace.open(tmp_path)


def test_a_store_of_format_2_is_read_by_every_later_version(tmp_path: Path) -> None:
    """The journals of `journal-v1`, drained once and settled. The tables are kept as they are."""
    shutil.copytree(GOLDEN / "store-v2", tmp_path / "store")
    store = rolltrace.open(tmp_path / "store")
    (row,) = store.trajectories()
    assert (row["step"], row["sample_index"], row["rollout_n"], row["reward"]) == (3, "sample", 1, 0.5)
    read = store.trajectory(row["trajectory_id"])
    assert [op.name for op in read.walk()] == ["generate", "generate", "broken"]
    assert read.ops[0].tokens.response_ids == [5, 6, 7]
    assert [each.terms for each in read.scores] == [{"format": 0.5}]
    assert [note.event for note in read.notes] == ["note"]
    assert store.damaged() == []
    assert store.sql("SELECT reason, count FROM losses").rows() == [{"reason": "sample_limit", "count": 1}]
