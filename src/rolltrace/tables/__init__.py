"""Keep: Delta tables in a folder or on object storage."""

from rolltrace.tables.address import StoreAddress
from rolltrace.tables.columns import TABLE_SCHEMAS, TableColumn, TableSchema
from rolltrace.tables.compact import Compacted, compact_place, moving_places
from rolltrace.tables.data_file import write_file
from rolltrace.tables.relation import read_files, read_rows
from rolltrace.tables.schema import Place, arrow_schema
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import ConflictError, DataFile, Table

__all__ = [
    "TABLE_SCHEMAS",
    "Compacted",
    "ConflictError",
    "DataFile",
    "Place",
    "StoreAddress",
    "Table",
    "TableColumn",
    "TableSchema",
    "TableStore",
    "arrow_schema",
    "compact_place",
    "moving_places",
    "read_files",
    "read_rows",
    "write_file",
]
