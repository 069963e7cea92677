"""One host drains its journals and is suspended or killed at a step of that; another takes its journals over.

    python -m tests.flow.taken_over FOLDER EVERY [kill|over|stop|both] [FIRST]

Each host is a process in a UTS namespace of its own. The first one is suspended with SIGSTOP right before its nth
change of a file or commit to a table, for n = FIRST, FIRST + EVERY, ... Then

    kill    it is killed, and drains again
    over    it is killed, and the other host drains its journals (`rolltrace store drain --host`)
    stop    the other host drains its journals, and it is continued
    both    the other host does so and is killed at a step of its work too, and it is continued

Prints how many interleavings were tried; exits with 1 and says what is wrong if the tables have another row, or one
more, or one less, than if nothing had happened.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb
from PIL import Image

import rolltrace
from rolltrace.drain import Follower, follower
from rolltrace.files import host_name
from rolltrace.tables import TABLE_SCHEMAS, TableStore, address_in, read_files, read_rows
from tests.flow.two_hosts import finish, on_host

ALPHA, BETA = "alpha", "beta"
BATCH_BYTES = 8 << 10
"""So that there are several."""


@rolltrace.rollout_trace_op(kind="llm")
def turn(messages: list[dict[str, str]], picture: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": f"reply to {len(messages)} messages", "token_ids": [1, 2, 3]}


@rolltrace.rollout_trace_op(kind="tool")
def search(text: str) -> str:
    if text == "2":
        raise ValueError("nothing found")
    return text * 300


@rolltrace.rollout_trace_op
def hang() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def record(store: Path, *, killed: bool) -> None:
    """Rollouts with something for every table; at last, if it is `killed`, in an op."""
    rolltrace.init(
        "p", "e", "rolltrace", run="one", store=store, drain="off", limits={"segment_bytes": "64KiB"}, quiet=True,
        max_samples_per_step_per_worker=3,
    )  # fmt: skip
    for number in range(4):
        with rolltrace.rollout_trace_group(step=number % 2, sample_index=number) as group:
            group.note("a group")
            messages = [{"role": "user", "content": f"task {number}"}]
            with rolltrace.rollout_trace_attr(rollout_n=0) as trajectory:
                for each in range(3):
                    turn(messages, Image.new("RGB", (2, 2), (number, each, killed)))
                    messages += [{"role": "assistant", "content": f"reply to {len(messages)} messages"}]
                    try:
                        search(f"{each}")
                    except ValueError as error:
                        messages += [{"role": "tool", "content": str(error)}]
                trajectory.transition({"prompt": messages, "policy_response": "x"}, reward=1.0)
                trajectory.note("fine")
                trajectory.reward(number / 10, terms={"format": 1.0})
            rolltrace.score(trajectory.id, "advantage", 0.5)
    if killed:
        with rolltrace.rollout_trace_attr(step=1, sample_index=99):
            hang()
    rolltrace.shutdown()


def drain(store: Path, host: str) -> None:
    """What `rolltrace store drain --once` and `rolltrace store drain --host` do, in small batches."""
    follower.MAX_BATCH_BYTES = BATCH_BYTES
    own = host.partition("-")[0] == host_name().partition("-")[0]
    folder = next(path for path in (store / "journal").iterdir() if path.name.startswith(host))
    drainer = Follower(store, folders=None if own else frozenset({folder}))
    with drainer.working() as alone:
        assert alone
        drainer.drain()


def contents(store: Path) -> dict[str, list[str]]:
    """Every row of every table; of trajectories what their rows come to."""
    tables, found = TableStore(address_in(store)), {}
    with duckdb.connect() as connection:
        for schema in TABLE_SCHEMAS:
            files = tables.files(schema.name)
            if schema.name in ("trajectories", "group_records"):
                source = read_rows(connection, tables.address, schema.name, files, tables.files("scores"))
            else:
                source = read_files(connection, tables.address, schema.name, files)
            found[schema.name] = sorted(map(str, connection.execute(f"FROM {source}").fetchall()))
    return found


def save(store: Path, expected: Path) -> None:
    expected.write_text(json.dumps(contents(store)))


def compare(store: Path, expected: Path) -> None:
    wanted, found, problems = json.loads(expected.read_text()), contents(store), []
    for table, rows in wanted.items():
        if found[table] != rows:
            lost = [row for row in rows if row not in found[table]]
            new = [row for row in found[table] if row not in rows]
            problems.append(f"{table}: {len(found[table])} rows, not {len(rows)}; lost {lost[:2]}; new {new[:2]}")
    left = [path.name for path in (store / "journal").rglob("*.se*")] + [p.name for p in store.rglob("*.state")]
    if left:
        problems.append(f"left behind: {left}")
    if problems:
        sys.stdout.write("\n".join(problems) + "\n")
        sys.stdout.flush()
        os._exit(1)


def main(folder: Path, every: int, how: str = "kill", first: int = 1) -> None:
    before, whole, expected = folder / "before", folder / "whole", folder / "expected.json"
    for killed in (False, True):
        process = on_host(ALPHA, lambda killed=killed: record(before, killed=killed))  # type: ignore[misc]
        os.waitpid(process, 0)
    shutil.copytree(before, whole)
    finish(on_host(ALPHA, lambda: drain(whole, ALPHA)))
    finish(on_host(ALPHA, lambda: save(whole, expected)))
    chance, tried = random.Random(first), 0
    for stop_at in range(first, 100_000, every):
        store = folder / f"store-{stop_at}"
        shutil.copytree(before, store)

        def work() -> None:
            drain(store, ALPHA)  # noqa: B023

        suspended = on_host(ALPHA, work, stop_at)
        _, status = os.waitpid(suspended, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        if how in ("kill", "over"):
            kill(suspended)
        if how == "both":
            other = on_host(BETA, work, chance.randrange(1, 150))
            _, status = os.waitpid(other, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                kill(other)
        elif how != "kill":
            finish(on_host(BETA, work))
        if how in ("stop", "both"):
            os.kill(suspended, signal.SIGCONT)
            finish(suspended)
        if how != "over":
            finish(on_host(ALPHA, work))
        try:
            finish(on_host(BETA, lambda: compare(store, expected)))  # noqa: B023
        except SystemExit:
            sys.exit(f"suspended before change {stop_at}")
        tried += 1
        shutil.rmtree(store)
    sys.stdout.write(f"{tried}\n")


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), (*sys.argv[3:4], "kill")[0], int((*sys.argv[4:5], "1")[0]))
