"""Shape: journals become the store, outside the rollout's process."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.drain.checks import Checks, Finding, OpFacts, Past
    from rolltrace.drain.checks.number_as_text import is_formatted
    from rolltrace.drain.columns import arrow_of, grouped, part_sound
    from rolltrace.drain.drainer import (
        Carried,
        Drainer,
        Ended,
        OpenKey,
        OpenRecords,
        carried_file,
        open_place,
        read_carried,
        take,
        writer_of,
    )
    from rolltrace.drain.fit import fit_row
    from rolltrace.drain.late_score import Addressee, write_score
    from rolltrace.drain.redact import Redactor
    from rolltrace.drain.row import Row
    from rolltrace.drain.rows import RowMaker
    from rolltrace.drain.secret_names import Strength, is_placeholder, strength
    from rolltrace.drain.text import Memory
    from rolltrace.drain.tokens import take_columns

_LATER, __getattr__ = load_later(
    __name__,
    {
        "checks": "Checks Finding OpFacts Past",
        "checks.number_as_text": "is_formatted",
        "columns": "arrow_of grouped part_sound",
        "drainer": "Carried Drainer Ended OpenKey OpenRecords carried_file open_place read_carried take writer_of",
        "fit": "fit_row",
        "late_score": "Addressee write_score",
        "redact": "Redactor",
        "row": "Row",
        "rows": "RowMaker",
        "secret_names": "Strength is_placeholder strength",
        "text": "Memory",
        "tokens": "take_columns",
    },
)
"""Name -> its module, loaded when it is asked for: whoever reads a store needs only some of them."""


__all__ = [
    "Addressee",
    "Carried",
    "Checks",
    "Drainer",
    "Ended",
    "Finding",
    "Memory",
    "OpFacts",
    "OpenKey",
    "OpenRecords",
    "Past",
    "Redactor",
    "Row",
    "RowMaker",
    "Strength",
    "arrow_of",
    "carried_file",
    "fit_row",
    "grouped",
    "is_formatted",
    "is_placeholder",
    "open_place",
    "part_sound",
    "read_carried",
    "strength",
    "take",
    "take_columns",
    "write_score",
    "writer_of",
]
