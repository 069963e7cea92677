"""One host at a time does what concerns a whole store: who has the lease, who gets it, who loses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rolltrace.cli import main
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.store import Lease, prepare
from tests.flow.host import can_be_hosts, command

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
HOLD = """
import sys, threading, time
from pathlib import Path
from rolltrace.store import lease as module
module.BEAT_SEC = 0.0
lease = module.Lease(Path(sys.argv[1]), dead_sec=float(sys.argv[2]))
lease.hold()
print(lease.epoch, flush=True)
def beat():
    while True:
        lease.keep()
        time.sleep(0.05)
threading.Thread(target=beat, daemon=True).start()
for line in sys.stdin:
    if line == "release\\n":
        lease.release()
    print(int(lease.hold()), flush=True)
"""
TAKE = """
import sys
from pathlib import Path
from rolltrace.store import Lease
lease = Lease(Path(sys.argv[1]), dead_sec=float(sys.argv[2]))
lease.hold()
print(lease.epoch if lease.hold() else 0)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


@contextmanager
def holder(store: Path, host: str = "alpha", clock_sec: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    """A host that has the lease, and shows it."""
    process = subprocess.Popen(
        command(host, "-c", HOLD, str(store), "0", clock_sec=clock_sec),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) > 0
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process: subprocess.Popen[str], line: str = "") -> bool:
    """Whether a holder holds it, when it looks."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline() == "1\n"


def take(store: Path, host: str = "beta", *, dead_sec: float = 0.0, clock_sec: float = 0.0) -> int:
    """The epoch in which another host gets the lease when it looks twice; 0 if it does not."""
    done = subprocess.run(
        command(host, "-c", TAKE, str(store), str(dead_sec), clock_sec=clock_sec),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.parametrize("clock_sec", [-600.0, 600.0])
def test_a_host_that_shows_itself_keeps_the_lease_whatever_the_clocks_say(store: Path, clock_sec: float) -> None:
    with holder(store, clock_sec=clock_sec) as alpha:
        assert take(store, dead_sec=120.0) == 0
        assert take(store, dead_sec=120.0, clock_sec=3600.0) == 0
        assert ask(alpha)


def test_a_host_that_was_suspended_learns_that_it_holds_no_more(store: Path) -> None:
    with holder(store) as alpha:
        os.kill(alpha.pid, signal.SIGSTOP)
        assert take(store) == 2
        os.kill(alpha.pid, signal.SIGCONT)
        assert not ask(alpha)


def test_a_lease_that_was_given_back_can_be_had_at_once(store: Path) -> None:
    with holder(store) as alpha:
        assert ask(alpha, "release"), "nobody else was there, so it has it again"
        assert take(store, dead_sec=120.0) == 0
    lease = Lease(store)
    assert not lease.hold()
    assert take(store, "alpha", dead_sec=120.0) == 3, "of this host nobody else is left"


def test_commands_name_the_host_that_does_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(store, clock_sec=-300.0):  # on another host than this one
        assert main(["compact", str(store)]) == 1
        refused = capsys.readouterr().err
        assert "alpha-" in refused
        assert "does this for all hosts (epoch 1, taken " in refused
        main(["stats", str(store), "--json"])
        (lease,) = json.loads(capsys.readouterr().out)["leases"]
        assert (lease["duty"], lease["epoch"], lease["looks_dead"]) == ("upkeep", 1, False)
        assert lease["host"].startswith("alpha-")
        main(["doctor", str(store)])
        assert "upkeep: epoch 1, taken 5m" in capsys.readouterr().out
    compact = command("alpha", "-m", "rolltrace", "compact", str(store))
    assert subprocess.run(compact, cwd=ROOT, capture_output=True).returncode == 0
    main(["doctor", str(store)])
    assert "leases       nobody has one" in capsys.readouterr().out


def test_doctor_says_when_a_holder_looks_dead(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(store):
        pass
    for path in (store / "lease" / "upkeep").iterdir():
        os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    main(["doctor", str(store)])
    told = capsys.readouterr().out
    assert "no sign of life for 1.0 h, so it looks dead" in told
    assert "takes it over" in told
    main(["stats", str(store)])
    assert "looks dead" in capsys.readouterr().out


def test_a_command_waits_for_what_an_earlier_one_left_to_be_done(tmp_path: Path) -> None:
    prepare(tmp_path)
    with drainer_lock(journal_folder(tmp_path)) as alone:
        assert alone
        merging = subprocess.Popen([sys.executable, "-m", "rolltrace", "compact", str(tmp_path)])
        with suppress(subprocess.TimeoutExpired):
            merging.wait(2)
    assert merging.wait() == 0
