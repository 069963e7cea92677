"""Flags for trajectories that others recorded: those of the drainer's checks that make sense without token ids.

The others would be wrong here: a dump names images that it does not hold. Records of our own exports are not looked at:
what was found in them stands in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rolltrace.drain import Checks, Finding, OpFacts, Past
from rolltrace.exchange.draft import ImportedRow, fitting_row
from rolltrace.exchange.importer import LineReader
from rolltrace.exchange.source_lines import Line
from rolltrace.flags import OFF, is_on
from rolltrace.record import FLAGS, SPANS, TRANSITIONS
from rolltrace.settings import Settings

_CHECKS = ("empty_response", "cut_by_length", "repetition", "tool_error", "number_as_text")


class _Payload(msgspec.Struct):
    """What is looked at: no format tells how a model was called, so the inputs are passed over."""

    outputs: Any = None


_payload_decoder = msgspec.json.Decoder(_Payload)


def checked(read: LineReader) -> LineReader:
    """A reader whose trajectories are looked at, as far as the setting `checks` does not forbid it."""
    setting = Settings.gather({}).checks
    checks = Checks(",".join(name for name in _CHECKS if is_on(setting, name)) or OFF, Past())

    def read_and_flag(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        rows = read(record, line)
        own_flags = [each for each in rows if each.table is FLAGS and is_on(setting, each.fields["flag"])]
        rows = [each for each in rows if each.table is not FLAGS]
        flags = []
        for each in rows:
            time_ns = each.fields.get("start_ns") or each.fields.get("time_ns")
            for flag, detail, _ in _findings(checks, each):
                flags.append(fitting_row(FLAGS, {**each.fields, "flag": flag, "time_ns": time_ns, "detail": detail}))
        return rows + flags + own_flags

    return read_and_flag


def _findings(checks: Checks, each: ImportedRow) -> Iterator[Finding]:
    fields = each.fields
    try:
        if each.table is SPANS:
            yield from checks.of_op(OpFacts(fields, None, _payload_decoder.decode(fields["payload"]).outputs))
        elif each.table is TRANSITIONS:
            trace = None if fields["trace"] is None else msgspec.json.decode(fields["trace"])
            yield from checks.of_transition(trace, msgspec.json.decode(fields["fields"]))
    except RecursionError:  # nested just so deep that it can be kept: not checked, rather than refused
        return
