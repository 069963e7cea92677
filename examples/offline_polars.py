"""Offline analysis of a store with Polars: no server, no training process, only the folder.

    rolltrace demo --no-view
    python examples/offline_polars.py rolltrace-demo

Lists come from rolltrace as Polars frames (`.pl()`); where every op is needed, the Delta table is scanned directly.
"""

from __future__ import annotations

import sys

import polars as pl

import rolltrace
from rolltrace.query import Store


def rewards_by_step(store: Store) -> pl.DataFrame:
    """Mean reward and its spread over the steps, training rollouts only."""
    frame = store.trajectories(validate=False).pl()
    return (
        frame.filter(pl.col("reward").is_not_null())
        .group_by("step")
        .agg(
            pl.len().alias("rollouts"),
            pl.col("reward").mean().round(3).alias("mean"),
            pl.col("reward").std().round(3).alias("std"),
            pl.col("response_tokens").mean().round(1).alias("tokens"),
        )
        .sort("step")
    )


def terms_by_step(store: Store) -> pl.DataFrame:
    """The parts of the reward over the steps: one column each."""
    frame = store.sql(
        "select t.step, s.terms from trajectories t join latest_scores s using (trajectory_id) "
        "where s.name = 'reward' and not t.validate and not t.superseded"
    ).pl()
    names = pl.Struct([pl.Field(name, pl.Float64) for name in ("correct", "steps", "format", "verified")])
    parts = frame.select("step", pl.col("terms").str.json_decode(names).alias("terms")).unnest("terms")
    return parts.group_by("step").agg(pl.exclude("step").mean().round(3)).sort("step")


def suspects(terms: pl.DataFrame) -> list[str]:
    """The terms that rise most in the last third of the steps, while `correct` has stopped rising."""
    last_third = terms.tail(max(2, terms.height // 3))
    gains = {name: last_third[name][-1] - last_third[name][0] for name in terms.columns if name != "step"}
    return [name for name, gain in gains.items() if gain > 0.3 and gain > 2 * max(gains["correct"], 0.0)]


def tool_errors(path: str) -> pl.DataFrame:
    """Straight from the Delta table, without rolltrace: how often each tool failed."""
    return (
        pl.scan_delta(f"{path}/ops")
        .filter(pl.col("kind") == "tool")
        .group_by("name")
        .agg(pl.len().alias("calls"), (pl.col("status") == "error").sum().alias("errors"))
        .sort("name")
        .collect()
    )


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "rolltrace-demo"
    with rolltrace.open(path) as store:
        print(rewards_by_step(store).gather_every(5))
        terms = terms_by_step(store)
        print(terms.gather_every(5))
        print("suspicious terms of the reward:", ", ".join(suspects(terms)) or "none")
    print(tool_errors(path))


if __name__ == "__main__":
    main()
