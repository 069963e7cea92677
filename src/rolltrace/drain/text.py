"""token2text: the text of an op's tokens, each token decoded once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace._guard import logger
from rolltrace.drain.clean import CleanTexts
from rolltrace.drain.detokenize import Detokenizer, load
from rolltrace.drain.redact import Redactor
from rolltrace.errors import MissingExtraError
from rolltrace.journal import tokenizer_file
from rolltrace.record.growing import Growing

_MOST_TOKENS_REMEMBERED = 8_000_000


class Texts:
    """Decodes tokens with the tokenizers saved in a store, and takes secrets out of the text."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._growing: Growing[pa.Array] = Growing(_MOST_TOKENS_REMEMBERED, _common_prefix)
        self._clean = CleanTexts()
        self._loaded: dict[str, Detokenizer | None] = {}
        self._missing: set[str] = set()

    @property
    def decoded_tokens(self) -> int:
        """How many tokens were decoded in all."""
        return self._growing.decoded_tokens

    @property
    def searched_chars(self) -> int:
        """How many characters were searched for secrets in all."""
        return self._clean.searched_chars

    def columns(
        self, tokenizer: str, trajectory_id: bytes, fields: Mapping[str, Any], redactor: Redactor
    ) -> dict[str, Any]:
        """`text`, `prompt_chars` and `piece_chars` of an op; nothing if they cannot be had."""
        ids = fields.get("tokens")
        detokenizer = None if ids is None or not tokenizer.isalnum() else self._detokenizer(tokenizer)
        if detokenizer is None:
            return {}
        found = self._growing.grow((tokenizer, trajectory_id), ids, detokenizer.rest)
        of_prompt = _arrow(found.piece_chars).slice(0, fields.get("prompt_tokens") or 0)
        prompt_chars = pc.sum(of_prompt).as_py() or 0
        return self._cleaned(trajectory_id, found.text, prompt_chars, found.piece_chars, redactor)

    def late(self, trajectory_id: bytes, body: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
        """The same, for a text that the op's own process decoded."""
        return self._cleaned(
            trajectory_id, body["text"], body["prompt_chars"], array("i", body["piece_chars"]), redactor
        )

    def came_late(self) -> bool:
        """Whether a tokenizer that was missing is there now: what was read before can be read better."""
        return any(tokenizer_file(self._store, each).exists() for each in self._missing)

    def _cleaned(
        self, trajectory_id: bytes, text: str, prompt_chars: int, piece_chars: array[int], redactor: Redactor
    ) -> dict[str, Any]:
        clean = self._clean.clean(trajectory_id, text, prompt_chars, piece_chars, redactor)
        return {**clean._asdict(), "piece_chars": _arrow(clean.piece_chars)}

    def _detokenizer(self, tokenizer: str) -> Detokenizer | None:
        if tokenizer not in self._loaded:
            path = tokenizer_file(self._store, tokenizer)
            try:
                self._loaded[tokenizer] = load(path)
                self._missing.discard(tokenizer)
            except FileNotFoundError:
                self._missing.add(tokenizer)  # looked for again next time: it may still come
                return None
            except (OSError, ValueError, MissingExtraError) as fault:
                logger.warning("no text beside token ids: %s", fault)
                self._loaded[tokenizer] = None
        return self._loaded[tokenizer]


def _arrow(counts: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(counts), [None, pa.py_buffer(counts)])


def _common_prefix(a: pa.Array, b: pa.Array) -> int:
    shorter = min(len(a), len(b))
    a, b = a.slice(0, shorter), b.slice(0, shorter)
    return shorter if a.equals(b) else int(pc.index(pc.equal(a, b), False).as_py())
