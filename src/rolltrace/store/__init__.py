"""Keep: a folder of Parquet parts that any tool can read."""

from rolltrace.store.checksum import checksum_problem
from rolltrace.store.compact import compact, finished_steps
from rolltrace.store.layout import (
    Partition,
    blob_path,
    check_version,
    data_folder,
    prepare,
    source_of,
    step_folder,
    step_of,
    table_of,
)
from rolltrace.store.parts import SCHEMAS, list_parts, write_part, write_table
from rolltrace.store.prune import Pruned, finish_pruning, prunable, prune, pruning_is_planned
from rolltrace.store.routes import Route, note_routes, outbox_folder, outboxes, routes

__all__ = [
    "SCHEMAS",
    "Partition",
    "Pruned",
    "Route",
    "blob_path",
    "check_version",
    "checksum_problem",
    "compact",
    "data_folder",
    "finish_pruning",
    "finished_steps",
    "list_parts",
    "note_routes",
    "outbox_folder",
    "outboxes",
    "prepare",
    "prunable",
    "prune",
    "pruning_is_planned",
    "routes",
    "source_of",
    "step_folder",
    "step_of",
    "table_of",
    "write_part",
    "write_table",
]
