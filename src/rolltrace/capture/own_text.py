"""Decode tokens in this process, for a tokenizer that nobody else has: one with nothing but `decode`.

One thread, in the background. An op hands over its bytes, which never change again, and goes on; the thread finds the
token ids in them, decodes what is new since the last turn, and appends an event with the text. It never holds up the
rollout: when too much waits, texts are given up and counted.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from rolltrace._guard import caught, logger
from rolltrace.capture import scope
from rolltrace.messages import join_stream
from rolltrace.record import TOKEN_NAMES, Event, Growing, clean_text, common_prefix, decode_value, token_ids
from rolltrace.text import Pieces

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.trajectory import TrajectoryHandle

Decode = Callable[[list[int]], str]

QUEUE_FULL = "text_queue"
"""The reason for which a text that was given up counts as lost."""
FAILED = "text_failed"
"""The same for one that the tokenizer could not decode."""
_MAX_WAITING_BYTES = 64 << 20
_MAX_TOKENS_REMEMBERED = 2_000_000
_MAX_TOKENIZERS = 16
_ID_NAMES = tuple(name.encode() for column in ("prompt_ids", "response_ids") for name in TOKEN_NAMES[column])


class Job(NamedTuple):
    """An op whose tokens are to be decoded."""

    decode: Decode
    trajectory: TrajectoryHandle
    op_id: int
    inputs: Raw
    outputs: Raw

    @property
    def size_bytes(self) -> int:
        return memoryview(self.inputs).nbytes + memoryview(self.outputs).nbytes


class OwnTexts:
    """The thread, started with the first op that needs it, and what waits for it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin()

    def _begin(self) -> None:
        self._waiting: queue.SimpleQueue[Job | threading.Event | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # a signal handler may trace while this thread holds it
        self._bytes_in = self._bytes_out = 0
        self._thread: threading.Thread | None = None
        self._growing: Growing[list[int]] = Growing(_MAX_TOKENS_REMEMBERED, common_prefix)
        self._pieces: dict[int, tuple[Decode, Pieces]] = {}
        self._warned: set[str] = set()

    @property
    def decoded_tokens(self) -> int:
        return self._growing.decoded_tokens

    def hand_over(self, job: Job) -> None:
        """Decode the tokens of an op some time soon. Called by the op; never waits."""
        size = job.size_bytes
        with self._lock:
            full = self._bytes_in - self._bytes_out + size > _MAX_WAITING_BYTES
            if not full:
                self._bytes_in += size
                self._waiting.put(job)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="rolltrace-text", daemon=True)
                    scope.start_outside(self._thread)
        if full and _has_ids(job):
            self._give_up(job, QUEUE_FULL, "too much waits to be decoded")

    def wait(self, timeout_sec: float) -> bool:
        """Wait until all that was handed over is decoded; False if that took longer."""
        if self._thread is None or not self._thread.is_alive():
            return True
        reached = threading.Event()
        self._waiting.put(reached)
        return reached.wait(timeout_sec)

    def close(self, timeout_sec: float) -> None:
        """Decode what waits, as far as that takes no longer than this, and end the thread."""
        deadline = time.monotonic() + timeout_sec
        if not self.wait(timeout_sec):
            for job in self._left():
                self._give_up(job, QUEUE_FULL, "the program ended before it was decoded")
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def _left(self) -> list[Job]:
        left: list[Job] = []
        while True:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return left
            if isinstance(item, Job) and _has_ids(item):
                left.append(item)

    def start_over_in_child(self) -> None:
        """After a fork: what waits is the parent's to decode."""
        self._begin()

    def _run(self) -> None:
        scope.current.set(scope.MUTED)  # a tokenizer may be traced itself
        while True:
            item = self._waiting.get()
            if item is None:
                return
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                self._decode(item)
            except Exception:
                caught("own text")
            finally:
                self._bytes_out += item.size_bytes

    def _decode(self, job: Job) -> None:
        if not _has_ids(job):
            return
        prompt, response = token_ids(decode_value(job.inputs), join_stream(decode_value(job.outputs)))
        if prompt is None and response is None:
            return
        ids = [*(prompt or ()), *(response or ())]
        pieces = self._pieces_of(job.decode)
        try:
            decoded = self._growing.grow((pieces, job.trajectory.trace_id), ids, pieces.rest)
        except Exception as error:  # of the user's own code
            self._give_up(job, FAILED, f"{type(error).__name__}: {error}")
            return
        prompt_chars = sum(decoded.piece_chars[: len(prompt or ())])
        self._say(job, text=decoded.text, prompt_chars=prompt_chars, piece_chars=decoded.piece_chars.tolist())

    def _pieces_of(self, decode: Decode) -> Pieces:
        entry = self._pieces.get(id(decode))
        if entry is None or entry[0] is not decode:
            if len(self._pieces) >= _MAX_TOKENIZERS:
                self._pieces.clear()
            entry = self._pieces[id(decode)] = (decode, Pieces(_checked(decode)))
        return entry[1]

    def _give_up(self, job: Job, reason: str, why: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            logger.warning("some tokens could not be decoded, their ops keep ids only (%s)", why)
        self._recorder.sink.lose(reason, job.trajectory.step)
        self._say(job, text=None, why=clean_text(why[:200]))

    def _say(self, job: Job, **body: Any) -> None:
        recorder, trajectory = self._recorder, job.trajectory
        time_ns = recorder.tick_ns() + trajectory.wall_offset_ns
        raw = Raw(msgspec.msgpack.encode(body))
        event = Event(trajectory.trace_id, trajectory.coordinates, "text", time_ns, job.op_id, raw)
        recorder.write(event, trajectory.step)


def _has_ids(job: Job) -> bool:
    """Whether the op may have token ids. Most ops have none, and looking for their names is cheap."""
    inputs, outputs = bytes(job.inputs), bytes(job.outputs)
    return any(name in inputs or name in outputs for name in _ID_NAMES)


def _checked(decode: Decode) -> Decode:
    def checked(ids: list[int]) -> str:
        text = decode(ids)
        if not isinstance(text, str):
            raise TypeError(f"decode gave {type(text).__name__}, not str")
        return clean_text(text)

    return checked
