"""Two hosts on one store folder: one is suspended at a step of its work, the other does all of its own meanwhile.

    python -m tests.flow.two_hosts FOLDER EVERY [stop|kill] [FIRST]

Each host is a process in a UTS namespace of its own, so it has a name and a journal folder of its own, and its clock is
minutes from that of the other. Its work is all that a keeper does: drain, compact, prune, retain, delete old files,
send. It is suspended with SIGSTOP right before its nth change of a file, commit to a table or call of the backend, for
n = FIRST, FIRST + EVERY, ..., and then continued, or killed and begun anew. Prints how many interleavings were tried;
exits with 1 and says what is wrong if a row was lost or doubled, a pruned payload came back, something was counted as
pruned twice, or something was sent twice or not at all.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace.drain import Follower
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import routed
from rolltrace.keeper.policy import RetentionPolicy
from rolltrace.keeper.retention import retain
from rolltrace.keeper.sender import Sender
from rolltrace.tables import Place, Table, TableStore, address_in, compact_place, moving_places, prune_payloads
from tests.flow.host import become

HOSTS = ("alpha", "beta")
CLOCKS_SEC = {"alpha": -420.0, "beta": 300.0}
ROLLOUTS, TURNS = 2, 2
STEPS = (1, 2, 3)


def on_host(name: str, work: Callable[[], None], stop_at: int = 0) -> int:
    """Start work on a host, which suspends itself before its nth change of a file. Gives the process."""
    process = os.fork()
    if process:
        return process
    try:
        become(name, CLOCKS_SEC[name])
        suspend_at(stop_at)
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


_count = _stop_at = 0


def suspend_at(nth: int) -> None:
    global _stop_at
    _stop_at = nth

    def changing(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **options: Any) -> Any:
            point()
            return real(*args, **options)

        return act

    accessor = getattr(pathlib, "_normal_accessor", None)  # Python 3.10 calls what it found in `os` when it was loaded
    for function in ("rename", "unlink", "fsync", "mkdir", "replace", "link"):
        act = changing(getattr(os, function))
        setattr(os, function, act)
        if hasattr(accessor, function):
            setattr(accessor, function, act)
    Table.commit = changing(Table.commit)  # type: ignore[method-assign]


def point() -> None:
    """A moment at which a host may be suspended."""
    global _count
    _count += 1
    if _count == _stop_at:
        os.kill(os.getpid(), signal.SIGSTOP)


def finish(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status):
        sys.exit(f"a host failed: {status}")


@rolltrace.rollout_trace_op(kind="llm")
def turn(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * 200}


def record(store: Path, host: str, first: int) -> None:
    """Rollouts of steps 1 to 3, whose groups are spread over both hosts."""
    rolltrace.init(
        "p",
        "e",
        ["rolltrace", "otlp"],
        run="one",
        store=store,
        drain="off",
        limits={"segment_bytes": "64KiB"},
        quiet=True,
    )
    for step in STEPS:
        for rollout in range(ROLLOUTS):
            number = first + 1000 * HOSTS.index(host) + 100 * step + 10 * rollout
            where = {"step": step, "sample_index": step, "rollout_n": number}
            with rolltrace.rollout_trace_attr(**where) as trajectory:
                for each in range(TURNS):
                    turn(number + each)
                trajectory.reward(1.0)
            if step == 2 and rollout == 0:
                with (store.parent / "pruned").open("a") as out:
                    out.write(f"{trajectory.id}\n")
    rolltrace.shutdown()


class Shipping:
    """A backend that writes down what it was given."""

    name = "otlp"

    def __init__(self, file: Path) -> None:
        self.file = file

    def send(self, trajectories: Any) -> list[Any]:
        point()
        with self.file.open("a") as out:
            out.writelines(f"{each.trajectory_id}\n" for each in trajectories)
        point()
        return []

    def update(self, trajectories: Any) -> None:
        pass

    def close(self) -> None:
        pass


def keep_house(store: Path, shipped: Path) -> None:
    """What a keeper and its sender do, from draining to sending."""
    follower = Follower(store)
    with follower.working() as alone:
        assert alone
        follower.drain()
        tables = TableStore(address_in(store))
        compact(tables)
        prune_payloads(tables, {Place("p", "e", 2): pruned_ids(store)}, at_once=True)
        retain(store, RetentionPolicy(keep=("errors",), after_steps=2))
        compact(tables)
    outbox = Outbox(store, "otlp")
    opened = rolltrace.open(store)
    with outbox.sending() as alone:
        assert alone
        sender = Sender(opened, outbox, Shipping(shipped))
        sender._most = 8  # several batches
        while (pending := routed(opened, outbox, quiet_sec=-1e9)).total:
            sender.send(pending)


def compact(tables: TableStore) -> None:
    tables.refresh()
    for place in moving_places(tables):
        compact_place(tables, place)


def pruned_ids(store: Path) -> set[str]:
    """Of step 2, one rollout of each host and recording."""
    return set((store.parent / "pruned").read_text().split())


def check(store: Path, shipped: Path, killed: bool) -> None:
    """Everything is there once, what was pruned stays so and is counted once, and everything was sent once."""
    opened = rolltrace.open(store)
    opened_ids = [row["op_id"] for row in opened.sql("SELECT op_id FROM ops").rows()]
    trajectories = 2 * len(HOSTS) * len(STEPS) * ROLLOUTS
    problems = []
    if len(opened_ids) != trajectories * TURNS or len(set(opened_ids)) != trajectories * TURNS:
        problems.append(f"{len(opened_ids)} ops, {len(set(opened_ids))} different ones, not {trajectories * TURNS}")
    rows = opened.trajectories().rows()
    if len(rows) != trajectories:
        problems.append(f"{len(rows)} trajectories")
    left = {row["trajectory_id"] for row in opened.sql("SELECT trajectory_id FROM ops WHERE payload IS NOT NULL")}
    pruned = pruned_ids(store)
    if pruned & left:
        problems.append(f"the payloads of {len(pruned & left)} pruned trajectories are back")
    lost = {row["reason"]: row["count"] for row in opened.losses().rows()}
    expected = {"pruned_payload": 2 * len(HOSTS), "retention": 2 * len(HOSTS) * ROLLOUTS}
    if {reason: lost.get(reason) for reason in expected} != expected:
        problems.append(f"counted as lost: {lost}")
    if any(row["reward"] != 1.0 for row in rows):
        problems.append("a reward is missing")
    sent = Counter(shipped.read_text().split())
    if set(sent) != {row["trajectory_id"] for row in rows} or (max(sent.values()) > 1 and not killed):
        problems.append(f"sent: {Counter(sent.values())} of {len(rows)}")
    if problems:
        sys.stdout.write(f"{json.dumps(problems)}\n")
        sys.stdout.flush()
        os._exit(1)


def main(folder: Path, every: int, kill: bool = False, first: int = 1) -> None:
    before = folder / "before"
    for host in HOSTS:
        finish(on_host(host, lambda host=host: first_run(before, host)))  # type: ignore[misc]
    tried = 0
    for stop_at in range(first, 100_000, every):
        store, shipped = folder / f"store-{stop_at}", folder / f"shipped-{stop_at}"
        shutil.copytree(before, store)
        alpha, beta = HOSTS

        def work() -> None:
            keep_house(store, shipped)  # noqa: B023

        suspended = on_host(alpha, work, stop_at)
        _, status = os.waitpid(suspended, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        finish(on_host(beta, work))
        if kill:
            os.kill(suspended, signal.SIGKILL)
            os.waitpid(suspended, 0)
            finish(on_host(alpha, work))  # what it was about to send when it was killed
        else:
            os.kill(suspended, signal.SIGCONT)
            finish(suspended)
        finish(on_host(alpha, work))  # what was left to do: payloads are kept until they are sent
        try:
            finish(on_host(beta, lambda: check(store, shipped, kill)))  # noqa: B023
        except SystemExit:
            sys.exit(f"suspended before change {stop_at}")
        tried += 1
        shutil.rmtree(store)
    sys.stdout.write(f"{tried}\n")


def first_run(store: Path, host: str) -> None:
    """What a host has brought already, and what it has not drained yet."""
    record(store, host, 10_000)
    follower = Follower(store)
    with follower.working():
        follower.drain()
    record(store, host, 20_000)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "kill" in sys.argv[3:4], int((*sys.argv[4:5], "1")[0]))
