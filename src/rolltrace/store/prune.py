"""Give space back: payloads, or all rows but the summary, of trajectories that somebody chose.

The summary rows (trajectories, scores, flags, losses) always stay, each step gets a row in `losses` that says how many
were pruned, and each trajectory a note that says when and why. Parts are replaced one by one, as in compaction. What is
to be done is written down first, in a plan: a kill in between leaves some parts pruned and the rest whole, and whoever
prunes next, on any host, carries the plan out to its end, so that each trajectory is counted once.

    STORE/upkeep/plans/00000003.json     a plan; the next one is made when this one is done
    STORE/upkeep/plans/00000003.done     it is

Plans are numbered (`files.numbered`): one that was made without knowing of another host's is not carried out.

Payloads are inputs, outputs, tokens, texts, tracebacks, notes. Small columns stay, and with `whole` only the rows of
model and tool calls, because turns, tool calls and tokens are part of the summary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace._arrow import pa, pc, pq
from rolltrace.errors import StoreError
from rolltrace.files import NumberedFiles, read_page, replace_file
from rolltrace.record import LOSSES, NOTES, SPANS, TEXTS, TRANSITIONS, Table
from rolltrace.store.arrow import BULKY
from rolltrace.store.layout import Partition, source_of, step_folders, table_of
from rolltrace.store.merge import Superseded, replace_parts
from rolltrace.store.parts import row_count, undrained_sources, visible_parts, write_part

_TRIES = 20
DETAIL = {table.name: table for table in (SPANS, TRANSITIONS, NOTES, TEXTS)}
"""The tables that have payloads."""
PRUNED = "pruned"
"""The `event` of the note that says when and why the payloads of a trajectory went. It stays."""
PRUNE = "prune-"
"""How the sources begin of the parts that say so."""
_LONG_TEXTS = ("text", "traceback")
"""Columns that hold payloads although they are plain text."""

Progress = Callable[[int, int], None]


class Pruned(NamedTuple):
    """What was removed."""

    trajectories: int
    rows: int
    """Rows that lost their payload, or were removed."""
    bytes: int
    """How much smaller the store is once the old parts are removed (`merge.GRACE_SEC`)."""


class Prunable(NamedTuple):
    """What could be removed."""

    steps: dict[Partition, set[str]]
    """The trajectories that have something to lose."""
    bytes: int
    """About how much smaller the store would be."""

    @property
    def ids(self) -> set[str]:
        return set().union(*self.steps.values())


def prune(
    store: Path,
    chosen: set[str],
    *,
    whole: bool = False,
    reason: str | None = None,
    policy: str | None = None,
    steps: Callable[[Path], bool] = lambda folder: True,
    epoch: int = 0,
    progress: Progress = lambda done, total: None,
) -> Pruned:
    """Remove the payloads of these trajectories, or with `whole` their transitions, notes and ops altogether.

    Model and tool calls keep their small columns even then: turns, tool calls and tokens are part of the summary.

    Parts that are still being drained are left for the next time.

    Args:
        store: The store.
        chosen: The trajectories.
        whole: Remove rows, not only payloads.
        reason: Why, in `losses`; `pruned_payload` or `pruned_whole` if not given.
        policy: The command or policy that chose them, for whoever looks for a payload later.
        steps: Which step folders to look at; all if not given.
        epoch: Of the lease under which this is done.
        progress: Told how many parts are done, of how many.

    Raises:
        StoreError: another host prunes all the time. What was planned is done by whoever prunes next.
    """
    why = reason or ("pruned_whole" if whole else "pruned_payload")
    plans = _plans(store)
    for _ in range(_TRIES):
        number = plans.newest()  # before looking: a plan that another host makes meanwhile has the next number
        finish_pruning(store, epoch=epoch)
        by_step = prunable(store, chosen, whole=whole, steps=steps).steps
        if not by_step:
            return Pruned(0, 0, 0)
        plan = _Plan(os.urandom(8).hex(), whole, why, list(by_step.items()), policy, time.time_ns(), epoch)
        if plans.add(number + 1, msgspec.json.encode(plan)):
            return _carry_out(store, number + 1, plan, progress)
    raise StoreError(f"another host prunes the store {str(store)!r} all the time; try again later")


def prunable(
    store: Path,
    chosen: set[str],
    *,
    whole: bool = False,
    steps: Callable[[Path], bool] = lambda folder: True,
) -> Prunable:
    """Those of these trajectories that have something to remove. The arguments are those of `prune`."""
    ids = pa.array(sorted(chosen), type=pa.string())
    by_step: dict[Partition, set[str]] = {}
    size = 0
    for part in _parts(store, steps):
        names = pq.read_table(part, columns=["trajectory_id"], partitioning=None)["trajectory_id"]
        if pc.any(pc.is_in(names, value_set=ids)).as_py():
            rows = _read(part)
            stripped = _strip(rows, DETAIL[table_of(part)], ids, whole=whole)
            if stripped.ids:
                by_step.setdefault(_partition(rows), set()).update(stripped.ids)
                size += _less(part, rows, stripped.rows)
    return Prunable(by_step, size)


def _less(part: Path, rows: pa.Table, left: pa.Table) -> int:
    """About how much smaller a part would be: each column shrinks on the disk as it does in memory."""
    footer = pq.read_metadata(part)
    less = 0.0
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            name = column.path_in_schema.partition(".")[0]
            before = rows[name].nbytes
            less += column.total_compressed_size * (before - left[name].nbytes) / before if before else 0.0
    return max(round(less), 0)


def pruning_is_planned(store: Path) -> bool:
    """Whether a killed run, or another host, left something to do."""
    plans = _plans(store)
    number = plans.newest()
    return number > 0 and not _done_file(plans, number).exists()


def finish_pruning(store: Path, *, epoch: int = 0) -> None:
    """Carry out what a killed run, or another host, had planned."""
    plans = _plans(store)
    number = plans.newest()
    if not pruning_is_planned(store):
        return
    try:
        plan = msgspec.json.decode(read_page(plans.path(number)), type=_Plan)
    except FileNotFoundError:  # done, and followed by another
        return
    except msgspec.MsgspecError:  # not ours: it appears all at once, so ours is whole
        replace_file(_done_file(plans, number), b"")
        return
    plan.epoch = epoch
    _carry_out(store, number, plan, lambda done, total: None)


def prune_as_noted(store: Path, folder: Path) -> None:
    """Take out what the notes of a step say was pruned, where it still is: parts of another store may have come late.

    The caller is alone with the store."""
    parts = visible_parts(folder)
    ids: dict[bool, set[str]] = {False: set(), True: set()}
    for part in parts:
        if table_of(part) == NOTES.name:
            rows = pq.read_table(part, columns=["trajectory_id", "event", "body"], partitioning=None)
            for row in rows.filter(pc.equal(rows["event"], PRUNED)).to_pylist():
                ids[_is_whole(row["body"])].add(row["trajectory_id"])
    for part in parts:
        if table_of(part) not in DETAIL:
            continue
        table, old = DETAIL[table_of(part)], part
        for whole, chosen in ids.items():
            if chosen:
                rows = _read(old)
                stripped = _strip(rows, table, pa.array(sorted(chosen), type=pa.string()), whole=whole)
                if stripped.changed:
                    old = replace_parts(store, _partition(rows), table, [old], stripped.rows)


def _read(part: Path) -> pa.Table:
    """The rows of a part that will be written anew: damage must not get a checksum of its own."""
    return pq.read_table(part, partitioning=None, page_checksum_verification=True)


def _is_whole(body: str | None) -> bool:
    try:
        return bool(msgspec.json.decode(body or "{}").get("whole"))
    except (msgspec.MsgspecError, AttributeError):
        return False


class _Plan(msgspec.Struct, array_like=True):
    name: str
    whole: bool
    reason: str
    steps: list[tuple[Partition, set[str]]]
    """The trajectories that have something to remove."""
    policy: str | None
    time_ns: int
    epoch: int
    """Of the lease under which it is carried out."""


def _plans(store: Path) -> NumberedFiles:
    return NumberedFiles(store / "upkeep" / "plans")


def _done_file(plans: NumberedFiles, number: int) -> Path:
    return plans.path(number).with_suffix(".done")


def _carry_out(store: Path, number: int, plan: _Plan, progress: Progress) -> Pruned:
    """Do what is planned. Another host may be doing the same: what one has pruned, the other finds pruned."""
    ids = {
        partition.folder(store): pa.array(sorted(trajectory_ids), type=pa.string())
        for partition, trajectory_ids in plan.steps
    }
    rows = size = 0
    for _ in range(_TRIES):
        superseded = False
        parts = list(_parts(store, ids.__contains__))
        for done, part in enumerate(parts):
            progress(done, len(parts))
            try:
                table = _read(part)
                stripped = _strip(table, DETAIL[table_of(part)], ids[part.parent], whole=plan.whole)
                if stripped.changed:
                    before, kind = part.stat().st_size, DETAIL[table_of(part)]
                    fresh = replace_parts(store, _partition(table), kind, [part], stripped.rows, epoch=plan.epoch)
                    rows += stripped.changed
                    size += before - fresh.stat().st_size
            except (Superseded, FileNotFoundError):
                superseded = True
        if not superseded:
            break
    else:
        raise StoreError(f"another host merges the store {str(store)!r} all the time; try again later")
    for partition, trajectory_ids in plan.steps:
        _count(store, partition, trajectory_ids, plan)
    plans = _plans(store)
    replace_file(_done_file(plans, number), b"")
    for older in plans.numbers():
        if older < number:
            plans.path(older).unlink(missing_ok=True)
            _done_file(plans, older).unlink(missing_ok=True)
    progress(len(parts), len(parts))
    return Pruned(len(set().union(*(trajectory_ids for _, trajectory_ids in plan.steps))), rows, size)


def _parts(store: Path, steps: Callable[[Path], bool]) -> list[Path]:
    """The parts of these steps that may be pruned now. A damaged one stays as it is: `rolltrace doctor` names it."""
    parts = [
        part
        for folder in step_folders(store)
        if steps(folder)
        for part in visible_parts(folder)
        if table_of(part) in DETAIL and row_count(part) is not None
    ]
    undrained = undrained_sources(store)  # after the parts, as in compaction
    return [part for part in parts if source_of(part) not in undrained]


def _partition(rows: pa.Table) -> Partition:
    first = rows.slice(0, 1).select(["project", "experiment", "step"]).to_pylist()[0]
    return Partition(first["project"], first["experiment"], first["step"])


def _count(store: Path, partition: Partition, trajectory_ids: set[str], plan: _Plan) -> None:
    """Say in the store how many were pruned, and of each when and why."""
    source = f"{PRUNE}{plan.reason}-{plan.name}"
    where = {**partition._asdict(), "worker": "prune"}
    body = msgspec.json.encode({"policy": plan.policy, "whole": plan.whole}).decode()
    note = {**where, "event": PRUNED, "time_ns": plan.time_ns, "body": body}
    write_part(store, partition, NOTES, source, [{**note, "trajectory_id": each} for each in sorted(trajectory_ids)])
    write_part(store, partition, LOSSES, source, [{**where, "reason": plan.reason, "count": len(trajectory_ids)}])


class _Stripped(NamedTuple):
    """Rows without what was to go."""

    rows: pa.Table
    ids: set[str]
    """The trajectories that lost something."""
    changed: int
    """How many rows lost something, or are gone."""


def _strip(rows: pa.Table, table: Table, ids: pa.Array, *, whole: bool) -> _Stripped:
    """Take the payloads of these trajectories out of rows of a table, or with `whole` the rows themselves."""
    hit = pc.is_in(rows["trajectory_id"], value_set=ids)
    if table is NOTES:
        hit = pc.and_(hit, pc.fill_null(pc.not_equal(rows["event"], PRUNED), True))
    payloads = [
        column.name
        for column in table.columns
        if column.name in rows.column_names and (column.type in BULKY or column.name in _LONG_TEXTS)
    ]
    gone = _nowhere(rows)
    if table is TEXTS:  # nothing but payload
        gone = hit
    elif whole:
        gone = pc.and_(hit, pc.invert(_summed(rows)))
    less = gone
    for name in payloads:
        less = pc.or_(less, pc.and_(hit, pc.is_valid(rows[name])))
    lost = rows["trajectory_id"].filter(less)
    left = rows
    for name in payloads:
        at = left.column_names.index(name)
        empty = pa.nulls(len(left), left.schema.field(name).type)
        left = left.set_column(at, left.schema.field(name), pc.if_else(hit, empty, left[name].combine_chunks()))
    return _Stripped(left.filter(pc.invert(gone)), set(lost.to_pylist()), len(lost))


def _summed(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows a listing counts: model and tool calls."""
    if "kind" not in rows.column_names:
        return _nowhere(rows)
    return pc.fill_null(pc.is_in(rows["kind"], value_set=pa.array(["llm", "tool"])), False)


def _nowhere(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([False] * len(rows), type=pa.bool_())])
