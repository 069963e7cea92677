"""Many hosts record into one store at once: `python -m benchmarks.hosts [--hosts 16] [--seconds 60] [KIND ...]`.

Each host is a process with a host name and a home of its own, and a drainer beside it. The bucket is moto's, over HTTP
on this machine (`make bench-hosts`). At the end every host drains, and all rows are counted: 0 lost, 0 doubled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rolltrace
from benchmarks.table import Row, at_most, render, write_json
from tests.background import kill_keepers
from tests.flow.host import command

ROOT = Path(__file__).parents[1]
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
_COUNTS = """
SELECT count(*) AS rows, count(DISTINCT trajectory_id) AS ids, sum(turns) AS turns, count(DISTINCT worker) AS workers
FROM trajectories
"""


@contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """A store in a bucket of a server that is started for it."""
    import boto3

    port = 15_000 + os.getpid() % 10_000
    address = f"http://127.0.0.1:{port}"
    log = (folder / "moto.log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
    )
    os.environ.update(_KEYS, AWS_ENDPOINT_URL=address)
    try:
        client = boto3.client("s3")
        for _ in range(100):
            try:
                client.create_bucket(Bucket="traces")
                break
            except Exception:  # not up yet
                time.sleep(0.2)
        yield "s3://traces/store"
    finally:
        server.kill()
        server.wait()


@contextmanager
def shared_folder(folder: Path) -> Iterator[str]:
    """A store in a folder that all hosts have."""
    yield str(folder / "store")


KINDS = {"bucket": bucket, "folder": shared_folder}


def measure(kind: str, hosts: int, seconds: float) -> Iterator[Row]:
    """Rows of the table."""
    names = [f"node-{number}" for number in range(hosts)]
    with tempfile.TemporaryDirectory() as temporary, KINDS[kind](Path(temporary)) as store:
        homes = {name: {**os.environ, "HOME": f"{temporary}/{name}", "OMP_NUM_THREADS": "1"} for name in names}
        words = ["-m", "tests.integrations.bucket.rollouts", store, "hosts"]
        begin = time.perf_counter()
        recording = [
            subprocess.Popen(
                command(name, *words, name, str(seconds)), cwd=ROOT, env=home, stdout=subprocess.PIPE, text=True
            )
            for name, home in homes.items()
        ]
        answers = [json.loads(process.communicate()[0]) for process in recording]
        recorded_sec = time.perf_counter() - begin
        for name, home in homes.items():
            drain = command(name, "-m", "rolltrace", "store", "drain", "--once", store)
            subprocess.run(drain, cwd=ROOT, env=home, check=True, stdout=subprocess.DEVNULL)
        drained_sec = time.perf_counter() - begin
        for folder in Path(temporary).glob("*/.rolltrace-remote/*"):
            kill_keepers(folder)
        kill_keepers(store)
        count = sum(answer["trajectories"] for answer in answers)
        with rolltrace.open(store) as opened:
            (found,) = opened.sql(_COUNTS).rows()
            (ops,) = opened.sql("SELECT count(*) AS rows, count(DISTINCT op_id) AS ids FROM ops").rows()
    section = f"{hosts} hosts, one {kind}, {seconds:.0f} s: {count:,} trajectories"
    yield Row(section, "lost trajectories", count - found["ids"], "", at_most(0))
    yield Row(section, "doubled trajectories", found["rows"] - found["ids"], "", at_most(0))
    yield Row(section, "lost ops", 4 * count - ops["ids"], "", at_most(0))
    yield Row(section, "doubled ops", ops["rows"] - ops["ids"], "", at_most(0))
    yield Row(section, "turns that are not counted once", abs(2 * count - found["turns"]), "", at_most(0))
    yield Row(section, "all is recorded after", recorded_sec, "s")
    yield Row(section, "all is in the tables after", drained_sec, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="bucket, folder (default: both)")
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--quick", action="store_true", help="three hosts, three seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args()
    hosts, seconds = (3, 3.0) if options.quick else (options.hosts, options.seconds)
    rows = [row for kind in options.kinds or KINDS for row in measure(kind, hosts, seconds)]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
