"""What is large in trajectories: payloads, tokens with their text, messages. Read when somebody asks, some at a time.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rolltrace._arrow import pa
from rolltrace.messages import MessageRow
from rolltrace.query.database import PlainTable
from rolltrace.query.values import Row
from rolltrace.tables import PRUNED

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.snapshot import ScopeKey

PAYLOAD = ("payload",)
TOKENS = ("tokens", "logprobs", "response_mask", "tokenizer", "text", "prompt_chars", "piece_chars")
TOKEN_COLUMNS = ("prompt_ids", "response_ids", "logprobs", "response_mask")
_LISTS = frozenset({"tokens", "logprobs", "response_mask", "piece_chars"})
_WINDOW_BYTES = 24 << 20
_MAX_OPS = 16_384
_WINDOW_CHARS = 8 << 20
_MAX_TRAJECTORIES = 256
_MESSAGES = f"""
SELECT trajectory_id, {", ".join(MessageRow.__struct_fields__)} FROM messages
WHERE {{where}} ORDER BY turn, seq
"""
"""Rows that were told late, after those of the next turns, stand where they belong."""
_raw_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


def of_trajectories(ids: Sequence[str]) -> tuple[str, list[Any]]:
    """A condition on rows, and its parameters. Statistics of files help with a plain comparison only."""
    return (
        ("trajectory_id = ?", list(ids))
        if len(ids) == 1
        else ("trajectory_id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)])
    )


class OpKey(NamedTuple):
    """Which op of which trajectory."""

    trajectory_id: str
    op_id: int
    start_ns: int


ReadColumns = Callable[[Sequence[OpKey], Sequence[str]], "pa.Table | PlainTable"]
"""Reads these columns of these ops, and `op_id`. Lists come as Arrow, all else as plain rows where that is possible."""


class Pace:
    """How many are read at once, learned from how large they were."""

    def __init__(self, first: int = 64, most: int = _MAX_OPS) -> None:
        self.ops = first
        self._most = most

    def learn(self, count: int, size: int, fitting: int | None = None) -> None:
        """So many were this large, of which `fitting` may be in memory."""
        fitting = count * (fitting or _WINDOW_BYTES) // max(size, 1)
        # Twice as many at most: prompts grow, and those to come may be larger than those that were.
        self.ops = max(1, min(fitting, 2 * self.ops, self._most))


class _Read:
    """What was read at once."""

    def __init__(self, table: pa.Table | PlainTable, keys: Sequence[OpKey]) -> None:
        self._table = table
        self._python: dict[str, Any] = {}
        self.rows = dict.fromkeys((key.op_id for key in keys), -1)  # pruned since they were listed
        self.rows.update((each, row) for row, each in enumerate(self._values("op_id")))

    def get(self, op_id: int, column: str) -> Any:
        row = self.rows[op_id]
        return None if row < 0 else self._values(column)[row]

    def _values(self, column: str) -> Any:
        """Texts and numbers are converted at once: one by one takes ten times as long. Lists stay Arrow's, because they
        would take several times the memory."""
        values = self._python.get(column)
        if values is None:
            values = self._table.column(column)
            if column not in _LISTS and not isinstance(values, list):
                values = values.to_pylist()
            self._python[column] = values
        return values


class _Window:
    """Some columns of the ops from one of them on. What was read is replaced as a whole: several threads may look at
    one trajectory."""

    def __init__(self, keys: Sequence[OpKey], columns: Sequence[str], read: ReadColumns, pace: Pace) -> None:
        self._keys = keys
        self._columns = columns
        self._read_columns = read
        self._pace = pace
        self._place = {key.op_id: at for at, key in enumerate(keys)}
        self.read: _Read | None = None

    def get(self, op_id: int, column: str) -> Any:
        """A value of an op: a list as Arrow's scalar, all else as Python's; None if its row is gone."""
        read = self.read
        if read is None or op_id not in read.rows:
            self.read = None  # two at once would take twice the memory
            first = self._place[op_id]
            keys = self._keys[first : first + self._pace.ops]
            table = self._read_columns(keys, self._columns)
            read = self.read = _Read(table, keys)
            self._pace.learn(len(keys), table.nbytes)
        return read.get(op_id, column)


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
        self.newest: tuple[int, Any] | None = None
        """An op, and what was made of its payload: whoever looks at an op looks at all of it."""

    @cached_property
    def logprob_means(self) -> dict[int, float | None]:
        """Of those ops that have tokens."""
        return self._read_means()

    def release(self) -> None:
        """Give back what was read. It is read again when somebody asks for it."""
        self._payload.read = self._tokens.read = self.newest = None

    def value(self, op_id: int, column: str) -> Any:
        """One column of an op; a list as Arrow has it."""
        return (self._payload if column in PAYLOAD else self._tokens).get(op_id, column)


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
        value = self._contents.value(self._op_id, name)
        return value if value is None or name not in _LISTS else value.as_py()

    @property
    def has_tokens(self) -> bool:
        """Whether it has tokens, logprobs or a mask, and so perhaps a text."""
        return self._op_id in self._contents.logprob_means

    def once(self, make: Callable[[OpContent, str | None], Any]) -> Any:
        """What is made of its payload, and not made again right away."""
        newest = self._contents.newest
        if newest is None or newest[0] != self._op_id:
            newest = self._contents.newest = self._op_id, make(self, self.column("payload"))
        return newest[1]

    def array(self, name: str) -> pa.Array | None:
        """A list of its row as an Arrow array: `prompt_ids`, `response_ids`, or a column. None if there is none."""
        half = name in ("prompt_ids", "response_ids")
        scalar = self._contents.value(self._op_id, "tokens" if half else name)
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


class Transcripts:
    """The messages of some trajectories, in the order in which these will most likely be asked for: each once, as they
    were produced. Rows of kind `rewrite` say where a prompt changed its history, and rows of kind `variant` are
    messages as such a prompt has them. One that is asked for again is read again.
    """

    def __init__(self, store: Store, trajectory_ids: Sequence[str], scope: ScopeKey) -> None:
        self._store = store
        self._ids = trajectory_ids
        self._scope = scope
        self._pace = Pace(8, _MAX_TRAJECTORIES)
        self._rows: dict[str, list[MessageRow]] = {}

    def rows(self, trajectory_id: str) -> list[MessageRow]:
        """All rows of a trajectory, in their order."""
        rows = self._rows.get(trajectory_id)
        if rows is None:
            first = self._ids.index(trajectory_id)
            ids = self._ids[first : first + self._pace.ops]
            self._rows = read = self._read(ids)
            chars = sum(len(row.text or "") + len(row.reasoning or "") for each in read.values() for row in each)
            self._pace.learn(len(ids), chars, _WINDOW_CHARS)
            rows = read[trajectory_id]
        return rows

    def release(self) -> None:
        """Give back what was read."""
        self._rows = {}

    def _read(self, ids: Sequence[str]) -> dict[str, list[MessageRow]]:
        by_id: dict[str, list[MessageRow]] = {each: [] for each in ids}
        where, values = of_trajectories(ids)
        for row in self._store._ask(_MESSAGES.format(where=where), values, self._scope, plain=True).rows():
            by_id[row.pop("trajectory_id")].append(MessageRow(**row))
        for rows in by_id.values():
            if len({row.seq for row in rows}) < len(rows):  # drainers of several hosts, each of which counts from 0
                rows.sort(key=lambda row: (row.time_ns, row.seq))
        return by_id


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
