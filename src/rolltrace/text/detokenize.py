"""Tokens to text, with a tokenizer that was saved in the store.

Nearly every model of today has a byte-level tokenizer: each token stands for some bytes, and the text is those bytes as
UTF-8. That needs a table and no library. Any other goes through the `tokenizers` package, if it is installed.
"""

from __future__ import annotations

import os
from array import array
from codecs import utf_8_decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.errors import MissingExtraError
from rolltrace.files import open_private
from rolltrace.record import Rest
from rolltrace.text.pieces import BEFORE, Pieces

_MAX_FILE_BYTES = 512 << 20
_MAX_GAPS = 1 << 16
"""How many ids of a vocabulary may be nobody's, beside as many as there are tokens: the table has a place for each."""
_MAX_TEXT_BYTES = 256 << 20
"""In the text of one op: a token may stand for any number of bytes."""


class Detokenizer(Protocol):
    """Decodes the tokens of one tokenizer."""

    def rest(self, ids: pa.Array, start: int) -> Rest:
        """The text of the tokens from the nth on."""


class _Added(msgspec.Struct):
    id: int
    content: str


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[tuple[str, float]]


class _Page(msgspec.Struct):
    """What matters here of a tokenizer.json."""

    model: _Model
    added_tokens: list[_Added] = []
    decoder: Any = None

    def tokens(self) -> dict[int, str]:
        """Every token by its id; an added one comes before one of the model."""
        vocab = self.model.vocab
        named = vocab.items() if isinstance(vocab, dict) else ((token, at) for at, (token, _) in enumerate(vocab))
        return {**{at: token for token, at in named}, **{each.id: each.content for each in self.added_tokens}}


def load_detokenizer(path: Path) -> Detokenizer:
    """The detokenizer of a tokenizer.json.

    Raises:
        OSError: there is no such file.
        ValueError: it cannot be understood.
        MissingExtraError: it needs the `tokenizers` package.
    """
    with open_private(path) as file:
        if os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
            raise ValueError(f"{path} is larger than any tokenizer")
        content: bytes = file.read()
    try:
        page = msgspec.json.decode(content, type=_Page)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:  # no JSON, no UTF-8, or deeper than the stack
        raise ValueError(f"{path} is no tokenizer.json: {error}") from error
    return ByteLevel(page.tokens()) if _is_byte_level(page.decoder) else _with_library(content.decode(), path)


def _is_byte_level(decoder: Any) -> bool:
    return isinstance(decoder, dict) and decoder.get("type") == "ByteLevel"


