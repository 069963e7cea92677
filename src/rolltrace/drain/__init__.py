"""Shape: journals become the store, outside the rollout's process."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.drain.checks import Checks, Finding, OpFacts, Past
    from rolltrace.drain.checks.number_as_text import is_formatted
    from rolltrace.drain.drain_state import Ended
    from rolltrace.drain.follower import Addressee, Follower, write_score
    from rolltrace.drain.redact import Redactor
    from rolltrace.drain.row import Row, fit_row
    from rolltrace.drain.rows import RowMaker
    from rolltrace.drain.secret_names import Strength, is_placeholder, strength
    from rolltrace.drain.table_rows import Home, TableRows
    from rolltrace.drain.text import Memory
    from rolltrace.drain.tokens import take_columns
    from rolltrace.drain.waiting import catch_up, find_waiting

_LATER, __getattr__ = load_later(
    __name__,
    {
        "waiting": "catch_up find_waiting",
        "checks": "Checks Finding OpFacts Past",
        "checks.number_as_text": "is_formatted",
        "drain_state": "Ended",
        "follower": "Addressee Follower write_score",
        "redact": "Redactor",
        "row": "Row fit_row",
        "rows": "RowMaker",
        "secret_names": "Strength is_placeholder strength",
        "table_rows": "Home TableRows",
        "text": "Memory",
        "tokens": "take_columns",
    },
)
"""Name -> its module, loaded when it is asked for: whoever reads a store needs only some of them."""


__all__ = [
    "Addressee",
    "Checks",
    "Ended",
    "Finding",
    "Follower",
    "Home",
    "Memory",
    "OpFacts",
    "Past",
    "Redactor",
    "Row",
    "RowMaker",
    "Strength",
    "TableRows",
    "catch_up",
    "find_waiting",
    "fit_row",
    "is_formatted",
    "is_placeholder",
    "strength",
    "take_columns",
    "write_score",
]
