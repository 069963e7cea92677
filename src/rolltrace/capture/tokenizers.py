"""Which tokenizer the tokens of an op belong to: that of the object whose method it is, else that of the op around it,
else the one given to `init`.

Only made when `token2text` is on. Looking at a user's object may raise, or be slow where an attribute is computed: such
looks are guarded, and remembered for each object.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw
from xxhash import xxh3_64_hexdigest

from rolltrace._guard import caught, logger, pass_on_signals
from rolltrace.capture import scope
from rolltrace.capture.own_text import Decode, Job, OwnTexts
from rolltrace.errors import ConfigError
from rolltrace.record import OWN_PROCESS
from rolltrace.text import backend_of, claim_tokenizer, fingerprint, pages, tokenizer_file, write_tokenizer

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.signature import Call
    from rolltrace.capture.trajectory import TrajectoryHandle

_MAX_TOKENIZERS = 64
_LOOK_EVERY_SEC = 0.2
_JOIN_SEC = 10.0


class KnownTokenizer(NamedTuple):
    """A tokenizer that was looked at."""

    tokenizer: Any
    mark: str
    """Its fingerprint; `OWN_PROCESS` if only this process can decode; empty if it is no tokenizer at all."""
    decode: Decode | None = None


class _SeenReceiver(NamedTuple):
    receiver: weakref.ref[Any]
    tokenizer: KnownTokenizer | None


class Tokenizers:
    """The tokenizers that the ops of this process have, and what is done with them."""

    def __init__(self, recorder: Recorder, store: Path | None) -> None:
        """With no store, as in tests, tokenizers are told apart and not saved."""
        self._store = store
        self.texts = OwnTexts(recorder)
        self._begin()
        self._configured = self._of_setting(recorder.settings.tokenizer)

    def _begin(self) -> None:
        self._tokenizers: dict[int, KnownTokenizer] = {}
        self._receivers: dict[int, _SeenReceiver] = {}
        self._saving: list[threading.Thread] = []
        self._closing = threading.Event()

    def of(self, call: Call, args: tuple[Any, ...], place: scope.Place | None) -> KnownTokenizer | None:
        """The tokenizer of an op that begins. Never raises."""
        try:
            identified = None
            if call.has_receiver and args:
                try:  # as usual, without a call: the code of calls is cold after an op with a long prompt
                    tokenizer = args[0].__dict__["tokenizer"]
                    identified = self._tokenizers[id(tokenizer)]
                    if identified.tokenizer is not tokenizer or not identified.mark:
                        identified = self._of_receiver(args[0])
                except Exception:
                    pass_on_signals()
                    identified = self._of_receiver(args[0])
            # A place made before tokens were decoded has no tokenizer.
            return identified or getattr(place, "tokenizer", None) or self._configured
        except Exception:
            caught("tokenizer")
            return None

    def _of_receiver(self, receiver: Any) -> KnownTokenizer | None:
        own = _attribute(receiver, "__dict__")
        if type(own) is dict and own.get("tokenizer") is not None:  # no code of the user's runs for this
            identified = self._of(own["tokenizer"])
            if identified is not None:
                return identified
        entry = self._receivers.get(id(receiver))
        if entry is not None and entry.receiver() is receiver:
            return entry.tokenizer
        identified = None
        for tokenizer in (_attribute(receiver, "tokenizer"), _attribute(receiver, "processor", "tokenizer")):
            identified = identified or (None if tokenizer is None else self._of(tokenizer))
        self._remember(receiver, identified)
        return identified

    def _remember(self, receiver: Any, identified: KnownTokenizer | None) -> None:
        key = id(receiver)
        try:
            self._receivers[key] = _SeenReceiver(
                weakref.ref(receiver, lambda _: self._receivers.pop(key, None)), identified
            )
        except TypeError:
            pass  # some objects cannot be referred to weakly; these are looked at each time

    def _of(self, tokenizer: Any) -> KnownTokenizer | None:
        identified = self._tokenizers.get(id(tokenizer))
        if identified is None or identified.tokenizer is not tokenizer:
            identified = self._look_at(tokenizer)
            if len(self._tokenizers) >= _MAX_TOKENIZERS:
                self._tokenizers.clear()
            self._tokenizers[id(tokenizer)] = identified
        return identified if identified.mark else None

    def _look_at(self, tokenizer: Any) -> KnownTokenizer:
        try:
            backend = backend_of(tokenizer)
            mark = "" if backend is None else fingerprint(backend)
        except Exception:
            pass_on_signals()
            mark = ""  # it has no tokenizer.json form after all
        if mark:
            self._save(mark, pages(backend))
            return KnownTokenizer(tokenizer, mark)
        decode = _attribute(tokenizer, "decode")
        return KnownTokenizer(tokenizer, OWN_PROCESS, decode) if callable(decode) else KnownTokenizer(tokenizer, "")

    def _of_setting(self, tokenizer: Any) -> KnownTokenizer | None:
        if not isinstance(tokenizer, Path):
            return None if tokenizer is None else self._of(tokenizer)
        content = tokenizer.read_bytes()
        if b'"vocab"' not in content:
            raise ConfigError(f"tokenizer: {str(tokenizer)!r} is no tokenizer.json: it has no vocab")
        mark = xxh3_64_hexdigest(content)
        self._save(mark, [content])
        return KnownTokenizer(tokenizer, mark)

    def _save(self, mark: str, content: Iterable[bytes]) -> None:
        """See to it that the tokenizer is in the store soon. The marker is there before any record names it."""
        if self._store is None or tokenizer_file(self._store, mark).exists():
            return
        try:
            mine = claim_tokenizer(self._store, mark)
        except OSError as error:
            _not_saved(error)
            return
        work = (self._store, mark, content, mine, self._closing)
        thread = threading.Thread(target=_save, args=work, name="rolltrace-tokenizer", daemon=True)
        scope.start_outside(thread)
        self._saving.append(thread)

    def decode(self, decode: Decode, trajectory: TrajectoryHandle, op_id: int, inputs: Raw, outputs: Raw) -> None:
        """An op is over and recorded, and nobody else can decode its tokens."""
        self.texts.hand_over(Job(decode, trajectory, op_id, inputs, outputs))

    def close(self, timeout_sec: float = _JOIN_SEC) -> None:
        """Finish what is being saved and decoded, as far as that takes no longer than this."""
        deadline = time.monotonic() + timeout_sec
        self._closing.set()
        for thread in self._saving:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.texts.close(max(0.0, deadline - time.monotonic()))

    def start_over_in_child(self) -> None:
        """After a fork: threads are the parent's, and so is what they had to do."""
        self._begin()
        self.texts.start_over_in_child()


def _attribute(value: Any, *names: str) -> Any:
    """An attribute of a user's object, or None, whatever happens."""
    try:
        for name in names:
            value = getattr(value, name, None)
    except Exception:
        pass_on_signals()
        return None
    return value


def _save(store: Path, mark: str, content: Iterable[bytes], mine: bool, closing: threading.Event) -> None:
    try:
        # If it is not ours to write, another process is about to; it may die before it has.
        while not mine and not tokenizer_file(store, mark).exists() and not closing.wait(_LOOK_EVERY_SEC):
            mine = claim_tokenizer(store, mark)
        if mine:
            write_tokenizer(store, mark, content)
    except Exception as error:
        _not_saved(error)


def _not_saved(error: Exception) -> None:
    logger.warning("the tokenizer could not be saved in the store, ops keep token ids only: %r", error)
