"""Which file systems can be memory-mapped safely.

A mapped page that cannot be written back kills the process with SIGBUS. Local file systems that honour
`posix_fallocate` never do that; network and FUSE ones do (seen on WekaFS). Copy-on-write ones (btrfs, ZFS) may need
new space for a page that was reserved and written before. Unknown ones count as unsafe.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MAPPABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay"})
_ESCAPE = re.compile(r"\\([0-7]{3})")


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The file system type that the folder lies on, such as 'ext4' or 'nfs4'; None when it cannot be told."""
    try:
        text = mounts.read_text(errors="surrogateescape")
        device = os.stat(folder).st_dev
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    place = os.path.realpath(folder)
    best = (-1, "")
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        left = before.split(" ")
        if len(left) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), left[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        # btrfs gives subvolumes device numbers of their own, so the path decides and the number breaks ties.
        weight = 2 * len(point) + (left[2] == number)
        if inside and weight >= best[0]:
            best = (weight, after.split(" ")[0])
    return best[1] or None


def can_map(folder: Path) -> bool:
    """Whether journal files in the folder may be memory-mapped."""
    return hasattr(os, "posix_fallocate") and file_system_of(folder) in MAPPABLE
