"""`rolltrace doctor`: everything that can be wrong with a store, and what it says to do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Drainer
from rolltrace.files import replacing
from rolltrace.journal import journal_files
from tests.draining import drain


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt: str) -> dict[str, object]:
    return {"text": prompt * 20, "token_ids": list(range(100)), "logprobs": [-0.5] * 100}


def write(store: Path, **settings: Any) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, **settings)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=1) as trajectory:
            generate(f"prompt {sample}")
            trajectory.reward(1.0)


def write_all(store: Path, state: str) -> None:
    write(store)
    rolltrace.shutdown()
    if state == "drained":
        drain(store)


@pytest.fixture
def undrained(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "s", write_all, "undrained")


@pytest.fixture
def store(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "s", write_all, "drained")


def examine(store: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """The problems that are found."""
    code = main(["doctor", str(store), "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    problems = [each for each in found if each["level"] == "problem"]
    assert code == (1 if problems else 0)
    assert all(each["do"] for each in problems), "each one says what to do"
    return problems


def test_a_good_store_is_well(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert main(["doctor", str(store)]) == 0
    assert capsys.readouterr().out.endswith("\nall is well\n")
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_a_store_in_use_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert examine(tmp_path, capsys) == []


def test_a_store_in_which_nothing_was_recorded_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)  # and nothing recorded
    rolltrace.shutdown()
    (problem,) = examine(tmp_path, capsys)
    assert problem["check"] == "format"


def test_a_newer_format_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "format.json").write_text('{"format": 99}')
    (problem,) = examine(store, capsys)
    assert (problem["check"], problem["do"]) == ("format", "pip install -U rolltrace")


def test_a_damaged_version_can_be_mended_as_it_says(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "format.json").write_text("{")
    (problem,) = examine(store, capsys)
    assert os.system(problem["do"]) == 0
    assert examine(store, capsys) == []


def test_a_lost_version_can_be_mended_as_it_says(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "format.json").unlink()
    (problem,) = examine(store, capsys)
    assert main(problem["do"].split()[1:]) == 0
    assert examine(store, capsys) == []


def test_journals_that_wait_for_nobody(undrained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (problem,) = examine(undrained, capsys)
    assert problem["what"] == "1 finished journal file and no drainer is running"
    assert main(problem["do"].split()[1:]) == 0
    assert examine(undrained, capsys) == []


def test_journals_that_a_drainer_will_take_are_no_problem(undrained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Drainer(undrained).working():
        assert examine(undrained, capsys) == []


def test_journals_that_others_can_read(undrained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = journal_files(undrained)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    problems = [each for each in examine(undrained, capsys) if each["check"] == "permissions"]
    assert {each["where"] for each in problems} == {str(path), str(path.parent)}
    for each in problems:
        assert os.system(each["do"]) == 0
    assert [each["check"] for each in examine(undrained, capsys)] == ["journals"]


def test_damaged_places_of_a_journal(undrained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = journal_files(undrained)
    data = bytearray(path.read_bytes())
    data[4112] ^= 1  # in the first record
    path.write_bytes(data)
    problem = examine(undrained, capsys)[0]
    assert problem["where"] == f"{path}, at byte 4096"
    path.write_bytes(b"\0" * 5000)
    assert "not a rolltrace journal" in examine(undrained, capsys)[0]["what"]


@pytest.mark.parametrize(
    ("table", "place"), [("trajectories", 0.5), ("scores", 0.5), ("spans", 0), ("spans", 0.5), ("spans", 1)]
)
def test_a_flipped_byte_of_a_part_is_found(
    store: Path, table: str, place: float, capsys: pytest.CaptureFixture[str]
) -> None:
    (part,) = store.rglob(f"{table}--*.parquet")
    data = bytearray(part.read_bytes())
    at = int((len(data) - 1) * place)  # tests/store/test_checksum.py flips every one
    data[at] ^= 1 << at % 8
    part.write_bytes(data)
    assert [(each["check"], each["where"]) for each in examine(store, capsys)] == [("parts", str(part))]


def test_a_part_that_was_cut_is_found(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = store.rglob("spans--*.parquet")
    whole = part.read_bytes()
    for length in (0, 3, 100, -1, -9):
        part.write_bytes(whole[:length])
        (problem,) = examine(store, capsys)
        assert (problem["check"], problem["where"]) == ("parts", str(part))
    shutil.move(part, f"{part}.bad")
    assert examine(store, capsys) == []


def test_files_that_killed_processes_left(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = store.rglob("spans--*.parquet")
    host = next((store / "journal").iterdir())
    left = [
        part.with_name(f".{part.name}.999999999.new"),
        store / ".format.json.0a1b2c3d.999999999.new",
        host / "20260101T000000-999999999-abcdabcd-000000.new",
        host / "20260101T000000-999999999-abcdabcd-000000.open",
    ]
    for path in left:
        path.touch(0o600)
    part.with_name(f".{part.name}.{os.getpid()}.new").touch()  # being written right now
    problems = examine(store, capsys)
    assert {each["where"] for each in problems} == set(map(str, left))
    for each in problems:
        assert os.system(each["do"]) == 0
    assert examine(store, capsys) == []


def test_half_a_file_that_was_to_replace_another_is_found(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("format.json", "journal/host/w-000001.open", "outbox/otlp/state.json", "tokenizers/f.json", "blobs/ab/abc")
    left = []
    with ExitStack() as at_work:
        for file in files:
            (store / file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            being_written = at_work.enter_context(replacing(store / file))
            left.append(being_written.with_name(being_written.name.replace(str(os.getpid()), "999999999")))
            for path in (being_written, left[-1]):
                path.touch(0o600)
        problems = examine(store, capsys)
    assert {each["where"] for each in problems} == set(map(str, left))


def test_parts_that_are_none_of_ours(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = store.rglob("spans--*.parquet")
    future = shutil.copy(part, part.with_name("futures--x.parquet"))
    stray = shutil.copy(part, store / "data/x.parquet")
    found = {each["where"]: each["what"] for each in examine(store, capsys)}
    assert found == {
        str(future): "a part of a table that this rolltrace does not know, 'futures'",
        str(stray): "not a part of this store",
    }


def test_losses_by_choice_are_no_problem_others_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, max_samples_per_step_per_worker=1)
    assert examine(tmp_path, capsys) == []
    rolltrace.shutdown()
    (path,) = journal_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[4200] ^= 1
    path.write_bytes(data)
    drain(tmp_path)
    (problem,) = examine(tmp_path, capsys)
    assert (problem["check"], problem["what"]) == ("losses", "1 record lost: damaged")


def test_a_full_disk(store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltrace.doctor.surroundings._ENOUGH_FREE_BYTES", 1 << 62)
    (problem,) = examine(store, capsys)
    assert problem["check"] == "disk"


def test_the_last_words_of_the_drainer(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = next((store / "journal").iterdir())
    (host / "drainer.log").write_text("one\ntwo\nthree\n\x1b[31mOSError: no space\n")
    assert main(["doctor", str(store)]) == 0
    said = capsys.readouterr().out
    assert "the drainer said: two | three | \\x1b[31mOSError: no space" in said


def test_a_check_that_fails_does_not_hide_the_others(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: Path) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr("rolltrace.store.list_parts", fail)
    monkeypatch.setattr("rolltrace.doctor.surroundings._ENOUGH_FREE_BYTES", 1 << 62)
    assert [each["check"] for each in examine(store, capsys)] == ["parts", "disk"]


def test_scores_of_unknown_trajectories_are_a_note(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    rolltrace.score("ab" * 16, "reward", 1.0)
    for n in range(3):
        rolltrace.score((9, 4, n, True), "fate", "trained")
    rolltrace.score((1, 0, None), "advantage", 1.0)
    rolltrace.shutdown()
    drain(store)
    assert examine(store, capsys) == []
    main(["doctor", str(store), "--json"])
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    summary, by_id, *by_coordinates = [line for line in lines if line["check"] == "scores"]
    assert summary["level"] == "note"
    assert summary["what"].startswith("4 scores without a trajectory")
    assert by_id["what"].startswith(f"reward for {'ab' * 16}, given 20")
    assert len(by_coordinates) == 3
    assert by_coordinates[0]["what"].startswith("fate for (step 9, sample 4, rollout 0, validation), given 20")
    assert by_coordinates[0]["what"].endswith(" of run test")
    assert by_coordinates[0]["where"] == "p / e"
