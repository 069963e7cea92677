"""Event rows become the rows of the store's tables: one batch at a time, each place of each table a data file.

An event row says what one record says (`record.tables`). The tables say what is true of a trajectory, an op, a message.
Everything that is derived is derived here, once: partial rows of trajectories, turns, what each model call saw.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rolltrace._guard import logger
from rolltrace.drain.partial_rows import PartialTrajectory
from rolltrace.drain.row import Row, place_of
from rolltrace.drain.transcripts import ended_op
from rolltrace.messages import MessageRow, OpRows, Transcript
from rolltrace.record import LOSSES, SPANS, TEXTS, TRAJECTORIES, TRANSITIONS, Blob, decode_value, to_json
from rolltrace.tables import COORDINATES, TABLE_SCHEMAS, DataFile, Place, StoreAddress, arrow_schema, write_file

_LARGEST = 1 << 63
_RENAMED = {"ids": "tokens", "mask": "response_mask"}
"""Columns of `tokens` -> those of an event row."""
_SCHEMAS = {schema.name: schema for schema in TABLE_SCHEMAS}
_REPEATED = frozenset({str, int, bool, type(None)})
_encode_json = msgspec.json.Encoder().encode


class Home(NamedTuple):
    """Where a trajectory belongs: where it began."""

    place: Place
    is_group: bool = False


class TableRows:
    """The rows of one batch."""

    def __init__(self, homes: Mapping[str, Home] | None = None) -> None:
        """`homes`: where trajectories of earlier batches began; rows that say otherwise are put there."""
        self._homes = {} if homes is None else homes
        self.new_homes: dict[str, Home] = {}
        """Trajectories that began, or told where they did, in this batch."""
        self._rows: dict[tuple[str, Place], list[tuple[Any, ...]]] = defaultdict(list)
        """Values in the order of the columns of the table."""
        self._partials: dict[tuple[str, Place], PartialTrajectory] = {}
        self._marked: set[Place] = set()
        """Places that get a score by coordinates: their step is moving again."""
        self._homeless: list[tuple[str, dict[str, Any]]] = []
        """Tables and rows that were given by the id of a trajectory alone, of which it is not known where it is."""
        self.ended: list[str] = []
        """The trajectories that ended."""

    @property
    def is_empty(self) -> bool:
        return not self._rows and not self._partials and not self._marked and not self._homeless

    def add_row(self, row: Row, spoken: OpRows | None = None, *, was_open: bool = False) -> None:
        """Add what an event row says.

        Args:
            row: The row.
            spoken: Of an op: what it adds to the transcript.
            was_open: Of an op: its beginning was counted by `begin_op`.
        """
        table, fields = row
        fields["sample_number"] = sample_number(fields)
        if table is SPANS:
            self._add_op(fields, spoken, was_open)
        elif table is TRAJECTORIES:
            self._add_trajectory(fields)
        elif table is TEXTS:
            self._put("tokens", self._settle(fields), fields)
            self._partial(fields)
        elif table is LOSSES:
            self._put("losses", place_of(fields), fields)
            if fields["trajectory_id"] is not None:
                self._settle(fields)
                self._partial(fields).drop()
        else:
            self._add_direct(table.name, fields)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add all event rows of trajectories that are over, in any order, with the transcripts that they make."""
        every = sorted(rows, key=lambda row: row.table is not TRAJECTORIES)  # where they belong is known first
        transcripts: dict[str, Transcript] = {}
        spoken_rows = [row for row in every if row.table in (SPANS, TRANSITIONS)]
        for row in every:
            if row.table not in (SPANS, TRANSITIONS):
                self.add_row(row)
        for row in sorted(spoken_rows, key=lambda row: _time_of(row.fields)):
            fields = row.fields
            transcript = transcripts.setdefault(fields["trajectory_id"], Transcript())
            if row.table is SPANS:
                self.add_row(row, transcript.op_ended(ended_op(fields, *_open_payload(fields["payload"]))))
                continue
            self.add_row(row)
            trace = None if fields["trace"] is None else msgspec.json.decode(fields["trace"])
            if isinstance(trace, dict) and not transcript.is_told_by_ops:
                prompt, response = trace.get("prompt"), trace.get("policy_response")
                self.add_messages(fields, transcript.step_taken(prompt, response, time_ns=fields["time_ns"]).rows)
        for fields in (row.fields for row in every if row.table is TRAJECTORIES):
            if (ended := transcripts.get(fields["trajectory_id"])) is not None:
                self.add_messages(fields, ended.finish(fields["end_ns"] or 0).rows)

    def begin_op(self, fields: dict[str, Any]) -> None:
        """An op began: its trajectory is there, if nothing else says so."""
        fields["sample_number"] = sample_number(fields)
        self._partial(fields).op_begun(fields)

    def add_messages(self, fields: dict[str, Any], rows: Sequence[MessageRow]) -> None:
        """Add rows of the transcript of a trajectory, by a row of it that was added."""
        if not rows:
            return
        trajectory_id, place = fields["trajectory_id"], self._settle(fields)
        coordinates = tuple(map(fields.get, _COORDINATES))
        target = self._rows["messages", place]
        for row in rows:
            target.append((trajectory_id, row.message_id, *coordinates, *_MESSAGE_VALUES(row)))
            if row.role == "user" and row.kind != "rewrite" and row.text:
                self._partial(fields).begin_task(row.text, row.time_ns)

    def add_blob(self, blob: Blob, place: Place) -> None:
        """Add an image or other large content."""
        info = _encode_json(to_json(decode_value(blob.info))).decode()
        self._rows["blobs", place].append((blob.hash, *place, blob.media, info, blob.data))

    def add_run(self, meta: Mapping[str, Any]) -> None:
        """A process joined a run."""
        place = Place(str(meta.get("project", "unknown")), str(meta.get("experiment", "unknown")), None)
        settings = {name: meta[name] for name in ("token2text", "checks", "pid", "host") if name in meta}
        joined_ns = meta.get("run_ns") or meta.get("created_ns")
        self._rows["runs", place].append(
            (*place, meta.get("run"), joined_ns, str(meta.get("writer", "unknown")), _encode_json(settings).decode())
        )

    def places_of_scores(self) -> list[str]:
        """The ids of trajectories that scores, steps and notes are about which say no place, and nobody knows here."""
        ids = dict.fromkeys(fields["trajectory_id"] for _, fields in self._homeless)
        return [trajectory_id for trajectory_id in ids if self._home(trajectory_id) is None]

    def move_scores(self, homes: Mapping[str, Home]) -> None:
        """Put what was given by an id alone where its trajectory is; what has none stays without a step."""
        homeless, self._homeless = self._homeless, []
        for name, fields in homeless:
            home = homes.get(fields["trajectory_id"]) or self._home(fields["trajectory_id"])
            if home is not None:
                fields.update(home.place._asdict())
            self._put_direct(name, fields, is_known=home is not None)

    def _move_home(self) -> None:
        """Put what came before its trajectory told where it belongs, from another process under another name, there."""
        for (trajectory_id, place), partial in self._partials.items():
            home = self._home(trajectory_id)
            if home is not None and home.place != place:
                partial.move(home.place, is_group=home.is_group)
        for (table, place), rows in list(self._rows.items()):
            names = _COLUMN_NAMES[table]
            if table == "losses" or "trajectory_id" not in names:
                continue
            whose, first = names.index("trajectory_id"), names.index("project")
            stays = []
            for row in rows:
                home = self._home(row[whose])
                if home is None or home.place == place:
                    stays.append(row)
                else:
                    moved = (*row[:first], *home.place, *row[first + len(home.place) :])
                    self._rows[table, home.place].append(moved)
            if stays:
                self._rows[table, place] = stays
            else:
                del self._rows[table, place]

    def write_files(self, address: StoreAddress) -> dict[str, list[DataFile]]:
        """Write the data files of the batch, which are in no table until they are committed."""
        self.move_scores({})
        self._move_home()
        files: dict[str, list[DataFile]] = defaultdict(list)
        for (table, place), rows in self._all_rows().items():
            files[table].append(write_file(address, table, place, _to_arrow(table, rows)))
        return files

    def _all_rows(self) -> dict[tuple[str, Place], list[tuple[Any, ...]]]:
        every = dict(self._rows)
        for partial in self._partials.values():
            table = "group_records" if partial.is_group else "trajectories"
            every.setdefault((table, partial.place), []).append(tuple(map(partial.fields.get, _COLUMN_NAMES[table])))
        for place in self._marked:
            if ("trajectories", place) not in every:
                every["trajectories", place] = [tuple(map(place._asdict().get, _COLUMN_NAMES["trajectories"]))]
        return every

    def _add_op(self, fields: dict[str, Any], spoken: OpRows | None, was_open: bool) -> None:
        place, end_ns = self._settle(fields), fields["end_ns"]
        fields["duration_s"] = None if end_ns is None else (end_ns - fields["start_ns"]) / 1e9
        fields["payload_bytes"] = _size_bytes(fields["payload"])
        answer = None
        if spoken is not None:
            fields["turn"], fields["saw"] = spoken.turn, spoken.saw
            self.add_messages(fields, spoken.rows)
            for message in spoken.rows:
                if message.author == "policy" and message.kind == "message":
                    answer = message.text
        self._put("ops", place, fields)
        if any(fields[name] is not None for name in ("tokens", "logprobs", "response_mask")):
            self._put("tokens", place, fields)
        self._partial(fields).op_ended(fields, answer, was_open=was_open)

    def _add_trajectory(self, fields: dict[str, Any]) -> None:
        trajectory_id = fields["trajectory_id"]
        home = self._home(trajectory_id)
        if home is None:
            home = self.new_homes[trajectory_id] = Home(place_of(fields), bool(fields.get("is_group")))
            # What was seen of it in this batch before, under another place, stays there.
        self._settle(fields)
        partial = self._partial(fields)
        partial.is_group = home.is_group
        partial.own_row(fields)
        if fields["status"] != "running" and not home.is_group:
            self.ended.append(trajectory_id)

    def _add_direct(self, name: str, fields: dict[str, Any]) -> None:
        trajectory_id = fields["trajectory_id"]
        is_known = trajectory_id is None or fields["step"] is not None or self._home(trajectory_id) is not None
        if trajectory_id is not None:
            self._settle(fields)
        if is_known or name == "flags":
            self._put_direct(name, fields, is_known=True)
        else:
            self._homeless.append((name, fields))

    def _put_direct(self, name: str, fields: dict[str, Any], *, is_known: bool) -> None:
        trajectory_id, place = fields["trajectory_id"], place_of(fields)
        self._put(name, place, fields)
        if name == "scores":
            if trajectory_id is None:
                self._marked.add(place)
            elif is_known:
                self._partial(fields)
        elif trajectory_id is not None:
            partial = self._partial(fields)
            if name == "flags":
                partial.flag(fields["flag"])
            else:
                partial.told(fields["time_ns"], counts=fields.get("event") != "pruned")

    def _put(self, table: str, place: Place, fields: Mapping[str, Any]) -> None:
        self._rows[table, place].append(tuple(map(fields.get, _SOURCES[table])))

    def _home(self, trajectory_id: str) -> Home | None:
        return self.new_homes.get(trajectory_id) or self._homes.get(trajectory_id)

    def _settle(self, fields: dict[str, Any]) -> Place:
        """Where a row belongs, which it says from now on."""
        home = self._home(fields["trajectory_id"])
        place = place_of(fields) if home is None else home.place
        fields["project"], fields["experiment"], fields["step"] = place
        return place

    def _partial(self, fields: Mapping[str, Any]) -> PartialTrajectory:
        """The partial row of the trajectory of a row that is settled."""
        trajectory_id, place = fields["trajectory_id"], place_of(fields)
        partial = self._partials.get((trajectory_id, place))
        if partial is None:
            partial = self._partials[trajectory_id, place] = PartialTrajectory(trajectory_id, place)
            home = self._home(trajectory_id)
            partial.is_group = home is not None and home.is_group
        return partial


