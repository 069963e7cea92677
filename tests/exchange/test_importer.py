"""Files are imported once, however often they come; what cannot be read is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolltrace.errors import StoreError
from rolltrace.exchange.importer import ImportReport
from tests.draining import compact, drain

from .conftest import CHAT, Importer, export, write


def test_importing_again_changes_nothing(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "x.jsonl", [{"messages": CHAT, "reward": 1}] * 3)
    into("chat", file)
    before = export(into.store)
    assert into("chat", file) == ImportReport(0, 3, 0)
    assert export(into.store) == before
    assert into.count("spans") == 9


def test_importing_again_after_compaction_changes_nothing(tmp_path: Path, into: Importer) -> None:
    files = [write(tmp_path / f"{n}.jsonl", [{"messages": CHAT, "n": n}]) for n in range(3)]
    into("chat", *files)
    before = export(into.store)
    compact(into.path)
    into("chat", *files)
    assert (export(into.store), into.count("spans")) == (before, 9)


def test_a_file_that_has_grown_adds_only_what_is_new(tmp_path: Path, into: Importer) -> None:
    lines: list[Any] = [{"messages": CHAT, "at": 1}, "broken", {"messages": CHAT, "at": 1}]
    file = write(tmp_path / "x.jsonl", lines)
    assert into("chat", file) == ImportReport(2, 0, 1)
    lines[1] = {"messages": CHAT, "at": 2}
    write(file, [*lines, {"messages": CHAT, "at": 3}])
    for new in (2, 0):
        assert into("chat", file) == ImportReport(new, 4 - new, 0)
        assert (len(into.store.trajectories().rows()), into.count("spans")) == (4, 12)


def test_the_same_file_can_be_two_experiments(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "x.jsonl", [{"messages": CHAT}])
    into("chat", file, experiment="a")
    into("chat", file, experiment="b")
    assert (len(into.store.trajectories().rows()), into.count("spans")) == (2, 6)


def test_imports_stand_beside_what_was_traced(run: Path, tmp_path: Path) -> None:
    into = Importer(run)
    into("chat", write(tmp_path / "x.jsonl", [{"messages": CHAT, "step": 1}]))
    drain(run)
    store = into.store
    shown = store.trajectories()
    assert (len(shown), shown.older_runs) == (12, (1, 1)), "what has no run does not hide what was traced"
    assert len(store.trajectories(all_runs=True)) == 13


def test_a_file_that_is_not_there_is_reported(tmp_path: Path, into: Importer) -> None:
    good = write(tmp_path / "x.jsonl", [{"messages": CHAT}])
    (tmp_path / "empty").mkdir()
    assert into("chat", tmp_path / "gone.jsonl", tmp_path / "empty", good) == ImportReport(1, 0, 2)
    assert {bad.path.name: bad.reason for bad in into.bad} == {
        "gone.jsonl": "No such file or directory", "empty": "no file of this format in this folder",
    }  # fmt: skip


def test_a_folder_of_other_things_does_not_become_a_store(tmp_path: Path) -> None:
    file = write(tmp_path / "mine" / "x.jsonl", [{"messages": CHAT}])
    with pytest.raises(StoreError, match="is not a store"):
        Importer(tmp_path / "mine")("chat", file)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["x.jsonl"]
