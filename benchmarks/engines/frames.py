"""What the twenty questions need of the views, in Polars alone: it has no SQL for the views, but frames for the tables.

A recipe for the usual store, whose trajectories have rows of their own and whose rollouts were tried once. The views
of `rolltrace sql --print-views` know the other cases too: DuckDB makes them and hands them to Polars (`.pl()`).
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

TERMS = pl.Struct(dict.fromkeys(("correct", "steps", "format", "verified"), pl.Float64))
TAGS = pl.Struct({"level": pl.String})


def of_store(store: str, name: str) -> pl.LazyFrame:
    """The rows of a table of a store."""
    files = f"{store}/data/*/*/*/{name}--*.parquet"
    return pl.scan_parquet(files, hive_partitioning=False, missing_columns="insert")


def of_lake(lake: str, name: str) -> pl.LazyFrame:
    """The rows of a table of a lake."""
    # Without pyarrow it takes the step from the names of folders, not from the log, and fails at `step=none`.
    return pl.scan_delta(f"{lake}/{name}", use_pyarrow=True)


def frames(table: Callable[[str], pl.LazyFrame]) -> dict[str, pl.LazyFrame]:
    """Name -> frame, of the views that the questions ask about."""
    of_trajectory = "trajectory_id"
    spans = table("spans")
    llm, tool = pl.col("kind") == "llm", pl.col("kind") == "tool"
    policy = pl.col("policy_version").filter(pl.col("kind") != "aux_llm")
    calls = spans.group_by(of_trajectory).agg(
        turns=llm.sum(),
        tool_errors=(tool & (pl.col("status") == "error")).sum(),
        prompt_tokens=pl.col("prompt_tokens").filter(llm).sort_by(pl.col("start_ns").filter(llm)).last(),
        response_tokens=pl.col("response_tokens").filter(llm).sum(),
        policy_version_min=policy.min(),
        policy_version_max=policy.max(),
    )
    own = (
        table("trajectories")
        .filter(pl.col("is_group").fill_null(False).not_())
        .sort("end_ns", descending=True, nulls_last=True)
        .unique(of_trajectory, keep="first")
        .with_columns(run_key=pl.col("run").fill_null(""), began=pl.col("run_ns").fill_null(pl.col("start_ns")))
    )
    place = ["project", "experiment", "step", "sample_index", "rollout_n", "validate"]
    stored_scores, has_id = table("scores"), pl.col(of_trajectory).is_not_null()
    by_place = stored_scores.filter(~has_id).drop(of_trajectory).join(
        own.select(of_trajectory, *place), on=place, nulls_equal=True
    )  # fmt: skip
    scores = pl.concat([stored_scores.filter(has_id), by_place], how="diagonal")
    newest = scores.sort("time_ns", "worker").group_by(of_trajectory, "name").last()
    same_step = ["project", "experiment", "step", "validate"]
    runs = own.group_by(*same_step, "run_key").agg(pl.col("began").min())
    newest_run = runs.sort(pl.col("run_key") != "", "began", "run_key").group_by(same_step).agg(
        newest_run=pl.col("run_key").last()
    )  # fmt: skip
    trajectories = (
        own.join(newest_run, on=same_step, nulls_equal=True)
        .join(calls, on=of_trajectory, how="left")
        .join(_score(newest, "reward", reward="value"), on=of_trajectory, how="left")
        .join(_score(newest, "advantage", advantage="value"), on=of_trajectory, how="left")
        .join(_score(newest, "fate", fate="label", fate_reason="reason"), on=of_trajectory, how="left")
        .join(
            table("flags").group_by(of_trajectory).agg(flags=pl.col("flag").unique().sort()),
            on=of_trajectory,
            how="left",
        )
        .with_columns(
            pl.col("turns", "tool_errors").fill_null(0),
            pl.col("flags").fill_null([]),
            tags=pl.col("tags").str.json_decode(TAGS),
            superseded=pl.col("run_key") != pl.col("newest_run"),
            staleness=pl.col("step") - pl.col("policy_version_min"),
        )
    )
    late = table("texts").select(of_trajectory, "op_id", late="text", late_chars="prompt_chars")
    read = spans.join(late, on=[of_trajectory, "op_id"], how="left").with_columns(
        text=pl.coalesce("text", "late"), prompt_chars=pl.coalesce("prompt_chars", "late_chars")
    )
    return {
        "trajectories": trajectories,
        "groups": _groups(trajectories),
        "latest_scores": newest.with_columns(terms=pl.col("terms").str.json_decode(TERMS)),
        "spans": read.with_columns(
            response_text=pl.col("text").str.slice(pl.col("prompt_chars")),
            logprobs_length=pl.col("logprobs").list.len(),
            logprobs_mean=pl.col("logprobs").cast(pl.List(pl.Float64)).list.mean(),
            logprobs_min=pl.col("logprobs").list.min(),
            response_mask_length=pl.col("response_mask").list.len(),
            response_mask_total=pl.col("response_mask").list.sum(),
        ),
    }


def _score(newest: pl.LazyFrame, score: str, **columns: str) -> pl.LazyFrame:
    return newest.filter(pl.col("name") == score).select("trajectory_id", **{k: pl.col(v) for k, v in columns.items()})


def _groups(trajectories: pl.LazyFrame) -> pl.LazyFrame:
    reward = pl.col("reward")
    ordered = trajectories.filter(pl.col("sample_index").is_not_null()).sort("rollout_n", "start_ns", "trajectory_id")
    ranked = pl.col("trajectory_id").filter(reward.is_not_null())
    rewards = reward.filter(reward.is_not_null())
    return ordered.group_by(
        "project", "experiment", "step", "sample_index", "validate", "run", maintain_order=True
    ).agg(
        size=pl.len(), mean=reward.mean(), std=reward.std(ddof=0), min=reward.min(), max=reward.max(),
        spread=reward.max() - reward.min(),
        best=ranked.get(rewards.arg_max()), worst=ranked.get(rewards.arg_min()),
        zero_variance=(reward.count() > 1) & (reward.min() == reward.max()),
        superseded=pl.col("superseded").any(),
    )  # fmt: skip
