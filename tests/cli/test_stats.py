"""`rolltrace stats`: sizes and counts that are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Follower
from tests.draining import drain


def write(store: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, max_samples_per_step_per_worker=2)
    for sample in sorted(range(5), key=rolltrace.capture.choose_samples(range(5)).__contains__, reverse=True):
        with rolltrace.rollout_trace_attr(sample, step=1) as trajectory:
            trajectory.note("n" * 1000)


def stats(store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["stats", str(store), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_waits_on_a_disk_that_cannot_be_written_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr("rolltrace.query.damage.Backlog.drain", lambda *args, **options: None)
    found = stats(tmp_path, capsys)
    assert (found["trajectories"], found["experiments"], found["files"], found["journal_files"]) == (0, 0, 0, 1)
    assert 2000 < found["undrained_bytes"] < 10_000, "the file itself has 16 MiB"
    assert found["bytes"]["journal"] > 0


def test_what_was_drained_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    rolltrace.shutdown()
    drain(tmp_path)
    found = stats(tmp_path, capsys)
    assert (found["trajectories"], found["journal_files"], found["undrained_bytes"]) == (2, 0, 0)
    assert found["rows"] == {"trajectories": 2, "notes": 2, "losses": 1, "runs": 1}
    assert found["files"] == 4
    assert found["bytes"]["data"] > 0
    assert found["losses"] == {"sample_limit": 3}
    assert found["damaged_files"] == []


def test_a_drainer_at_work_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert stats(tmp_path, capsys)["drainer_running"] is False
    with Follower(tmp_path).working():
        assert stats(tmp_path, capsys)["drainer_running"] is True


def test_looking_makes_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    rolltrace.shutdown()
    before = sorted(tmp_path.rglob("*"))
    assert stats(tmp_path, capsys)["trajectories"] == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_page_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    rolltrace.shutdown()
    drain(tmp_path)
    part = next((tmp_path / "notes" / "data").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-50])
    assert main(["stats", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "  lost          sample_limit 3\n" in said
    assert "  damaged       1 file: rolltrace doctor\n" in said


def test_flags_are_counted_by_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def answer(text: str) -> dict[str, str]:
        return {"text": text, "finish_reason": "length"}

    for experiment, texts in (("one", ["a", "", "c"]), ("two", ["a"])):
        rolltrace.init("p", experiment, "rolltrace", store=tmp_path)
        for sample, text in enumerate(texts):
            with rolltrace.rollout_trace_attr(sample, step=1):
                answer(text)
                answer(text)
        rolltrace.shutdown()
        if experiment == "one":
            assert main(["stats", str(tmp_path)]) == 0
            assert "  flags         cut_by_length 3, empty_response 1\n" in capsys.readouterr().out
    assert main(["stats", str(tmp_path)]) == 0
    assert "  flags         cut_by_length 1  (p / two)\n" in capsys.readouterr().out
    assert stats(tmp_path, capsys)["flags"] == [
        {"project": "p", "experiment": "one", "trajectories": {"cut_by_length": 3, "empty_response": 1}},
        {"project": "p", "experiment": "two", "trajectories": {"cut_by_length": 1}},
    ]
