"""What is large in an op: its payload, its tokens, their text. Read when somebody asks for it, some ops at a time.

A trajectory of 1,000 turns is 350 MB, because every prompt repeats the one before it. Whoever opens it gets a skeleton,
and whoever walks through its ops reads them in windows of a bounded size, one after the other.

A payload that was pruned says so, when and by what, instead of showing nothing: `tables.prune` leaves a note in each
trajectory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import msgspec

from rolltrace._arrow import pa
from rolltrace.query.plain import PlainTable
from rolltrace.query.values import Row
from rolltrace.tables import PRUNED

PAYLOAD = ("payload",)
TOKENS = ("tokens", "logprobs", "response_mask", "tokenizer", "text", "prompt_chars", "piece_chars")
TOKEN_COLUMNS = ("prompt_ids", "response_ids", "logprobs", "response_mask")
_LISTS = frozenset({"tokens", "logprobs", "response_mask", "piece_chars"})
_WINDOW_BYTES = 24 << 20
_FIRST_OPS = 64
_MOST_OPS = 16_384
_MOST_DERIVED_CHARS = 1 << 20
"""Of how much JSON the values are kept; as Python objects they are several times larger."""
_raw_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OpKey(NamedTuple):
    """Which op of which trajectory."""

    trajectory_id: str
    op_id: int
    start_ns: int


ReadColumns = Callable[[Sequence[OpKey], Sequence[str]], "pa.Table | PlainTable"]
"""Reads these columns of these ops, and `op_id`. Lists come as Arrow, all else as plain rows where that is possible."""


class Pace:
    """How many ops are read at once, learned from how large they were."""

    def __init__(self) -> None:
        self.ops = _FIRST_OPS

    def learn(self, ops: int, size_bytes: int) -> None:
        fitting = ops * _WINDOW_BYTES // max(size_bytes, 1)
        # Twice as many at most: prompts grow, and those to come may be larger than those that were.
        self.ops = max(1, min(fitting, 2 * self.ops, _MOST_OPS))


class _Read:
    """What was read at once. It is replaced as a whole: several threads may look at one trajectory."""

    def __init__(self, table: pa.Table | PlainTable, keys: Sequence[OpKey]) -> None:
        self.table = table
        self.rows = dict.fromkeys((key.op_id for key in keys), -1)  # pruned since they were listed
        self.rows.update((each, row) for row, each in enumerate(_values(table, "op_id")))
        self._python: dict[str, list[Any]] = {}

    def value(self, row: int, column: str) -> Any:
        """A Python value. Texts and numbers of a window are converted at once: one by one takes ten times as long.
        Lists are not, because they would take several times the memory."""
        if column in _LISTS:
            return self.table.column(column)[row].as_py()
        if column not in self._python:
            self._python[column] = _values(self.table, column)
        return self._python[column][row]


class _Window:
    """Some columns of the ops from one of them on."""

    def __init__(self, keys: Sequence[OpKey], columns: Sequence[str], read: ReadColumns, pace: Pace) -> None:
        self._keys = keys
        self._columns = columns
        self._read_columns = read
        self._pace = pace
        self._place = {key.op_id: at for at, key in enumerate(keys)}
        self._read: _Read | None = None

    def scalar(self, op_id: int, column: str) -> pa.Scalar | None:
        """The value of an op, as Arrow has it; None if its row is gone."""
        read = self._with(op_id)
        row = read.rows[op_id]
        return None if row < 0 else read.table.column(column)[row]

    def value(self, op_id: int, column: str) -> Any:
        """The same as a Python value."""
        read = self._with(op_id)
        row = read.rows[op_id]
        return None if row < 0 else read.value(row, column)

    def _with(self, op_id: int) -> _Read:
        """What was read, this op included."""
        read = self._read
        if read is None or op_id not in read.rows:
            self._read = None  # two at once would take twice the memory
            first = self._place[op_id]
            keys = self._keys[first : first + self._pace.ops]
            table = self._read_columns(keys, self._columns)
            read = self._read = _Read(table, keys)
            self._pace.learn(len(keys), table.nbytes)
        return read

    def release(self) -> None:
        self._read = None


def _values(table: pa.Table | PlainTable, column: str) -> list[Any]:
    values = table.column(column)
    return values if isinstance(values, list) else values.to_pylist()


class Contents:
    """What is large in some ops, in the order in which they will most likely be asked for."""

    def __init__(
        self,
        keys: Sequence[OpKey],
        read: ReadColumns,
        read_means: Callable[[], dict[int, float | None]],
        paces: tuple[Pace, Pace] | None = None,
    ) -> None:
        """`read_means` gives the mean logprob of each op that has tokens, logprobs or a mask."""
        of_payload, of_tokens = paces or (Pace(), Pace())
        self._payload = _Window(keys, PAYLOAD, read, of_payload)
        self._tokens = _Window(keys, TOKENS, read, of_tokens)
        self._read_means = read_means
        self.derived: dict[int, Any] = {}
        """What `once` has made of payloads and still keeps, by op."""
        self._derived_chars = 0

    @cached_property
    def logprob_means(self) -> dict[int, float | None]:
        """Of those ops that have tokens."""
        return self._read_means()

    def once(self, content: OpContent, op_id: int, make: Callable[[OpContent, str | None], Any]) -> Any:
        """What is made of the payload of an op, kept for a while: whoever looks at an op looks at all of it."""
        text = content.column("payload")
        size = len(text or "")
        if self._derived_chars + size > _MOST_DERIVED_CHARS:
            self.derived, self._derived_chars = {}, 0
        value = self.derived[op_id] = make(content, text)
        self._derived_chars += size
        return value

    def release(self) -> None:
        """Give back what was read. It is read again when somebody asks for it."""
        self._payload.release()
        self._tokens.release()
        self.derived, self._derived_chars = {}, 0

    def value(self, op_id: int, column: str) -> Any:
        """One column of an op, as a Python value."""
        return (self._payload if column in PAYLOAD else self._tokens).value(op_id, column)

    def scalar(self, op_id: int, column: str) -> pa.Scalar | None:
        """One column of an op, as Arrow has it: lists stay arrays."""
        return (self._payload if column in PAYLOAD else self._tokens).scalar(op_id, column)


class OpContent:
    """What is large in one op."""

    __slots__ = ("_contents", "_op_id", "_prompt_tokens", "_response_tokens")

    def __init__(self, contents: Contents, op_id: int, prompt_tokens: int | None, response_tokens: int | None) -> None:
        self._contents = contents
        self._op_id = op_id
        self._prompt_tokens = prompt_tokens
        self._response_tokens = response_tokens

    def column(self, name: str) -> Any:
        """A column of its row, as a Python value."""
        return self._contents.value(self._op_id, name)

    @property
    def has_tokens(self) -> bool:
        """Whether it has tokens, logprobs or a mask, and so perhaps a text."""
        return self._op_id in self._contents.logprob_means

    def once(self, make: Callable[[OpContent, str | None], Any]) -> Any:
        """What is made of its payload, and not made again right away."""
        derived = self._contents.derived  # looked at here first: many times for each op
        return derived[self._op_id] if self._op_id in derived else self._contents.once(self, self._op_id, make)

    def array(self, name: str) -> pa.Array | None:
        """A list of its row as an Arrow array: `prompt_ids`, `response_ids`, or a column. None if there is none."""
        half = name in ("prompt_ids", "response_ids")
        scalar = self._contents.scalar(self._op_id, "tokens" if half else name)
        if scalar is None or not scalar.is_valid:
            return None
        prompt = self._prompt_tokens or 0
        if name == "prompt_ids":
            return None if self._prompt_tokens is None else scalar.values.slice(0, prompt)
        if name == "response_ids":
            return None if self._response_tokens is None else scalar.values.slice(prompt)
        return scalar.values

    def list(self, name: str) -> list[Any] | None:
        """The same as a list."""
        array = self.array(name)
        return None if array is None else array.to_pylist()

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The text of the prompt and of the response."""
        text, chars = self.column("text"), self.column("prompt_chars") or 0
        if text is None:
            return None, None
        prompt = text[:chars] if self._prompt_tokens is not None else None
        return prompt, text[chars:] if self._response_tokens is not None else None

    @property
    def halves(self) -> dict[str, str]:
        """The JSON text of `inputs` and `outputs`, token lists left out, for those that have it."""
        payload = self.column("payload")
        try:
            parts = _raw_parts.decode(payload or b"{}")
        except (msgspec.DecodeError, RecursionError):
            return {}
        return {name: bytes(part).decode() for name, part in parts.items() if name in ("inputs", "outputs")}


