"""Numbered files: each number is given once, and a number that was given long ago is not given again."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rolltrace.files import NumberedFiles
from rolltrace.files.numbered import create_file


def test_of_many_that_want_a_number_one_gets_it(tmp_path: Path) -> None:
    files = NumberedFiles(tmp_path / "row")
    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(lambda who: files.add(1, b"%d" % who), range(8)))
    assert sum(got) == 1
    assert files.path(1).read_bytes() == b"%d" % got.index(True)
    assert files.numbers() == [1]
    assert [path.name for path in files.folder.iterdir()] == ["00000001.json"], "no hidden file is left"


def test_a_number_that_was_removed_is_not_the_next_one(tmp_path: Path) -> None:
    files = NumberedFiles(tmp_path)
    for number in (1, 2, 3):
        assert files.add(number, b"")
    files.path(1).unlink()
    files.path(2).unlink()
    assert not files.add(2, b"of a host that was suspended")
    assert files.numbers() == [3]


def test_what_is_no_number_is_not_looked_at(tmp_path: Path) -> None:
    for name in ("12.json", "00000007.beat", ".00000009.json.0a.1.new", "x00000008.json"):
        (tmp_path / name).touch()
    assert NumberedFiles(tmp_path).newest() == 0
    assert NumberedFiles(tmp_path / "nowhere").newest() == 0


def test_without_links_the_second_still_finds_the_name_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert create_file(tmp_path / "name", b"first")
    assert not create_file(tmp_path / "name", b"second")
    assert (tmp_path / "name").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["name"]


def test_an_answer_that_was_lost_on_the_way_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS repeats a request of which it got no answer, and the second one fails, because the first one did not."""
    link = os.link

    def twice(*names: str) -> None:
        link(*names)
        link(*names)

    monkeypatch.setattr(os, "link", twice)
    assert create_file(tmp_path / "name", b"ours")
