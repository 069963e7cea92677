"""Ask: DuckDB over the store and the live journals."""

from rolltrace.errors import FilterError, IncompleteWarning, QueryError
from rolltrace.query.compare import Comparison, Parting, compare
from rolltrace.query.dataset import Store, open_store
from rolltrace.query.filters import compile_where
from rolltrace.query.incomplete import Incomplete, Missing
from rolltrace.query.pruned import Pruning
from rolltrace.query.result import Result
from rolltrace.query.trajectory import Op, OpTokens, Trajectory

__all__ = [
    "Comparison",
    "FilterError",
    "Incomplete",
    "IncompleteWarning",
    "Missing",
    "Op",
    "OpTokens",
    "Parting",
    "Pruning",
    "QueryError",
    "Result",
    "Store",
    "Trajectory",
    "compare",
    "compile_where",
    "open_store",
]
