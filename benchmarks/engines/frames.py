"""What the SQL of Polars cannot say, as frames: maps, JSON, lists, and the groups."""

from __future__ import annotations

from pathlib import Path

import polars as pl

_TERMS = ("correct", "verified")


def frames(store: Path | str) -> dict[str, pl.LazyFrame]:
    """Name -> frame, of the tables that the questions ask about."""
    trajectories = _scan(store, "trajectories").with_columns(
        pl.col("tags").str.json_path_match("$.level").alias("tags_level"),
        *(pl.col("terms").map.get(term).alias(f"term_{term}") for term in _TERMS),
    )
    tokens = _scan(store, "tokens").select(
        "trajectory_id",
        "op_id",
        logprobs_length=pl.col("logprobs").list.len(),
        logprobs_mean=pl.col("logprobs").cast(pl.List(pl.Float64)).list.mean(),
        logprobs_min=pl.col("logprobs").list.min(),
        mask_length=pl.col("mask").list.len(),
        mask_total=pl.col("mask").list.sum(),
    )
    return {
        "trajectories": trajectories.drop("terms"),
        "rollout_groups": _groups(trajectories),
        "messages": _scan(store, "messages").select("trajectory_id", "step", "author", "kind", "text"),
        "ops": _scan(store, "ops").drop("payload"),
        "tokens": tokens,
    }


def _scan(store: Path | str, name: str) -> pl.LazyFrame:
    return pl.scan_delta(f"{store}/{name}")


def _groups(trajectories: pl.LazyFrame) -> pl.LazyFrame:
    reward = pl.col("reward")
    members = trajectories.filter(pl.col("sample_index").is_not_null() & ~pl.col("branch") & ~pl.col("superseded"))
    ranked, rewards = pl.col("trajectory_id").filter(reward.is_not_null()), reward.filter(reward.is_not_null())
    return (
        members.sort("rollout_n", "start_ns", "trajectory_id")
        .group_by("project", "experiment", "step", "sample_index", "validate", "run", maintain_order=True)
        .agg(
            rollouts=pl.len(), mean=reward.mean(), deviation=reward.std(ddof=0), lowest=reward.min(),
            highest=reward.max(), spread=reward.max() - reward.min(),
            best=ranked.get(rewards.arg_max()), worst=ranked.get(rewards.arg_min()),
            zero_variance=(reward.count() > 1) & (reward.min() == reward.max()),
        )
    )  # fmt: skip
