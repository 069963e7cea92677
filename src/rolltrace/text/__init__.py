"""Text of tokens (token2text): tokenizers as a store keeps them, and decoding with them."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
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

_LATER, __getattr__ = load_later(__name__, {"detokenize": "Detokenizer load_detokenizer"})
"""What needs pyarrow, which no rollout loads."""


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
