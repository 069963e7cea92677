"""`rolltrace store`: do by hand what drainers do by themselves, look into journals, remove what is not needed."""

from __future__ import annotations

from pathlib import Path

from rolltrace._amounts import counted
from rolltrace.cli.command import Group, command, option
from rolltrace.cli.options import JSON, STORE, Options
from rolltrace.cli.output import progress, working
from rolltrace.errors import NotFoundError


@command(
    "turn journals into the store",
    "Drain what is pending, and continue until no writer of this host is left. This happens automatically unless "
    'tracing was set up with drain="off". If another drainer is running, it does the work.',
    STORE,
    option("--once", "drain what is pending now, and stop"),
    option("--host NAME", "drain the journals of a host that is gone, which are in STORE/journal/NAME"),
    epilog="example: rolltrace store drain --once; rolltrace store drain --host node07-4f2a11c0 /shared/store",
)
def drain(options: Options) -> int:
    from rolltrace import keeper

    store = options.store_path(to_write=True)
    keeper.collect_rarely()
    if options.host is not None:
        return keeper.run_once(store, progress("draining"), frozenset({_find_folder(store, options.host)}))
    return keeper.run_once(store, progress("draining")) if options.once else keeper.run(store)


def _find_folder(store: Path, host: str) -> Path:
    """Return the journals of another host.

    Raises:
        NotFoundError: there are none.
    """
    folder = store / "journal" / host
    if Path(host).name != host or not folder.is_dir():
        hosts = sorted(each.name for each in (store / "journal").glob("*") if each.is_dir())
        raise NotFoundError(f"no host {host!r} has journals in {str(store)!r}; there are: {', '.join(hosts) or 'none'}")
    return folder


@command(
    "merge the files of each step into one per table",
    "Merge the files of each step into one per table, with one row per trajectory, and remove files that were replaced "
    "more than an hour ago; readers are not disturbed. Drainers do this by themselves when nothing has come to a step "
    "for a while. It can run on any host, at any time.",
    STORE,
    JSON,
)
def compact(options: Options) -> int:
    from rolltrace.keeper import vacuum
    from rolltrace.tables import TableStore, address_in, compact_place, moving_places, place_late_scores

    tables = TableStore(address_in(options.store_path(to_write=True)))
    place_late_scores(tables)
    places = moving_places(tables)
    show = progress("merging")
    files = conflicts = 0
    for done, place in enumerate(places):
        show(done, len(places))
        compacted = compact_place(tables, place)
        files, conflicts = files + compacted.removed, conflicts + compacted.conflicts
    show(len(places), len(places))
    with working("removing old files"):
        removed = vacuum(tables)
    merged = f"{counted(files, 'file')} of {counted(len(places), 'step')} merged"
    later = f"\n{counted(conflicts, 'table')} changed meanwhile; they are merged the next time" if conflicts else ""
    fields = {"steps": len(places), "files": files, "conflicts": conflicts, "removed": removed}
    options.report(fields, f"{merged}, {counted(removed, 'old file')} removed{later}")
    return 0


store = Group(
    "drain, compact, clean up a store",
    "Maintain a store: what drainers do by themselves, by hand; what is kept, and what is deleted.",
    {
        "work": {"drain": drain, "compact": compact},
        "keep or remove": {"retain": "retain", "prune": "removal", "rm": "removal"},
        "look": {"journal": "journal"},
    },
)
