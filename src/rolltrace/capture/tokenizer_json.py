"""A tokenizer as the part of a tokenizer.json that decoding needs: its tokens, its added tokens and its decoder.

Known by what it can do, not by its class: `tokenizers.Tokenizer`, and whatever has one as `backend_tokenizer`, as the
fast tokenizers of Hugging Face do. `to_str` would give all of it, but holds every thread of the process for as long as
it takes: 0.15 s for 150,000 tokens. Here tokens are asked for one by one, and other threads run in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

_SPREAD = 512
"""How many tokens are looked at to tell two tokenizers apart."""
_PAGE = 512
_MOST_GAPS = 65_536
_encode = msgspec.json.Encoder().encode


def backend_of(tokenizer: Any) -> Any | None:
    """What holds the tokens, if a tokenizer.json can be made of it."""
    for each in (tokenizer, getattr(tokenizer, "backend_tokenizer", None)):
        if callable(getattr(each, "id_to_token", None)) and callable(getattr(each, "get_vocab_size", None)):
            return each
    return None


def fingerprint(backend: Any) -> str:
    """A name for what a tokenizer decodes to, from a sample of its content: the same in every process.

    Raises:
        Exception: it has no tokenizer.json form, such as one with a decoder in Python.
    """
    size = _size(backend)
    sample = [backend.id_to_token(size * at // _SPREAD) for at in range(_SPREAD)] if size else []
    return xxh3_64_hexdigest(_encode([size, sample, _added(backend), _decoder(backend)]))


def pages(backend: Any) -> Iterator[bytes]:
    """The JSON, in small pieces. Whatever the tokenizer's model is, its tokens are written as those of a `WordLevel`
    model: how text is split into them does not matter here."""
    yield b'{"version":"1.0","added_tokens":' + _encode(_added(backend)) + b',"decoder":' + bytes(_decoder(backend))
    yield b',"model":{"type":"WordLevel","unk_token":"","vocab":{'
    size, found, at, comma = _size(backend), 0, 0, b""
    while found < size and at < size + _MOST_GAPS:
        named = {backend.id_to_token(each): each for each in range(at, at + _PAGE)}
        named.pop(None, None)
        if named:
            yield comma + _encode(named)[1:-1]
            comma = b","
        found, at = found + len(named), at + _PAGE
        time.sleep(0)  # let others have the interpreter
    yield b"}}}"


def _size(backend: Any) -> int:
    size = backend.get_vocab_size(with_added_tokens=False)
    if type(size) is not int:
        raise TypeError(f"get_vocab_size gave {type(size).__name__}, not int")
    return size


def _added(backend: Any) -> list[dict[str, Any]]:
    """Of an added token, all fields that the format asks for; only id and content matter."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = backend.get_added_tokens_decoder()
    return [{"id": each, "content": str(added[each].content), **flags} for each in sorted(added)]


def _decoder(backend: Any) -> msgspec.Raw:
    """The JSON of the decoder; asked for as pickle would ask, but nothing is pickled."""
    decoder = backend.decoder
    if decoder is None:
        return msgspec.Raw(b"null")
    state = decoder.__getstate__()
    msgspec.json.decode(state)
    return msgspec.Raw(state)
