"""Keep: Delta tables in a folder or on object storage."""

from rolltrace._address import StoreAddress, address_in, home_folder
from rolltrace.tables.columns import (
    COORDINATES,
    OPS,
    STORE_FORMAT,
    TABLE_SCHEMAS,
    TRAJECTORIES,
    Place,
    TableSchema,
    arrow_schema,
)
from rolltrace.tables.compact import MAX_BATCH_FILES, compact_place, merge_batches, moving_files, moving_places
from rolltrace.tables.data_file import find_problem, write_file
from rolltrace.tables.late_scores import find_places, place_late_scores, waiting_scores
from rolltrace.tables.live import LiveOp, LiveSnapshot, LiveWriter, read_live, remove_live, write_live
from rolltrace.tables.log import TableVersion, open_version
from rolltrace.tables.pass_files import forget_pass_rule, publish_pass_rules, read_pass_rules, write_pass_rule
from rolltrace.tables.prune import PRUNED, Pruned, find_prunable, prune_payloads
from rolltrace.tables.reduce import fill_ids, match_scores, merge_rows
from rolltrace.tables.relation import find_moving, open_scan, read_files, read_rows, sql_literal, stream_rows
from rolltrace.tables.remove import estimate_removal, remove_trajectories
from rolltrace.tables.rewrite import RowChange, rewrite_rows
from rolltrace.tables.routes import (
    Route,
    links_of,
    note_routes,
    outbox_folder,
    outboxes,
    routes,
    save_links,
    sender_folder,
)
from rolltrace.tables.store import FIRST_TABLE, LEADING_TABLE, TableStore, find_torn_entry, hidden_files
from rolltrace.tables.table import LOG, ConflictError, DataFile, Table

__all__ = [
    "COORDINATES",
    "FIRST_TABLE",
    "LEADING_TABLE",
    "LOG",
    "MAX_BATCH_FILES",
    "OPS",
    "PRUNED",
    "STORE_FORMAT",
    "TABLE_SCHEMAS",
    "TRAJECTORIES",
    "ConflictError",
    "DataFile",
    "LiveOp",
    "LiveSnapshot",
    "LiveWriter",
    "Place",
    "Pruned",
    "Route",
    "RowChange",
    "StoreAddress",
    "Table",
    "TableSchema",
    "TableStore",
    "TableVersion",
    "address_in",
    "arrow_schema",
    "compact_place",
    "estimate_removal",
    "fill_ids",
    "find_moving",
    "find_places",
    "find_problem",
    "find_prunable",
    "find_torn_entry",
    "forget_pass_rule",
    "hidden_files",
    "home_folder",
    "links_of",
    "match_scores",
    "merge_batches",
    "merge_rows",
    "moving_files",
    "moving_places",
    "note_routes",
    "open_scan",
    "open_version",
    "outbox_folder",
    "outboxes",
    "place_late_scores",
    "prune_payloads",
    "publish_pass_rules",
    "read_files",
    "read_live",
    "read_pass_rules",
    "read_rows",
    "remove_live",
    "remove_trajectories",
    "rewrite_rows",
    "routes",
    "save_links",
    "sender_folder",
    "sql_literal",
    "stream_rows",
    "waiting_scores",
    "write_file",
    "write_live",
    "write_pass_rule",
]
