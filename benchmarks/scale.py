"""Large stores: what the usual questions cost, each in a process of its own: `python -m benchmarks.scale [WHAT ...]`.

    settled     1,000,000 trajectories in 250 settled steps; the tables are written directly, with every column
    fresh       300,000 trajectories in 150 steps: drained just now, and after `rolltrace store compact`
    backlog     the first question on 370 MB of undrained journals
    long        one rollout of 1,000 turns: `show`, the conversation that the viewer sends, `export html`
    search      a rare word in 5,000 conversations

Stores are kept in --folder. Processor time, wall time and the most memory of a process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.stores import (
    drain,
    measured,
    record_chats,
    record_long,
    record_small,
    run_command,
    run_program,
    settle,
    write_wide,
)
from benchmarks.table import Row, Target, at_most, render, write_json

LISTINGS = {
    "ls --experiments": ["ls", "--experiments"],
    "ls --limit 5": ["ls", "--limit", "5"],
    "ls --steps": ["ls", "--steps"],
}
QUESTIONS = {
    **LISTINGS,
    "one step": ["ls", "--step", "30", "--experiment", "grpo-1", "--limit", "20"],
    "groups of a step": ["groups", "--step", "30", "--experiment", "grpo-1"],
    "--where over all": ["ls", "--where", "reward < 0.1 and turns > 7 and status = 'ok'", "--limit", "5"],
    "--where on a term": ["ls", "--where", "term.correct > 0.99", "--limit", "5"],
}
ROUNDS = 3


def measure_settled(folder: Path, size: float) -> Iterator[Row]:
    count = int(1_000_000 * size)
    store = folder / f"settled-{count}"
    if not (store / "trajectories").exists():
        write_wide(store, count)
    yield from _ask(f"{count:,} trajectories, settled", store, QUESTIONS, at_most(0.6), at_most(250))


def measure_fresh(folder: Path, size: float) -> Iterator[Row]:
    count = int(300_000 * size)
    store = folder / f"fresh-{count}"
    section = f"{count:,} trajectories in 150 steps"
    if not store.exists():
        record_small(store, count, per_step=max(count // 150, 1))
        used = run_command("store", "drain", "--once", store)
        yield Row(section, "rolltrace store drain --once, CPU", used.cpu_sec, "s")
        yield Row(section, "memory of that", used.memory_mb, "MB")
        yield from _ask(f"{section}, right after drain --once", store, LISTINGS, at_most(0.6), at_most(250))
        used = run_command("store", "compact", store)
        yield Row(section, "rolltrace store compact, CPU", used.cpu_sec, "s")
    yield from _ask(f"{section}, after compact", store, LISTINGS, at_most(0.6), at_most(250))


def measure_backlog(folder: Path, size: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        store = Path(fresh) / "store"
        count = int(160_000 * size)
        record_small(store, count)
        waiting = sum(path.stat().st_size for path in store.rglob("*.seg")) / 1e6
        used = run_command("ls", "--experiments", "--json", store)
        section = f"first question on {waiting:,.0f} MB of undrained journals"
        yield Row(section, "wall", used.wall_sec, "s")
        yield Row(section, "rows that are missing", count - _count(used.output), "", at_most(0))


def _count(output: str) -> int:
    import json

    return sum(json.loads(line)["trajectories"] for line in output.splitlines())


_CONVERSATION = measured("""
import pathlib
from rolltrace.query import open_store
from rolltrace.view.security import access_for
from rolltrace.view.server import application
from starlette.testclient import TestClient
app = application(pathlib.Path(sys.argv[1]), access_for("127.0.0.1", 7655, None))
with TestClient(app, base_url="http://127.0.0.1:7655") as browser:
    print(len(browser.get(f"/api/trajectory/{sys.argv[2]}/conversation").content))
""")


def measure_long(folder: Path, size: float) -> Iterator[Row]:
    turns = int(1_000 * size)
    store = folder / f"long-{turns}"
    if not store.exists():
        record_long(store, turns)
        drain(store)
        settle(store)
    section = f"a rollout of {turns:,} turns"
    (trajectory_id,) = run_command("sql", "select trajectory_id from trajectories", "--csv", store).output.split()[1:]
    for name, used in (
        ("show", run_command("show", trajectory_id, store)),
        ("viewer, conversation", run_program(_CONVERSATION, store, trajectory_id)),
        (
            "export html",
            run_command("export", "html", store, trajectory_id, "-o", folder / "long.html", "--force"),
        ),
    ):
        yield Row(section, f"{name}, CPU", used.cpu_sec, "s", at_most(1))
        yield Row(section, f"{name}, memory", used.memory_mb, "MB")


def measure_search(folder: Path, size: float) -> Iterator[Row]:
    count = int(5_000 * size)
    store = folder / f"chats-{count}"
    if not store.exists():
        record_chats(store, count)
        drain(store)
        settle(store)
    section = f"a word in {count:,} conversations"
    used = run_command("ls", "--where", "text ~ 'certificate'", "--limit", "5", store)
    base = run_command("ls", "--limit", "5", store)
    yield Row(section, "CPU of the process", used.cpu_sec, "s")
    yield Row(section, "CPU, without that of a plain ls", used.cpu_sec - base.cpu_sec, "s", at_most(0.5))
    yield Row(section, "memory", used.memory_mb, "MB")


def _ask(
    section: str, store: Path, questions: dict[str, list[str]], cpu: Target, memory: Target, rounds: int = ROUNDS
) -> Iterator[Row]:
    """The best of some rounds, by processor time: what else the machine does is not the question's cost."""
    for name, words in questions.items():
        best = min(run_command(*words, "--store", store) for _ in range(rounds))
        yield Row(section, f"{name}, CPU", best.cpu_sec, "s", cpu)
        yield Row(section, f"{name}, wall", best.wall_sec, "s")
        yield Row(section, f"{name}, memory", best.memory_mb, "MB", memory)


MEASURES = {
    "settled": measure_settled, "fresh": measure_fresh, "backlog": measure_backlog, "long": measure_long,
    "search": measure_search,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="WHAT", help="what to measure (default: all)")
    parser.add_argument("--quick", action="store_true", help="a hundredth of each, figures mean little")
    parser.add_argument("--folder", type=Path, help="keep the stores here, for the next time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        size = 0.01 if options.quick else 1.0
        rows = [row for name in options.what or MEASURES for row in MEASURES[name](folder, size)]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
