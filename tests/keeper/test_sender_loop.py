"""Sending in the background, with real processes: outages, kills, hangs, wrong keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.errors import OutageError
from rolltrace.journal import start_drainer
from rolltrace.keeper import sender_loop
from rolltrace.keeper.outbox import Outbox, SendingPolicy, State
from rolltrace.keeper.process import STOPPED
from rolltrace.keeper.sender import MAX_TRAJECTORIES
from rolltrace.keeper.sender_loop import HUNG, Backoff, SenderLoop
from rolltrace.tables import note_routes
from tests.background import eventually, kill_keepers
from tests.draining import drain
from tests.nightly import nightly

WORKER = """
import sys, rolltrace
store, worker, count, backends = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
rolltrace.init("p", "e", ["rolltrace", *backends], store=store, drain="process", limits={"segment_bytes": "64KiB"})

@rolltrace.rollout_trace_op
def op(number, text):
    return number

for number in range(count):
    with rolltrace.rollout_trace_attr(sample_index=number, step=number // 20, rollout_n=worker) as trajectory:
        op(number, "x" * 500)
    trajectory.reward(number)
    print(trajectory.id, flush=True)
"""

# A process of its own in both modes: the threads that drain and send end with their process only.
ROLLOUTS = """
import sys, rolltrace
store, drain = sys.argv[1:]
rolltrace.init("p", "e", ["rolltrace", "shipping"], store=store, drain=drain)

@rolltrace.rollout_trace_op
def op(number):
    return number

for number in range(5):
    with rolltrace.rollout_trace_attr(step=1, sample_index=number) as trajectory:
        op(number)
    print(trajectory.id, flush=True)
sys.stdin.readline()
trajectory.reward(1.0)
sys.stdin.readline()
print(*[name for name in sys.modules if "_backend" in name or name in ("pyarrow", "duckdb")])
"""


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


def trace(count: int = 1) -> list[rolltrace.capture.TrajectoryHandle]:
    made = []
    for number in range(count):
        with rolltrace.rollout_trace_attr(step=1, sample_index=number) as trajectory:
            op(number)
        made.append(trajectory)
    return made


def start(store: Path, *backends: str, drain: str = "process") -> None:
    rolltrace.init("p", "e", ["rolltrace", *(backends or ("shipping",))], store=store, drain=drain)


def work(store: Path, workers: int, count: int, backends: str = "shipping") -> list[subprocess.Popen[str]]:
    programs = [[sys.executable, "-c", WORKER, str(store), str(n), str(count), backends] for n in range(workers)]
    lenient = {**os.environ, "ROLLTRACE_STRICT": ""}  # a launcher may be killed too
    return [subprocess.Popen(each, stdout=subprocess.PIPE, text=True, env=lenient) for each in programs]


def ids_of(workers: list[subprocess.Popen[str]]) -> set[str]:
    """The trajectories of these workers, when they are done."""
    found = set()
    for worker in workers:
        said, _ = worker.communicate(timeout=100)
        assert worker.returncode == 0
        found |= set(said.split())
    return found


def state(store: Path, name: str = "shipping") -> State:
    return Outbox(store, name).state


def written(store: Path, count: int) -> list[rolltrace.capture.TrajectoryHandle]:
    """Trajectories in a store that nobody works on, bound for `shipping`."""
    start(store, drain="off")
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping"]})
    made = trace(count)
    rolltrace.shutdown()
    drain(store)
    return made


def send_all(store: Path) -> int:
    return SenderLoop(store, "shipping").run(idle_sec=0.0)


@pytest.mark.parametrize("drain", ["process", "thread"])
def test_finished_trajectories_are_sent_by_themselves(harbour: Any, store: Path, drain: str) -> None:
    command = [sys.executable, "-c", ROLLOUTS, str(store), drain]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rollouts:
        assert rollouts.stdin is not None
        assert rollouts.stdout is not None
        ids = [rollouts.stdout.readline().strip() for _ in range(5)]
        eventually(lambda: len(harbour.sent()) == 5)
        assert harbour.sent() == dict.fromkeys(ids, 1)
        rollouts.stdin.write("\n")
        rollouts.stdin.flush()
        eventually(lambda: [line["scores"] for line in harbour.arrived() if line["call"] == "update"] == [[1.0]])
        loaded, _ = rollouts.communicate("\n")
    assert rollouts.returncode == 0
    assert bool(loaded.strip()) == (drain == "thread"), "the process of the rollouts loads no vendor unless it must"


def test_an_outage_delays_and_loses_nothing(harbour: Any, store: Path) -> None:
    harbour.let("down")
    start(store)
    made = trace(3)
    eventually(lambda: state(store).last_error)
    told = state(store)
    assert told.last_error == "ConnectionError: no ship in the harbour"
    assert told.pending == 3
    assert told.next_try_ns is not None
    harbour.stop("down")
    eventually(lambda: state(store).sent == 3)
    assert harbour.sent() == {each.id: 1 for each in made}
    assert state(store).last_error is None


def test_one_backends_outage_does_not_delay_another(harbour: Any, store: Path) -> None:
    harbour.let("down", "trucking")
    harbour.let("hang", "trucking")
    start(store, "trucking", "shipping")
    trace(3)
    eventually(lambda: len(harbour.sent("shipping")) == 3)
    assert harbour.sent("trucking") == {}
    eventually(lambda: state(store, "trucking").pending == 3)


def test_a_wrong_key_is_a_message_and_no_retry(harbour: Any, store: Path) -> None:
    written(store, 1)
    harbour.let("wrong-key")
    assert send_all(store) == STOPPED
    assert state(store).stopped == "the key is wrong: set SHIPPING_KEY"
    assert state(store).next_try_ns is None


def test_a_backend_that_stopped_is_tried_at_the_next_start(harbour: Any, store: Path) -> None:
    written(store, 2)
    harbour.let("unset")
    assert send_all(store) == STOPPED
    assert state(store).stopped == "SHIPPING_KEY is not set; get one at the harbour"
    harbour.stop("unset")
    assert send_all(store) == 0
    assert (state(store).stopped, state(store).sent) == (None, 2)
    assert (harbour.folder / "shipping-closed").exists(), "the backend was closed"


def test_a_backend_that_is_not_installed_is_a_message(harbour: Any, store: Path) -> None:
    start(store, drain="off")
    trace(1)
    drain(store)
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping2"]})
    command = [sys.executable, "-m", "rolltrace.keeper.sender_loop", str(store), "shipping2"]
    assert subprocess.run(command, check=False).returncode == STOPPED
    assert "did you mean 'shipping'?" in str(state(store, "shipping2").stopped)


def test_a_call_that_hangs_ends_the_sender_not_the_keeper(harbour: Any, store: Path) -> None:
    written(store, 1)
    harbour.let("hang")
    command = [sys.executable, "-m", "rolltrace.keeper.sender_loop", str(store), "shipping", "0.5"]
    assert subprocess.run(command, check=False).returncode == HUNG
    assert "did not return" in str(state(store).last_error)
    harbour.stop("hang")
    assert send_all(store) == 0
    assert len(harbour.sent()) == 1


def test_a_killed_sender_is_started_again(harbour: Any, store: Path) -> None:
    harbour.let("hang")
    start(store)
    trace(2)
    eventually(lambda: (harbour.folder / "shipping-hangs").exists())
    harbour.stop("hang")
    kill_keepers(store, "rolltrace.keeper.sender_loop")
    eventually(lambda: len(harbour.sent()) == 2)


def test_kills_lose_nothing_and_repeat_only_what_was_under_way(harbour: Any, store: Path) -> None:
    def more_than(count: int) -> bool:
        start_drainer(store)  # as the next writer would
        return len(harbour.arrived()) > count

    harbour.let("slow")
    ids = ids_of(work(store, 4, 60))
    kills = nightly(20, 2)
    for _ in range(kills):
        before = len(harbour.arrived())
        eventually(lambda before=before: more_than(before))  # they arrived, and that is not noted yet
        kill_keepers(store)
    harbour.stop("slow")
    eventually(lambda: more_than(-1) and state(store).sent == 240)
    assert set(harbour.sent()) == ids
    assert 0 < sum(harbour.sent().values()) - 240 <= kills * MAX_TRAJECTORIES


def test_a_position_torn_by_a_power_cut_costs_a_repeat(harbour: Any, store: Path) -> None:
    written(store, 3)
    assert send_all(store) == 0
    path = Outbox(store, "shipping").position.path
    path.write_bytes(path.read_bytes()[:-10])
    assert send_all(store) == 0
    assert sorted(harbour.sent().values()) == [1, 1, 2]
    assert state(store).sent == 3


def test_what_the_policy_holds_back_is_counted(harbour: Any, store: Path) -> None:
    start(store, drain="off")
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping"]})
    for number, each in enumerate(trace(4)):
        each.reward(number)
    drain(store)
    Outbox(store, "shipping").policy = SendingPolicy.of("reward >= 2", None)
    assert send_all(store) == 0
    assert (len(harbour.sent()), state(store).sent, state(store).held_back) == (2, 2, 2)


def test_a_budget_holds_back_what_comes_after_it(harbour: Any, store: Path) -> None:
    written(store, 30)
    Outbox(store, "shipping").policy = SendingPolicy.of(None, 100)
    assert send_all(store) == 0
    told = state(store)
    assert told.sent + told.held_back == 30
    assert told.held_back > 0
    assert len(harbour.sent()) == told.sent
    assert send_all(store) == 0
    assert state(store).held_back == told.held_back, "counted once"


def test_only_one_sender_of_a_backend_works(harbour: Any, store: Path) -> None:
    written(store, 1)
    with Outbox(store, "shipping").alone_in_background():
        assert sender_loop.main(store, "shipping") == 0
    assert harbour.sent() == {}


def test_an_outage_is_waited_out_for_some_minutes_only(
    harbour: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_loop, "_FIRST_WAIT_SEC", 0.01)
    written(store, 1)
    harbour.let("down")
    assert SenderLoop(store, "shipping").run(outage_sec=0.0) == 0
    assert state(store).pending == 1


def test_waits_grow_up_to_some_minutes() -> None:
    backoff = Backoff()
    waits = [backoff.failed(ConnectionError()) for _ in range(20)]
    assert 0.5 <= waits[0] <= 1.0
    assert all(150 <= wait <= 300 for wait in waits[10:])
    backoff.worked()
    assert backoff.failed(ConnectionError()) <= 1.0


def test_a_vendor_that_asks_to_be_left_alone_is() -> None:
    outage = OutageError("busy")
    outage.retry_after_sec = 42.0
    assert Backoff().failed(outage) == 42.0
