"""Parts are replaced in one way: whoever lies, is killed, is slow or is another host, no row is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rolltrace.cli import main
from rolltrace.files import host_tag
from rolltrace.journal import journal_folder
from rolltrace.record.tables import SPANS
from rolltrace.store import (
    Owned,
    Partition,
    compact,
    foreign_entries,
    list_parts,
    prepare,
    prune,
    remove_abandoned,
    remove_leftovers,
    remove_replaced,
    write_part,
    write_table,
)
from rolltrace.store.layout import source_of
from rolltrace.store.parts import Replaced

PLACE = Partition("p", "e", 1)


def add(store: Path, source: str, *op_ids: int) -> Path:
    where = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "t"}
    return write_part(store, PLACE, SPANS, source, [{**where, "op_id": each, "payload": "{}"} for each in op_ids])


def op_ids(store: Path) -> Counter[int]:
    return Counter(
        row["op_id"] for part in list_parts(store) for row in pq.read_table(part, partitioning=None).to_pylist()
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(tmp_path)
    for number in range(4):
        add(tmp_path, f"w-00000{number}", *range(number * 10, number * 10 + 10))
    return tmp_path


def crafted(store: Path, source: str, claims: list[Replaced], merged: int, removed: int = 0) -> Path:
    """A part of one row whose footer says that it stands for others."""
    rows = pq.read_table(add(store, "tmp", 99), partitioning=None)
    (PLACE.folder(store) / "spans--tmp.parquet").unlink()
    return write_table(store, PLACE, SPANS, source, rows, replaces=claims, merged=merged, removed=removed)


class TestFootersThatLie:
    def test_counts_that_do_not_fit_hide_nothing(self, store: Path) -> None:
        crafted(store, "compact-liar", [Replaced(f"w-00000{n}", 10) for n in range(4)], 4)
        assert op_ids(store) == Counter([*range(40), 99])

    def test_a_part_with_other_rows_than_were_counted_stays_visible(self, store: Path) -> None:
        crafted(store, "compact-liar", [Replaced("w-000000", 1)], 1)
        assert op_ids(store) == Counter([*range(40), 99])

    def test_two_that_claim_each_other_hide_neither(self, store: Path) -> None:
        crafted(store, "compact-one", [Replaced("compact-two", 1)], 1)
        crafted(store, "compact-two", [Replaced("compact-one", 1)], 1)
        assert op_ids(store)[99] == 2

    def test_nothing_is_removed_because_a_footer_says_so(self, store: Path) -> None:
        """Rows that are said to have been left out on purpose are believed by readers, and never by who removes."""
        crafted(store, "compact-liar", [Replaced("w-000000", 10)], 1, removed=9)
        compact(store)
        remove_replaced(store, grace_sec=0)
        assert remove_leftovers(store, Owned(store), grace_sec=0) == 0
        assert (PLACE.folder(store) / "spans--w-000000.parquet").exists()

    def test_a_note_that_leads_out_of_the_store_removes_nothing(self, store: Path, tmp_path: Path) -> None:
        precious = tmp_path / "precious.parquet"
        precious.touch()
        new = crafted(store, "compact-x", [Replaced("w-000000", 1)], 1)
        notes = journal_folder(store) / "replaced.jsonl"
        notes.parent.mkdir(parents=True)
        name = str(new.relative_to(store / "data"))
        notes.write_text(json.dumps([name, ["../precious.parquet", str(precious), "a/b/c/../../../x"], 0]) + "\n")
        remove_replaced(store, grace_sec=0)
        assert precious.exists()


class TestKills:
    def test_a_note_without_its_part_is_forgotten(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rolltrace.store.merge.write_table", _killed)
        with pytest.raises(KeyboardInterrupt):
            compact(store)
        monkeypatch.undo()
        remove_replaced(store, grace_sec=0)
        assert op_ids(store) == Counter(range(40))
        compact(store)
        remove_replaced(store, grace_sec=0)
        assert op_ids(store) == Counter(range(40))
        assert len(list_parts(store)) == 1

    def test_a_replaced_part_of_which_no_note_is_left_goes_once_its_rows_are_seen(self, store: Path) -> None:
        compact(store)
        (journal_folder(store) / "replaced.jsonl").unlink()
        assert not remove_replaced(store, grace_sec=0)
        assert remove_leftovers(store, Owned(store), grace_sec=0) == 4
        assert op_ids(store) == Counter(range(40))
        assert len(list(PLACE.folder(store).iterdir())) == 1

    def test_hidden_files_of_a_killed_process_are_removed(self, store: Path) -> None:
        process = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
        )
        pid = process.stdout.strip()
        gone = PLACE.folder(store) / f".spans--w.parquet.0a1b.{pid}.{host_tag()}.new"
        alive = PLACE.folder(store) / f".spans--w.parquet.0a1b.{os.getpid()}.{host_tag()}.new"
        other = PLACE.folder(store) / f".spans--w.parquet.0a1b.{pid}.h01234567.new"
        for path in (gone, alive, other):
            path.touch()
        assert remove_abandoned(store) == 0, "a file that is young may belong to a process that cannot be seen"
        assert remove_abandoned(store, youngest_sec=0.0) == 1
        assert not gone.exists()
        assert alive.exists()
        assert other.exists()
        os.utime(other, (0, 0))
        assert remove_abandoned(store) == 1


def _killed(*args: object, **kwargs: object) -> Path:
    raise KeyboardInterrupt


class TestReaders:
    def test_who_has_listed_the_parts_can_finish_reading_them(self, store: Path) -> None:
        listed = list_parts(store)
        compact(store)
        assert remove_replaced(store)
        assert sum(pq.read_metadata(part).num_rows for part in listed) == 40

    def test_a_clock_that_was_set_back_does_not_keep_them_for_ever(self, store: Path) -> None:
        compact(store)
        notes = journal_folder(store) / "replaced.jsonl"
        new, old, time_ns = json.loads(notes.read_text())
        notes.write_text(json.dumps([new, old, time_ns + 86_400 * 10**9]) + "\n")
        assert not remove_replaced(store)
        assert len(list(PLACE.folder(store).iterdir())) == 1


class TestHosts:
    @pytest.fixture
    def shared(self, store: Path) -> Path:
        """Another host has written to the store too."""
        (store / "journal" / "other-01234567").mkdir(parents=True)
        mine, theirs = host_tag(), "h89abcdef"
        for number in range(3):
            add(store, f"x-{mine}-00000{number}", 100 + number)
            add(store, f"x-{theirs}-00000{number}", 200 + number)
        return store

    def test_a_host_merges_only_what_it_brought(self, shared: Path) -> None:
        before = op_ids(shared)
        compact(shared)
        remove_replaced(shared, grace_sec=0)
        assert op_ids(shared) == before
        sources = sorted(source_of(part) for part in list_parts(shared))
        assert [source for source in sources if "h89abcdef" in source] == [f"x-h89abcdef-00000{n}" for n in range(3)]
        assert [source for source in sources if source.startswith("w-")] == [f"w-00000{n}" for n in range(4)]
        assert len(sources) == 8

    def test_a_host_prunes_only_what_it_brought(self, shared: Path) -> None:
        prune(shared, {"t"})
        payloads = {
            row["op_id"]: row["payload"]
            for part in list_parts(shared, "spans")
            for row in pq.read_table(part, partitioning=None).to_pylist()
        }
        assert {op_id for op_id, payload in payloads.items() if payload is None} == {100, 101, 102}

    def test_somebody_can_say_that_no_other_host_is_at_work(
        self, shared: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = op_ids(shared)
        assert main(["compact", str(shared)]) == 0
        assert "other-01234567" in capsys.readouterr().err
        assert main(["compact", str(shared), "--all-hosts"]) == 0
        assert capsys.readouterr().err == ""
        assert op_ids(shared) == before
        assert len(list_parts(shared)) == 1


class TestForeignFiles:
    def test_a_link_into_another_store_is_not_followed(
        self, store: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        other = tmp_path_factory.mktemp("other")
        prepare(other)
        for number in range(4):
            add(other, f"w-00000{number}", number)
        (store / "data" / "project=q").symlink_to(other / "data" / "project=p")
        compact(store)
        remove_replaced(store, grace_sec=0)
        assert op_ids(store) == Counter(range(40))
        assert len(list_parts(other)) == 4

    def test_what_is_none_of_ours_is_left_out_and_named(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = PLACE.folder(store)
        (folder.parent / "step=abc").mkdir()
        (folder.parent / "step=abc" / "spans--w-000009.parquet").write_bytes(b"x")
        os.mkfifo(folder / "spans--fifo.parquet")
        (folder / "spans--w-000000 (1).parquet").write_bytes((folder / "spans--w-000000.parquet").read_bytes())
        (folder / "spans--link.parquet").symlink_to(folder / "spans--w-000000.parquet")
        assert op_ids(store) == Counter(range(40))
        names = {path.name for path in foreign_entries(store)}
        assert names == {"step=abc", "spans--fifo.parquet", "spans--w-000000 (1).parquet", "spans--link.parquet"}
        assert main(["doctor", str(store)]) == 1
        printed = capsys.readouterr().out
        assert all(name in printed for name in names)


def test_doctor_finds_ops_that_are_stored_twice(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(store, "w-000009", 5)
    assert main(["doctor", str(store)]) == 1
    assert "1 op stored more than once" in capsys.readouterr().out
