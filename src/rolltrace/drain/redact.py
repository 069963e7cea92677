"""Take secrets out before a record becomes readable in the store: in every text column of every table and everywhere in
payloads, by name (`secret_names`) and by shape (`secret_shapes`, `secret_texts`, `secret_streams`).

Token ids are numbers and are never touched. What is taken out leaves a mark: `[redacted: openai key, 51 chars]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import msgspec

from rolltrace.drain.redact_text import MAX_SHORT, TextRedactor
from rolltrace.drain.secret_names import Strength, is_secret
from rolltrace.drain.secret_streams import joined_pieces, without_spread_secrets
from rolltrace.drain.secret_values import SHORT_OPTIONS, find_command_passwords
from rolltrace.journal import SegmentReader
from rolltrace.record import TABLES, Array, Cut, Image, Marker, Table, to_json

_MAX_PLAIN_LEVELS = 32
_MAX_LEVELS = 256
"""As deep as JSON may be nested in the store."""
_PLAIN = frozenset({int, float, bool, type(None)})
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
_JSON_TYPES = _PLAIN | {str, dict, list}
_NAME_KEYS = ("name", "key", "header", "field", "k")
_VALUE_KEYS = frozenset({"value", "val", "v"})
_USER_KEYS = frozenset({"user", "username", "user_name", "login", "email", "uid", "user_id", "host"})
_OUR_COLUMNS = frozenset({"trajectory_id", "parent_trajectory_id", "tokenizer"})
"""Ids that we made."""
_IS_JSON = {
    table.name: {
        column.name: column.type == "json"
        for column in table.columns
        if column.type in ("text", "long text", "json") and column.name not in _OUR_COLUMNS
    }
    for table in TABLES
}
"""The columns of each table that may hold secrets, and whether they are JSON."""
_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.decode


class Redactor(TextRedactor):
    """Takes secrets out of values, rows and the names of a journal file."""

    def row(self, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
        """A row as it may be stored: text columns without secrets, JSON columns encoded without secrets.

        Every row passes through here, whether it is drained, read live or imported. The text of tokens has been cleaned
        before (`clean`), because its tokens must fit.
        """
        clean = dict(values)
        is_json = _IS_JSON[table.name]
        for name, value in values.items():
            if value is None or name not in is_json:
                continue
            if is_json[name]:
                clean[name] = self.json(value)
            elif name != "text" or "piece_chars" not in clean:
                clean[name] = self.text(value)
        return clean

    def encoded_row(self, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
        """As `row`, for one whose JSON columns are encoded already."""
        opened = {
            name: _decode_json(values[name])
            for name, is_json in _IS_JSON[table.name].items()
            if is_json and values.get(name) is not None
        }
        return self.row(table, {**values, **opened})

    def segment(self, segment: SegmentReader) -> SegmentReader:
        """A journal file whose project and experiment, which become the names of folders, hold no secret."""
        named = {name: self.text(str(segment.meta.get(name, "unknown"))) for name in ("project", "experiment")}
        if "run" in segment.meta:
            named["run"] = self.text(segment.meta["run"])
        return replace(segment, meta={**segment.meta, **named})

    def json(self, value: Any) -> str:
        """The value as JSON without secrets."""
        clean = self.clean_json(value)
        return _encode_json(to_json(self.value(value))).decode() if clean is None else clean

    def clean_json(self, value: Any) -> str | None:
        """As `json`, without copying the value: nearly all have no secrets and are what JSON can hold. None if not."""
        try:
            return _encode_json(value).decode() if self._is_clean(value, _MAX_PLAIN_LEVELS) else None
        except ValueError:  # lone surrogates
            return None

    def _is_clean(self, value: Any, levels: int) -> bool:
        """Whether `value` and `to_json` would change nothing in it. If that takes a closer look: no."""
        items: Iterable[Any]
        kind = type(value)
        if kind is dict:
            plain_keys = self._plain_keys
            for key in value:
                if key not in plain_keys and not self._is_plain_key(key):
                    return False
            items = value.values()
        elif kind is list:
            kinds = set(map(type, value))
            if kinds <= _PLAIN:
                return _json_holds(value, kinds)
            if not kinds <= _JSON_TYPES or (len(value) > 1 and self._may_be_one(value)):
                return False
            items = value
        else:
            items = (value,)
        short = self._short
        for item in items:
            kind = type(item)
            if kind is str:
                if (short.get(item) or self.text(item)) != item:
                    return False
            elif kind is dict or kind is list:
                if not levels or not self._is_clean(item, levels - 1):
                    return False
            elif kind is int:
                if not _SMALLEST <= item <= _LARGEST:
                    return False
            elif kind not in _PLAIN or (kind is float and not math.isfinite(item)):
                return False
        return True

    def _is_plain_key(self, key: Any) -> bool:
        if type(key) is not str or key.lower() in _VALUE_KEYS or self._strength(key) is not Strength.NONE:
            return False
        if self.text(key) != key:
            return False
        if len(self._plain_keys) >= MAX_SHORT:
            self._plain_keys.clear()
        self._plain_keys.add(key)
        return True

    def _may_be_one(self, items: list[Any]) -> bool:
        """Whether items of a list may be a secret together: a name and its value, or the pieces of a stream."""
        if self._usual:
            for item in items:
                if (
                    type(item) is str
                    and len(item) <= 80
                    and (item in SHORT_OPTIONS or self._strength(item.strip("-: =")))
                ):
                    return True
        for text in joined_pieces(items):
            if text not in self._clean_runs:
                if self._find(text):
                    return True
                if len(self._clean_runs) >= MAX_SHORT:
                    self._clean_runs.clear()
                self._clean_runs.add(text)
        return False

    def value(self, value: Any) -> Any:
        """The value without secrets; numbers, and lists of them, as they are."""
        return self._walk(value, _MAX_LEVELS)

    def _walk(self, value: Any, levels: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in _PLAIN:
            return value
        if not levels:
            return Cut("depth", 0, None)
        if isinstance(value, dict):
            clean: dict[Any, Any] = {}
            for key, item in self._pairs_judged(value):
                name = self._key(key)
                if name in clean:  # two secrets of one kind and length
                    name = f"{name} #{len(clean)}"
                clean[name] = item if type(item) is str or type(item) in _PLAIN else self._walk(item, levels - 1)
            return clean
        if isinstance(value, list | tuple):
            if set(map(type, value)) <= _PLAIN:
                return value
            return [self._walk(item, levels - 1) for item in self._list_judged(self._unspread(list(value)))]
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, Marker) and not isinstance(value, Array | Image):
            return type(value)(*[self._walk(getattr(value, each.name), levels - 1) for each in fields(value)])
        return self.text(str(value)) if isinstance(value, str) else value

    def _pairs_judged(self, value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """The items of a dict; texts are cleaned, by what their key says and by what they say."""
        about = self._name_in(value)
        for key, item in value.items():
            how_strong = self._strength(key) if type(key) is str else Strength.NONE
            name = key
            if about and type(key) is str and key.lower() in _VALUE_KEYS:
                name, how_strong = about, self._strength(about)
            if how_strong is Strength.PASSWORD and not _USER_KEYS.isdisjoint(value):
                how_strong = Strength.STRONG
            if how_strong is None:
                yield key, self._mark(name, item)
            elif how_strong:
                yield key, self._judged(name, how_strong, item)
            else:
                yield key, self.text(item) if type(item) is str else item

    def _name_in(self, value: dict[Any, Any]) -> str:
        """The name that an object such as `{"name": "Authorization", "value": ...}` speaks of."""
        if len(value) > 8:
            return ""
        lower = {key.lower(): item for key, item in value.items() if type(key) is str}
        if _VALUE_KEYS.isdisjoint(lower):
            return ""
        return next((name for key in _NAME_KEYS if isinstance(name := lower.get(key), str)), "")

    def _judged(self, name: str, how_strong: Strength, item: Any) -> Any:
        """What may be kept of the value of a name that secrets have."""
        if isinstance(item, bytes):
            try:
                text = item.decode()
            except UnicodeDecodeError:
                return item
            clean = self._judged(name, how_strong, text)
            return item if clean == text else clean
        if isinstance(item, list | tuple):
            if set(map(type, item)) <= _PLAIN:
                return item
            return [self._judged(name, how_strong, each) for each in item]
        if type(item) is dict and how_strong is Strength.STRONG:
            return {key: self._judged_within(name, key, each) for key, each in item.items()}
        if type(item) is not str:
            return item
        clean = self.text(item)
        if clean.startswith("[redacted: ") and clean.endswith(" chars]"):
            return clean
        if item in self._allowed or not is_secret(how_strong, item):
            return clean
        return self._mark(name, item)

    def _judged_within(self, name: str, key: Any, item: Any) -> Any:
        """As `_judged`, for `{"credentials": {key: item}}`. Descriptions of parameters look like that too."""
        own = self._strength(key) if type(key) is str else Strength.NONE
        if own is None:
            return self._mark(key, item)
        if isinstance(item, dict | list | tuple):
            return self._judged(name, Strength.STRONG, item)
        says_so = own or (type(key) is str and key.lower() in _VALUE_KEYS)
        return self._judged(f"{name}.{key}", Strength.STRONG if says_so else Strength.WEAK, item)

    def _mark(self, name: str, item: Any) -> Any:
        """The mark for the value of a name, if there is any value."""
        if not item or not isinstance(item, str | bytes | list | tuple | dict):
            return item
        if isinstance(item, str) and (item in self._allowed or item.startswith("[redacted: ")):
            return item
        self.count += 1
        unit = "chars" if isinstance(item, str) else "bytes" if isinstance(item, bytes) else "items"
        return f"[redacted: {self.text(name)[:40]}, {len(item)} {unit}]"

    def _key(self, key: Any) -> Any:
        if type(key) is str:
            return self.text(key)
        if isinstance(key, tuple):
            return tuple(map(self._key, key))
        return self._bytes(key) if isinstance(key, bytes) else key

    def _bytes(self, value: bytes) -> bytes:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        clean = self.text(text)
        return value if clean == text else clean.encode()

    def _list_judged(self, items: list[Any]) -> list[Any]:
        """A list in which a name stands before its value: `("x-api-key", ...)`, `["--password", ...]`."""
        if not self._usual:
            return items
        for at in range(len(items) - 1):
            name, item = items[at], items[at + 1]
            if isinstance(name, bytes) and isinstance(item, bytes) and len(name) <= 80:
                clean = self._after_name(name.decode("latin-1"), item.decode("latin-1"))
                items[at + 1] = item if clean is None else clean.encode()
            elif type(name) is str and type(item) is str and len(name) <= 80:
                clean = self._after_name(name, item)
                if name in SHORT_OPTIONS and _ends_in_password([*items[:at], name, item]):
                    clean = self._mark("password", item)
                items[at + 1] = item if clean is None else clean
        return items

    def _after_name(self, name: str, item: str) -> str | None:
        """The mark for an item after a name that secrets have. Two names behind each other are a list of names."""
        how_strong = self._strength(name.strip("-: ="))
        if not how_strong:
            return None
        scheme, _, rest = item.partition(" ")
        looks_so = is_secret(Strength.WEAK, rest or scheme) or (
            how_strong is not Strength.WEAK and is_secret(Strength.PASSWORD, rest or scheme)
        )
        return self._mark(name, item) if looks_so else None

    def _unspread(self, items: list[Any]) -> list[Any]:
        """A list in whose items, put together, no secret stands either: they may be the pieces of a stream."""
        if len(items) < 2:
            return items
        clean, count = without_spread_secrets(items, self._find)
        self.count += count
        return clean


def _ends_in_password(words: list[Any]) -> bool:
    """Whether the last of the words of a command is a password: `["docker", "login", "-p", ...]`."""
    command = " ".join(word for word in words[-20:] if type(word) is str)
    return any(secret.end == len(command) for secret in find_command_passwords(command))


def _json_holds(numbers: list[Any], kinds: set[type]) -> bool:
    """Whether these numbers, of these types, are the same in JSON for everybody who reads it."""
    whole = [each for each in numbers if type(each) is int] if int in kinds else []
    if whole and not _SMALLEST <= min(whole) <= max(whole) <= _LARGEST:
        return False
    return float not in kinds or all(math.isfinite(each) for each in numbers if type(each) is float)
