"""What a backend costs: `python -m benchmarks.backends [--quick] [--json FILE]`.

The rollout's side is the processor time of its own process, with the drainer and the sender at work beside it: it
should not depend on which backend is chosen, nor on how that does. The sender's side is how fast it reads and hands
over what was drained.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import rolltrace
from benchmarks.replay import record, replays
from benchmarks.rounds import medians
from benchmarks.stores import drain
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.tracers import Plain, Rolltrace, Tracer, scratch_folder
from benchmarks.workload import Trajectory, generate
from rolltrace.backends.backend import Refused
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import asked_for
from rolltrace.keeper.sender import Sender
from rolltrace.query import Trajectory as Found
from rolltrace.query import open_store
from tests.background import kill_keepers

VENDOR = """
import time

class Slow:
    def __init__(self): pass
    def send(self, trajectories):
        time.sleep(0.05 * len(trajectories))
        return []
    def update(self, trajectories): pass
    def close(self): pass

class Down(Slow):
    def send(self, trajectories):
        raise ConnectionError("down")
"""
ENTRY_POINTS = "[rolltrace.backends]\nslow = bench_vendor:Slow\ndown = bench_vendor:Down\n"


class Sending(Rolltrace):
    """rolltrace with its drainer, and a sender for each further backend."""

    def __init__(self, *backends: str) -> None:
        super().__init__()
        self._backends = ["rolltrace", *backends]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with scratch_folder() as store:
            rolltrace.init("bench", "backends", self._backends, store=store, drain="process")
            try:
                yield
                if rolltrace.stats().losses or rolltrace.stats().internal_errors:
                    raise RuntimeError(f"rolltrace lost records, the figures are void: {rolltrace.stats()}")
            finally:
                rolltrace.shutdown()
                rolltrace.RolloutTraceConfig.reset()
                kill_keepers(store)  # the next round is not theirs


def rollout(trajectories: list[Trajectory], rounds: int) -> Iterator[Row]:
    """The rollout's own process."""
    tracers: dict[str, Tracer] = {
        "plain": Plain(),
        "off": Rolltrace(on=False),
        "store": Sending(),
        "slow": Sending("slow"),
        "down": Sending("down"),
        "both": Sending("slow", "down"),
    }
    contenders = {name: replays(each, trajectories, clock_ns=time.process_time_ns) for name, each in tracers.items()}
    cost = medians(contenders, rounds=rounds)
    added = {name: value - cost["plain"] for name, value in cost.items()}
    section = "the rollout's process, realistic workload, processor time an op"
    yield Row(section, "off", added["off"], "us")
    yield Row(section, "the store alone", added["store"], "us")
    for name, words in (("slow", "a slow vendor"), ("down", "a vendor that is down"), ("both", "both")):
        yield Row(section, f"and {words}", added[name], "us")
        yield Row(section, f"and {words} / the store alone", added[name] / added["store"], "x", at_most(1.15))


def sender(trajectories: list[Trajectory]) -> Iterator[Row]:
    """The sender, into a backend that takes everything at once."""
    section = "the sender, into nothing, processor time"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        record(path, trajectories)
        drain(path)
        outbox, store = Outbox(path, "nothing"), open_store(path)
        outbox.folder.mkdir(parents=True)
        begin = time.process_time()
        asked_for(store, outbox)
        first_sec = time.process_time() - begin
        begin = time.process_time()
        pending = asked_for(store, outbox)
        look_sec = time.process_time() - begin
        working = Sender(store, outbox, _Nothing())
        begin = time.process_time()
        working.send(pending)
        send_sec = time.process_time() - begin
        sent_bytes = outbox.position.bytes_today
    yield Row(section, "first look", first_sec * 1e3, "ms")
    yield Row(section, f"another look, at {len(trajectories)} trajectories", look_sec * 1e3, "ms")
    yield Row(section, "trajectories", working.sent / send_sec, "/s")
    yield Row(section, "as JSON", sent_bytes / 1e6 / send_sec, "MB/s", at_least(10))


class _Nothing:
    def send(self, trajectories: Sequence[Found]) -> Sequence[Refused]:
        return []

    def update(self, trajectories: Sequence[Found]) -> None:
        pass

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        info = Path(site) / "bench_vendor-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-vendor\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        (Path(site) / "bench_vendor.py").write_text(VENDOR)
        sys.path.insert(0, site)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
        trajectories = generate(4 if arguments.quick else 64)
        rows = [
            *rollout(trajectories[: 4 if arguments.quick else 32], 2 if arguments.quick else 7),
            *sender(trajectories),
        ]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if arguments.json:
        write_json(rows, arguments.json)


if __name__ == "__main__":
    main()
