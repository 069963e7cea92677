"""What a transition shares with an op is not stored twice: a pointer stands in its place.

    {"$op": {"op_id": 17, "path": ["inputs", "messages"]}}      what that op of the same trajectory has there
    {"$op": {"path": ["prompt"]}}                               what this same trace has there
    {"$op": {"literal": {"$op": ...}}}                          a dict of the user's that looks like a pointer

Pointers stand for a field of the trace, or for a field of such a field; `query.transitions` puts the values back.
`reward_data` is never replaced: it is small, and what people ask for in SQL.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import msgspec
import xxhash
from msgspec import Raw

from rolltrace.record import LITERAL, POINTER, TOKEN_NAMES, TOKEN_WRAPPERS, Event, OpEnd, decode_value

_MIN_BYTES = 64
"""A pointer is about as long."""
_MAX_PARTS = 100_000
"""Over all trajectories; those not heard of for the longest time are forgotten first."""
_MAX_WAITING = 64
_NEWEST_ITEMS = 8
"""Of a list: those before them are in the ops before, when it is a conversation."""
_WHOLE = frozenset({"reward_data"})
_ID_NAMES = frozenset(TOKEN_NAMES["prompt_ids"] + TOKEN_NAMES["response_ids"])
_TOKEN_NAMES = frozenset(name for names in TOKEN_NAMES.values() for name in names)

Path = tuple[str | int, ...]
_map_decoder = msgspec.msgpack.Decoder(dict[str, Raw])
_list_decoder = msgspec.msgpack.Decoder(list[Raw])


class SharedParts:
    """Where the parts of recent ops are, by the hash of their bytes."""

    def __init__(self) -> None:
        self._places: OrderedDict[bytes, dict[bytes, tuple[int, Path]]] = OrderedDict()
        """Trajectory -> hash -> op and place in it."""
        self._count = 0
        self._waiting: deque[OpEnd] | None = deque(maxlen=_MAX_WAITING)
        """Not hashed before the first transition is met: most programs have none, and need not pay for it."""

    def remember(self, record: OpEnd) -> None:
        """Note what an op holds."""
        if self._waiting is None:
            self._note(record)
        else:
            self._waiting.append(record)

    def _note(self, record: OpEnd) -> None:
        parts = list(_parts(record))
        places = self._places.setdefault(record.trajectory_id, {})
        self._places.move_to_end(record.trajectory_id)
        before = len(places)
        for path, raw in parts:
            places.setdefault(xxhash.xxh3_128_digest(raw), (record.op_id, path))
        self._count += len(places) - before
        while self._count > _MAX_PARTS:
            self._count -= len(self._places.popitem(last=False)[1])

    def transition(self, record: Event) -> dict[str, Any]:
        """The decoded body of a transition, pointers in the place of what an op holds."""
        waiting, self._waiting = self._waiting, None
        for each in waiting or ():
            self._note(each)
        parts = _map(record.body)
        if parts is None:
            body = decode_value(record.body)
            return body if isinstance(body, dict) else {"trace": body}
        trace = parts.pop("trace", None)
        body = {name: decode_value(raw) for name, raw in parts.items()}
        if trace is not None:
            fields = _map(trace)
            places = self._places.get(record.trajectory_id, {})
            body["trace"] = _fields_escaped(trace, 2) if fields is None else _Trace(places).fields(fields)
        return body


class _Trace:
    """One trace, on its way into the store."""

    def __init__(self, places: dict[bytes, tuple[int, Path]]) -> None:
        self._places = places
        self._own: dict[bytes, Path] = {}

    def fields(self, fields: dict[str, Raw], path: Path = ()) -> dict[str, Any]:
        return {name: self._field(raw, (*path, name)) for name, raw in fields.items()}

    def _field(self, raw: Raw, path: Path) -> Any:
        if len(raw) >= _MIN_BYTES and path[0] not in _WHOLE:
            digest = xxhash.xxh3_128_digest(raw)
            if digest in self._places:
                op_id, place = self._places[digest]
                return {POINTER: {"op_id": op_id, "path": list(place)}}
            if digest in self._own:
                return {POINTER: {"path": list(self._own[digest])}}
            self._own[digest] = path
        inner = _map(raw) if len(path) == 1 else None
        return _escaped(_fields_escaped(raw, 2 - len(path)) if inner is None else self.fields(inner, path))


def _fields_escaped(raw: Raw, levels: int) -> Any:
    """A value in which nothing is pointed to, safe where a reader looks for pointers: so many levels down."""

    def escaped(value: Any, levels: int) -> Any:
        if not levels or not isinstance(value, dict):
            return value
        return {key: _escaped(escaped(item, levels - 1)) for key, item in value.items()}

    return escaped(decode_value(raw), levels)


def _escaped(value: Any) -> Any:
    return {POINTER: {LITERAL: value}} if isinstance(value, dict) and value.keys() == {POINTER} else value


def _parts(record: OpEnd) -> Iterator[tuple[Path, Raw]]:
    """The parts of an op that may be pointed to, down to the items of its arguments and of the fields of its result.

    Not what the store changes: logprobs become 32 bits wide, and arrays under the name of tokens become lists. Such
    columns are taken from the inputs, the outputs, and the one completion inside them (`TOKEN_WRAPPERS`).
    """
    for place, raw in (("inputs", record.inputs), ("outputs", record.outputs)):
        fields = _map(raw)
        if (
            place == "outputs"
            and len(raw) >= _MIN_BYTES
            and not _TOKEN_NAMES.union(TOKEN_WRAPPERS) & (fields or {}).keys()
        ):
            yield (place,), raw
        for name, part in (fields or {}).items():
            if len(part) < _MIN_BYTES:
                continue
            if name in _TOKEN_NAMES:
                if name in _ID_NAMES and _is_list(part):
                    yield (place, name), part
                continue
            changed = _TOKEN_NAMES if name in TOKEN_WRAPPERS else ()
            if not changed:
                yield (place, name), part
            elif _is_list(part):
                continue
            for key, item in _items(part):
                if len(item) >= _MIN_BYTES and key not in changed:
                    yield (place, name, key), item


def _items(raw: Raw) -> Iterator[tuple[str | int, Raw]]:
    """The items of a map or list, if they can be worth a pointer."""
    fields = _map(raw)
    if fields is not None:
        yield from fields.items()
    elif _is_list(raw) and len(raw) >= _MIN_BYTES * _length(raw):
        try:
            items = _list_decoder.decode(raw)
            first = max(0, len(items) - _NEWEST_ITEMS)
            yield from enumerate(items[first:], first)
        except (ValueError, msgspec.MsgspecError, RecursionError):  # bytes that the user called msgpack
            return


def _map(raw: Raw) -> dict[str, Raw] | None:
    """The fields of a map whose keys are text; None for anything else."""
    if not len(raw) or not (0x80 <= (head := memoryview(raw)[0]) <= 0x8F or head in (0xDE, 0xDF)):
        return None
    try:
        return _map_decoder.decode(raw)
    except (ValueError, msgspec.MsgspecError, RecursionError):  # no names, no UTF-8, or deeper than the stack
        return None


def _is_list(raw: Raw) -> bool:
    head = memoryview(raw)[0]
    return bool(0x90 <= head <= 0x9F or head in (0xDC, 0xDD))


def _length(raw: Raw) -> int:
    """How many items a list says it has."""
    view = memoryview(raw)
    width = {0xDC: 2, 0xDD: 4}.get(view[0])
    return view[0] & 0x0F if width is None else int.from_bytes(view[1 : 1 + width], "big")
