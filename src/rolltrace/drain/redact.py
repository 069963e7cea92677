"""Take secrets out before a record becomes readable in the store: in every text column of every table and everywhere in
payloads, by name (`secret_names`) and by shape (`secret_shapes`, `secret_texts`, `secret_streams`).

Token ids are numbers and are never touched. What is taken out leaves a mark: `[redacted: openai key, 51 chars]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace.drain.secret_names import SHORT_OPTIONS, Secret, Strength, find_command_passwords, is_secret, strength
from rolltrace.drain.secret_streams import without_spread_secrets
from rolltrace.drain.secret_texts import find_secrets, merged
from rolltrace.errors import ConfigError
from rolltrace.files import read_page
from rolltrace.journal import SegmentReader
from rolltrace.record import TABLES, Array, Cut, Image, Marker, Table, to_json

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_LEVELS = 256
"""As deep as JSON may be nested in the store."""
_MAX_PLAIN_LEVELS = 32
_PLAIN = frozenset({int, float, bool, type(None)})
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
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
_MIN_LONG_CHARS = 256
_MAX_KEPT_CHARS = 16_000_000
_MAX_SHORT = 8192


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    """What `redact.json` may hold."""

    keys: list[str] = []
    shapes: dict[str, str] = {}
    allow: list[str] = []
    replace: bool = False


class Redactor:
    """Takes secrets out of values, rows and the names of a journal file: by the usual rules and those of one store.

    Args:
        keys: Names whose value is never kept, whatever it is; compared without regard to case and to `-` or `_`.
        shapes: What else is a secret: a word for it, and its pattern.
        allow: Texts that are never taken out, and names whose values are not.
        usual: Apply the usual rules too.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        shapes: Mapping[str, str] | None = None,
        *,
        allow: Iterable[str] = (),
        usual: bool = True,
    ) -> None:
        allowed = list(allow)
        self._keys = frozenset(map(_plain, keys))
        self._shapes = [(kind, re.compile(shape)) for kind, shape in (shapes or {}).items()]
        self._allowed, self._allowed_keys = frozenset(allowed), frozenset(map(_plain, allowed))
        self._usual = usual
        self._long: dict[str, str] = {}
        """What became of long texts: a conversation says the same again at each turn."""
        self._short: dict[str, str] = {}
        """What became of short ones: names, roles, statuses."""
        self._long_chars = 0
        self._strength = lru_cache(_MAX_SHORT)(self._judge_name)
        self._plain_keys: set[str] = set()
        """Names that are no secrets and belong to none."""
        self._clean_runs: set[str] = set()
        """Texts of several items, put together, in which no secret is spread."""
        self._is_json = True
        """What was walked through since this was set is what JSON can hold."""
        self.count = 0
        """How many secrets were taken out."""

    @classmethod
    def of(cls, store: Path) -> Self:
        """The rules of a store: the usual ones, and those in its `redact.json` if there is one.

        Raises:
            ConfigError: the file cannot be understood. Nothing is drained then: better late than with a secret in it.
        """
        page = store / "redact.json"
        try:
            rules = msgspec.json.decode(read_page(page), type=_Rules)
            return cls(rules.keys, rules.shapes, allow=rules.allow, usual=not rules.replace)
        except FileNotFoundError:
            return cls()
        except (msgspec.MsgspecError, re.error, OSError) as error:
            raise ConfigError(f"the rules in {page} cannot be used: {error}") from error

    def text(self, text: str) -> str:
        """The text with a mark in the place of every secret."""
        cleaned_texts = self._short if len(text) < _MIN_LONG_CHARS else self._long
        clean = cleaned_texts.get(text)
        if clean is None:
            if cleaned_texts is self._short:
                if len(cleaned_texts) >= _MAX_SHORT:
                    cleaned_texts.clear()
            else:
                self._long_chars += len(text)
                if self._long_chars > _MAX_KEPT_CHARS:
                    cleaned_texts.clear()
                    self._long_chars = len(text)
            clean = cleaned_texts[text] = self._cleaned(text)
        return clean

    def _cleaned(self, text: str) -> str:
        secrets = self._find(text)
        if not secrets:
            return text
        self.count += len(secrets)
        parts, kept_to = [], 0
        for secret in secrets:
            parts += [text[kept_to : secret.start], secret.mark]
            kept_to = secret.end
        return "".join([*parts, text[kept_to:]])

    def secrets(self, text: str, start: int = 0, earlier: Iterable[Secret] = ()) -> list[Secret]:
        """Where secrets stand in a text, in order; those that overlap are one.

        Args:
            text: The text.
            start: From where on the usual rules look; those of a store's own look at all of it.
            earlier: The secrets found before.
        """
        before = list(earlier)
        secrets = merged([*before, *self._find(text, start)])
        self.count += max(0, len(secrets) - len(before))
        return secrets

    def _find(self, text: str, start: int = 0) -> list[Secret]:
        secrets: list[Secret] = []
        if self._usual:
            secrets = find_secrets(text[start:] if start else text)
            if start:
                secrets = [Secret(each.start + start, each.end + start, each.kind) for each in secrets]
        if self._shapes:
            for kind, shape in self._shapes:
                secrets += [Secret(*match.span(), kind) for match in shape.finditer(text) if match[0]]
            secrets = merged(secrets)
        if self._allowed:
            secrets = [each for each in secrets if text[each.start : each.end] not in self._allowed]
        return secrets

    def _judge_name(self, key: str) -> Strength | None:
        """How much a name says by the usual rules; None if the store's own rules name it."""
        plain = _plain(key)
        if plain in self._keys:
            return None
        return strength(key) if self._usual and plain not in self._allowed_keys else Strength.NONE

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
        self._is_json = True
        clean = self.value(value)
        try:
            return _encode_json(clean if self._is_json else to_json(clean)).decode()
        except ValueError:  # lone surrogates
            return _encode_json(to_json(clean)).decode()

    def _is_plain_key(self, key: Any) -> bool:
        """Whether a key is a name that is no secret and says nothing about its value."""
        if type(key) is not str or key.lower() in _VALUE_KEYS or self._strength(key) is not Strength.NONE:
            return False
        if self.text(key) != key:
            return False
        if len(self._plain_keys) >= _MAX_SHORT:
            self._plain_keys.clear()
        self._plain_keys.add(key)
        return True

    def value(self, value: Any) -> Any:
        """The value without secrets; numbers, and lists of them, as they are."""
        return self._walk(value, _MAX_LEVELS)

    def _walk(self, value: Any, levels: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in _PLAIN:
            if (kind is int and not _SMALLEST <= value <= _LARGEST) or (kind is float and not math.isfinite(value)):
                self._is_json = False
            return value
        if levels < _MAX_LEVELS - _MAX_PLAIN_LEVELS:
            self._is_json = False
            if not levels:
                return Cut("depth", 0, None)
        if isinstance(value, dict):
            if self._plain_keys.issuperset(value) or all(map(self._is_plain_key, value)):
                short, copy = self._short, dict[Any, Any]()
                for key, item in value.items():
                    if type(item) is str:
                        copy[key] = short.get(item) or self.text(item)
                    else:
                        copy[key] = item if item is None else self._walk(item, levels - 1)
                return copy
            clean: dict[Any, Any] = {}
            for key, item in self._pairs_judged(value):
                name = self._key(key)
                if name in clean:  # two secrets of one kind and length
                    name = f"{name} #{len(clean)}"
                self._is_json &= type(name) is str
                clean[name] = item if type(item) is str else self._walk(item, levels - 1)
            return clean
        if isinstance(value, list | tuple):
            kinds = set(map(type, value))
            if kinds <= _PLAIN:
                self._is_json &= _json_holds(value, kinds)
                return value
            return [self._walk(item, levels - 1) for item in self._list_judged(self._unspread(list(value)))]
        self._is_json = False
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
        clean, count = without_spread_secrets(items, self._find_in_run)
        self.count += count
        return clean

    def _find_in_run(self, text: str) -> list[Secret]:
        if text in self._clean_runs:
            return []
        secrets = self._find(text)
        if not secrets:
            if len(self._clean_runs) >= _MAX_SHORT:
                self._clean_runs.clear()
            self._clean_runs.add(text)
        return secrets


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")


def _ends_in_password(words: list[Any]) -> bool:
    """Whether the last of the words of a command is a password: `["docker", "login", "-p", ...]`."""
    command = " ".join(word for word in words[-20:] if type(word) is str)
    return any(secret.end == len(command) for secret in find_command_passwords(command))


def _json_holds(numbers: Sequence[Any], kinds: set[type]) -> bool:
    """Whether these numbers, of these types, are the same in JSON for everybody who reads it."""
    whole = [each for each in numbers if type(each) is int] if int in kinds else ()
    if whole and not _SMALLEST <= min(whole) <= max(whole) <= _LARGEST:
        return False
    return float not in kinds or all(math.isfinite(each) for each in numbers if type(each) is float)
