"""token2text: the text of an op's tokens, each token decoded once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Texts:
    """Decodes tokens with the tokenizers saved in a store."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def columns(self, tokenizer: str, trajectory_id: bytes, fields: Mapping[str, Any]) -> dict[str, Any]:
        """`text`, `prompt_chars` and `piece_chars` of an op; nothing if they cannot be had."""
        return {}
