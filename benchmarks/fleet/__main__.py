"""Simulate a fleet of 10,000 workers from measured costs: the tables of docs/design/scale.md.

python -m benchmarks.fleet [--seconds 900] [--seed 0]      simulate
python -m benchmarks.fleet measure                          measure the costs on this machine
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace

from benchmarks.fleet.costs import Costs, load, save
from benchmarks.fleet.simulate import Fleet, bill, saturated, simulate

MIB = 1 << 20
FLEETS = (
    Fleet("defaults: segments of 16 MiB, one set of tables"),
    Fleet("segments of 1 MiB", segment_bytes=1 * MIB),
    Fleet("segments of 256 KiB", segment_bytes=MIB / 4),
    Fleet("256 KiB, a table set for each of 20 experiments", segment_bytes=MIB / 4, experiments=20),
    Fleet("256 KiB, a node commits every 10 minutes", segment_bytes=MIB / 4, commit_every_sec=600.0),
    Fleet("256 KiB, both", segment_bytes=MIB / 4, commit_every_sec=600.0, experiments=20),
)
ROUND_TRIPS_SEC = (0.02, 0.05, 0.1, 0.2)
"""What a commit may take elsewhere: an object store next door, or one far away."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("simulate", "measure"), default="simulate")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a hundredth of the nodes and of the data")
    options = parser.parse_args()
    if options.what == "measure":
        from benchmarks.fleet.measure import measure

        save(measure())
        print(*(f"{name}: {value:.4g}" for name, value in asdict(load()).items()), sep="\n")
        return
    print(report(load(), seconds=options.seconds, seed=options.seed, small=options.small))


def report(costs: Costs, *, seconds: float, seed: int, small: bool = False) -> str:
    """The tables."""
    fleets = [_hundredth(fleet) if small else fleet for fleet in FLEETS]
    outcomes = [simulate(fleet, costs, seconds=seconds, seed=seed) for fleet in fleets]
    first = outcomes[0]
    lines = [
        f"{first.fleet.nodes * first.fleet.workers_per_node:,} workers on {first.fleet.nodes:,} nodes, "
        f"{first.fleet.raw_bytes_per_day / 1e12:g} TB of raw JSON a day, {seconds:g} s simulated, seed {seed}",
        "",
        f"a node: {first.journal_bytes_per_sec / 1e3:.1f} kB/s into journals",
        "",
        "| | journal disk of a node | parts/min | commits/min | tries per commit | commit p50 / p99 "
        "| op to lake p50 / p99 | left over |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {outcome.fleet.name} | {outcome.journal_disk_bytes / 1e6:.0f} MB | {outcome.parts_per_minute:,.0f} | "
        f"{outcome.commits_per_minute:,.0f} | {outcome.attempts_per_commit:.1f} | {_time(outcome.commit_p50_sec)} / "
        f"{_time(outcome.commit_p99_sec)} | {_time(outcome.lag_p50_sec)} / {_time(outcome.lag_p99_sec)} | "
        f"{outcome.behind:.0%} |"
        for outcome in outcomes
    ]
    lines += [
        "",
        "| a day of it | PUT and LIST | GET | requests | stored | log entries per table | log | checkpoint per table |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    bills = [bill(outcome, costs) for outcome in outcomes]
    lines += [
        f"| {outcome.fleet.name} | {day.puts / 1e6:.2f} M | {day.gets / 1e6:.2f} M | ${day.request_dollars:.2f} | "
        f"{day.stored_gb:.0f} GB, ${day.storage_dollars_per_month:.0f} for a month of days | {day.log_entries:,.0f} | "
        f"{day.log_gb:.2f} GB | {day.checkpoint_mb:.1f} MB |"
        for outcome, day in zip(outcomes, bills, strict=True)
    ]
    day = bills[0]
    lines += [
        "",
        f"cores, of the whole fleet: {day.drain_cores:.2f} to drain, {day.compact_cores:.2f} to compact",
        "",
        "| one try takes | one table takes at most | tries per commit | a round of all nodes |",
        "|---:|---:|---:|---:|",
    ]
    for commit_sec in sorted({costs.commit_s3_sec, *ROUND_TRIPS_SEC}):
        most = saturated(costs, commit_sec, writers=100, seed=seed)
        where = " (the stand-in, measured)" if commit_sec == costs.commit_s3_sec else ""
        lines.append(
            f"| {commit_sec * 1e3:.0f} ms{where} | {most.commits_per_sec:.1f} commits/s "
            f"| {most.tries_per_commit:.0f} | {_time(first.fleet.nodes / most.commits_per_sec)} |"
        )
    return "\n".join(lines)


def _hundredth(fleet: Fleet) -> Fleet:
    return replace(fleet, nodes=max(fleet.nodes // 100, 1), raw_bytes_per_day=fleet.raw_bytes_per_day / 100)


def _time(seconds: float) -> str:
    if seconds != seconds:
        return "-"
    return (
        f"{seconds:.1f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5_400
        else f"{seconds / 3600:.1f} h"
    )


if __name__ == "__main__":
    main()
