"""A disk that fills up, a store that cannot be written: counted and said, never raised into the rollout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolltrace.journal import Damage, Entry, SegmentReader, journal_files, read_journals
from rolltrace.record import OpEnd

TRACE_UNTIL_FULL = """
import json, os, resource, sys
import rolltrace

store, limit = sys.argv[1], int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rolltrace.init("p", "e", "rolltrace", store=store, drain="off", limits={"segment_bytes": "1MiB"})

@rolltrace.rollout_trace_op
def op(number, text):
    return number

for number in range(400):
    with rolltrace.rollout_trace_attr(step=number // 100, sample_index=number):
        assert op(number, "x" * 20_000) == number
stats = rolltrace.stats()
print(json.dumps({"records": stats.records, "losses": stats.losses, "internal_errors": stats.internal_errors}))
sys.stdout.flush()
os._exit(0)
"""


def trace_until_full(store: Path, limit: int = 0) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", TRACE_UNTIL_FULL, str(store), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # SIGBUS would be -7
    assert "rolltrace cannot save records (disk_full" in done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk; the file size limit is tested all the same")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def assert_all_is_accounted_for(store: Path, told: dict[str, object]) -> None:
    entries = [item.record for _, item in read_journals(store) if isinstance(item, Entry)]
    assert not [item for _, item in read_journals(store) if isinstance(item, Damage)]
    assert len(entries) == told["records"]
    losses = told["losses"]
    assert isinstance(losses, dict)
    assert set(losses) == {"disk_full"}
    assert sum(losses["disk_full"].values()) + len(entries) == 4 * 400  # two records an op, two a trajectory
    assert told["internal_errors"] == {}
    on_disk = SegmentReader.open(journal_files(store)[-1]).losses
    assert on_disk == losses, "a reader sees the losses though the process never said goodbye"


def test_a_full_disk_is_counted_and_does_not_kill(small_disk: Path) -> None:
    told = trace_until_full(small_disk / "store")
    assert_all_is_accounted_for(small_disk / "store", told)
    some_ops = [item for _, item in read_journals(small_disk / "store") if isinstance(item.record, OpEnd)]  # type: ignore[union-attr]
    assert len(some_ops) > 50


def test_a_file_size_limit_is_counted_and_does_not_kill(tmp_path: Path) -> None:
    told = trace_until_full(tmp_path, limit=700_000)  # less than a segment
    losses = told["losses"]
    assert isinstance(losses, dict)
    assert losses["disk_full"]
    assert told["internal_errors"] == {}


def test_a_store_without_permission_is_a_clear_error_at_init() -> None:
    program = (
        "import os, sys, rolltrace\n"
        "from rolltrace._frameworks import frameworks\n"
        "rolltrace.init, frameworks()  # loads them: there are Pythons that only root can read\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "try: rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1])\n"
        "except rolltrace.RolltraceError as error: print(type(error).__name__, error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, whose parents only its owner may enter
        os.chmod(folder, 0o555)
        done = subprocess.run(
            [sys.executable, "-c", program, f"{folder}/store"], capture_output=True, text=True, check=False, cwd="/"
        )
    assert done.stdout.startswith("StoreError cannot write to the store"), done.stderr
    assert "Permission denied" in done.stdout
    assert "ROLLTRACE_STORE" in done.stdout


def test_a_missing_store_folder_is_made(tmp_path: Path) -> None:
    program = (
        "import rolltrace, sys\n"
        "rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1])\n"
        "rolltrace.rollout_trace_op(abs)(-1)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a" / "b")], check=True)
    assert len([item for _, item in read_journals(tmp_path / "a" / "b") if isinstance(item, Entry)]) == 2
