"""What an answer lacks is told: damaged files, journals that cannot be read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.journal import journal_files
from rolltrace.query import Incomplete, IncompleteWarning, Missing
from tests.cli.conftest import write
from tests.draining import drain
from tests.nightly import nightly

from .conftest import files_of


@pytest.fixture
def store(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "s", write)


def cut(store: Path, table: str, step: int) -> Path:
    """Cut a file short, as a full disk or a broken copy does."""
    (file,) = files_of(store, table, step)
    file.write_bytes(file.read_bytes()[:-100])
    return file


def test_a_complete_answer_lacks_nothing(store: Path) -> None:
    asked = rolltrace.open(store)
    assert not asked.trajectories().incomplete
    assert not asked.incomplete
    assert asked.trajectories().incomplete == Incomplete()


def test_a_damaged_file_is_warned_of_once_and_named_in_each_answer(store: Path) -> None:
    part = cut(store, "trajectories", 2)
    asked = rolltrace.open(store)
    with pytest.warns(IncompleteWarning, match=f"the data file step-2/{part.name} cannot be read") as told:
        answers = [asked.trajectories(), asked.groups()]
    assert len(told) == 1
    for answer in answers:
        (missing,) = answer.incomplete.missing
        assert (missing.kind, missing.path) == ("file", part)
        assert "cannot be read" in repr(answer)
    assert asked.incomplete == answers[0].incomplete


def test_files_and_journals_are_told_apart(store: Path) -> None:
    cut(store, "trajectories", 1)
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=9):
        pass
    rolltrace.shutdown()
    (journal,) = journal_files(store)
    journal.write_bytes(b"not a journal" * 1000)
    asked = rolltrace.open(store)
    with pytest.warns(IncompleteWarning) as told:
        kinds = asked.trajectories().incomplete.kinds
    assert kinds == ["journal", "file"]
    assert len(told) == 2


def test_a_journal_that_the_drainer_set_aside_is_missing(store: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=9):
        pass
    rolltrace.shutdown()
    (journal,) = journal_files(store)
    aside = journal.rename(f"{journal}.aside")
    with pytest.warns(IncompleteWarning, match="set aside by the drainer"):
        answer = rolltrace.open(store).trajectories(step=9)
    assert answer.incomplete.missing == (
        Missing("journal", aside, "set aside by the drainer, which failed on it twice"),
    )


def flip(part: Path, at: int) -> None:
    """Flip one bit, as a failing disk does."""
    data = bytearray(part.read_bytes())
    data[at % len(data)] ^= 1 << at % 8
    part.write_bytes(data)


READS = {
    "trajectories": lambda store: store.trajectories(),
    "scores": lambda store: store.trajectories(),
    "ops": lambda store: store.sql("FROM ops"),
    "notes": lambda store: store.sql("FROM notes"),
}


@pytest.mark.parametrize("table", READS)
def test_one_flipped_bit_is_never_answered_silently(store: Path, table: str) -> None:
    """Wherever it is in a part that an answer reads, the answer is the right one or says what it lacks."""
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=1, sample_index=77) as trajectory:
        trajectory.note("first words")
        trajectory.reward(0.5)
        for number in range(20):
            trajectory.note(f"note {number}")
    rolltrace.shutdown()
    drain(store)
    part = files_of(store, table, 1)[-1]
    intact = part.read_bytes()
    right = sorted(map(repr, READS[table](rolltrace.open(store)).rows()))
    for at in range(4, len(intact), max(1, len(intact) // nightly(60, 5))):
        part.write_bytes(intact)
        flip(part, at)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            answer = READS[table](rolltrace.open(store))
            rows = sorted(map(repr, answer.rows()))
        if answer.incomplete:
            assert [each.path for each in answer.incomplete.missing] == [part]
            assert [each.category for each in told] == [IncompleteWarning]
        else:
            assert rows == right


@pytest.mark.parametrize("drained", [False, True])
def test_a_zeroed_page_of_a_journal_is_told_where_its_trajectories_are_missing(
    tmp_path: Path, drained: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    for sample in range(40):
        with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=0) as trajectory:
            trajectory.reward(1.0, terms={"why": float(sample)})
            trajectory.note("x" * 300)
    rolltrace.shutdown()
    (journal,) = journal_files(tmp_path)
    data = bytearray(journal.read_bytes())
    data[12288:16384] = bytes(4096)
    journal.write_bytes(data)
    if drained:
        drain(tmp_path)
    store = rolltrace.open(tmp_path)
    with pytest.warns(IncompleteWarning, match="1 damaged place in .* the records there are lost") as told:
        answer = store.trajectories()
    assert len(told) == 1
    assert 30 < len(answer) < 40
    assert [each.kind for each in answer.incomplete.missing] == ["damage"]
    assert "the records there are lost" in repr(answer)
    assert main(["ls", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rolltrace: 1 damaged place in ")
    assert line.endswith(f"; see: rolltrace doctor {tmp_path}")


def test_what_is_put_right_is_not_missing_any_more(store: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=9):
        pass
    rolltrace.shutdown()
    (journal,) = journal_files(store)
    aside = journal.rename(f"{journal}.aside")
    asked = rolltrace.open(store)
    with pytest.warns(IncompleteWarning):
        assert len(asked.trajectories(step=9)) == 0
    aside.rename(journal)
    asked.refresh()
    answer = asked.trajectories(step=9)
    assert (len(answer), bool(answer.incomplete)) == (1, False)


@pytest.mark.parametrize(
    "command",
    [["ls"], ["groups"], ["live", "--finished", "--once"], ["sql", "select * from trajectories"], ["stats"], ["live"]],
)
def test_commands_tell_of_a_damaged_file_in_one_line(
    store: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    part = cut(store, "trajectories", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as `python -W ignore`, which hides warnings and not this
        assert main([*command, "--store", str(store)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rolltrace: the data file step-2/{part.name} cannot be read (")
    assert line.endswith(f"; see: rolltrace doctor {store}")


def test_retention_leaves_a_step_with_a_damaged_file_alone(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(store, "trajectories", 1)
    assert main(["store", "retain", "--keep", "none", "--dry-run", "--store", str(store)]) == 0
    assert "would drop 4 trajectories" in capsys.readouterr().out
