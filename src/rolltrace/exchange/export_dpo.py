"""Preference pairs for DPO: the best against the worst rollout of each group, where their rewards differ; or those that
people chose against those that they rejected, as two filters say: `label.good` and `label.bad`.

`prompt` is what comes before the model's first reply, `chosen` and `rejected` are the rest of the two conversations.
Groups without a pair are left out, and counted by reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from rolltrace.errors import ConfigError
from rolltrace.exchange.export_sft import finite
from rolltrace.exchange.selection import Exported, Selection
from rolltrace.exchange.text import json_text
from rolltrace.query import GROUP_KEY, Row, Trajectory


class _Split(NamedTuple):
    prompt: list[dict[str, Any]]
    rest: list[dict[str, Any]]


def write(selection: Selection, out: TextIO, *, chosen: str | None = None, rejected: str | None = None) -> Exported:
    """Write a line per group that has a best and a worst; with filters, a line per two rollouts of a group that they
    name.

    Raises:
        ConfigError: only one of the filters was given.
        FilterError: a filter cannot be understood.
    """
    if (chosen is None) != (rejected is None):
        raise ConfigError("pairs by label need both filters: --chosen label.good --rejected label.bad")
    count, skipped = 0, Counter[str]()
    if chosen is None:
        ends = list(_best_and_worst(selection.rows, skipped))
    else:
        ends = list(_as_labelled(selection, chosen, rejected, skipped))
    worst_of = {best["trajectory_id"]: worst["trajectory_id"] for best, worst in ends}
    best: Trajectory | None = None
    for full in selection.read([row for pair in ends for row in pair]):
        trajectory = full.trajectory
        if trajectory.trajectory_id in worst_of:
            best = trajectory
        elif best is not None and worst_of[best.trajectory_id] == trajectory.trajectory_id:  # both could be read
            try:
                pair = _pair(best, trajectory)
                line = pair if isinstance(pair, str) else json_text(pair) + "\n"
            except Exception as fault:
                selection.leave_out(best.trajectory_id, fault)
                continue
            if isinstance(pair, str):
                skipped[pair] += 1
            else:
                out.write(line)
                count += 1
    return Exported(count, skipped)


def _groups(rows: list[Row], skipped: Counter[str]) -> Iterator[list[Row]]:
    def key(row: Row) -> tuple[str, ...]:
        return tuple(repr(row[name]) for name in GROUP_KEY)

    for _, group in groupby(sorted(rows, key=key), key=key):
        members = list(group)
        if members[0]["sample_index"] is None:
            skipped["no sample_index"] += 1
        else:
            yield members


def _as_labelled(
    selection: Selection, chosen: str, rejected: str | None, skipped: Counter[str]
) -> Iterator[tuple[Row, Row]]:
    """The best of those chosen against the worst of those rejected, and so on: each stands in one pair at most."""
    better, worse = (
        {row["trajectory_id"] for row in selection.store.trajectories(where=where, all_runs=True)}
        for where in (chosen, rejected)
    )
    for members in _groups(selection.rows, skipped):
        both = [row for row in members if row["trajectory_id"] in better & worse]
        skipped.update({"both chosen and rejected": len(both)} if both else {})
        ended = [row for row in members if row not in both and row["status"] != "running"]
        best = sorted((row for row in ended if row["trajectory_id"] in better), key=_reward, reverse=True)
        worst = sorted((row for row in ended if row["trajectory_id"] in worse), key=_reward)
        unpaired = abs(len(best) - len(worst))
        skipped.update({"no counterpart in its group": unpaired} if unpaired else {})
        yield from zip(best, worst)


def _reward(row: Row) -> float:
    return 0.0 if row["reward"] is None or math.isnan(row["reward"]) else float(row["reward"])


def _best_and_worst(rows: list[Row], skipped: Counter[str]) -> Iterator[tuple[Row, Row]]:
    for members in _groups(rows, skipped):
        rated = [
            row
            for row in members
            if row["reward"] is not None and not math.isnan(row["reward"]) and row["status"] != "running"
        ]
        if len(rated) < 2:
            skipped["fewer than two rewards"] += 1
            continue
        best, worst = max(rated, key=lambda row: row["reward"]), min(rated, key=lambda row: row["reward"])
        if best["reward"] == worst["reward"]:
            skipped["all rewards alike"] += 1
            continue
        yield best, worst


def _pair(best: Trajectory, worst: Trajectory) -> dict[str, Any] | str:
    """The pair, or why there is none."""
    for trajectory in (best, worst):
        if trajectory.pruned is not None:
            return str(trajectory.pruned)
    chosen, rejected = _split(best), _split(worst)
    if not chosen.rest or not rejected.rest:
        return "no reply of the model"
    if chosen.prompt != rejected.prompt:
        return "different prompts"
    if chosen.rest == rejected.rest:
        return "the same conversation"
    return {
        "prompt": chosen.prompt,
        "chosen": chosen.rest,
        "rejected": rejected.rest,
        "chosen_reward": finite(best.reward),
        "rejected_reward": finite(worst.reward),
        "chosen_id": best.trajectory_id,
        "rejected_id": worst.trajectory_id,
        **{name: getattr(best, name) for name in GROUP_KEY},
    }


def _split(trajectory: Trajectory) -> _Split:
    messages = trajectory.conversation
    first = next((at for at, message in enumerate(messages) if message.get("role") == "assistant"), len(messages))
    return _Split(messages[:first], messages[first:])
