"""Reading journals that are torn, cut, flipped or foreign: seen and skipped, never misread."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rolltrace.errors import FormatError
from rolltrace.journal import Damage, Entry, JournalWriter, SegmentReader, journal_files, read_journals
from rolltrace.journal.segment import FRAME, FRAME_MAGIC, HEADER_BYTES, Segment
from rolltrace.record import NOTHING, Blob, encode_record


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A sealed journal of 200 records of growing size."""
    writer = JournalWriter(tmp_path, {"project": "p"})
    for n in range(200):
        writer.append(encode_record(Blob(str(n), "test", NOTHING, bytes([n]) * (n * 5))))
    writer.close()
    (path,) = journal_files(tmp_path)
    return path


def read(path: Path) -> tuple[list[Blob], list[Damage]]:
    items = list(SegmentReader.open(path))
    entries = [item.record for item in items if isinstance(item, Entry)]
    return entries, [item for item in items if isinstance(item, Damage)]  # type: ignore[return-value]


def assert_whole(entries: list[Blob]) -> None:
    for entry in entries:
        assert entry.data == bytes([int(entry.hash)]) * (int(entry.hash) * 5)


@pytest.mark.parametrize("seed", range(300))
def test_flipped_bytes_cost_only_the_records_they_hit(sealed: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(sealed.read_bytes())
    places = [chance.randrange(HEADER_BYTES, len(data)) for _ in range(chance.randint(1, 5))]
    for place in places:
        data[place] ^= 1 << chance.randrange(8)
    sealed.write_bytes(data)
    entries, damages = read(sealed)
    assert_whole(entries)
    assert 200 - len(places) <= len(entries) <= 200
    assert len(entries) == 200 or damages  # a flip in the padding between two records harms nothing


@pytest.mark.parametrize("seed", range(200))
def test_a_cut_file_keeps_every_record_before_the_cut(sealed: Path, seed: int) -> None:
    data = sealed.read_bytes()
    ends = [item.offset + 16 + item.size_bytes for item in SegmentReader.open(sealed) if isinstance(item, Entry)]
    cut = random.Random(seed).randrange(HEADER_BYTES, len(data))
    sealed.write_bytes(data[:cut])
    entries, damages = read(sealed)
    assert_whole(entries)
    assert len(entries) == sum(end <= cut for end in ends)
    assert all("torn" in each.reason for each in damages)


def test_a_lost_header_is_a_clear_error(sealed: Path) -> None:
    sealed.write_bytes(b"\0" * 100)
    with pytest.raises(FormatError, match="not a rolltrace journal"):
        SegmentReader.open(sealed)


def test_one_unreadable_file_does_not_hide_the_others(sealed: Path) -> None:
    (sealed.parent / "0-broken-000000.seg").write_bytes(b"nonsense")
    items = [item for _, item in read_journals(sealed.parents[2])]
    assert len([item for item in items if isinstance(item, Entry)]) == 200
    (damage,) = [item for item in items if isinstance(item, Damage)]
    assert damage.reason.endswith("or its header is lost")


def test_a_newer_version_is_a_clear_error(sealed: Path) -> None:
    data = bytearray(sealed.read_bytes())
    data[8] = 99
    sealed.write_bytes(data)
    with pytest.raises(FormatError, match=r"newer rolltrace \(journal version 99.*pip install -U rolltrace"):
        SegmentReader.open(sealed)


def test_damaged_meta_leaves_the_records_readable(sealed: Path) -> None:
    data = bytearray(sealed.read_bytes())
    data[70] ^= 0xFF
    sealed.write_bytes(data)
    reader = SegmentReader.open(sealed)
    assert reader.meta == {}
    assert len(list(reader)) == 200


def test_a_frame_inside_traced_data_is_not_taken_for_a_record(tmp_path: Path) -> None:
    inner = JournalWriter(tmp_path / "inner", {})
    inner.append(encode_record(Blob("smuggled", "test", NOTHING, b"x" * 100)))
    inner.close()
    frames = journal_files(tmp_path / "inner")[0].read_bytes()
    outer = JournalWriter(tmp_path / "outer", {})
    outer.append(encode_record(Blob("1", "test", NOTHING, frames)))
    outer.close()
    (path,) = journal_files(tmp_path / "outer")
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 20] ^= 1  # now the reader searches for the next frame, right through the inner one
    path.write_bytes(data)
    entries, damages = read(path)
    assert entries == []
    assert len(damages) == 1


def test_the_record_being_written_is_not_damage(tmp_path: Path) -> None:
    segment = Segment(tmp_path / "a.seg", 1 << 20, {})
    segment.append(encode_record(Blob("1", "test", NOTHING, b"x")))
    with segment.path.open("ab") as file:
        file.write(FRAME.pack(FRAME_MAGIC, 1, 100) + b"half")
    reader = SegmentReader.open(segment.path)
    assert [type(item) for item in reader] == [Entry]
    segment.release()  # as a kill would leave it
    reader = SegmentReader.open(segment.path)
    assert reader.state == "abandoned"
    assert [type(item) for item in reader] == [Entry, Damage]


def test_reading_can_go_on_where_it_ended(sealed: Path) -> None:
    reader = SegmentReader.open(sealed)
    entries = [item for item in reader if isinstance(item, Entry)]
    rest = list(reader.read_from(entries[150].offset))
    assert rest == entries[150:]


def test_a_reader_changes_nothing(sealed: Path) -> None:
    before = (sealed.read_bytes(), os.stat(sealed).st_mtime_ns)
    list(SegmentReader.open(sealed))
    assert (sealed.read_bytes(), os.stat(sealed).st_mtime_ns) == before


def test_every_truncation_of_garbage_is_survived(tmp_path: Path) -> None:
    chance = random.Random(7)
    folder = tmp_path / "journal" / "host"
    folder.mkdir(parents=True)
    for n in range(200):
        (folder / f"w-{n:06d}.seg").write_bytes(
            b"ROLLTRJ\x01" * chance.randrange(2) + chance.randbytes(chance.randrange(9000))
        )
    found = [item for _, item in read_journals(tmp_path)]
    assert len(found) >= 200
    assert all(isinstance(item, Damage) for item in found)
