"""What was sent is known after any kill, and a torn end costs at most a repeat."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rolltrace.keeper.position import HELD, REFUSED, SENT, Entry, Position


def ident(number: int) -> str:
    return f"{number:032x}"


def known(found: Position, *numbers: int) -> list[tuple[str | None, int | None, int | None]]:
    """State, records and time of the newest score, for each."""
    answer = found.ask("SELECT trajectory_id, state, records, scored_ns FROM entries").fetchall()
    rows = {trajectory_id: tuple(values) for trajectory_id, *values in answer}
    return [rows.get(ident(number), (None, None, None)) for number in numbers]


def opened(path: Path) -> Position:
    found = Position(path)
    found.load()
    return found


def test_what_was_added_is_known_to_the_next_process(tmp_path: Path) -> None:
    first = opened(tmp_path / "p")
    first.add([Entry(SENT, ident(1), 7, 100, 50), Entry(REFUSED, ident(2), 3, reason="too large")])
    first.add([Entry(HELD, ident(3), 1)])
    again = opened(tmp_path / "p")
    for each in (first, again):
        assert known(each, 1, 2, 3, 4) == [(SENT, 7, 100), (REFUSED, 3, 0), (HELD, 1, 0), (None, None, None)]
        assert (each.count(SENT), each.count(REFUSED), each.count(HELD)) == (1, 1, 1)
        assert each.reasons == {"too large": 1}
        assert each.bytes_today == 50


def test_the_last_word_about_a_trajectory_counts(tmp_path: Path) -> None:
    found = opened(tmp_path / "p")
    found.add([Entry(HELD, ident(1), 1)])
    found.add([Entry(SENT, ident(1), 2, 10)])
    found.add([Entry(SENT, ident(1), 2, 20)])
    assert known(found, 1) == known(opened(tmp_path / "p"), 1) == [(SENT, 2, 20)]
    assert found.count(SENT) == 1


def test_a_file_torn_anywhere_loses_only_what_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "p"
    opened(path).add(Entry(SENT, ident(n), n, 1000 + n) for n in range(1, 4))
    whole = path.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        found = opened(path)
        complete = sum(end < cut for end in ends)
        assert found.count(SENT) == complete, f"cut at byte {cut}"


def test_after_a_torn_end_new_entries_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "p"
    opened(path).add([Entry(SENT, ident(1), 1), Entry(SENT, ident(2), 1)])
    path.write_bytes(path.read_bytes()[:-5])
    found = opened(path)
    found.add([Entry(SENT, ident(3), 1)])
    assert known(opened(path), 1, 2, 3) == [(SENT, 1, 0), (None, None, None), (SENT, 1, 0)]


def test_lines_of_garbage_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "p"
    opened(path).add([Entry(SENT, ident(1), 1)])
    with path.open("ab") as file:
        file.write(b'\x00\xff\n[]\n"sent"\n["sent", 5]\n["lost", "x", 1]\n["sent", "y", "z", 1, 1, 1]\n')
    found = opened(path)
    assert found.count(SENT) == 1
    found.add([Entry(SENT, ident(2), 1)])
    assert found.count(SENT) == 2


def test_what_another_process_added_is_seen(tmp_path: Path) -> None:
    mine, other = opened(tmp_path / "p"), opened(tmp_path / "p")
    other.add([Entry(SENT, ident(1), 1)])
    mine.load()
    assert known(mine, 1) == [(SENT, 1, 0)]


def test_entries_are_on_the_disk_when_they_were_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size) or sync(fd))
    opened(tmp_path / "p").add([Entry(SENT, ident(1), 1)])
    assert synced == [(tmp_path / "p").stat().st_size]


def test_thousands_of_entries_are_known(tmp_path: Path) -> None:
    found = opened(tmp_path / "p")
    for start in range(0, 10_000, 500):
        found.add(Entry(SENT, ident(n), n, n) for n in range(start, start + 500))
    found.add(Entry(SENT, ident(n), n, n + 1) for n in range(100))
    assert known(found, 0, 99, 100, 9_999) == [(SENT, 0, 1), (SENT, 99, 100), (SENT, 100, 100), (SENT, 9999, 9999)]
    assert found.count(SENT) == opened(tmp_path / "p").count(SENT) == 10_000
