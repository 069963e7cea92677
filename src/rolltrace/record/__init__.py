"""What a record is: its words, its types, its bytes. The bottom layer."""

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
from rolltrace.record.values import Array, ArraySummary, Cut, Image, Marker, Opaque, to_json

__all__ = [
    "MODEL_KINDS",
    "NOTHING",
    "OP_KINDS",
    "Array",
    "ArraySummary",
    "Blob",
    "Coordinates",
    "Cut",
    "Error",
    "Event",
    "Image",
    "Marker",
    "OpEnd",
    "OpKind",
    "OpStart",
    "Opaque",
    "Record",
    "SampleIndex",
    "Snapshotter",
    "Status",
    "TrajectoryEnd",
    "TrajectoryStart",
    "clean_text",
    "coordinate",
    "decode_coordinates",
    "decode_record",
    "decode_value",
    "encode_record",
    "score_body",
    "target_of",
    "to_json",
    "whole",
]
