"""Text of tokens (token2text): tokenizers as a store keeps them, and decoding with them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolltrace.text.pieces import Pieces
from rolltrace.text.tokenizer import (
    backend_of,
    claim_tokenizer,
    fingerprint,
    pages,
    tokenizer_file,
    tokenizers_pending,
    write_tokenizer,
)

if TYPE_CHECKING:
    from rolltrace.text.detokenize import Detokenizer, load_detokenizer

_LATER = ("Detokenizer", "load_detokenizer")
"""What needs pyarrow, which no rollout loads."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.detokenize"), name)


__all__ = [
    "Detokenizer",
    "Pieces",
    "backend_of",
    "claim_tokenizer",
    "fingerprint",
    "load_detokenizer",
    "pages",
    "tokenizer_file",
    "tokenizers_pending",
    "write_tokenizer",
]
