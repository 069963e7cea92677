"""Two hosts on one store folder: one is suspended at a step of its work, the other does all of its own meanwhile.

    python -m tests.flow.two_hosts FOLDER EVERY

Each host is a process in a UTS namespace of its own, so it has a name and a journal folder of its own. Its work is all
that a keeper does: drain, merge, prune, retain, remove what was replaced, send. It is suspended with SIGSTOP right
before its nth change of a file, for n = 1, 1 + EVERY, ... Prints how many interleavings were tried; exits with 1 and
says what is wrong if a row was lost or doubled, a pruned payload came back, or something was sent twice or not at all.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  (loaded once, before the forks)
import pyarrow.parquet  # noqa: F401

import rolltrace
import rolltrace.keeper.process
import rolltrace.query

CLONE_NEWUTS = 0x04000000
HOSTS = ("alpha", "beta")
ROLLOUTS, TURNS = 3, 2


def on_host(name: str, work: Callable[[], None], stop_at: int = 0) -> int:
    """Start work on a host, which suspends itself before its nth change of a file. Gives the process."""
    process = os.fork()
    if process:
        return process
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS):
            raise OSError(ctypes.get_errno(), "unshare")
        socket.sethostname(name)
        suspend_at(stop_at)
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def suspend_at(nth: int) -> None:
    count = 0

    def changing(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == nth:
                os.kill(os.getpid(), signal.SIGSTOP)
            return real(*args, **options)

        return act

    for function in ("rename", "unlink", "fsync", "mkdir", "replace"):
        setattr(os, function, changing(getattr(os, function)))


def finish(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status):
        sys.exit(f"a host failed: {status}")


@rolltrace.rollout_trace_op(kind="llm")
def turn(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * 200}


def record(store: Path, host: str, first: int) -> None:
    """Rollouts of steps 1 to 3, whose groups are spread over both hosts."""
    rolltrace.init("p", "e", ["rolltrace", "otlp"], store=store, drain="off", segment_bytes="64KiB")
    for step in (1, 2, 3):
        for rollout in range(ROLLOUTS):
            number = first + 1000 * HOSTS.index(host) + 100 * step + 10 * rollout
            where = {"step": step, "sample_index": step, "rollout_n": number}
            with rolltrace.rollout_trace_attr(**where) as trajectory:
                for each in range(TURNS):
                    turn(number + each)
                trajectory.reward(1.0)
    rolltrace.shutdown()


class Shipping:
    """A backend that writes down what it was given."""

    name = "otlp"

    def __init__(self, file: Path) -> None:
        self.file = file

    def send(self, trajectories: Any) -> list[Any]:
        with self.file.open("a") as out:
            out.writelines(f"{each.trajectory_id}\n" for each in trajectories)
        return []

    def update(self, trajectories: Any) -> None:
        pass

    def close(self) -> None:
        pass


def keep_house(store: Path, shipped: Path) -> None:
    """What a keeper and its sender do, from draining to sending."""
    from rolltrace.drain import Drainer
    from rolltrace.keeper.outbox import Outbox
    from rolltrace.keeper.pending import routed
    from rolltrace.keeper.policy import RetentionPolicy
    from rolltrace.keeper.retention import retain
    from rolltrace.keeper.sender import Sender
    from rolltrace.store import compact, finished_steps, prune, remove_replaced

    drainer = Drainer(store)
    with drainer.working() as alone:
        assert alone
        drainer.drain()
        compact(store, running=lambda folder: True)
        compact(store, steps=finished_steps(store))
        prune(store, pruned_ids(store))
        retain(store, RetentionPolicy(keep=("errors",), after_steps=2))
        remove_replaced(store, grace_sec=0)
        compact(store)
        remove_replaced(store, grace_sec=0)
    outbox = Outbox(store, "otlp")
    opened = rolltrace.open(store)
    with outbox.sending() as alone:
        assert alone
        outbox.position.load()
        sender = Sender(opened, outbox, Shipping(shipped))
        sender.send(routed(opened, outbox, quiet_sec=-1e9))


def pruned_ids(store: Path) -> set[str]:
    """Of step 2, one rollout of each host."""
    rows = rolltrace.open(store).trajectories(step=2).rows()
    return {row["trajectory_id"] for row in rows if row["rollout_n"] % 100 == 0}


def check(store: Path, shipped: Path) -> None:
    """Everything is there once, what was pruned stays so, and everything was sent once."""
    opened = rolltrace.open(store)
    opened_ids = [row["op_id"] for row in opened.sql("SELECT op_id FROM spans").rows()]
    expected = 2 * len(HOSTS) * 3 * ROLLOUTS * TURNS
    problems = []
    if len(opened_ids) != expected or len(set(opened_ids)) != expected:
        problems.append(f"{len(opened_ids)} ops, {len(set(opened_ids))} different ones, instead of {expected}")
    rows = opened.trajectories().rows()
    if len(rows) != 2 * len(HOSTS) * 3 * ROLLOUTS:
        problems.append(f"{len(rows)} trajectories")
    left = opened.sql("SELECT trajectory_id FROM spans WHERE payload IS NOT NULL").rows()
    back = pruned_ids(store) & {row["trajectory_id"] for row in left}
    if back:
        problems.append(f"the payloads of {len(back)} pruned trajectories are back")
    sent = Counter(shipped.read_text().split())
    if set(sent) != {row["trajectory_id"] for row in rows} or max(sent.values()) > 1:
        problems.append(f"sent: {Counter(sent.values())} of {len(rows)}")
    if problems:
        sys.stdout.write(f"{json.dumps(problems)}\n")
        sys.stdout.flush()
        os._exit(1)


def main(folder: Path, every: int) -> None:
    before = folder / "before"
    for number, host in enumerate(HOSTS):  # what both have brought already, and what they have not drained yet
        finish(on_host(host, lambda host=host, number=number: first_run(before, host, number)))  # type: ignore[misc]
    tried = 0
    for stop_at in range(1, 100_000, every):
        store, shipped = folder / f"store-{stop_at}", folder / f"shipped-{stop_at}"
        shutil.copytree(before, store)
        suspended = on_host(HOSTS[0], lambda: keep_house(store, shipped), stop_at)  # noqa: B023
        _, status = os.waitpid(suspended, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        finish(on_host(HOSTS[1], lambda: keep_house(store, shipped)))  # noqa: B023
        os.kill(suspended, signal.SIGCONT)
        finish(suspended)
        try:
            finish(on_host(HOSTS[0], lambda: check(store, shipped)))  # noqa: B023
        except SystemExit:
            sys.exit(f"suspended before change {stop_at}")
        tried += 1
        shutil.rmtree(store)
    sys.stdout.write(f"{tried}\n")


def first_run(store: Path, host: str, number: int) -> None:
    from rolltrace.drain import Drainer

    record(store, host, 10_000)
    drainer = Drainer(store)
    with drainer.working():
        drainer.drain()
    record(store, host, 20_000)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
