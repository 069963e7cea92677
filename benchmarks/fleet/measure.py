"""Measure the costs: the realistic workload through journal, drainer, compaction; commits to Delta tables; questions.

Commits need deltalake and moto: run it in their environment, `make bench-fleet`.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.fleet.costs import Costs
from benchmarks.replay import record
from benchmarks.workload import generate

_WRITERS = 8


def measure(trajectories: int = 64, commits: int = 40) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return Costs(**_store_costs(place, trajectories), **_commit_costs(place, commits))


def _store_costs(place: Path, count: int) -> dict[str, float]:
    from rolltrace.drain import Drainer
    from rolltrace.store import compact, list_parts, source_of

    workload = generate(count)
    raw_bytes = sum(len(json.dumps(payload)) for each in workload for payload in each.payloads())
    store = place / "store"
    record(store, workload)
    segments = list((store / "journal").rglob("*.seg"))
    journal_bytes = sum(path.stat().st_blocks * 512 for path in segments)
    drain_sec = _cpu(Drainer(store).drain)
    parts = list_parts(store)
    part_bytes = _size(parts)
    questions = _question_costs(store, len(parts), count)
    compact_sec = _cpu(lambda: compact(store))
    return {
        "raw_bytes_per_trajectory": raw_bytes / count,
        "journal_per_raw": journal_bytes / raw_bytes,
        "parts_per_raw": part_bytes / raw_bytes,
        "compacted_per_raw": _size(list_parts(store)) / raw_bytes,
        "drain_raw_bytes_per_sec": raw_bytes / drain_sec,
        "compact_part_bytes_per_sec": part_bytes / max(compact_sec, 1e-3),
        "tables_per_segment": max(Counter(map(source_of, parts)).values()),
        **questions,
    }


def _question_costs(store: Path, parts: int, count: int) -> dict[str, float]:
    import rolltrace

    def cold(ask: Callable[[Any], Any]) -> float:
        def once() -> float:
            begun = time.perf_counter()
            with rolltrace.open(store) as opened:
                ask(opened)
            return time.perf_counter() - begun

        return min(once() for _ in range(5))

    with rolltrace.open(store) as opened:
        row = opened.trajectories(limit=1)[0]
    return {
        "listing_sec": cold(lambda opened: opened.trajectories(step=row["step"], limit=100).rows()),
        "curve_sec": cold(lambda opened: opened.sql("select step, avg(reward) from trajectories group by step").rows()),
        "trajectory_sec": cold(lambda opened: list(opened.trajectory(row["trajectory_id"]).conversation)),
        "search_sec": cold(lambda opened: opened.trajectories(step=row["step"], where="text ~ 'no such words'").rows()),
        "scan_sec": cold(lambda opened: opened.sql("select sum(length(payload)) from spans").rows()),
        "question_trajectories": count,
        "question_parts": parts,
    }


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def _cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _commit_costs(place: Path, commits: int) -> dict[str, float]:
    folder = str(place / "table")
    _commit(folder, 0, 3)
    folder_sec = _commit(folder, 1, commits)
    log = sorted((place / "table" / "_delta_log").glob("*.json"))[-commits:]
    with _moto(place) as (url, requests):
        remote = f"s3://{_make_bucket(url)}/table"
        _commit(remote, 0, 3, url)
        before = requests()
        s3_sec = _commit(remote, 1, commits, url)
        counts = {kind: (requests()[kind] - before[kind]) / commits for kind in before}
        rate = _contended(remote, url, max(4, commits // _WRITERS))
    load_sec, checkpoint_bytes = _opened(place, commits)
    return {
        "commit_folder_sec": folder_sec,
        "commit_s3_sec": s3_sec,
        "puts_per_commit": counts["PUT"],
        "gets_per_commit": counts["GET"],
        "lists_per_commit": counts["LIST"],
        "contended_commits_per_sec": rate,
        "log_bytes_per_commit": _size(log) / len(log),
        "checkpoint_bytes_per_part": checkpoint_bytes,
        "load_sec_per_1000_commits": load_sec,
    }


def _commit(table: str, writer: int, count: int, url: str | None = None) -> float:
    """Append one small part so many times; gives the time of the fastest: other programs only make it longer."""
    import pyarrow as pa
    from deltalake import CommitProperties, Transaction, write_deltalake

    took = []
    for number in range(count):
        rows = pa.table({"project": ["p"] * 20, "step": [number] * 20, "trajectory_id": [f"{writer}-{number}"] * 20})
        begun = time.perf_counter()
        write_deltalake(
            table, rows, mode="append", partition_by=["project", "step"], storage_options=_options(url),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(app_id=f"{writer}", version=number)], max_commit_retries=1000
            ),
        )  # fmt: skip
        took.append(time.perf_counter() - begun)
    return min(took)


def _contended(table: str, url: str, count: int) -> float:
    """Commits a second of several writers at once."""
    context = multiprocessing.get_context("spawn")  # the runtime of deltalake does not survive a fork
    barrier = context.Barrier(_WRITERS + 1)
    writers = [
        context.Process(target=_write_at_once, args=(barrier, table, 10 + at, count, url)) for at in range(_WRITERS)
    ]
    for writer in writers:
        writer.start()
    barrier.wait()
    begun = time.perf_counter()
    for writer in writers:
        writer.join()
    return _WRITERS * count / (time.perf_counter() - begun)


def _write_at_once(barrier: Any, table: str, writer: int, count: int, url: str) -> None:
    import deltalake  # noqa: F401 - loaded before the clock starts

    barrier.wait()
    _commit(table, writer, count, url)


def _opened(place: Path, commits: int) -> tuple[float, float]:
    """Seconds to open a table per 1,000 commits without a checkpoint, and bytes of a checkpoint per part."""
    from deltalake import DeltaTable

    table = place / "table"
    begun = time.perf_counter()
    opened = DeltaTable(str(table))
    took = time.perf_counter() - begun
    versions = opened.version() + 1
    opened.create_checkpoint()
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    return took / versions * 1000, checkpoint.stat().st_size / versions


def _options(url: str | None) -> dict[str, str] | None:
    return url and {  # type: ignore[return-value]
        "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1", "conditional_put": "etag",
    }  # fmt: skip


@contextmanager
def _moto(place: Path) -> Iterator[tuple[str, Callable[[], dict[str, int]]]]:
    """A stand-in for S3, its address, and how many requests of each kind it has had."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = place / "moto.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output
        )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/").close()
                break
            except OSError:
                if server.poll() is not None:
                    raise RuntimeError(f"moto did not start: {log.read_text()[-2000:]}") from None
                time.sleep(0.2)
        yield url, lambda: _requests(log.read_text())
    finally:
        server.kill()
        server.wait()


def _requests(log: str) -> dict[str, int]:
    counts = {"PUT": 0, "GET": 0, "LIST": 0}
    for method, path in re.findall(r'"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP', log):
        kind = "LIST" if method == "GET" and "list-type" in path else {"HEAD": "GET", "POST": "PUT"}.get(method, method)
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _make_bucket(url: str) -> str:
    urllib.request.urlopen(urllib.request.Request(f"{url}/lake", method="PUT")).close()
    return "lake"
