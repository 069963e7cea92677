"""Ask: DuckDB over the store and the live journals."""

from rolltrace.errors import FilterError, QueryError
from rolltrace.query.compare import Comparison, Parting, compare
from rolltrace.query.dataset import Store, open_store
from rolltrace.query.filters import compile_where
from rolltrace.query.result import Result
from rolltrace.query.trajectory import Op, OpTokens, Trajectory

__all__ = [
    "Comparison",
    "FilterError",
    "Op",
    "OpTokens",
    "Parting",
    "QueryError",
    "Result",
    "Store",
    "Trajectory",
    "compare",
    "compile_where",
    "open_store",
]
