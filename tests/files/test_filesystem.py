"""Which folders may be memory-mapped."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolltrace.files.filesystem import can_map, file_system_of
from rolltrace.journal import JournalWriter

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / {folder}/nfs rw - nfs4 server:/export rw
31 22 0:41 / {folder}/with\\040space rw master:1 - fuse.wekafs weka rw
32 30 0:42 / {folder}/nfs/scratch rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("home", "ext4"),
        ("nfs", "nfs4"),
        ("nfs/deep/er", "nfs4"),
        ("with space", "fuse.wekafs"),
        ("nfs/scratch/x", "xfs"),
        ("nfsx", "ext4"),
    ],
)
def test_the_nearest_mount_point_decides(tmp_path: Path, place: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(folder=tmp_path))
    (tmp_path / place).mkdir(parents=True)
    assert file_system_of(tmp_path / place, mounts) == kind


@pytest.mark.parametrize("kind", ["nfs4", "fuse.wekafs", "lustre", "zfs", "btrfs", "cifs", "9p", "something-new", None])
def test_network_fuse_and_unknown_file_systems_are_appended_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setattr("rolltrace.files.filesystem.file_system_of", lambda folder: kind)
    assert JournalWriter(tmp_path, {}).mode == "append"


def test_a_local_disk_is_mapped(tmp_path: Path) -> None:
    if file_system_of(tmp_path) in ("ext4", "xfs", "tmpfs", "overlay"):
        assert JournalWriter(tmp_path, {}).mode == "mmap"
    else:
        assert not can_map(tmp_path)


def test_the_mode_can_be_set(tmp_path: Path) -> None:
    assert JournalWriter(tmp_path, {}, mode="append").mode == "append"
    assert JournalWriter(tmp_path, {}, mode="mmap").mode == "mmap"
