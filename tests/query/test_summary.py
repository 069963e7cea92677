"""Summaries of settled steps: the same answers with them and without, and never an old one."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import Store, experiment_overview, open_store, step_series, summarise
from rolltrace.query.summarise import summarise_steps
from rolltrace.query.summary import listing_file, summary_folder
from rolltrace.record.tables import FLAGS, LOSSES, SCORES, SPANS, TRAJECTORIES
from rolltrace.store import Partition, compact, list_parts, prepare, prune, remove_replaced, write_part
from tests.draining import drain
from tests.nightly import NIGHTLY, nightly

from .conftest import agent, start, write_run_in


def answers(store: Store) -> dict[str, Any]:
    """What a person asks."""
    newest, every = store.trajectories(), store.trajectories(all_runs=True)
    steps, experiments = store.steps(), store.experiments()
    found: dict[str, Any] = {
        "experiments": experiments.rows(),
        "runs": store.runs().rows(),
        "steps": steps.rows(),
        "all steps": store.steps(all_runs=True).rows(),
        "trajectories": newest.rows(),
        "all": every.rows(),
        "older": (newest.older_runs, steps.older_runs, store.trajectories(step=1).older_runs),
        "page": store.trajectories(limit=3, offset=2).rows(),
        "last": store.trajectories(last=4, offset=1).rows(),
        "totals": [newest.total, store.trajectories(limit=1).total, store.trajectories(where="reward > 0").total],
        "sorted": store.trajectories(order="-reward,step", limit=5).rows(),
        "filtered": store.trajectories(where="reward >= 1 or flag = 'odd'").rows(),
        "groups": store.groups(k=[1, 2]).rows(),
        "of a group": store.trajectories(where="group.std > 0 and score.judge >= 0").rows(),
        "sql": store.sql(
            "SELECT status, count(*) AS n, sum(reward) AS r FROM trajectories GROUP BY 1 ORDER BY 1"
        ).rows(),
        "scores": store.sql("SELECT * FROM latest_scores ORDER BY ALL").rows(),
        "losses": store.losses().rows(),
        "rows": store.parts().rows,
    }
    for row in experiments:
        place = {"project": row["project"], "experiment": row["experiment"]}
        found[f"series {place}"] = [vars(step_series(store, **place, all_runs=each)) for each in (False, True)]
    found["overview"] = [{**row, "last_seen_ns": 0} for row in experiment_overview(store)]
    for step in (0, 1, None):
        found[f"step {step}"] = store.trajectories(step=step, experiment="e1", limit=7).rows()
    for row in every.rows()[: nightly(3, 1)]:
        whole = store.trajectory(row["trajectory_id"])
        found[row["trajectory_id"]] = (whole.scores, [op.name for op in whole.walk()])
    return found


def plain(value: Any) -> str:
    """To be compared: NaN is the same as NaN here, and sums may differ in their last digit."""
    return repr(_rounded(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def assert_same(store: Path, tmp_path: Path) -> None:
    """The answers of a store are those of a copy that has no summaries."""
    bare = tmp_path / "bare"
    shutil.copytree(store, bare)
    shutil.rmtree(summary_folder(bare), ignore_errors=True)
    with open_store(store) as asked, open_store(bare) as reference:
        wanted, found = answers(reference), answers(asked)
    shutil.rmtree(bare)
    for name in wanted:
        assert plain(found[name]) == plain(wanted[name]), name


class Builder:
    """Adds rows to a store, as drainers of several runs would."""

    def __init__(self, store: Path, seed: int) -> None:
        self.store = store
        self.rng = random.Random(seed)
        self.ids: list[tuple[str, Partition]] = []
        self.parts = 0
        prepare(store)

    def add_rollouts(self) -> None:
        rng = self.rng
        place = Partition("p", rng.choice(["e1", "e2"]), rng.choice([0, 1, 2, None]))
        run, began = rng.choice([(None, None), ("r1", 10), ("r2", 20)])
        rows: dict[Any, list[dict[str, Any]]] = {TRAJECTORIES: [], SPANS: [], SCORES: [], FLAGS: [], LOSSES: []}
        for number in range(rng.randrange(1, 6)):
            trajectory_id = f"{rng.getrandbits(128):032x}"
            where = {
                **place._asdict(), "trajectory_id": trajectory_id, "rollout_n": number, "worker": "w",
                "sample_index": rng.choice([None, "1", "2", "13"]), "sample_is_int": True,
                "validate": rng.random() < 0.2, "run": run, "run_ns": began,
            }  # fmt: skip
            start_ns = rng.randrange(10**12)
            times = {"start_ns": start_ns, "end_ns": start_ns + rng.randrange(10**9), "status": "ok", "name": "n"}
            if rng.random() < 0.2:
                times |= {"status": rng.choice(["error", "interrupted"]), "end_ns": None}
            if rng.random() < 0.8:  # else its ops stand alone
                rows[TRAJECTORIES].append({**where, **times, "tags": '{"a":1}'})
            for op in range(rng.randrange(1, 4)):
                own = {"op_id": rng.getrandbits(60), "kind": rng.choice(["llm", "tool"]), "response_tokens": op}
                rows[SPANS].append({**where, **times, **own, "payload": '{"inputs":{},"outputs":1}'})
            if rng.random() < 0.7:
                rows[SCORES].append(self.score({**where}, by_id=rng.random() < 0.5))
            if rng.random() < 0.2:
                rows[FLAGS].append({**where, "flag": "odd", "time_ns": 1})
            if rng.random() < 0.1:
                lost = {"reason": "sample_limit", "count": 1, "trajectory_id": trajectory_id}
                rows[LOSSES].append({**place._asdict(), **lost})
            self.ids.append((trajectory_id, place))
        self.write(place, rows)

    def score(self, where: dict[str, Any], *, by_id: bool) -> dict[str, Any]:
        value = self.rng.choice([0.0, 1.0, 2.5, float("nan"), None])
        name, time_ns = self.rng.choice(["reward", "reward", "judge", "advantage"]), self.rng.randrange(1000)
        return {**where, "trajectory_id": where["trajectory_id"] if by_id else None, "name": name, "value": value,
                "time_ns": time_ns, "label": "l"}  # fmt: skip

    def add_late_scores(self) -> None:
        """By id alone, so in no step; some of trajectories that nobody knows, some of the other experiment."""
        chosen = [self.rng.choice(self.ids)[0] for _ in range(3)] + [f"{self.rng.getrandbits(128):032x}"]
        place = Partition("p", self.rng.choice(["e1", "e2"]), None)
        where = {"worker": "late", "validate": False, "sample_is_int": False, **place._asdict()}
        rows = [self.score({**where, "trajectory_id": each}, by_id=True) for each in chosen]
        self.write(place, {SCORES: rows})

    def add_strays(self) -> None:
        """Ops of a trajectory that another experiment has."""
        trajectory_id, place = self.rng.choice(self.ids)
        other = place._replace(experiment="e2" if place.experiment == "e1" else "e1")
        where = {**other._asdict(), "trajectory_id": trajectory_id, "validate": False, "sample_is_int": False}
        op = {"op_id": self.rng.getrandbits(60), "kind": "tool", "name": "stray", "start_ns": 5, "status": "error"}
        self.write(other, {SPANS: [{**where, **op, "worker": "w"}], FLAGS: [{**where, "flag": "odd", "time_ns": 1}]})

    def compact(self) -> None:
        compact(self.store)
        if self.rng.random() < 0.7:
            remove_replaced(self.store, grace_sec=0)

    def prune(self) -> None:
        chosen = {each for each, _ in self.ids if self.rng.random() < 0.3}
        prune(self.store, chosen, whole=self.rng.random() < 0.5)
        remove_replaced(self.store, grace_sec=0)

    def summarise(self) -> None:
        if self.rng.random() < 0.3:
            remove_replaced(self.store, grace_sec=0)
        summarise_steps(self.store, steps=None if self.rng.random() < 0.5 else lambda folder: folder.name != "step=1")

    def write(self, place: Partition, rows: dict[Any, list[dict[str, Any]]]) -> None:
        self.parts += 1
        for table, own in rows.items():
            if own:
                write_part(self.store, place, table, f"w-{self.parts:06d}", own)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(nightly(40, 1)))
def test_answers_are_the_same_with_and_without_summaries(tmp_path: Path, seed: int) -> None:
    builder = Builder(tmp_path / "store", seed)
    changes: list[Callable[[], None]] = [
        builder.add_rollouts, builder.add_rollouts, builder.add_late_scores, builder.add_strays, builder.compact,
        builder.prune, builder.summarise, builder.summarise,
    ]  # fmt: skip
    for _ in range(4):
        builder.add_rollouts()
    builder.summarise()
    for _ in range(nightly(2, 1)):
        for change in builder.rng.choices(changes, k=5) if NIGHTLY else builder.rng.sample(changes, len(changes)):
            change()
        assert_same(builder.store, tmp_path)


def test_one_reader_sees_every_change_of_a_summarised_step(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "store", 99)
    for _ in range(6):
        builder.add_rollouts()
    summarise_steps(builder.store)
    asked = open_store(builder.store)
    for change in (builder.add_late_scores, builder.add_rollouts, builder.prune, builder.compact, builder.summarise):
        change()
        asked.refresh()
        with open_store(builder.store) as fresh:
            for question in (Store.experiments, Store.steps, Store.trajectories):
                assert plain(question(asked).rows()) == plain(question(fresh).rows())


@pytest.fixture
def run(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "store", write_run_in, "drained")


def test_a_summary_is_used_and_not_the_parts(run: Path, drained_reader: Store) -> None:
    before = drained_reader
    expected = plain(before.steps().rows()), plain(before.trajectories(step=0).rows())
    summarise_steps(run)
    for part in list_parts(run):  # the same names and sizes, and nothing that could be read
        if part.parent.name != "step=none":  # where late scores are
            part.write_bytes(b"\0" * part.stat().st_size)
    store = open_store(run)
    assert (plain(store.steps().rows()), plain(store.trajectories(step=0).rows())) == expected


@pytest.mark.parametrize("suffix", ["parquet", "summary"])
def test_a_summary_that_cannot_be_read_is_done_without(run: Path, drained_reader: Store, suffix: str) -> None:
    """Each step has one that is damaged in another way: empty, garbage, cut in half."""
    summarise_steps(run)
    files = sorted(summary_folder(run).rglob(f"*.{suffix}"))
    assert len(files) > 3
    for file, damage in zip(files, cycle((b"", b"garbage", None))):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if damage is None else damage)
    store = open_store(run)
    assert store.trajectories().rows() == drained_reader.trajectories().rows()
    assert store.damaged() == []


def test_rows_in_a_journal_are_seen_beside_a_summary(run: Path, drained_reader: Store) -> None:
    summarise_steps(run)
    before = {(row["step"], row["trajectories"]) for row in drained_reader.steps()}
    start(run)
    store = open_store(run)
    with rolltrace.rollout_trace_attr(77, step=0) as trajectory:
        agent("x")
        trajectory.reward(3.0)
        running = store.trajectories(where="status = 'running'").rows()
        assert [row["sample_index"] for row in running] == [77]
    rolltrace.shutdown()
    store.refresh()
    assert len(store.trajectories(step=0)) == 9
    assert [row["reward"] for row in store.trajectories(sample_index=77)] == [3.0]
    after = {(row["step"], row["trajectories"]) for row in store.steps()}
    assert len(after - before) == 1
    drain(run)
    store.refresh()
    assert {(row["step"], row["trajectories"]) for row in store.steps()} == after


def test_summaries_that_stand_for_nothing_are_removed(run: Path) -> None:
    summarise_steps(run)
    old = set(summary_folder(run).rglob("*.*"))
    compact(run)
    remove_replaced(run, grace_sec=0)
    for file in old:
        os.utime(file, (1, 1))
    summarise_steps(run)
    assert old - set(summary_folder(run).rglob("*.*"))
    assert len(list(summary_folder(run).rglob("*.parquet"))) == len({part.parent for part in list_parts(run)})


@pytest.mark.parametrize("table", ["scores", "trajectories"])
def test_a_step_whose_parts_another_host_has_removed_meanwhile_is_left_for_later(run: Path, table: str) -> None:
    maker = summarise._Maker(run, live=False, threads=1)
    due = maker.due(lambda folder: True)
    gone = due[0].path
    for part in list_parts(run):
        if part.parent == gone and part.name.startswith(table):
            part.unlink()
    maker.make(due)
    maker.close()
    assert [listing_file(run, folder).exists() for folder in due] == [False] + [True] * len(due[1:])


def test_a_store_that_can_only_be_read_is_answered_with_its_summaries(run: Path, drained_reader: Store) -> None:
    summarise_steps(run)
    for folder, _, _ in os.walk(run):
        os.chmod(folder, 0o555)
    try:
        assert open_store(run).trajectories().rows() == drained_reader.trajectories().rows()
    finally:
        for folder, _, _ in os.walk(run):
            os.chmod(folder, 0o755)


def test_rows_of_a_folder_that_somebody_has_moved_are_still_found(run: Path, drained_reader: Store) -> None:
    before = drained_reader.trajectories().rows()
    folder = Partition("p", "e", 0).folder(run)
    folder.rename(folder.with_name("step=55"))
    for _ in range(2):
        store = open_store(run)
        assert sorted(map(repr, store.trajectories().rows())) == sorted(map(repr, before))
        assert len(store.trajectories(limit=100)) == len(before)
        assert store.trajectories(last=5).rows() == before[-5:]
        assert sum(row["trajectories"] for row in store.steps()) == len(before)
        summarise_steps(run)
