"""Take secrets out before a record becomes readable in the store: by the name of a key, and by the shape of a value.

Token ids are numbers and are never touched. What is taken out becomes `[redacted]`, with the rule that did it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace.errors import ConfigError
from rolltrace.record import Cut, Opaque

SECRET_KEYS = (
    "api_key", "apikey", "api-key", "authorization", "auth_token", "access_token", "refresh_token", "secret",
    "client_secret", "secret_key", "secret_access_key", "password", "passwd", "private_key", "cookie", "set-cookie",
    "x-api-key", "bearer_token", "session_token",
)  # fmt: skip
"""Keys whose value is never kept, whatever it is; compared without regard to case and to `-` or `_`."""

SECRET_SHAPES: dict[str, tuple[tuple[str, ...], str]] = {
    "openai key": (("sk-",), r"\bsk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{20,}"),
    "github token": (("gh", "github_pat_"), r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    "huggingface token": (("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    "aws key": (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "google key": (("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    "slack token": (("xox",), r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    "jwt": (("eyJ",), r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "private key": (
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    "bearer token": (("earer ", "EARER "), r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{20,}=*"),
    "url password": (("://",), r"(?<=://)[^/\s:@]+:[^/\s:@]+(?=@)"),
}
"""Well-known shapes of secrets inside text: some words one of which is always in it, and the pattern.

Looking for a word is many times faster than for a pattern, and nearly all text has none of them."""


_EVERYWHERE = ("",)
"""The words of a rule of a store's own: nothing is known about what it finds."""
_LONGEST_WORD = 32
_SHORTEST_KEPT = 256
_MOST_KEPT = 1024


class Secret(NamedTuple):
    """Where a secret stands in a text, and the rule that found it."""

    start: int
    end: int
    name: str


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    """What `redact.json` may hold."""

    keys: list[str] = []
    shapes: dict[str, str] = {}
    replace: bool = False


class Redactor:
    """Applies the rules of one drainer."""

    def __init__(
        self,
        keys: Iterable[str] = SECRET_KEYS,
        shapes: Mapping[str, tuple[tuple[str, ...], str]] = SECRET_SHAPES,
    ) -> None:
        self._keys = frozenset(_plain(key) for key in keys)
        self._shapes = [(name, words, re.compile(shape)) for name, (words, shape) in shapes.items()]
        self._seen: dict[str, str] = {}
        """What became of long texts: a conversation says the same again at each turn."""
        self.count = 0
        """How many secrets were taken out."""

    @classmethod
    def of(cls, store: Path) -> Redactor:
        """The rules of a store: the usual ones, and those in its `redact.json` if there is one.

        Raises:
            ConfigError: the file cannot be understood. Nothing is drained then: better late than with a secret in it.
        """
        page = store / "redact.json"
        try:
            rules = msgspec.json.decode(page.read_bytes(), type=_Rules)
            shapes = {} if rules.replace else dict(SECRET_SHAPES)
            shapes.update((name, (_EVERYWHERE, re.compile(shape).pattern)) for name, shape in rules.shapes.items())
        except FileNotFoundError:
            return cls()
        except (msgspec.MsgspecError, re.error, OSError) as fault:
            raise ConfigError(f"the rules in {page} cannot be used: {fault}") from fault
        return cls([*(() if rules.replace else SECRET_KEYS), *rules.keys], shapes)

    def value(self, value: Any) -> Any:
        """The value without secrets; numbers, and lists of them, as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        if isinstance(value, list) and value and not isinstance(value[0], int | float):
            return [self.value(item) for item in value]
        if isinstance(value, Cut):
            return Cut(value.limit, value.full_length, self.value(value.kept))
        if isinstance(value, Opaque):
            return Opaque(value.type, self.value(value.fields), value.reason)
        return value

    def _field(self, key: Any, item: Any) -> Any:
        if isinstance(key, str) and item and isinstance(item, str | bytes | list | dict) and _plain(key) in self._keys:
            self.count += 1
            return f"[redacted: {key}]"
        return self.value(item)

    def text(self, text: str) -> str:
        """The text with every secret of a known shape replaced."""
        if len(text) < _SHORTEST_KEPT:
            return self._search(text)
        clean = self._seen.get(text)
        if clean is None:
            if len(self._seen) >= _MOST_KEPT:
                self._seen.clear()
            clean = self._seen[text] = self._search(text)
        return clean

    def secrets(self, text: str, start: int = 0, known: Iterable[Secret] = ()) -> list[Secret]:
        """Where secrets of a known shape stand in a text, in order; those that overlap are one.

        Args:
            text: The text.
            start: From where on the usual shapes are looked for; those of a store's own are in all of it.
            known: The secrets before that.
        """
        found = list(known)
        before = len(found)
        for name, words, shape in self._shapes:
            begin = 0 if words == _EVERYWHERE else start
            # A word may stand right before what is taken out, as in a URL.
            if any(text.find(word, max(0, begin - _LONGEST_WORD)) >= 0 for word in words):
                found += [Secret(*match.span(), name) for match in shape.finditer(text, begin) if match[0]]
        merged = _merged(found)
        self.count += max(0, len(merged) - before)
        return merged

    def _search(self, text: str) -> str:
        for name, words, shape in self._shapes:
            for word in words:
                if word in text:
                    text, found = shape.subn(f"[redacted: {name}]", text)
                    self.count += found
                    break
        return text


def _merged(found: list[Secret]) -> list[Secret]:
    merged: list[Secret] = []
    for each in sorted(found):
        if merged and each.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, each.end))
        else:
            merged.append(each)
    return merged


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")
