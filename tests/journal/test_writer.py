"""The journal of one process: what is appended is read back, what is lost is counted."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from rolltrace.errors import StoreError
from rolltrace.journal import Entry, JournalWriter, SegmentReader, journal_files, read_journals
from rolltrace.record import NOTHING, Blob, encode_record
from rolltrace.settings import Settings


def body(number: int, size: int = 100) -> bytes:
    return encode_record(Blob(str(number), "test", NOTHING, os.urandom(size)))


def hashes(store: Path) -> list[int]:
    return [int(item.record.hash) for _, item in read_journals(store) if isinstance(item, Entry)]  # type: ignore[union-attr]


def test_appended_records_are_read_back_in_order(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    bodies = [body(n, size=n * 7) for n in range(200)]
    assert all(writer.append(each) for each in bodies)
    read = [encode_record(item.record) for _, item in read_journals(tmp_path) if isinstance(item, Entry)]
    assert read == bodies


def test_records_of_a_live_journal_are_visible_at_once(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {"project": "p"})
    writer.append(body(1))
    (path,) = journal_files(tmp_path)
    reader = SegmentReader.open(path)
    assert (reader.state, reader.meta["project"], len(list(reader))) == ("live", "p", 1)


def test_a_full_segment_is_sealed_and_the_next_begun(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10)
    for n in range(100):
        writer.append(body(n, size=4000))
    states = [SegmentReader.open(path).state for path in journal_files(tmp_path)]
    assert states == ["sealed"] * (len(states) - 1) + ["live"]
    assert len(states) > 5
    assert hashes(tmp_path) == list(range(100))


def test_a_sealed_segment_gives_unused_space_back(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=16 << 20)
    writer.append(body(1))
    writer.close()
    (path,) = journal_files(tmp_path)
    assert path.stat().st_size < 8192


def test_a_record_larger_than_a_segment_gets_one_of_its_size(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10)
    for n in range(3):
        assert writer.append(body(n, size=300_000))
    assert hashes(tmp_path) == [0, 1, 2]


def test_files_are_readable_by_the_owner_alone(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "store", {}).append(body(1))
    (path,) = journal_files(tmp_path / "store")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_threads_share_a_journal(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10)

    def write(first: int) -> None:
        for n in range(first, first + 300):
            writer.append(body(n, size=n % 997))

    threads = [threading.Thread(target=write, args=(k * 300,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(hashes(tmp_path)) == list(range(2400))
    assert writer.records == 2400


def test_a_finaliser_that_traces_during_an_append_loses_nothing(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})

    class Interrupting(bytes):
        """Calls back in the middle of an append, as a signal handler or a finaliser can."""

        def __len__(self) -> int:
            if not nested:
                nested.append(1)
                writer.append(body(99))
            return super().__len__()

    nested: list[int] = []
    writer.append(body(0))
    writer.append(Interrupting(body(1)))
    writer.append(body(2))
    assert hashes(tmp_path) == [0, 1, 99, 2]


def test_past_the_cap_records_are_counted_as_lost_by_step(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10, max_unsent_bytes=256 << 10)
    saved = [writer.append(body(n, size=10_000), step=n // 20) for n in range(100)]
    assert 10 <= sum(saved) < 30
    assert sum(writer.losses["journal_full"].values()) == saved.count(False)
    assert set(writer.losses["journal_full"]) <= {str(step) for step in range(5)}
    assert len(hashes(tmp_path)) == sum(saved)


def test_losses_are_on_disk_while_the_writer_lives(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.append(body(1))
    writer.lose("sample_limit", 4)
    writer.lose("sample_limit", 4)
    (path,) = journal_files(tmp_path)
    assert SegmentReader.open(path).losses == {"sample_limit": {"4": 2}}


def test_losses_of_very_many_steps_are_kept_as_a_sum(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.append(body(1))
    for step in range(5000):
        writer.lose("sample_limit", step)
    (path,) = journal_files(tmp_path)
    assert SegmentReader.open(path).losses == {"sample_limit": {"": 5000}}


def test_room_that_comes_back_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rolltrace.journal.writer.time.monotonic", lambda: now[0])
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10, max_unsent_bytes=128 << 10)
    while writer.append(body(1, size=10_000)):
        pass
    for path in journal_files(tmp_path)[:-1]:
        path.unlink()
    assert not writer.append(body(2, size=60_000))  # asked again only after a moment
    now[0] += 1
    assert writer.append(body(3, size=60_000))


def test_records_after_close_are_counted_as_lost(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.append(body(1))
    writer.close()
    assert not writer.append(body(2), step=3)
    assert writer.losses == {"after_shutdown": {"3": 1}}


def test_a_folder_removed_under_the_writer_is_made_again(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {}, segment_bytes=64 << 10)
    writer.append(body(0))
    journal_files(tmp_path)[0].unlink()
    writer.folder.rmdir()
    for n in range(20):
        writer.append(body(n, size=10_000))
    assert hashes(tmp_path)[-1] == 19


def test_a_store_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write to the store .*file.*ROLLTRACE_STORE"):
        JournalWriter(tmp_path / "file" / "store", {})


def test_the_defaults_are_those_of_the_settings(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    assert (writer._segment_bytes, writer._max_unsent_bytes) == (Settings().segment_bytes, Settings().max_unsent_bytes)


def test_a_loss_before_the_first_record_reaches_the_disk(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.lose("sample_limit", 1)
    (path,) = journal_files(tmp_path)
    assert SegmentReader.open(path).losses == {"sample_limit": {"1": 1}}
