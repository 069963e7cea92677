"""A disk that loses what was not synced: what is on it after a power cut, at any moment.

`os.fsync` is the only promise that a file system gives. This disk notes what each call makes safe, the content of a
file or the names in a folder, and can then be asked for what is there when the power fails:

- with `names="synced"`: nothing but that, as POSIX allows;
- with `names="all"`: every name made, changed or removed by then, as many file systems do, but of each file only the
  content that was synced. This finds files that got their name before their content, and files that were removed
  before what took their place was safe.

    def test_...(power: SimulatedDisk) -> None:
        ... work in power.folder ...
        for point in power.points():          # after each sync, in order
            store = power.after_cut(point)     # a folder with what the disk has
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

Inode = int
Names = Literal["synced", "all"]


class _State(NamedTuple):
    """What the disk has for sure, and which names there were, when a sync returned."""

    files: dict[Inode, bytes]
    folders: dict[Inode, dict[str, tuple[Inode, bool]]]
    tree: dict[Inode, dict[str, tuple[Inode, bool]]]


class SimulatedDisk:
    """Everything under `folder`, and what of it would survive a power cut."""

    def __init__(self, folder: Path, restored: Path) -> None:
        self.folder = folder
        self._restored = restored
        self._files: dict[Inode, bytes] = {}
        self._folders: dict[Inode, dict[str, tuple[Inode, bool]]] = {}
        self._open: list[int] = []
        """Copies of what was synced: an inode that is open is not given to another file."""
        self._states = [_State({}, {}, {})]
        self._sync = os.fsync

    def fsync(self, fd: Any) -> None:
        """In the place of `os.fsync`."""
        number = fd if isinstance(fd, int) else fd.fileno()
        self._sync(number)
        found = os.fstat(number)
        self._open.append(os.dup(number))
        if stat.S_ISDIR(found.st_mode):
            self._folders[found.st_ino] = _names(Path(f"/proc/self/fd/{number}"))
        else:
            with open(f"/proc/self/fd/{number}", "rb") as file:
                self._files[found.st_ino] = file.read()
        self._states.append(self._now())

    def _now(self) -> _State:
        tree = {folder.stat().st_ino: _names(folder) for folder in [self.folder, *_folders_in(self.folder)]}
        return _State(dict(self._files), dict(self._folders), tree)

    def points(self) -> range:
        """The moments at which the power may fail: before the first sync, and after each."""
        return range(len(self._states))

    def after_cut(self, point: int = -1, *, names: Names = "synced") -> Path:
        """A fresh folder with what the disk has if the power failed at this point; by default, now."""
        state = self._states[point] if point >= 0 else self._now()
        shutil.rmtree(self._restored, ignore_errors=True)
        self._restored.mkdir()
        self._restore(self._restored, self.folder.stat().st_ino, state, names)
        return self._restored

    def _restore(self, target: Path, inode: Inode, state: _State, names: Names) -> None:
        known = state.folders if names == "synced" else state.tree
        for name, (inner, is_folder) in known.get(inode, {}).items():
            if is_folder:
                (target / name).mkdir()
                self._restore(target / name, inner, state, names)
            else:
                (target / name).write_bytes(state.files.get(inner, b""))

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)


def _names(folder: Path) -> dict[str, tuple[Inode, bool]]:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries}


def _folders_in(folder: Path) -> Iterator[Path]:
    for path, inside, _ in os.walk(folder):
        yield from (Path(path, name) for name in inside)


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDisk]:
    """A disk whose power can fail. Only what this process does is seen: no drainer process, no forks."""
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SimulatedDisk(folder, tmp_path / "after-cut")
    monkeypatch.setattr(os, "fsync", disk.fsync)
    yield disk
    disk.close()
