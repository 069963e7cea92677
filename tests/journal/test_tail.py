"""A journal is followed while it is written: every record once, whatever the stretches."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from rolltrace.journal import JournalWriter, journal_folder
from rolltrace.journal.reader import Entry
from rolltrace.journal.tail import JournalTail, Position, Stretch, list_segments
from rolltrace.record import Coordinates, Event, encode_record


def note(number: int, size: int = 10) -> bytes:
    body = msgspec.Raw(msgspec.msgpack.encode({"number": number, "more": "x" * size}))
    return encode_record(Event(bytes(16), msgspec.Raw(encode_record(Coordinates())), "note", 1, 0, body))


def numbers(stretch: Stretch | None) -> list[int]:
    assert stretch is not None
    entries = [item for item in stretch.items if isinstance(item, Entry)]
    assert len(entries) == len(stretch.items)
    return [msgspec.msgpack.decode(item.record.body)["number"] for item in entries]  # type: ignore[union-attr]


@pytest.fixture
def writer(tmp_path: Path) -> JournalWriter:
    return JournalWriter(tmp_path, {"project": "p", "experiment": "e"}, segment_bytes=64 << 10)


def follow(writer: JournalWriter, position: Position = Position()) -> JournalTail:  # noqa: B008 - immutable
    return JournalTail(writer.folder, writer.writer_id, position)


def test_records_are_read_while_the_journal_is_written(writer: JournalWriter) -> None:
    writer.append(note(1))
    tail = follow(writer)
    assert numbers(tail.read()) == [1]
    assert not tail.has_news()
    assert tail.read() is None
    writer.append(note(2))
    writer.append(note(3))
    assert tail.has_news()
    stretch = tail.read()
    assert numbers(stretch) == [2, 3]
    assert stretch is not None
    assert not stretch.is_over
    assert stretch.meta["project"] == "p"


def test_a_journal_that_was_closed_is_over_once_it_is_read(writer: JournalWriter) -> None:
    writer.append(note(1))
    tail = follow(writer)
    assert numbers(tail.read()) == [1]
    assert tail.read() is None
    writer.close()
    last = tail.read()
    assert last is not None
    assert (last.items, last.is_over) == ([], True)


def test_every_record_is_read_once_over_many_segments_and_stretches(writer: JournalWriter) -> None:
    rng = random.Random(1)
    tail = follow(writer)
    read: list[int] = []
    for number in range(400):
        writer.append(note(number, rng.choice([5, 500, 5_000, 40_000])))
        if rng.random() < 0.2:
            while (stretch := tail.read(rng.choice([1, 1_000, 100_000]))) is not None:
                read += numbers(stretch)
                tail = follow(writer, Position.decode(stretch.end.encode()))  # as after a restart
    writer.close()
    while (stretch := tail.read()) is not None:
        read += numbers(stretch)
        if stretch.is_over:
            break
    assert read == list(range(400))
    assert len({sequence for _, sequence in list_segments(writer.folder)}) > 3


def test_a_batch_can_be_read_once_more_to_exactly_the_same_end(writer: JournalWriter) -> None:
    for number in range(5):
        writer.append(note(number))
    first = follow(writer).read()
    assert first is not None
    writer.append(note(5))
    again = follow(writer).read(until=first.end)
    assert numbers(again) == numbers(first) == [0, 1, 2, 3, 4]
    assert again is not None
    assert again.end == first.end


def test_segments_are_released_when_they_are_committed(writer: JournalWriter) -> None:
    for number in range(200):
        writer.append(note(number, 5_000))
    tail = follow(writer)
    while (stretch := tail.read()) is not None:
        end = stretch.end
    tail.release(end, is_over=False)
    assert [sequence for _, sequence in list_segments(writer.folder)] == [end.sequence]
    writer.close()
    over = tail.read()
    assert over is not None
    assert over.is_over
    tail.release(over.end, is_over=True)
    assert list_segments(journal_folder(writer.folder.parent.parent)) == []


def test_a_segment_that_begins_while_the_files_are_listed_is_not_missed(
    writer: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer begins the next segment and seals the last between our look at the folder and at the file: the journal
    is not over, and what comes next is neither left out nor removed."""
    writer.append(note(1))
    tail = follow(writer)
    listed = tail._sequences

    def list_then_turn_over() -> list[int]:
        sequences = listed()
        monkeypatch.setattr(tail, "_sequences", listed)
        writer.turn_over()
        writer.append(note(2))
        return sequences

    monkeypatch.setattr(tail, "_sequences", list_then_turn_over)
    first = tail.read()
    assert numbers(first) == [1]
    assert first is not None
    assert not first.is_over
    tail.release(first.end, is_over=first.is_over)
    assert numbers(tail.read()) == [2]
    writer.append(note(3))
    assert numbers(tail.read()) == [3]
    writer.close()
    assert not writer.losses


def test_losses_are_handed_over_without_a_record(writer: JournalWriter) -> None:
    writer.append(note(1))
    tail = follow(writer)
    assert numbers(tail.read()) == [1]
    writer.lose("untraced_rollout", 2, 8)
    writer.turn_over()
    told = tail.read()
    assert told is not None
    assert (told.items, told.losses) == ([], {"untraced_rollout": {"2": 8}})
    assert told.end == Position(1, 0)
    assert tail.read() is None
    writer.turn_over()
    assert [sequence for _, sequence in list_segments(writer.folder)] == [0, 1], "nothing was lost since"


def test_a_file_that_was_read_before_it_was_sealed_is_done_with(writer: JournalWriter) -> None:
    writer.append(note(1))
    tail = follow(writer)
    assert numbers(tail.read()) == [1]
    writer.turn_over()
    assert tail.has_news()
    assert numbers(tail.read()) == []
    tail.release(tail.position, is_over=False)
    assert not writer.sealed_files(), "whoever flushes waits for this"
    assert tail.read() is None
