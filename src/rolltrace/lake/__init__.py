"""The lake: finished parts of many hosts as Delta tables on object storage, and a folder that shows them as a store."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.lake.address import VARIABLE, LakeAddress, folder_of, mirror_in
    from rolltrace.lake.compact import LakeCompacted, compact_lake, upload_summaries, vacuum_lake
    from rolltrace.lake.mirror import Mirror, mirror_of, open_mirror
    from rolltrace.lake.position import (
        BACKEND,
        LakePosition,
        ShipState,
        choosing,
        kinds,
        lake_path,
        names_in,
        partition_of,
        positions,
    )
    from rolltrace.lake.ship import Shipped, Shipper

_LATER, __getattr__ = load_later(
    __name__,
    {
        "compact": "LakeCompacted compact_lake upload_summaries vacuum_lake",
        "mirror": "Mirror mirror_of open_mirror",
        "address": "VARIABLE LakeAddress folder_of mirror_in",
        "position": "BACKEND LakePosition ShipState choosing kinds lake_path names_in partition_of positions",
        "ship": "Shipped Shipper",
    },
)
"""Name -> its module, loaded when it is asked for: who reads a folder needs none of it."""

__all__ = [
    "BACKEND",
    "VARIABLE",
    "LakeAddress",
    "LakeCompacted",
    "LakePosition",
    "Mirror",
    "ShipState",
    "Shipped",
    "Shipper",
    "choosing",
    "compact_lake",
    "folder_of",
    "kinds",
    "lake_path",
    "mirror_in",
    "mirror_of",
    "names_in",
    "open_mirror",
    "partition_of",
    "positions",
    "upload_summaries",
    "vacuum_lake",
]
