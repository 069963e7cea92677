"""The costs that the simulation is made of: measured on this machine by `python -m benchmarks.fleet measure`.

They are kept in costs.json, so that the simulation and its tests need nothing but Python.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Costs:
    """Of one byte, one part, one commit."""

    raw_bytes_per_trajectory: float
    """Of the realistic workload (benchmarks/workload.py), as JSON lines."""
    journal_per_raw: float
    """Bytes of the journal per byte of raw JSON."""
    parts_per_raw: float
    """Bytes of Parquet per byte of raw JSON, as drained."""
    compacted_per_raw: float
    drain_raw_bytes_per_sec: float
    """Raw JSON that one core drains."""
    compact_part_bytes_per_sec: float
    """Parquet that one core merges."""
    tables_per_segment: float
    """How many parts, one per table, a segment of one step becomes."""
    commit_folder_sec: float
    """One commit of one part, alone, to a table in a folder."""
    commit_s3_sec: float
    """The same over S3's protocol, to a stand-in on this machine."""
    puts_per_commit: float
    gets_per_commit: float
    lists_per_commit: float
    contended_commits_per_sec: float
    """What eight writers reach together on the stand-in: shows whether the simulation of conflicts is right."""
    log_bytes_per_commit: float
    """In the log of the table, of a commit of one part."""
    checkpoint_bytes_per_part: float
    load_sec_per_1000_commits: float
    """To open a table whose last 1,000 commits have no checkpoint."""
    listing_sec: float
    """The newest step of a store, listed: measured on `question_trajectories` trajectories."""
    curve_sec: float
    trajectory_sec: float
    search_sec: float
    scan_sec: float
    question_trajectories: float
    question_parts: float


def load() -> Costs:
    """Those that were measured last."""
    return Costs(**json.loads(FILE.read_text()))


def save(costs: Costs) -> None:
    FILE.write_text(json.dumps({name: float(f"{value:.4g}") for name, value in asdict(costs).items()}, indent=2) + "\n")
