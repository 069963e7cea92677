"""Conversations to train on: `sft`, one a line, and `dpo`, preference pairs.

Pairs are the best against the worst rollout of each group, where their rewards differ; or those that people chose
against those that they rejected, as two filters say: `label.good` and `label.bad`. What is left out is counted by
reason: still running, without any reply, or pruned, because half a conversation is not what happened.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, TextIO

from rolltrace.errors import ConfigError
from rolltrace.exchange.selection import Exported, Selection
from rolltrace.exchange.text import json_text
from rolltrace.query import GROUP_KEY, Row, Trajectory

_PLACE = ("trajectory_id", "project", "experiment", "run", "step", "sample_index", "rollout_n", "validate")
Messages = list[dict[str, Any]]


class _Unfit(Exception):
    """Why a trajectory or a pair is left out."""


def write_sft(selection: Selection, out: TextIO) -> Exported:
    """Write a line per trajectory: `{"messages": [...], "reward": 1.0, "trajectory_id": ...}`."""
    count, skipped = 0, Counter[str]()

    def convert(trajectory: Trajectory) -> str | None:
        try:
            if trajectory.status == "running":
                raise _Unfit("still running")
            messages = [each for part in _split(trajectory) for each in part]
        except _Unfit as reason:
            skipped[str(reason)] += 1
            return None
        where = {name: getattr(trajectory, name) for name in _PLACE}
        return json_text({"messages": messages, "reward": _finite(trajectory.reward), **where})

    for line in selection.each(lambda full: convert(full.trajectory)):
        if line is not None:
            out.write(line + "\n")
            count += 1
    return Exported(count, skipped)


def write_dpo(selection: Selection, out: TextIO, *, chosen: str | None = None, rejected: str | None = None) -> Exported:
    """Write a line per group that has a best and a worst; with filters, a line per two rollouts of a group that they
    name. `prompt` is what comes before the first reply, `chosen` and `rejected` are the rest of the conversations."""
    if (chosen is None) != (rejected is None):
        raise ConfigError("pairs by label need both filters: --chosen label.good --rejected label.bad")
    count, skipped = 0, Counter[str]()
    if chosen is None or rejected is None:
        pairs = list(_best_and_worst(selection.rows, skipped))
    else:
        pairs = list(_as_labelled(selection, chosen, rejected, skipped))
    worst_of = {best["trajectory_id"]: worst["trajectory_id"] for best, worst in pairs}
    best: Trajectory | None = None
    for full in selection.read([row for pair in pairs for row in pair]):
        trajectory = full.trajectory
        if trajectory.trajectory_id in worst_of:
            best = trajectory
        elif best is not None and worst_of[best.trajectory_id] == trajectory.trajectory_id:  # both could be read
            try:
                line = json_text(_pair(best, trajectory)) + "\n"
            except _Unfit as reason:
                skipped[str(reason)] += 1
            except Exception as error:
                selection.leave_out(best.trajectory_id, error)
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


def _as_labelled(selection: Selection, chosen: str, rejected: str, skipped: Counter[str]) -> Iterator[tuple[Row, Row]]:
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


def _best_and_worst(rows: list[Row], skipped: Counter[str]) -> Iterator[tuple[Row, Row]]:
    for members in _groups(rows, skipped):
        rated = [row for row in members if _is_rated(row) and row["status"] != "running"]
        if len(rated) < 2:
            skipped["fewer than two rewards"] += 1
            continue
        best, worst = max(rated, key=_reward), min(rated, key=_reward)
        if best["reward"] == worst["reward"]:
            skipped["all rewards alike"] += 1
        else:
            yield best, worst


def _is_rated(row: Row) -> bool:
    return row["reward"] is not None and not math.isnan(row["reward"])


def _reward(row: Row) -> float:
    return float(row["reward"]) if _is_rated(row) else 0.0


def _pair(best: Trajectory, worst: Trajectory) -> dict[str, Any]:
    (prompt, chosen), (other_prompt, rejected) = _split(best), _split(worst)
    if prompt != other_prompt:
        raise _Unfit("different prompts")
    if chosen == rejected:
        raise _Unfit("the same conversation")
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "chosen_reward": _finite(best.reward),
        "rejected_reward": _finite(worst.reward),
        "chosen_id": best.trajectory_id,
        "rejected_id": worst.trajectory_id,
        **{name: getattr(best, name) for name in GROUP_KEY},
    }


def _split(trajectory: Trajectory) -> tuple[Messages, Messages]:
    """The conversation before the model's first reply, and the rest."""
    if trajectory.pruned is not None:
        raise _Unfit(str(trajectory.pruned))
    messages = trajectory.conversation
    first = next((at for at, message in enumerate(messages) if message.get("role") == "assistant"), None)
    if first is None:
        raise _Unfit("no reply of the model")
    return messages[:first], messages[first:]


def _finite(value: float | None) -> float | None:
    """The number, or None: loaders of training data want one type per column."""
    return value if value is not None and math.isfinite(value) else None
