"""Ask: DuckDB over the tables of a store.

Public are the names in `__all__`. What else can be imported from here is for other packages of rolltrace.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.errors import (
    FilterError,
    IncompleteWarning,
    NotFoundError,
    QueryError,
    StoppedError,
    UnknownNameWarning,
)
from rolltrace.pass_rule import PassMeaning, PassRule

if TYPE_CHECKING:
    from rolltrace.query.columns import COLUMNS as COLUMNS
    from rolltrace.query.columns import FILTER_HEADERS as FILTER_HEADERS
    from rolltrace.query.columns import GROUP_FILTER_HEADERS as GROUP_FILTER_HEADERS
    from rolltrace.query.columns import GROUP_HEADERS as GROUP_HEADERS
    from rolltrace.query.columns import TRAJECTORY_COLUMNS as TRAJECTORY_COLUMNS
    from rolltrace.query.columns import TRAJECTORY_HEADERS as TRAJECTORY_HEADERS
    from rolltrace.query.comparison import (
        Comparison,
        Parting,
        TokenDivergence,
        ToolCall,
        ToolDivergence,
        Turn,
        TurnRow,
        compare,
        side_by_side,
    )
    from rolltrace.query.completion import complete_filter
    from rolltrace.query.contents import PRUNED_KEY, Pruning
    from rolltrace.query.contents import Pace as Pace
    from rolltrace.query.conversation import as_produced as as_produced
    from rolltrace.query.conversation import messages_of_trajectory
    from rolltrace.query.conversation import shorten as shorten
    from rolltrace.query.curves import Curve as Curve
    from rolltrace.query.curves import Curves as Curves
    from rolltrace.query.curves import curves_of as curves_of
    from rolltrace.query.curves import step_series
    from rolltrace.query.damage import Incomplete, Missing
    from rolltrace.query.database import Limit
    from rolltrace.query.database import check_limit as check_limit
    from rolltrace.query.dataset import Store, open_store
    from rolltrace.query.events import Finding, Note, Score, Transition
    from rolltrace.query.events import amendments_of as amendments_of
    from rolltrace.query.facets import facets_of
    from rolltrace.query.filter_fields import TERM as TERM
    from rolltrace.query.filters import MAX_ITEMS as MAX_ITEMS
    from rolltrace.query.filters import compile_where
    from rolltrace.query.finished import read_finished as read_finished
    from rolltrace.query.finished import sizes as sizes
    from rolltrace.query.finished import survey as survey
    from rolltrace.query.groups import group_record_list as group_record_list
    from rolltrace.query.images import read_image
    from rolltrace.query.listing import BY_CHOICE as BY_CHOICE
    from rolltrace.query.listing import listing_sql
    from rolltrace.query.op import Op, OpTokens, TokenUsage
    from rolltrace.query.outline import detail_of as detail_of
    from rolltrace.query.outline import ops_of, outline_of
    from rolltrace.query.outline import same_sample as same_sample
    from rolltrace.query.overview import Pulse as Pulse
    from rolltrace.query.overview import experiment_overview, experiment_states, pulse_of, store_status
    from rolltrace.query.paging import Page, group_page, trajectory_page
    from rolltrace.query.result import Result
    from rolltrace.query.scope import NO_OLDER_RUNS as NO_OLDER_RUNS
    from rolltrace.query.scope import OlderRuns, Scope
    from rolltrace.query.scope import column_of as column_of
    from rolltrace.query.scope import sorted_by as sorted_by
    from rolltrace.query.scope import verdicts_of as verdicts_of
    from rolltrace.query.scoring import label_body as label_body
    from rolltrace.query.scoring import login_name as login_name
    from rolltrace.query.search import jump_targets, search_text
    from rolltrace.query.sequence import TokenSequence, token_sequence
    from rolltrace.query.trajectory import Place, Trajectory, find_trajectory
    from rolltrace.query.trajectory import read_whole as read_whole
    from rolltrace.query.values import Row as Row
    from rolltrace.query.values import bounded, branch_of, changes_between, whole_value
    from rolltrace.query.values import restore as restore
    from rolltrace.query.views import GROUP_COLUMNS as GROUP_COLUMNS
    from rolltrace.query.views import GROUP_KEY as GROUP_KEY
    from rolltrace.query.views import SAME_GROUP as SAME_GROUP

_LATER, __getattr__ = load_later(
    __name__,
    {
        "columns": "COLUMNS FILTER_HEADERS GROUP_FILTER_HEADERS GROUP_HEADERS TRAJECTORY_COLUMNS TRAJECTORY_HEADERS",
        "comparison": "Comparison Parting TokenDivergence ToolCall ToolDivergence Turn TurnRow compare side_by_side",
        "completion": "complete_filter",
        "contents": "PRUNED_KEY Pace Pruning",
        "conversation": "as_produced messages_of_trajectory shorten",
        "curves": "Curve Curves curves_of step_series",
        "damage": "Incomplete Missing",
        "database": "Limit check_limit",
        "dataset": "Store open_store",
        "events": "Finding Note Score Transition amendments_of",
        "facets": "facets_of",
        "filter_fields": "TERM",
        "filters": "MAX_ITEMS compile_where",
        "finished": "read_finished sizes survey",
        "groups": "group_record_list",
        "images": "read_image",
        "listing": "BY_CHOICE listing_sql",
        "op": "Op OpTokens TokenUsage",
        "outline": "detail_of ops_of outline_of same_sample",
        "overview": "Pulse experiment_overview experiment_states pulse_of store_status",
        "paging": "Page group_page trajectory_page",
        "result": "Result",
        "scope": "NO_OLDER_RUNS OlderRuns Scope column_of sorted_by verdicts_of",
        "scoring": "label_body login_name",
        "search": "jump_targets search_text",
        "sequence": "TokenSequence token_sequence",
        "trajectory": "Place Trajectory find_trajectory read_whole",
        "values": "Row bounded branch_of changes_between restore whole_value",
        "views": "GROUP_COLUMNS GROUP_KEY SAME_GROUP",
    },
)
"""Name -> its module, which is loaded when somebody asks for it: a command line begins sooner without."""


__all__ = [
    "PRUNED_KEY",
    "Comparison",
    "FilterError",
    "Finding",
    "Incomplete",
    "IncompleteWarning",
    "Limit",
    "Missing",
    "NotFoundError",
    "Note",
    "OlderRuns",
    "Op",
    "OpTokens",
    "Page",
    "Parting",
    "PassMeaning",
    "PassRule",
    "Place",
    "Pruning",
    "QueryError",
    "Result",
    "Scope",
    "Score",
    "StoppedError",
    "Store",
    "TokenDivergence",
    "TokenSequence",
    "TokenUsage",
    "ToolCall",
    "ToolDivergence",
    "Trajectory",
    "Transition",
    "Turn",
    "TurnRow",
    "UnknownNameWarning",
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
    "trajectory_page",
    "whole_value",
]
