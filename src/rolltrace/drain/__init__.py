"""Shape: journals become the store, outside the rollout's process."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolltrace.drain.checks import Checks, Finding, OpFacts, Past
    from rolltrace.drain.checks.number_as_text import is_formatted
    from rolltrace.drain.columns import arrow_of, grouped, part_sound
    from rolltrace.drain.drainer import (
        NO_BLOB,
        Carried,
        Drainer,
        Ended,
        OpenKey,
        OpenRecords,
        carried_file,
        note_open,
        note_unread,
        open_place,
        read_carried,
        writer_of,
    )
    from rolltrace.drain.fit import fit
    from rolltrace.drain.late_score import Addressee, write_score
    from rolltrace.drain.redact import Redactor
    from rolltrace.drain.row import Row
    from rolltrace.drain.rows import RowMaker
    from rolltrace.drain.secret_names import Strength, is_placeholder, strength
    from rolltrace.drain.text import Memory
    from rolltrace.drain.tokens import take_columns

_LATER = {
    "Addressee": "late_score",
    "Carried": "drainer",
    "Checks": "checks",
    "Drainer": "drainer",
    "Ended": "drainer",
    "Finding": "checks",
    "Memory": "text",
    "NO_BLOB": "drainer",
    "OpFacts": "checks",
    "OpenKey": "drainer",
    "OpenRecords": "drainer",
    "Past": "checks",
    "Redactor": "redact",
    "Row": "row",
    "RowMaker": "rows",
    "Strength": "secret_names",
    "arrow_of": "columns",
    "carried_file": "drainer",
    "fit": "fit",
    "grouped": "columns",
    "is_formatted": "checks.number_as_text",
    "is_placeholder": "secret_names",
    "note_open": "drainer",
    "note_unread": "drainer",
    "open_place": "drainer",
    "part_sound": "columns",
    "read_carried": "drainer",
    "strength": "secret_names",
    "take_columns": "tokens",
    "write_score": "late_score",
    "writer_of": "drainer",
}
"""Name -> its module, loaded when it is asked for: whoever reads a store needs only some of them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


__all__ = [
    "NO_BLOB",
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
    "fit",
    "grouped",
    "is_formatted",
    "is_placeholder",
    "note_open",
    "note_unread",
    "open_place",
    "part_sound",
    "read_carried",
    "strength",
    "take_columns",
    "write_score",
    "writer_of",
]
