"""Keep: a folder of Parquet parts that any tool can read."""

from rolltrace.store.abandoned import is_abandoned, remove_abandoned, unfinished_files
from rolltrace.store.checksum import checksum_problem
from rolltrace.store.compact import Compacted, compact, finished_steps
from rolltrace.store.layout import (
    Partition,
    blob_path,
    check_version,
    data_folder,
    foreign_entries,
    prepare,
    source_of,
    step_folder,
    step_folders,
    step_of,
    table_of,
)
from rolltrace.store.merge import GRACE_SEC, remove_leftovers, remove_replaced
from rolltrace.store.owners import Owned, busy_hosts, other_hosts
from rolltrace.store.parts import (
    SCHEMAS,
    hidden_parts,
    list_parts,
    replaced_by,
    undrained_sources,
    write_part,
    write_table,
)
from rolltrace.store.prune import Pruned, finish_pruning, prunable, prune, pruning_is_planned
from rolltrace.store.routes import Route, note_routes, outbox_folder, outboxes, routes, sender_folder
from rolltrace.store.strip import PRUNED

__all__ = [
    "GRACE_SEC",
    "PRUNED",
    "SCHEMAS",
    "Compacted",
    "Owned",
    "Partition",
    "Pruned",
    "Route",
    "blob_path",
    "busy_hosts",
    "check_version",
    "checksum_problem",
    "compact",
    "data_folder",
    "finish_pruning",
    "finished_steps",
    "foreign_entries",
    "hidden_parts",
    "is_abandoned",
    "list_parts",
    "note_routes",
    "other_hosts",
    "outbox_folder",
    "outboxes",
    "prepare",
    "prunable",
    "prune",
    "pruning_is_planned",
    "remove_abandoned",
    "remove_leftovers",
    "remove_replaced",
    "replaced_by",
    "routes",
    "sender_folder",
    "source_of",
    "step_folder",
    "step_folders",
    "step_of",
    "table_of",
    "undrained_sources",
    "unfinished_files",
    "write_part",
    "write_table",
]
