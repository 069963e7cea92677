"""`rolltrace import trl` reads what TRL's own trainer wrote with `log_completions=True`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rolltrace.exchange import IMPORTS, ImportTarget, guess, import_files
from rolltrace.exchange.importer import ImportReport
from rolltrace.query import Trajectory, open_store

from .told import Ran

WEIGHTS: dict[str, dict[str, float]] = {
    "plain": {"correct": 1.0, "short": 0.5},
    "environments": {"correct": 1.0, "count": 1.0},  # which is 1 for every rollout: no advantage tells it from another
}


@pytest.mark.parametrize("mode", ["plain", "text", "tools", "environments"])
def test_every_row_that_trl_logged_is_a_trajectory(ran: Callable[[str], Ran], mode: str, tmp_path: Path) -> None:
    run = ran(mode)
    assert guess(run.folder).format == "trl"
    form, target = IMPORTS["trl"], ImportTarget(tmp_path / "store", "p", "e", rewards=WEIGHTS.get(mode))
    tables = [pd.read_parquet(path) for path in sorted(run.folder.glob("completions/*.parquet"))]
    count = sum(map(len, tables))
    report = import_files(form.reader, [run.folder], target, files_of=form.files)
    again = import_files(form.reader, [run.folder], target, files_of=form.files)
    assert (report, again) == (ImportReport(count, 0, 0), ImportReport(0, count, 0))
    store = open_store(tmp_path / "store")
    imported = [store.trajectory(row["trajectory_id"]) for row in store.trajectories(limit=None).rows()]
    logged = [row for table in tables for row in table.to_dict("records")]
    weights = WEIGHTS.get(mode, {"correct": 1.0, "short": 1.0})
    assert sorted(map(told, imported)) == sorted(told_by_trl(row, weights) for row in logged)
    assert all(op.kind == "llm" for each in imported for op in each.ops[:1])
    groups = {(each.step, each.sample_index) for each in imported}
    assert all(each.rollout_n is not None for each in imported)
    assert len(groups) < len(imported)


def told(trajectory: Trajectory) -> Any:
    last = trajectory.conversation[-1]
    said = str(last.get("content") or "")
    if reasoning := last.get("reasoning_content"):  # this model writes at random, now and then the end of thinking
        said = f"{reasoning}</think>{said}"
    return (
        trajectory.step,
        round(trajectory.advantage or 0.0, 9),
        said,
        round(trajectory.newest_scores["reward"].value or 0.0, 9),
        numbers(trajectory.newest_scores["reward"].terms),
    )


def told_by_trl(row: dict[str, Any], weights: dict[str, float]) -> Any:
    completion = row["completion"]
    said = completion if isinstance(completion, str) else completion[-1].get("content") or ""
    terms = {name: row[name] for name in weights}
    reward = math.fsum(weights[name] * value for name, value in numbers(terms))
    return row["step"], round(row["advantage"], 9), str(said), round(reward, 9), numbers(terms)


def numbers(terms: dict[str, Any]) -> Any:
    return sorted((name, value) for name, value in terms.items() if value is not None and not math.isnan(value))


def test_what_no_advantage_tells_is_asked_for(ran: Callable[[str], Ran], tmp_path: Path) -> None:
    form, target, bad = IMPORTS["trl"], ImportTarget(tmp_path / "store", "p", "e"), []
    folder = ran("environments").folder
    report = import_files(form.reader, [folder], target, files_of=form.files, on_bad=bad.append)
    assert report == ImportReport(0, 0, len(bad))
    assert all(each.reason.startswith("cannot tell whether count") for each in bad)