def pieces_of(
    text: str | None, ids: Sequence[int] | None, counts: Sequence[int] | None, first: int
) -> list[str] | None:
    """The text of each token of one half; None if it is not known."""
    if text is None or ids is None or counts is None:
        return None
    ends = list(accumulate(counts[first : first + len(ids)], initial=0))
    fits = len(ends) == len(ids) + 1 and ends[-1] == len(text)  # a text that was changed afterwards has no pieces
    return [text[begin:end] for begin, end in pairwise(ends)] if fits else None


PRUNED_KEY = "$pruned"
"""Stands, with the text of a `Pruning`, where a payload was."""


@dataclass(frozen=True)
class Pruning:
    """When payloads went, and why. As text: `payload pruned on 2026-11-17 by prune --older-than 30d`."""

    time_ns: int | None = None
    """None if that was not recorded."""
    policy: str | None = None
    """The command or the retention policy; None if that was not recorded."""
    whole: bool = False
    """Ops went too, not only payloads."""

    def __str__(self) -> str:
        day = "" if self.time_ns is None else time.strftime(" on %Y-%m-%d", time.localtime(self.time_ns / 1e9))
        return f"payload pruned{day}{'' if self.policy is None else f' by {self.policy}'}"

    @property
    def mark(self) -> dict[str, str]:
        """What stands in the place of a payload."""
        return {PRUNED_KEY: str(self)}


def pruning_of(notes: Sequence[Row]) -> Pruning | None:
    """How the trajectory of these notes, their bodies parsed, was pruned; None if it was not."""
    last = max((note for note in notes if note["event"] == PRUNED), key=lambda note: note["time_ns"], default=None)
    if last is None:
        return None
    body = last["body"] if isinstance(last["body"], dict) else {}
    return Pruning(last["time_ns"], body.get("policy"), bool(body.get("whole")))
