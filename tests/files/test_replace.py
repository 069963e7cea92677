"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolltrace.files import host_tag, replace_file, replacing


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_reader_finds_the_old_content_until_all_of_the_new_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"all ", b"of ", b"it"):
            seen.append(path.read_bytes())
            yield piece

    replace_file(path, pieces())
    assert seen == [b"old"] * 3
    assert path.read_bytes() == b"all of it"
    assert list(tmp_path.iterdir()) == [path]


def interrupted(path: Path) -> None:
    with replacing(path) as hidden:
        hidden.write_bytes(b"half")
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        replace_file(path, (b"%d" % (1 // each) for each in (1, 0)))
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_leaves_the_old_content_and_a_hidden_file_that_names_the_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    program = (
        "import os, sys; from pathlib import Path; from rolltrace.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as hidden:\n"
        "    hidden.write_bytes(b'half'); print(os.getpid(), flush=True); os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, check=False)
    assert path.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.name.startswith(".file.")
    assert left.name.endswith(f".{int(killed.stdout)}.{host_tag()}.new")


def test_two_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as first:
        first.write_bytes(b"first")
        replace_file(path, b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"


def test_a_file_is_private_from_its_first_byte(tmp_path: Path) -> None:
    modes = []

    def pieces() -> Iterator[bytes]:
        modes.extend(mode(each) for each in tmp_path.iterdir())
        yield b"secret"

    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "private", pieces())
    finally:
        os.umask(before)
    assert modes == [0o600]
    assert mode(tmp_path / "private") == 0o600


def test_a_durable_file_is_synced_before_it_has_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    synced = []
    sync = os.fsync

    def noting(fd: int) -> None:
        synced.append((os.fstat(fd).st_ino, path.exists()))
        sync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    replace_file(path, b"plain")
    assert synced == []
    path.unlink()
    replace_file(path, b"durable", durable=True)
    assert synced == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
