"""Flags for trajectories that others recorded: those of the drainer's checks that make sense without token ids.

The others would be wrong here: a dump names images that it does not hold. Records of our own exports are not looked at:
what was found in them stands in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rolltrace.drain import Checks, Finding, OpFacts, Past, is_formatted
from rolltrace.exchange.import_rows import ImportedPlace, ImportedRow, fitting_row, row
from rolltrace.exchange.importer import LineReader
from rolltrace.flags import OFF, is_on
from rolltrace.record import FLAGS, SPANS, TRANSITIONS
from rolltrace.settings import Settings

_CHECKS = ("empty_response", "cut_by_length", "repetition", "tool_error", "number_as_text")


class _Payload(msgspec.Struct):
    """What is looked at: no format tells how a model was called, so the inputs are passed over."""

    outputs: Any = None


_payload_decoder = msgspec.json.Decoder(_Payload)


def checked(read: LineReader) -> LineReader:
    """A reader whose trajectories are looked at."""
    checks = ImportChecks()
    return lambda record, line: checks.flagged(read(record, line))


class ImportChecks:
    """Looks at the trajectories of one file, as far as the setting `checks` does not forbid it."""

    def __init__(self) -> None:
        setting = Settings.gather({}).checks
        self._looks_at_numbers = is_on(setting, "number_as_text")
        self._checks = Checks(",".join(name for name in _CHECKS if is_on(setting, name)) or OFF, Past())

    def flagged(self, rows: list[ImportedRow]) -> list[ImportedRow]:
        """The rows of a trajectory, and behind them a row for each problem in them."""
        found = [
            fitting_row(
                FLAGS,
                {
                    **each.fields,
                    "flag": finding.flag,
                    "time_ns": each.fields.get("start_ns") or each.fields.get("time_ns"),
                    "detail": finding.detail,
                },
            )
            for each in rows
            for finding in self._findings(each)
        ]
        first_flag = next((at for at, each in enumerate(rows) if each.table is FLAGS), len(rows))
        return rows[:first_flag] + found + rows[first_flag:]

    def formatted(self, place: ImportedPlace, numbers: Mapping[str, Any], time_ns: int) -> list[ImportedRow]:
        """A row if numbers about the whole trajectory came as formatted text, by the names they have in the file."""
        detail = {name: text for name, text in numbers.items() if is_formatted(text)}
        if not detail or not self._looks_at_numbers:
            return []
        return [row(FLAGS, place, {"flag": "number_as_text", "time_ns": time_ns, "detail": detail})]

    def _findings(self, each: ImportedRow) -> Iterator[Finding]:
        fields = each.fields
        try:
            if each.table is SPANS:
                yield from self._checks.of_op(OpFacts(fields, None, _payload_decoder.decode(fields["payload"]).outputs))
            elif each.table is TRANSITIONS:
                trace = None if fields["trace"] is None else msgspec.json.decode(fields["trace"])
                yield from self._checks.of_transition(trace, msgspec.json.decode(fields["fields"]))
        except RecursionError:  # nested just so deep that it can be kept: not checked, rather than refused
            return
