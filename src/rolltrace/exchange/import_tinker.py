"""Reads tinker-cookbook's rollout summaries: files *_rollout_summaries.jsonl, one line a trajectory.

A line tells split, iteration, group and index in it, rewards, metrics, and per step lengths, reward, metrics and logs;
it has no text and no tokens. Each step becomes a transition, and a model call of which only the lengths are known.
The sample of a split other than train is named `SPLIT/GROUP`: several evaluations may belong to one iteration.
"""

from __future__ import annotations

from typing import Any

from rolltrace.exchange.import_checks import ImportChecks
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    is_number,
    score_row,
    span_row,
    trajectory_row,
    transition_row,
    whole,
)
from rolltrace.exchange.importer import Line, LineReader, Source, place_of

_VERSION = 1
_KNOWN = frozenset({
    "schema_version", "iteration", "group_idx", "traj_idx", "sampling_client_step", "total_reward", "final_reward",
    "trajectory_metrics", "steps",
})  # fmt: skip
"""Fields that become columns; all others become tags."""


def reader(source: Source) -> LineReader:
    """A reader of the summaries of one iteration."""
    source.target.named()
    checks = ImportChecks()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        version = record.get("schema_version", _VERSION)
        if version != _VERSION:
            raise Malformed(f"rollout summaries of schema_version {version!r:.60} are not known, only {_VERSION}")
        steps, metrics = record.get("steps"), record.get("trajectory_metrics") or {}
        if not isinstance(steps, list) or not all(isinstance(each, dict) for each in steps):
            raise Malformed("steps must be a list of objects")
        if not isinstance(metrics, dict):
            raise Malformed("trajectory_metrics must be an object")
        if "iteration" not in record or "group_idx" not in record:
            raise Malformed("iteration and group_idx are missing")
        split, group = str(record.get("split", "train")), whole(record["group_idx"], "group_idx")
        trains = split.startswith("train")
        place = place_of(
            source, line,
            step=whole(record["iteration"], "iteration"), sample_index=group if trains else f"{split}/{group}",
            rollout_n=whole(record.get("traj_idx"), "traj_idx"), validate=source.target.validate or not trains,
        )  # fmt: skip
        at, policy = line.time_ns, whole(record.get("sampling_client_step"), "sampling_client_step")
        tags = {name: value for name, value in record.items() if name not in _KNOWN}
        tags.update((name, value) for name, value in metrics.items() if not is_number(value))
        rows = [trajectory_row(place, "tinker", at, at + len(steps), tags)]
        for number, step in enumerate(steps):
            rows.append(
                span_row(
                    place,
                    number,
                    "sample",
                    "llm",
                    at + number,
                    policy_version=policy,
                    prompt_tokens=whole(step.get("ob_len"), "ob_len"),
                    response_tokens=whole(step.get("ac_len"), "ac_len"),
                )
            )
            rows.append(transition_row(place, number, step, at + number))
        terms = {name: float(value) for name, value in metrics.items() if is_number(value)}
        if is_number(record.get("final_reward")):
            terms["final_reward"] = float(record["final_reward"])
        rows.append(score_row(place, record.get("total_reward"), terms, at + len(steps)))
        return checks.flagged(place, rows)

    return read
