"""What a record is: its words, its types, its bytes. The bottom layer."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.record.decode import decode_value
    from rolltrace.record.events import (
        NOTHING,
        Blob,
        Error,
        Event,
        OpEnd,
        OpStart,
        Record,
        TrajectoryEnd,
        TrajectoryStart,
        decode_coordinates,
        decode_record,
        encode_record,
    )
    from rolltrace.record.growing import Growing, Rest, common_prefix
    from rolltrace.record.partial import Partial, read_coordinates, read_deep, read_partly
    from rolltrace.record.printable import plain_text, text_width
    from rolltrace.record.schema import (
        MODEL_KINDS,
        OP_KINDS,
        Coordinates,
        OpKind,
        SampleIndex,
        Status,
        clean_text,
        coordinate,
        whole,
    )
    from rolltrace.record.score import score_body, target_of
    from rolltrace.record.snapshot import Snapshotter
    from rolltrace.record.tables import (
        FLAGS,
        FORMAT,
        INSTEAD,
        LITERAL,
        LOSSES,
        NOTES,
        POINTER,
        SCORES,
        SPANS,
        TABLES,
        TEXTS,
        TIMES,
        TRAJECTORIES,
        TRANSITIONS,
        WHERE,
        ColumnType,
        Table,
        sample_columns,
    )
    from rolltrace.record.tokens import (
        BARE_NAMES,
        COLUMN_OF,
        OWN_PROCESS,
        TOKEN_NAMES,
        TOKEN_SCALARS,
        TOKEN_WRAPPERS,
        flat_list,
        names_in,
        places,
        sides,
        spelt_out,
        token_ids,
    )
    from rolltrace.record.usage import may_tell, usage_of
    from rolltrace.record.values import BLOB_NAME, Array, ArraySummary, Cut, Image, Marker, Opaque, to_json

_LATER, __getattr__ = load_later(
    __name__,
    {
        "decode": "decode_value",
        "events": "Blob Error Event NOTHING OpEnd OpStart Record "
        "TrajectoryEnd TrajectoryStart decode_coordinates "
        "decode_record encode_record",
        "growing": "Growing Rest common_prefix",
        "partial": "Partial read_coordinates read_deep read_partly",
        "printable": "plain_text text_width",
        "schema": "Coordinates MODEL_KINDS OP_KINDS OpKind SampleIndex Status clean_text coordinate whole",
        "score": "score_body target_of",
        "snapshot": "Snapshotter",
        "tables": "ColumnType FLAGS FORMAT INSTEAD LITERAL LOSSES NOTES POINTER SCORES SPANS TABLES TEXTS TIMES "
        "TRAJECTORIES TRANSITIONS Table WHERE sample_columns",
        "tokens": "BARE_NAMES COLUMN_OF OWN_PROCESS TOKEN_NAMES TOKEN_SCALARS TOKEN_WRAPPERS flat_list names_in places "
        "sides spelt_out token_ids",
        "usage": "may_tell usage_of",
        "values": "Array ArraySummary BLOB_NAME Cut Image Marker Opaque to_json",
    },
)
"""Name -> its module, loaded when it is asked for: readers, drainers and rollouts need different ones."""


__all__ = [
    "BARE_NAMES",
    "BLOB_NAME",
    "COLUMN_OF",
    "FLAGS",
    "FORMAT",
    "INSTEAD",
    "LITERAL",
    "LOSSES",
    "MODEL_KINDS",
    "NOTES",
    "NOTHING",
    "OP_KINDS",
    "OWN_PROCESS",
    "POINTER",
    "SCORES",
    "SPANS",
    "TABLES",
    "TEXTS",
    "TIMES",
    "TOKEN_NAMES",
    "TOKEN_SCALARS",
    "TOKEN_WRAPPERS",
    "TRAJECTORIES",
    "TRANSITIONS",
    "WHERE",
    "Array",
    "ArraySummary",
    "Blob",
    "ColumnType",
    "Coordinates",
    "Cut",
    "Error",
    "Event",
    "Growing",
    "Image",
    "Marker",
    "OpEnd",
    "OpKind",
    "OpStart",
    "Opaque",
    "Partial",
    "Record",
    "Rest",
    "SampleIndex",
    "Snapshotter",
    "Status",
    "Table",
    "TrajectoryEnd",
    "TrajectoryStart",
    "clean_text",
    "common_prefix",
    "coordinate",
    "decode_coordinates",
    "decode_record",
    "decode_value",
    "encode_record",
    "flat_list",
    "may_tell",
    "names_in",
    "places",
    "plain_text",
    "read_coordinates",
    "read_deep",
    "read_partly",
    "sample_columns",
    "score_body",
    "sides",
    "spelt_out",
    "target_of",
    "text_width",
    "to_json",
    "token_ids",
    "usage_of",
    "whole",
]
