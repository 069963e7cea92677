"""The same questions to a store and to a lake."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import rolltrace
from rolltrace.lake import LakeAddress
from rolltrace.lake.tables import LakeTable
from rolltrace.query import Store

_TABLES = ("trajectories", "spans", "transitions", "scores", "notes", "losses", "flags", "texts", "tokens", "labels")
_FLOAT = re.compile(r"\b\d+\.\d{9,}(?:e[-+]\d+)?")

QUESTIONS: dict[str, Callable[[Store], Any]] = {
    "experiments": lambda store: store.experiments().rows(),
    "runs": lambda store: store.runs().rows(),
    "steps": lambda store: store.steps().rows(),
    "a step": lambda store: store.trajectories(step=1).rows(),
    "an experiment": lambda store: store.trajectories(experiment="first").rows(),
    "a filter": lambda store: store.trajectories(where="reward < 0.5 and tool = 'search'").rows(),
    "errors": lambda store: store.trajectories(where="status = 'error' or flag = 'tool_error'").rows(),
    "groups": lambda store: store.groups(step=1).rows(),
    "late scores": lambda store: store.sql(
        "SELECT trajectory_id, name, value FROM latest_scores WHERE name = 'judge' ORDER BY ALL"
    ).rows(),
    "losses": lambda store: sorted(store.losses().rows(), key=str),
    "unmatched": lambda store: store.unmatched_scores().rows(),
    "parts": lambda store: sorted(store.parts().rows.items()),
    **{
        f"rows of {name}": lambda store, name=name: sorted(map(str, store.sql(f"SELECT * FROM {name}").rows()))
        for name in _TABLES
    },
}


def rounded(value: Any) -> Any:
    """An answer, or what a command has printed, as far as it is certain: sums of floats depend on the order of their
    rows, in the last digits."""
    if isinstance(value, str):
        return _FLOAT.sub(lambda number: f"{float(number[0]):.9g}", value)
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def values_in(lake: Path, table: str, column: str) -> list[Any]:
    """The values of a column as any reader of Delta tables sees them: it does not know that parts stand for others."""
    listed = LakeTable(LakeAddress.of(lake), table)
    listed.refresh()
    files = [lake / table / path for path in listed.active()]
    return sorted(value for file in files for value in pq.read_table(file, partitioning=None)[column].to_pylist())


def trajectories(store: Store) -> list[str]:
    return sorted(row["trajectory_id"] for row in store.trajectories(all_runs=True))


def assert_same(store: Path | str, lake: str) -> None:
    with rolltrace.open(store) as one, rolltrace.open(lake) as other:
        for name, ask in QUESTIONS.items():
            assert rounded(ask(other)) == rounded(ask(one)), name
        for trajectory_id in trajectories(one)[:3]:
            assert str(other.trajectory(trajectory_id)) == str(one.trajectory(trajectory_id))
        assert not other.incomplete
