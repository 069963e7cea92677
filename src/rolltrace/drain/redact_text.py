"""Which texts are secrets, by the usual rules and those of one store; and texts without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rolltrace.drain.secret_names import Strength, strength
from rolltrace.drain.secret_texts import find_secrets, merged
from rolltrace.drain.secret_values import Secret
from rolltrace.errors import ConfigError
from rolltrace.files import read_page

if TYPE_CHECKING:
    from typing_extensions import Self

_SHORTEST_KEPT = 256
_MAX_KEPT_CHARS = 16_000_000
MAX_SHORT = 8192


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    """What `redact.json` may hold."""

    keys: list[str] = []
    shapes: dict[str, str] = {}
    allow: list[str] = []
    replace: bool = False


class TextRedactor:
    """Applies the usual rules and those of one store.

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
        self._strengths: dict[str, Strength | None] = {}
        self._plain_keys: set[str] = set()
        """Names that are no secrets and belong to none."""
        self._clean_runs: set[str] = set()
        """Texts of several items, put together, in which no secret is spread."""
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
        except (msgspec.MsgspecError, re.error, OSError) as fault:
            raise ConfigError(f"the rules in {page} cannot be used: {fault}") from fault

    def text(self, text: str) -> str:
        """The text with a mark in the place of every secret."""
        cleaned_texts = self._short if len(text) < _SHORTEST_KEPT else self._long
        clean = cleaned_texts.get(text)
        if clean is None:
            if cleaned_texts is self._short:
                if len(cleaned_texts) >= MAX_SHORT:
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

    def _strength(self, key: str) -> Strength | None:
        """How much a name says by the usual rules; None if the store's own rules name it."""
        try:
            return self._strengths[key]
        except KeyError:
            pass
        plain = _plain(key)
        level: Strength | None = Strength.NONE
        if plain in self._keys:
            level = None
        elif self._usual and plain not in self._allowed_keys:
            level = strength(key)
        if len(self._strengths) >= MAX_SHORT:
            self._strengths.clear()
        self._strengths[key] = level
        return level


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")
