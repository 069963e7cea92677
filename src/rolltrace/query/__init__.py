"""Ask: DuckDB over the store and the live journals."""

from rolltrace.query.compare import Comparison, compare
from rolltrace.query.dataset import Store, open_store
from rolltrace.query.engine import QueryError
from rolltrace.query.filters import FilterError, compile_where
from rolltrace.query.result import Result
from rolltrace.query.trajectory import Op, OpTokens, Trajectory

__all__ = [
    "Comparison",
    "FilterError",
    "Op",
    "OpTokens",
    "QueryError",
    "Result",
    "Store",
    "Trajectory",
    "compare",
    "compile_where",
    "open_store",
]