_COLUMN_NAMES = {name: tuple(column.name for column in schema.columns) for name, schema in _SCHEMAS.items()}
_SOURCES = {**_COLUMN_NAMES, "tokens": tuple(_RENAMED.get(name, name) for name in _COLUMN_NAMES["tokens"])}
"""The columns of an event row that those of each table come from."""
_COORDINATES = tuple(column.name for column in COORDINATES)
_MESSAGE_VALUES = attrgetter(*_COLUMN_NAMES["messages"][2 + len(_COORDINATES) :])


def _time_of(fields: Mapping[str, Any]) -> int:
    return fields.get("end_ns") or fields.get("start_ns") or fields.get("time_ns") or 0


def _open_payload(payload: str | None) -> tuple[Any, Any]:
    """Inputs and outputs of an op."""
    opened = None if payload is None else msgspec.json.decode(payload)
    return (opened.get("inputs"), opened.get("outputs")) if isinstance(opened, dict) else (None, None)


def sample_number(fields: Mapping[str, Any]) -> int | None:
    """The sample as a number, if it was given as one."""
    value = int(fields["sample_index"]) if fields.get("sample_is_int") and fields["sample_index"] is not None else None
    return value if value is not None and -_LARGEST <= value < _LARGEST else None


def _size_bytes(text: str | bytes | None) -> int | None:
    if text is None or isinstance(text, bytes) or text.isascii():
        return None if text is None else len(text)
    return len(text.encode())