def _byte_of_each_letter() -> dict[int, int]:
    """How byte-level tokenizers write bytes: what can be seen as itself, the others as letters from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    invisible = [byte for byte in range(256) if byte not in visible]
    return {**{byte: byte for byte in visible}, **{0x100 + at: byte for at, byte in enumerate(invisible)}}


_BYTE_OF = _byte_of_each_letter()
_TO_BYTES = {**dict.fromkeys(range(256), 0x100), **_BYTE_OF}
"""For `str.translate`; a letter that stands for no byte becomes one that no byte can be."""


def bytes_of(token: str) -> bytes:
    """What a byte-level token stands for: if not all its letters stand for bytes, for itself."""
    try:
        return token.translate(_TO_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8", "surrogatepass")


class ByteLevel:
    """A table from ids to bytes."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        if tokens and not 0 <= min(tokens) <= max(tokens) < 2 * len(tokens) + _MAX_GAPS:
            raise ValueError(f"{len(tokens)} tokens with ids from {min(tokens)} to {max(tokens)}")
        self._unknown = max(tokens, default=-1) + 1
        self._bytes = [b""] * (self._unknown + 1)  # a token that nobody knows has no text
        for at, token in tokens.items():
            self._bytes[at] = bytes_of(token)
        self._longest = max(map(len, self._bytes))
        self._pieces = pa.array(self._bytes, type=pa.binary())
        self._chars = pa.array(map(_chars_of, self._bytes), type=pa.int32())

    def rest(self, ids: pa.Array, start: int) -> Rest:
        if start == len(ids):
            return Rest("", array("i"), 0)
        indices = self._indices(ids.slice(start))
        pieces = self._pieces.take(indices) if self._fits(indices) else None
        if pieces is None:
            raise ValueError(f"the text of {len(indices)} tokens would have more than {_MAX_TEXT_BYTES} bytes")
        chars = self._chars.take(indices)
        counts, begun = _integers(chars), self._begun(ids, start)
        broken = pc.indices_nonzero(pc.equal(chars, -1)).to_pylist()
        loose = self._count_broken(indices, counts, broken, begun)
        return Rest(str(begun + _joined(pieces), "utf-8", "replace"), counts, loose)

    def _fits(self, indices: pa.Array) -> bool:
        if len(indices) * self._longest <= _MAX_TEXT_BYTES:  # nearly always
            return True
        return (pc.sum(pc.binary_length(self._pieces).cast(pa.int64()).take(indices)).as_py() or 0) <= _MAX_TEXT_BYTES

    def _indices(self, ids: pa.Array) -> pa.Array:
        least, most = (pc.min_max(ids)[name].as_py() for name in ("min", "max"))
        if ids.null_count or least is None or least < 0 or most >= self._unknown:
            inside = pc.and_(pc.greater_equal(ids, 0), pc.less(ids, self._unknown))
            return pc.if_else(pc.fill_null(inside, False), ids, pa.scalar(self._unknown, pa.int32()))
        return ids

    def _begun(self, ids: pa.Array, start: int) -> bytes:
        """The bytes before a token of a character that is not complete there: three at most."""
        tail = b""
        while start > 0 and len(tail) < 3:
            start -= 1
            tail = self._bytes[self._indices(ids.slice(start, 1))[0].as_py()] + tail
        tail = tail[-3:]
        return tail[utf_8_decode(tail, "replace", False)[1] :]

    def _count_broken(self, ids: pa.Array, counts: array[int], broken: list[int], begun: bytes) -> int:
        """Count the characters of tokens that begin or end inside one. A character counts for the token that completes
        it. Gives how many characters at the end are not complete."""
        tokens = _integers(ids) if broken or begun else array("i")
        done = 0
        for first in [0, *broken] if begun else broken:
            if first < done:
                continue
            data, done = begun if first == 0 else b"", first
            while done == first or (data and done < len(tokens)):
                data += self._bytes[tokens[done]]
                text, used = utf_8_decode(data, "replace", False)
                counts[done], data = len(text), data[used:]
                done += 1
            if data:  # nothing more comes: shown as the tokenizer shows it, with one sign or two
                loose = len(data.decode("utf-8", "replace"))
                counts[-1] += loose
                return loose
        return 0


def _chars_of(piece: bytes) -> int:
    """How many characters; -1 if they are not whole."""
    try:
        return len(piece.decode())
    except UnicodeDecodeError:
        return -1


def _integers(values: pa.Array) -> array[int]:
    integers: array[int] = array("i")
    first = 4 * values.offset
    integers.frombytes(memoryview(values.buffers()[1])[first : first + 4 * len(values)])
    return integers


def _joined(pieces: pa.Array) -> bytes:
    _, offsets, data = pieces.buffers()
    if data is None:
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(memoryview(data)[ends[pieces.offset] : ends[pieces.offset + len(pieces)]])


_PASSED_ON = (KeyboardInterrupt, SystemExit, MemoryError)
"""All else that comes out of the package is about the tokenizer; its panics are not even exceptions."""


class _Library:
    """Any tokenizer, through the `tokenizers` package."""

    def __init__(self, tokenizer: Any) -> None:
        def decode(ids: list[int]) -> str:
            try:
                return str(tokenizer.decode([each for each in ids if each >= 0], skip_special_tokens=False))
            except _PASSED_ON:
                raise
            except BaseException as error:
                raise ValueError(f"{type(error).__name__} while tokens were decoded") from error

        self._pieces = Pieces(decode)

    def rest(self, ids: pa.Array, start: int) -> Rest:
        first = max(0, start - BEFORE)
        return self._pieces.rest(pc.fill_null(ids.slice(first), -1).to_pylist(), start - first)


def _with_library(content: str, path: Path) -> _Library:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError(
            f"the tokenizer {path.stem} is not byte-level, and its text needs: pip install 'rolltrace[text]'"
        ) from error
    try:
        return _Library(Tokenizer.from_str(content))
    except _PASSED_ON:
        raise
    except BaseException as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
