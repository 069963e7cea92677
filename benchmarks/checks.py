"""What the checks cost the drainer: `python -m benchmarks.checks [--quick] [--json FILE]`.

The realistic workload is traced and its ops are made into what the checks see. Each check then looks at all of them,
alone, and all together do. Costs are per MB of the workload's raw JSON, and as a share of what draining it takes.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.replay import record
from benchmarks.rounds import medians
from benchmarks.stores import drain
from benchmarks.table import Row, at_most, render, write_json
from benchmarks.workload import Trajectory, generate
from rolltrace.drain import Redactor, RowMaker
from rolltrace.drain.checks import Checks, Finding, OpFacts, Past
from rolltrace.drain.text import Memory
from rolltrace.flags import ALL, FLAGS, OFF
from rolltrace.journal import Entry, SegmentReader, journal_files

COST = "checks: time per MB of raw JSON that is drained"
SHARE = "checks: share of the drain time"


def measure(trajectories: list[Trajectory], *, rounds: int) -> Iterator[Row]:
    """Rows of the table."""
    raw_mb = sum(len(json.dumps(payload)) for each in trajectories for payload in each.payloads()) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        record(store / "seen", trajectories, limits={"checks": ALL})
        ops = _what_checks_see(store / "seen")
        for number in range(rounds + 1):
            record(store / f"drained-{number}", trajectories, limits={"checks": OFF})
        stores = iter(range(rounds + 1))
        drain_us = medians({"drain": lambda: _drain(store / f"drained-{next(stores)}", raw_mb)}, rounds=rounds)["drain"]
    contenders = {name: partial(_look, name, ops, raw_mb) for name in (OFF, ALL, *(flag.name for flag in FLAGS))}
    costs = medians(contenders, rounds=rounds)
    yield Row(COST, "draining, without checks", drain_us, "us")
    for name, cost in costs.items():
        yield Row(COST, {OFF: "checks off", ALL: "all checks"}.get(name, f"{name} alone"), cost, "us")
    for name, cost in costs.items():
        if name != OFF:
            limit = at_most(10) if name == ALL else None
            yield Row(SHARE, "all checks" if name == ALL else name, 100 * cost / (drain_us + cost), "%", limit)


class _Collecting(Checks):
    """Finds nothing, and keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__(OFF, Past())
        self.ops: list[OpFacts] = []

    def of_op(self, op: OpFacts) -> Iterator[Finding]:
        self.ops.append(op)
        return iter(())


def _what_checks_see(store: Path) -> list[OpFacts]:
    collecting = _Collecting()
    for path in journal_files(store):
        segment = SegmentReader.open(path)
        maker = RowMaker(segment.meta, Redactor(), Memory(store), collecting)
        for item in segment:
            if isinstance(item, Entry):
                maker.shape(item.record, path.stem)
    return collecting.ops


def _look(selection: str, ops: list[OpFacts], raw_mb: float) -> float:
    fresh = [OpFacts(op.fields, op.inputs, op.outputs) for op in ops]  # without what was worked out before
    checks = Checks(selection, Past())
    begin = time.process_time()
    findings = sum(1 for op in fresh for _ in checks.of_op(op))
    cost = time.process_time() - begin
    if findings:
        raise RuntimeError(f"the workload is sound, but {selection} found {findings} problems in it")
    return 1e6 * cost / raw_mb


def _drain(store: Path, raw_mb: float) -> float:
    begin = time.process_time()
    drain(store)
    return 1e6 * (time.process_time() - begin) / raw_mb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows = list(measure(generate(4 if options.quick else 40), rounds=1 if options.quick else 5))
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
