"""The keys that a request shows, taken out of what is recorded of it: some servers quote them in their answers.

They are found as they are and in the encodings in which servers echo requests: base64 (also inside something longer),
percent-encoded, in hex, in other case, backwards. In a stream also where a key is spread over several pieces: pieces
whose text ends like the begin of a key wait for the next one before they are recorded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from rolltrace.drain import is_placeholder, strength

_PARAMETERS_WITHOUT_STRENGTH = frozenset({"key"})
"""How Google's services call the key in a query."""
_MIN_LENGTH = 8
_MIN_LENGTH_WITHOUT_DIGIT = 16
"""A word such as `local-model` is shown to servers that want no key, and may stand in any answer."""
_MIN_BEGIN = 3
_MAX_WAITING = 256
"""Pieces of a stream."""
_MAX_LEVELS = 100
FieldPath = tuple[Any, ...]


class Credentials:
    """Those of one request."""

    def __init__(self, headers: Mapping[str, str], query: str, *more: str) -> None:
        """`more`: keys that are shown to the server in the place of the agent's."""
        secrets = {secret for secret in (*_shown(headers, query), *more) if _is_secret(secret)}
        forms = {form.lower() for secret in secrets for form in _forms_of(secret)}
        # Also without the characters that a piece may end with and not wait: they may be recorded already.
        self._forms = sorted({*forms, *(form[_MIN_BEGIN - 1 :] for form in forms)}, key=len, reverse=True)
        self.longest = max(map(len, self._forms), default=0)
        """How many characters they have at most, however they are encoded; 0 if there are none."""
        self._shortest = min(map(len, self._forms), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self._forms)), re.IGNORECASE)

    def clean(self, value: Any) -> Any:
        """A value of JSON without them; the same object if it holds none."""
        return self._clean(value, _MAX_LEVELS) if self._forms else value

    def clean_text(self, text: str) -> str:
        if not self.holds_one(text):
            return text
        return self._pattern.sub(lambda found: f"[redacted: key of the request, {len(found[0])} chars]", text)

    def _clean(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return self.clean_text(value)
        if isinstance(value, list) and levels:
            return [self._clean(each, levels - 1) for each in value]
        if isinstance(value, dict) and levels:
            return {self.clean_text(str(name)): self._clean(each, levels - 1) for name, each in value.items()}
        return value

    def holds_one(self, text: str) -> bool:
        if len(text) < self._shortest:
            return False
        lowered = text.lower()
        return any(form in lowered for form in self._forms)

    def ends_like_one(self, text: str) -> bool:
        """Whether a text ends with the begin of one of them."""
        end = text.lower()
        return any(
            end.endswith(form[:length])
            for form in self._forms
            if form[:_MIN_BEGIN] in end
            for length in range(min(len(end), len(form) - 1), _MIN_BEGIN - 1, -1)
        )


class StreamCleaner:
    """Takes them out of the pieces of a stream, in order."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._waiting: list[Any] = []
        self._ends: dict[FieldPath, str] = {}
        """By path: how the texts of the pieces that wait end, put together."""

    def feed(self, events: Iterable[Any]) -> list[Any]:
        """The pieces that can be recorded now."""
        longest = self._credentials.longest
        if not longest:
            return list(events)
        ready = []
        for event in events:
            self._waiting.append(self._credentials.clean(event))
            for path, text in _texts(self._waiting[-1]):
                end = self._ends.get(path, "") + text
                if self._waiting[1:] and self._credentials.holds_one(end):
                    self._join(path)
                    end = ""
                self._ends[path] = end[-longest:]
            if len(self._waiting) >= _MAX_WAITING or not any(map(self._credentials.ends_like_one, self._ends.values())):
                ready += self.rest()
        return ready

    def rest(self) -> list[Any]:
        waiting, self._waiting = self._waiting, []
        self._ends.clear()
        return waiting

    def _join(self, path: FieldPath) -> None:
        """Put what the pieces that wait have at a path into the first of them, without the key that it is."""
        texts = {at: text for at, each in enumerate(self._waiting) for where, text in _texts(each) if where == path}
        whole = self._credentials.clean_text("".join(texts.values()))
        for at in texts:
            self._waiting[at] = _with_text(self._waiting[at], path, whole)
            whole = ""


def _shown(headers: Mapping[str, str], query: str) -> Iterator[str]:
    for name, value in headers.items():
        if not strength(name):
            continue
        yield value
        scheme, _, rest = value.partition(" ")
        yield rest
        if name == "cookie":
            yield from (part.partition("=")[2].strip() for part in value.split(";"))
        if scheme.lower() == "basic":
            try:
                yield base64.b64decode(rest).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                pass
    for name, value in parse_qsl(query):
        if strength(name) or name in _PARAMETERS_WITHOUT_STRENGTH:
            yield value


def _is_secret(value: str) -> bool:
    has_digit = any(map(str.isdigit, value))
    return len(value) >= (_MIN_LENGTH if has_digit else _MIN_LENGTH_WITHOUT_DIGIT) and not is_placeholder(value)


def _forms_of(secret: str) -> Iterator[str]:
    data = secret.encode()
    yield from (secret, secret[::-1], quote(secret), quote(secret, safe=""), data.hex())
    yield from (json.dumps(secret)[1:-1], json.dumps(secret)[1:-1].replace("/", "\\/"))
    for shift in range(3):  # how many bytes stand before it, of three that become four characters
        begin, end = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(shift) + data + bytes(2)).decode()[begin:end]


def _texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """The texts in a value, and where each stands."""
    if isinstance(value, str):
        yield path, value
    elif len(path) < _MAX_LEVELS and isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(each, (*path, name))


def _with_text(value: Any, path: FieldPath, text: str) -> Any:
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _with_text(value[path[0]], path[1:], text)
    return copy
