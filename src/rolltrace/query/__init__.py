"""Ask: DuckDB over the store and the live journals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolltrace.errors import FilterError, IncompleteWarning, NotFoundError, QueryError, StoppedError
from rolltrace.query.bounded import bounded, branch_of, whole_value
from rolltrace.query.compare import Comparison, Parting, compare
from rolltrace.query.contents import PRUNED_KEY, Pruning
from rolltrace.query.dataset import Store, open_store
from rolltrace.query.events import Finding, Note, Score, Transition
from rolltrace.query.filters import compile_where
from rolltrace.query.incomplete import Incomplete, Missing
from rolltrace.query.limits import Limit
from rolltrace.query.op import Op, OpTokens
from rolltrace.query.result import Result
from rolltrace.query.side_by_side import side_by_side
from rolltrace.query.token_sequence import TokenSequence, token_sequence
from rolltrace.query.trajectory import Trajectory

if TYPE_CHECKING:
    from rolltrace.query.as_sql import listing_sql
    from rolltrace.query.completion import complete_filter
    from rolltrace.query.facets import facets_of
    from rolltrace.query.images import read_image
    from rolltrace.query.jump import JumpTarget, jump_targets
    from rolltrace.query.messages import MessagePart, PairedCall, ShownMessage, messages_of_trajectory
    from rolltrace.query.outline import Place, find_trajectory, ops_of, outline_of, tokens_of
    from rolltrace.query.overview import experiment_overview, experiment_states, store_status
    from rolltrace.query.paging import Page, group_page, trajectory_page
    from rolltrace.query.pulse import pulse_of
    from rolltrace.query.scope import Scope
    from rolltrace.query.search import search_text
    from rolltrace.query.series import step_series
    from rolltrace.query.values import changes_between

_LATER = {
    "listing_sql": "as_sql",
    "changes_between": "values",
    "complete_filter": "completion",
    "facets_of": "facets",
    "read_image": "images",
    "JumpTarget": "jump",
    "jump_targets": "jump",
    "MessagePart": "messages",
    "PairedCall": "messages",
    "ShownMessage": "messages",
    "messages_of_trajectory": "messages",
    "Place": "outline",
    "find_trajectory": "outline",
    "ops_of": "outline",
    "outline_of": "outline",
    "tokens_of": "outline",
    "experiment_overview": "overview",
    "experiment_states": "overview",
    "store_status": "overview",
    "Page": "paging",
    "group_page": "paging",
    "trajectory_page": "paging",
    "pulse_of": "pulse",
    "Scope": "scope",
    "search_text": "search",
    "step_series": "series",
}
"""What only the viewer asks for -> its module, loaded when it is: a command line begins sooner without."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


__all__ = [
    "PRUNED_KEY",
    "Comparison",
    "FilterError",
    "Finding",
    "Incomplete",
    "IncompleteWarning",
    "JumpTarget",
    "Limit",
    "MessagePart",
    "Missing",
    "NotFoundError",
    "Note",
    "Op",
    "OpTokens",
    "Page",
    "PairedCall",
    "Parting",
    "Place",
    "Pruning",
    "QueryError",
    "Result",
    "Scope",
    "Score",
    "ShownMessage",
    "StoppedError",
    "Store",
    "TokenSequence",
    "Trajectory",
    "Transition",
    "bounded",
    "branch_of",
    "changes_between",
    "compare",
    "compile_where",
    "complete_filter",
    "experiment_overview",
    "experiment_states",
    "facets_of",
    "find_trajectory",
    "group_page",
    "jump_targets",
    "listing_sql",
    "messages_of_trajectory",
    "open_store",
    "ops_of",
    "outline_of",
    "pulse_of",
    "read_image",
    "search_text",
    "side_by_side",
    "step_series",
    "store_status",
    "token_sequence",
    "tokens_of",
    "trajectory_page",
    "whole_value",
]