def _to_arrow(table: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    """The rows of one file, in the order of the table; a row that cannot be written costs itself."""
    order = [_COLUMN_NAMES[table].index(name) for name in _SCHEMAS[table].sorted_by]
    try:
        rows.sort(key=itemgetter(*order))
    except TypeError:  # nulls among them
        rows.sort(key=lambda row: [(value is None, value) for value in map(row.__getitem__, order)])
    try:
        return _columns(table, rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        sound = [row for row in rows if _can_be_written(table, row)]
        logger.error("%d rows of %s cannot be written and are left out", len(rows) - len(sound), table)
        return _columns(table, sound)


def _columns(table: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(table)
    columns: Iterable[tuple[Any, ...]] = zip(*rows) if rows else [()] * len(schema)
    return pa.Table.from_arrays([_column(values, field.type) for values, field in zip(columns, schema)], schema=schema)


def _can_be_written(table: str, row: tuple[Any, ...]) -> bool:
    try:
        pq.write_table(_columns(table, [row]), pa.BufferOutputStream())
    except Exception:
        return False
    return True


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values of one column. Most columns of a file hold the same everywhere, which is soon told."""
    first = values[0] if values else ()
    if type(first) in _REPEATED and first == values[-1] and values.count(first) == len(values):
        if first is None:
            return pa.nulls(len(values), kind)
        return pa.repeat(pa.scalar(first, type=kind), len(values))
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return pa.array(values, type=kind)
    # Lists come as arrays of their type: they are put behind each other without a look at their items.
    lists = [value for value in values if value is not None]
    offsets: list[int | None] = [*accumulate((0 if each is None else len(each) for each in values), initial=0)]
    total = offsets[-1]
    if len(lists) < len(values):
        offsets = [None if each is None else start for start, each in zip(offsets, values)] + [total]
    if set(map(type, lists)) == {array}:
        flat = pa.Array.from_buffers(kind.value_type, total, [None, pa.py_buffer(b"".join(lists))])
    else:
        arrays = [each if isinstance(each, pa.Array) else pa.array(each, type=kind.value_type) for each in lists]
        flat = pa.concat_arrays(arrays) if arrays else pa.array([], type=kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), flat, type=kind)
