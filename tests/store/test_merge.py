"""Parts are replaced in one way: whoever lies, is killed, is slow or is another host, no row is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltrace.cli import main
from rolltrace.files import host_name, host_tag
from rolltrace.record.tables import SPANS
from rolltrace.store import (
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
from rolltrace.store.merge import Superseded, replace_parts
from rolltrace.store.parts import PartOrigins, Replaced

PLACE = Partition("p", "e", 1)


def add(store: Path, source: str, *op_ids: int) -> Path:
    where = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "t"}
    return write_part(store, PLACE, SPANS, source, [{**where, "op_id": each, "payload": "{}"} for each in op_ids])


def op_ids(store: Path) -> Counter[int]:
    return Counter(
        row["op_id"]
        for part in list_parts(store, "spans")
        for row in pq.read_table(part, partitioning=None).to_pylist()
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
    return write_table(store, PLACE, SPANS, source, rows, replaces=claims, origins=PartOrigins([], merged, removed))


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
        assert remove_leftovers(store, grace_sec=0) == 0
        assert (PLACE.folder(store) / "spans--w-000000.parquet").exists()

    def test_a_note_that_leads_out_of_the_store_removes_nothing(self, store: Path, tmp_path: Path) -> None:
        precious = tmp_path / "precious.parquet"
        precious.touch()
        new = crafted(store, "compact-x", [Replaced("w-000000", 1)], 1)
        note = store / "upkeep" / "replaced" / "0123456789abcdef.json"
        note.parent.mkdir(parents=True)
        old = ["../precious.parquet", str(precious), "a/b/c/../../../x"]
        name = str(new.relative_to(store / "data"))
        note.write_text(json.dumps({"new": name, "old": old, "host": host_name(), "time_ns": 0}))
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
        for note in (store / "upkeep" / "replaced").iterdir():
            note.unlink()
        assert not remove_replaced(store, grace_sec=0)
        assert remove_leftovers(store, grace_sec=0) == 4
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
        (note,) = (store / "upkeep" / "replaced").iterdir()
        page = json.loads(note.read_text())
        note.write_text(json.dumps({**page, "time_ns": page["time_ns"] + 86_400 * 10**9}))
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

    def test_what_several_hosts_brought_is_merged_together(self, shared: Path) -> None:
        before = op_ids(shared)
        assert main(["compact", str(shared)]) == 0
        remove_replaced(shared, grace_sec=0)
        assert op_ids(shared) == before
        assert len(list_parts(shared)) == 1

    def test_parts_are_replaced_once_however_many_try(self, shared: Path) -> None:
        before = op_ids(shared)
        parts = list_parts(shared)
        rows = [pq.read_table(part, partitioning=None) for part in parts]
        replace_parts(shared, PLACE, SPANS, parts[:2], pa.concat_tables(rows[:2]))
        with pytest.raises(Superseded):
            replace_parts(shared, PLACE, SPANS, parts[1:3], pa.concat_tables(rows[1:3]))
        assert op_ids(shared) == before

    def test_a_generation_that_was_used_long_ago_is_void(self, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A host looks, is suspended, and goes on when its generation has come and gone."""
        before = op_ids(shared)
        parts = list_parts(shared)
        rows = pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts[:4]])

        def suspended(*args: Any, **options: Any) -> Path:
            monkeypatch.undo()
            compact(shared)
            remove_replaced(shared, grace_sec=0)
            prune(shared, {"t"})
            remove_replaced(shared, grace_sec=0)
            late = write_table(*args, **options)
            assert op_ids(shared) == before, "a reader leaves it out before its writer knows"
            assert remove_leftovers(shared, grace_sec=0) == 1
            assert not late.exists()
            return write_table(*args, **options)

        monkeypatch.setattr("rolltrace.store.merge.write_table", suspended)
        with pytest.raises(Superseded):
            replace_parts(shared, PLACE, SPANS, parts[:4], rows)
        assert op_ids(shared) == before
        assert len(list(PLACE.folder(shared).glob("spans--*"))) == 1

    def test_what_another_host_has_replaced_stays_for_those_who_read_it(self, shared: Path) -> None:
        """Whatever its clock says: how long is measured here."""
        compact(shared)
        (note,) = (shared / "upkeep" / "replaced").iterdir()
        note.write_text(json.dumps({**json.loads(note.read_text()), "host": "other-01234567", "time_ns": 0}))
        assert remove_replaced(shared, grace_sec=60)
        assert len(list(PLACE.folder(shared).iterdir())) == 11
        assert not remove_replaced(shared, grace_sec=0)
        assert len(list(PLACE.folder(shared).iterdir())) == 1


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
