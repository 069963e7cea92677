"""A tokenizer as a store keeps it, in `STORE/tokenizers/FINGERPRINT.json`: what decoding needs of a tokenizer.json.

Known by what it can do, not by its class: `tokenizers.Tokenizer`, and whatever has one as `backend_tokenizer`, as the
fast tokenizers of Hugging Face do. `to_str` would give all of it, but holds every thread of the process for as long as
it takes: 0.15 s for 150,000 tokens. Here tokens are asked for one by one, and other threads run in between.

The file is written once, by whichever process comes first. `FINGERPRINT.pending` is there from before the first record
that names the tokenizer until the file is, and the drainer waits meanwhile. A marker that is old was left by a process
that died, and means nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

from rolltrace.files import make_folder, open_file, replace_file, sync_path

PENDING_SEC = 30.0
"""How long a marker is believed."""
_TAKE_OVER_SEC = 20.0
"""When another process that has the same tokenizer writes it instead. Before the drainer gives up waiting."""

_MAX_AHEAD_SEC = 5.0
"""By how much the clock of a file server may be ahead."""

_SPREAD = 512
"""How many tokens are looked at to tell two tokenizers apart."""
_PAGE = 512
_MAX_GAPS = 65_536
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
    size, written, at, comma = _size(backend), 0, 0, b""
    while written < size and at < size + _MAX_GAPS:
        named = {backend.id_to_token(each): each for each in range(at, at + _PAGE)}
        named.pop(None, None)
        if named:
            yield comma + _encode(named)[1:-1]
            comma = b","
        written, at = written + len(named), at + _PAGE
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


def tokenizer_folder(store: Path) -> Path:
    return store / "tokenizers"


def tokenizer_file(store: Path, fingerprint: str) -> Path:
    return tokenizer_folder(store) / f"{fingerprint}.json"


def claim_tokenizer(store: Path, fingerprint: str) -> bool:
    """Whether it is this process that has to write the file: nobody has, and nobody is about to."""
    path = tokenizer_file(store, fingerprint)
    if path.exists():
        return False
    make_folder(path.parent)
    marker = path.with_suffix(".pending")
    try:
        os.close(open_file(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if _age_sec(marker) < _TAKE_OVER_SEC:
            return False
        marker.touch()
    return True


def write_tokenizer(store: Path, fingerprint: str, pages: Iterable[bytes]) -> None:
    """Write the file, all at once, and take the marker away, whatever comes."""
    path = tokenizer_file(store, fingerprint)
    try:
        replace_file(path, pages, durable=True)
        sync_path(path.parent.parent)  # the folder may be new
    finally:
        path.with_suffix(".pending").unlink(missing_ok=True)


def tokenizers_pending(store: Path) -> bool:
    """Whether some process is about to write a tokenizer. Removes the markers of processes that died."""
    pending = False
    for marker in tokenizer_folder(store).glob("*.pending"):
        if _age_sec(marker) < PENDING_SEC:
            pending = True
        else:
            marker.unlink(missing_ok=True)
    return pending


def _age_sec(path: Path) -> float:
    """How old a marker is. One from the future is of a clock that was set back since, and as old as can be."""
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    return age if age > -_MAX_AHEAD_SEC else float("inf")
