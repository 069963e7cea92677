"""What an answer lacks is told: damaged parts, journals that cannot be read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.journal import journal_files
from rolltrace.query import Incomplete, IncompleteWarning, Missing
from rolltrace.store import list_parts
from tests.cli.conftest import write


@pytest.fixture
def store(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "s", write)


def cut(store: Path, table: str, step: int) -> Path:
    """Cut a part short, as a full disk or a broken copy does."""
    (part,) = [each for each in list_parts(store, table) if each.parent.name == f"step={step}"]
    part.write_bytes(part.read_bytes()[:-100])
    return part


def test_a_complete_answer_lacks_nothing(store: Path) -> None:
    asked = rolltrace.open(store)
    assert not asked.trajectories().incomplete
    assert not asked.incomplete
    assert asked.trajectories().incomplete == Incomplete()


def test_a_damaged_part_is_warned_of_once_and_named_in_each_answer(store: Path) -> None:
    part = cut(store, "trajectories", 2)
    asked = rolltrace.open(store)
    with pytest.warns(IncompleteWarning, match=f"the part step=2/{part.name} cannot be read") as told:
        answers = [asked.trajectories(), asked.groups()]
    assert len(told) == 1
    for answer in answers:
        (missing,) = answer.incomplete.missing
        assert (missing.kind, missing.path) == ("part", part)
        assert "cannot be read" in repr(answer)
    assert asked.incomplete == answers[0].incomplete


def test_parts_and_journals_are_told_apart(store: Path) -> None:
    cut(store, "spans", 1)
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=9):
        pass
    rolltrace.shutdown()
    (journal,) = journal_files(store)
    journal.write_bytes(b"not a journal" * 1000)
    asked = rolltrace.open(store)
    with pytest.warns(IncompleteWarning) as told:
        kinds = asked.trajectories().incomplete.kinds
    assert kinds == ["journal", "part"]
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
    "command", [["ls"], ["groups"], ["tail", "--once"], ["sql", "select * from trajectories"], ["stats"], ["live"]]
)
def test_commands_tell_of_a_damaged_part_in_one_line(
    store: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    part = cut(store, "trajectories", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as `python -W ignore`, which hides warnings and not this
        assert main([*command, "--store", str(store)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rolltrace: the part step=2/{part.name} cannot be read (")
    assert line.endswith(f"; see: rolltrace doctor {store}")


def test_retention_leaves_a_step_with_a_damaged_part_alone(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(store, "trajectories", 1)
    assert main(["retain", "--keep", "none", "--dry-run", "--store", str(store)]) == 0
    assert "1 finished step to look at: would drop 4 trajectories" in capsys.readouterr().out
