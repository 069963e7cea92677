"""`rolltrace doctor`: everything that can be wrong with a store, and what it says to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Follower
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


def data_files(store: Path, table: str) -> list[Path]:
    return [*(store / table / "data").rglob("*.parquet")]


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
    assert (problem["check"], problem["do"]) == ("format", "use the rolltrace that wrote it")


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
    with Follower(undrained).working():
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
    ("table", "place"), [("trajectories", 0.5), ("scores", 0.5), ("ops", 0), ("ops", 0.5), ("ops", 1)]
)
def test_a_flipped_byte_of_a_data_file_is_found(
    store: Path, table: str, place: float, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = data_files(store, table)
    data = bytearray(file.read_bytes())
    at = int((len(data) - 1) * place)
    data[at] ^= 1 << at % 8
    file.write_bytes(data)
    assert [(each["check"], each["where"]) for each in examine(store, capsys)] == [("tables", str(file))]


def test_a_data_file_that_was_cut_is_found(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = data_files(store, "ops")
    whole = file.read_bytes()
    for length in (0, 3, 100, -1, -9):
        file.write_bytes(whole[:length])
        (problem,) = examine(store, capsys)
        assert (problem["check"], problem["where"]) == ("tables", str(file))
    file.write_bytes(whole)
    assert examine(store, capsys) == []


def test_a_torn_entry_of_a_log_is_found_and_can_be_mended_as_it_says(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = store / "ops" / "_delta_log"
    torn = log / f"{len([*log.glob('*.json')]):020}.json"
    torn.write_text('{"add": {"pa')
    (problem,) = examine(store, capsys)
    assert (problem["check"], problem["where"]) == ("tables", str(torn))
    assert main(problem["do"].split()[1:]) == 0
    assert examine(store, capsys) == []


def test_files_that_killed_processes_left(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = next((store / "journal").iterdir())
    left = [
        store / ".format.json.0a1b2c3d.999999999.new",
        host / "20260101T000000-999999999-abcdabcd-000000.new",
    ]
    for path in left:
        path.touch(0o600)
    (store / f".format.json.0a1b2c3d.{os.getpid()}.new").touch()  # being written right now
    problems = examine(store, capsys)
    assert {each["where"] for each in problems} == set(map(str, left))
    for each in problems:
        assert os.system(each["do"]) == 0
    assert examine(store, capsys) == []


def test_a_data_file_that_a_killed_process_did_not_finish(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = data_files(store, "ops")
    left, at_work = file.with_name(".batch-31-old.parquet"), file.with_name(".batch-31-new.parquet")
    for path in (left, at_work):
        path.touch()
    os.utime(left, (0, 0))
    (problem,) = examine(store, capsys)
    assert (problem["check"], problem["where"]) == ("leftovers", str(left))
    assert main(problem["do"].split()[1:]) == 0
    assert capsys.readouterr().out == "6 files of 2 steps merged, 1 old file removed\n"
    assert examine(store, capsys) == []
    assert at_work.exists()


def test_half_a_file_that_was_to_replace_another_is_found(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("format.json", "journal/host/w-000001.state", "outbox/otlp/state.json", "tokenizers/f.json")
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


def test_a_link_among_the_data_files(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = data_files(store, "ops")
    (file.parent / "elsewhere.parquet").symlink_to(tmp_path)
    (problem,) = examine(store, capsys)
    assert (problem["check"], problem["what"]) == ("files", "a symbolic link, which is not followed")


def test_journals_of_a_host_that_is_gone_can_be_drained_as_it_says(
    undrained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = journal_files(undrained)
    gone = undrained / "journal" / "node07-0a1b2c3d"
    path.parent.rename(gone)
    main(["doctor", str(undrained), "--json"])
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    (note,) = [line for line in lines if line["check"] == "journals" and line["level"] == "note"]
    assert note["do"] == f"if that host is gone: rolltrace store drain --host node07-0a1b2c3d {undrained}"
    assert main(note["do"].split()[6:]) == 0
    assert len(rolltrace.open(undrained).trajectories()) == 3


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
    monkeypatch.setattr("rolltrace.doctor.contents._ENOUGH_FREE_BYTES", 1 << 62)
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
    def fail(*arguments: object, **options: object) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr("rolltrace.query.Store.damaged", fail)
    monkeypatch.setattr("rolltrace.doctor.contents._ENOUGH_FREE_BYTES", 1 << 62)
    assert [each["check"] for each in examine(store, capsys)] == ["tables", "disk"]


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
