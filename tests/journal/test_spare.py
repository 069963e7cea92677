"""Journal files made ahead: taken once, never read before that, gone with the drainer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rolltrace.drain import Follower
from rolltrace.journal import (
    Entry,
    JournalWriter,
    SegmentReader,
    drainer_lock,
    journal_files,
    journal_folder,
    make_spare,
    read_journals,
)
from rolltrace.keeper.process import follow
from rolltrace.record import NOTHING, Blob, encode_record

SIZE = 1 << 20


def writer_of(store: Path, mode: str = "mmap") -> JournalWriter:
    """A writer whose files have their full size from the second one on."""
    writer = JournalWriter(store, {"project": "p", "experiment": "e"}, segment_bytes=SIZE, mode=mode)
    writer.append(record(0))
    return writer


def record(number: int, size: int = 100) -> bytes:
    return encode_record(Blob(f"{number:016x}", "test", NOTHING, os.urandom(size)))


def numbers(store: Path) -> list[int]:
    return [int(item.record.hash, 16) for _, item in read_journals(store) if isinstance(item, Entry)]  # type: ignore[union-attr]


def spares(store: Path) -> list[Path]:
    return sorted(journal_folder(store).glob("*.spare"))


def test_a_writer_goes_on_in_a_file_that_was_made_ahead(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    assert make_spare(writer.folder, SIZE)
    (spare,) = spares(tmp_path)
    inode = spare.stat().st_ino
    writer.turn_over()
    writer.append(record(1), None, (b"",))
    assert spares(tmp_path) == []
    assert journal_files(tmp_path)[-1].stat().st_ino == inode
    assert SegmentReader.open(journal_files(tmp_path)[-1]).state == "live"
    assert numbers(tmp_path) == [0, 1]
    writer.close()
    assert journal_files(tmp_path)[-1].stat().st_size < SIZE, "what is not used is given back"


def test_nobody_takes_one_for_a_journal(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    make_spare(writer.folder, SIZE)
    assert len(journal_files(tmp_path)) == 1
    assert numbers(tmp_path) == [0]


def test_each_is_taken_by_one_writer(tmp_path: Path) -> None:
    first, second = writer_of(tmp_path), writer_of(tmp_path)
    make_spare(first.folder, SIZE)
    first.turn_over()
    second.turn_over()
    first.append(record(1))
    second.append(record(2))
    assert len({path.stat().st_ino for path in journal_files(tmp_path)}) == 4
    assert sorted(numbers(tmp_path)) == [0, 0, 1, 2]


@pytest.mark.parametrize("what", ["of another size", "cut short", "a link", "a folder"])
def test_one_that_is_not_what_it_should_be_is_not_used(tmp_path: Path, what: str) -> None:
    writer = writer_of(tmp_path)
    make_spare(writer.folder, SIZE // 2 if what == "of another size" else SIZE)
    (spare,) = spares(tmp_path)
    if what == "cut short":
        os.truncate(spare, 4096)
    elif what in ("a link", "a folder"):
        spare.unlink()
        if what == "a link":
            target = tmp_path / "precious"
            target.write_bytes(bytes(SIZE))
            spare.symlink_to(target)
        else:
            spare.mkdir()
    writer.turn_over()
    writer.append(record(1, SIZE // 2))
    writer.append(record(2, SIZE * 2 // 3))
    assert numbers(tmp_path) == [0, 1, 2]
    assert len(journal_files(tmp_path)) == 3
    assert writer.losses == {}
    if what == "a link":
        assert target.read_bytes() == bytes(SIZE)


def test_a_writer_that_appends_has_no_use_for_them(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, "append")
    make_spare(writer.folder, SIZE)
    writer.turn_over()
    writer.append(record(1))
    assert len(spares(tmp_path)) == 1
    assert numbers(tmp_path) == [0, 1]


def test_there_are_never_many(tmp_path: Path) -> None:
    folder = writer_of(tmp_path).folder
    assert [make_spare(folder, SIZE) for _ in range(6)] == [True] * 4 + [False] * 2


def test_they_do_not_count_as_undrained(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=SIZE, max_unsent_bytes=SIZE)
    for _ in range(4):
        make_spare(writer.folder, SIZE)
    assert writer.append(record(1))


def test_the_drainer_makes_one_for_a_writer_that_fills_its_files(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for number in range(1, 12):
        writer.append(record(number, SIZE // 8))
    Follower(tmp_path, makes_spares=True).drain()
    assert [path.stat().st_size for path in spares(tmp_path)] == [SIZE]


def test_the_drainer_makes_none_for_a_writer_with_little_to_say(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for number in range(1, 4):
        writer.append(record(number))
        writer.turn_over()
    Follower(tmp_path, makes_spares=True).drain()
    assert len(journal_files(tmp_path)) == 1
    assert spares(tmp_path) == []


def test_they_go_with_the_drainer(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    make_spare(writer.folder, SIZE)
    with drainer_lock(writer.folder):
        follow(tmp_path, idle_sec=0.0)
    assert spares(tmp_path) == []
