"""The simulation of a large fleet, at a hundredth of its size."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.fleet.__main__ import FLEETS, report
from benchmarks.fleet.costs import load
from benchmarks.fleet.simulate import Fleet, bill, saturated, simulate

SMALL = Fleet(nodes=12, raw_bytes_per_day=1e10, segment_bytes=256 << 10)


def test_the_same_seed_gives_the_same_tables() -> None:
    costs = load()
    first, second = (report(costs, seconds=300.0, seed=3, small=True) for _ in range(2))
    assert first == second
    assert all(fleet.name in first for fleet in FLEETS)


def test_what_is_sealed_is_committed() -> None:
    seen = simulate(SMALL, load(), seconds=3_600.0)
    assert seen.behind < 0.05
    assert seen.attempts_per_commit < 1.2


def test_slower_commits_to_one_table_collide_and_tables_of_their_own_do_not() -> None:
    costs = load()
    slow = replace(SMALL, nodes=48, raw_bytes_per_day=4e11, commit_sec=1.0)
    one, several = simulate(slow, costs, seconds=300.0), simulate(replace(slow, experiments=24), costs, seconds=300.0)
    assert one.attempts_per_commit > 2 * several.attempts_per_commit
    assert one.commit_p99_sec > several.commit_p99_sec
    assert bill(one, costs).gets > bill(several, costs).gets


def test_larger_segments_make_fewer_parts_and_come_later() -> None:
    costs = load()
    large = simulate(replace(SMALL, segment_bytes=4 << 20), costs, seconds=7_200.0)
    small = simulate(SMALL, costs, seconds=7_200.0)
    assert large.commits_per_minute < small.commits_per_minute
    assert large.lag_p50_sec > small.lag_p50_sec


def test_one_table_takes_about_as_many_commits_as_fit_one_after_the_other() -> None:
    few, many = saturated(load(), 0.5, writers=2), saturated(load(), 0.5, writers=64)
    assert 1 < few.commits_per_sec < 4
    assert 1 < many.commits_per_sec < 4
    assert many.tries_per_commit > 8 * few.tries_per_commit
