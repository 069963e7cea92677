"""Which parts and which rows of journals a question is about. Pure functions over what one look at a store found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rolltrace._arrow import pa, pc
from rolltrace.query.listing import PartKey
from rolltrace.query.summary import Folder
from rolltrace.query.views import LISTED
from rolltrace.record import FLAGS, LOSSES, SCORES, TRANSITIONS
from rolltrace.store import dropped_in, replaced_by, source_of, step_folder, table_of

WITHOUT_STEP = frozenset({SCORES.name, TRANSITIONS.name, FLAGS.name})
"""The tables whose rows may be given by id alone, long after: those lie in `step=none`, whatever their trajectory's."""

CoversFolder = Callable[[Path], bool]
"""Which folders of steps a question is about."""

FoldersOfSteps = Mapping[Path, Folder]
LiveRows = Mapping[str, Mapping[Path, "list[pa.Table]"]]
"""The rows of journals, by table and by the folder of their step."""


def parts_for(folders: FoldersOfSteps, scope: CoversFolder) -> list[Path]:
    """The parts of some steps, and those in which rows without coordinates may belong to them."""
    late = step_folder(None)
    return [
        part
        for path, folder in folders.items()
        for part in folder.parts
        if scope(path) or (path.name == late and table_of(part) in WITHOUT_STEP)
    ]


def live_rows(live: LiveRows, scope: CoversFolder) -> dict[str, pa.Table]:
    """The rows of journals for some steps, and those without coordinates that may belong to them, by table.

    Tables without any are left out.
    """
    late = step_folder(None)
    rows = {}
    for name, by_folder in live.items():
        chunks = [
            chunk
            for path, chunks in by_folder.items()
            if scope(path) or (path.name == late and name in WITHOUT_STEP)
            for chunk in chunks
            if len(chunk)
        ]
        if chunks:
            rows[name] = pa.concat_tables(chunks)
    return rows


def has_live_strays(folders: FoldersOfSteps, live: LiveRows, path: Path) -> bool:
    """Whether journals have rows for a step whose trajectory may be in a step of the same name elsewhere."""
    if sum(each.name == path.name for each in {*folders, path}) < 2:
        return False
    own: set[str] = set()
    for chunk in live[LISTED[0].name].get(path, ()):
        own.update(chunk["trajectory_id"].to_pylist())
    return any(
        not own.issuperset(pc.drop_null(chunk["trajectory_id"]).to_pylist())
        for table in LISTED[1:]
        for chunk in live[table.name].get(path, ())
    )


def dropped_ids(folders: FoldersOfSteps, scope: CoversFolder, live: Mapping[str, pa.Table]) -> list[str]:
    """The ids of trajectories that were begun and then not kept."""
    losses_now = live[LOSSES.name]["trajectory_id"].to_pylist() if LOSSES.name in live else []
    ids: list[str] = [each for each in losses_now if each is not None]
    for path, folder in folders.items():
        if scope(path):
            if folder.summary is not None:
                ids += folder.summary.dropped
            else:
                losses = (part for part in folder.parts if table_of(part) == LOSSES.name)
                ids += (each for part in losses for each in dropped_in(part))
    return ids


def drained(folders: FoldersOfSteps) -> set[PartKey]:
    """What was drained from which journal, also what was compacted since."""
    keys = set[PartKey]()
    for path, folder in folders.items():
        replaced = folder.summary.replaced if folder.summary is not None else ()
        keys.update(PartKey(path, table, source) for table, source in replaced)
        for part in folder.parts:
            keys.add(PartKey(path, table_of(part), source_of(part)))
            if folder.summary is None:
                keys.update(PartKey(path, table_of(part), each.source) for each in replaced_by(part))
    return keys
