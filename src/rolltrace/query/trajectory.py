"""One trajectory: the tree of its ops, its messages, tokens, scores. Some are read with as many questions as one.

What is small of all that are asked for is in memory at once, so the caller says how many these are. What is large is
read on the way, as somebody asks for it (query/contents.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from rolltrace._arrow import pa
from rolltrace.errors import NotFoundError, QueryError
from rolltrace.messages import MessageRow, read_ranges
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.contents import (
    PAYLOAD,
    Contents,
    OpKey,
    Pace,
    Pruning,
    ReadColumns,
    Transcripts,
    of_trajectories,
    pruning_of,
)
from rolltrace.query.database import PlainTable
from rolltrace.query.events import Finding, Note, Score, Transition, human_notes, labels_of, read_transitions
from rolltrace.query.groups import record_rows
from rolltrace.query.op import Op, OpTokens, TokensOfOps, TokenUsage, first_difference, op_of, total_usage
from rolltrace.query.result import IS_INT
from rolltrace.query.values import Row, as_object, as_value, tags_of
from rolltrace.tables import COORDINATES, OPS, PRUNED, TABLE_SCHEMAS

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.sequence import TokenSequence
    from rolltrace.query.snapshot import ScopeKey

Chat = dict[str, Any]
"""A message in OpenAI's chat format."""
_LARGE = ("ops", "tokens", "messages")
_COORDINATES = ("step", "sample_index", "rollout_n", "validate", "run")
_EVENTS = ("transitions", "scores", "notes", "findings")
_MAX_DEPTH = 100
"""How many ops stand inside each other in the tree; those inside them stand beside the last."""


@dataclass(frozen=True)
class Trajectory:
    """What `Store.trajectory(id)` gives: the columns of `trajectories`, and what is inside."""

    _store_path: ClassVar[Path | None] = None
    """Of the store that it was read from, which `rolltrace.view` asks for the rest."""
    trajectory_id: str
    project: str
    experiment: str
    step: int | None
    sample_index: int | str | None
    rollout_n: int | None
    validate: bool
    name: str
    status: str
    error: str | None
    start_ns: int
    end_ns: int | None
    duration_s: float | None
    turns: int
    tool_calls: int
    tool_errors: int
    prompt_tokens: int | None
    response_tokens: int | None
    reward: float | None
    policy_version_min: int | None
    policy_version_max: int | None
    flags: list[str]
    tags: dict[str, Any]
    worker: str
    advantage: float | None = None
    fate: str | None = None
    """What training did with it: trained, filtered, ..."""
    fate_reason: str | None = None
    staleness: int | None = None
    """How many versions its oldest weights are behind the step that trained on it, or its own if that is not known."""
    run: str | None = None
    superseded: bool = False
    """A newer run of the experiment reached the same step."""
    trained_step: int | None = None
    """The step that trained on it, as its newest fate says."""
    labels: list[str] = field(default_factory=list)
    """Names of the labels that people gave it or a turn of it; `given_labels` has all about them."""
    is_group: bool = False
    """No rollout: what was recorded for all rollouts of a sample together."""
    traceback: str | None = None
    parent_trajectory_id: str | None = None
    parent_op_id: int | None = None
    ops: list[Op] = field(default_factory=list, repr=False)
    """The top ops, oldest first; the others are their children."""
    tokens: Sequence[OpTokens] = field(default_factory=list, repr=False)
    """Of every op that has any, oldest first. Each is read when it is asked for."""
    messages: list[MessageRow] = field(default_factory=list, repr=False, compare=False)
    """Each message once, in the order in which they were produced; what prompts changed in them, as rows of their own
    kind. `conversation` has them in OpenAI's chat format."""
    transitions: list[Transition] = field(default_factory=list, repr=False)
    """One per environment step, oldest first, back-fills and amendments included."""
    scores: list[Score] = field(default_factory=list, repr=False)
    """Every score that was given, oldest first: the newest of a name counts."""
    notes: list[Note] = field(default_factory=list, repr=False)
    """Notes and changes of tags made during the rollout, oldest first; `human_notes` has all notes."""
    findings: list[Finding] = field(default_factory=list, repr=False)
    """What the checks found. `flags` are the names of these."""
    pruned: Pruning | None = None
    """When and why payloads went; None if all are there."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What a store gave when the trajectory was opened, made now: it may read payloads and tokens."""
            make = self.__dict__.get("_late", {}).get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = make()
            if name != "messages":  # which may be large
                self.__dict__[name] = value
            return value

    def release(self) -> None:
        """Give back the memory of what was read of payloads, tokens and messages; whoever asks reads them again."""
        if isinstance(self.tokens, TokensOfOps):
            self.tokens.contents.release()
        transcripts: Transcripts | None = self.__dict__.get("_transcripts")
        if transcripts is not None:
            transcripts.release()

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import trajectory_html

        return trajectory_html(self)

    def walk(self) -> Iterator[Op]:
        """All ops, each before its children."""
        for op in self.ops:
            yield from op.walk()

    @property
    def coordinates(self) -> dict[str, Any]:
        """Where it stands in its experiment: step, sample_index, rollout_n, validate, run, as far as they are set."""
        return {name: value for name in _COORDINATES if (value := getattr(self, name)) is not None}

    @property
    def last_ns(self) -> int:
        """When it ended; if that is not known, because its process died, the last that is known of its ops."""
        if self.end_ns is not None:
            return self.end_ns
        return max([self.start_ns, *(op.last_ns for op in self.ops)])

    @property
    def usage(self) -> TokenUsage | None:
        """The tokens of all calls of the policy; one that was made by another is a part of it."""
        return total_usage(self.ops)

    @property
    def newest_scores(self) -> dict[str, Score]:
        """The score of each name that counts: the newest; of labels, those that nobody took back."""
        without_author = [score for score in self.scores if score.author is None]
        return {score.name: score for score in (*without_author, *self.given_labels)}

    @property
    def given_labels(self) -> list[Score]:
        """The labels and notes that it and its ops have now, oldest first; `scores` has the history.

        Each has an `author`, a `label` (the value), and an `op_id` if it is about a turn.
        """
        return labels_of(self.scores)

    @property
    def conversation(self) -> list[Chat]:
        """The messages between model, tools and user as they were produced, in OpenAI's chat format."""
        return _to_chat(row for row in self.messages if row.kind == "message")

    def seen_by(self, turn: int) -> list[Chat]:
        """The messages that a model call was given, which may be a rewritten history, in OpenAI's chat format.

        Args:
            turn: Which call of the policy, from 0.

        Raises:
            QueryError: there is no such call, or it was given no messages.
        """
        return _to_chat(self.messages_seen_by(turn))

    def messages_seen_by(self, turn: int) -> list[MessageRow]:
        """The same as rows."""
        calls = [op for op in self.walk() if op.turn == turn and op.saw is not None]
        if not calls:
            raise QueryError(f"trajectory {self.trajectory_id[:8]} has no model call {turn} that was given messages")
        by_seq = {row.seq: row for row in self.messages}
        marks = [row for row in by_seq.values() if row.kind == "rewrite" and row.turn <= turn]
        stripped = {seq for mark in marks for seq in mark.read_detail().get("reasoning_stripped", ())}
        seen = [by_seq[seq] for seq in read_ranges(calls[-1].saw or "") if seq in by_seq]
        return [
            msgspec.structs.replace(row, reasoning=None) if row.seq in stripped else row
            for row in seen
            if row.kind != "rewrite"
        ]

    @property
    def op_flags(self) -> dict[int | None, list[str]]:
        """The flags of each op that has any; those of the whole trajectory under None."""
        by_op: dict[int | None, list[str]] = {}
        for flag, op_id in sorted({(each.flag, each.op_id) for each in self.found}, key=str):
            by_op.setdefault(op_id, []).append(flag)
        return by_op

    @property
    def found(self) -> list[Finding]:
        """The findings as the checks left them: `findings` looks at the tokens of a prefix break, too."""
        found: list[Finding] | None = self.__dict__.get("_found")
        return self.findings if found is None else found

    @property
    def human_notes(self) -> list[Note]:
        """What people wrote about it, oldest first: in the rollout (`trajectory.note(...)`), or later
        (`rolltrace label ID --note TEXT`, or a score named `note`)."""
        return human_notes(self.notes, self.scores)

    def to_row(self) -> Row:
        """Its columns of `trajectories`."""
        return {name: getattr(self, name) for name in TRAJECTORY_COLUMNS}

    def to_dict(self) -> dict[str, Any]:
        """Its attributes without `ops` and `tokens`, which may be large: scores, transitions, notes and findings as
        dicts, `pruned` as text."""
        attributes = {name: getattr(self, name) for name in (each.name for each in fields(self)) if name not in _LARGE}
        events = {name: [dict(each) for each in attributes[name]] for name in _EVENTS}
        return {**attributes, **events, "pruned": None if self.pruned is None else str(self.pruned)}

    def token_sequence(self) -> TokenSequence:
        """All tokens as one sequence, each prompt without what the turn before had: see `query.token_sequence`."""
        from rolltrace.query.sequence import token_sequence

        return token_sequence(self)

    @property
    def logprob_means(self) -> dict[int, float | None]:
        """The mean logprob of the response of each op that has tokens."""
        if not isinstance(self.tokens, TokensOfOps):
            return {}
        means = self.tokens.contents.logprob_means
        return {op.op_id: means[op.op_id] for op in self.walk() if op.op_id in means}


def _to_chat(rows: Iterable[MessageRow]) -> list[Chat]:
    return [row.to_message().to_chat() for row in rows]


def _build(
    listed: Row,
    own: Row | None,
    spans: list[Row],
    events: Sequence[list[Row]],
    contents: Contents,
    transcripts: Transcripts,
) -> Trajectory:
    """A trajectory from its row of the listing, its row of the table `trajectories` if it has one, the rows of its ops
    without what is large, and those of what else was recorded."""
    transitions, scores, notes, flags = events
    inside: Row = {name: (own or {}).get(name) for name in ("traceback", "parent_trajectory_id", "parent_op_id")}
    notes = [_parsed(row, "body") for row in notes]
    pruned = pruning_of(notes)
    ops = {span["op_id"]: op_of(span, contents, pruned) for span in spans}
    listed = {**listed, "tags": tags_of(listed["tags"])}
    later = {name: listed.pop(name) for name in listed.keys() - Trajectory.__dataclass_fields__.keys()}
    built = Trajectory(
        **listed,
        **inside,
        ops=_tree(spans, ops),
        tokens=TokensOfOps(ops.values(), contents),
        scores=[
            Score(**{**row, "terms": None if row["terms"] is None else as_object(row["terms"], "terms")})
            for row in scores
        ],
        notes=[Note(**note) for note in notes if note["event"] != PRUNED],
        pruned=pruned,
    )
    built.__dict__.update(later)
    found = [Finding(**_parsed(row, "detail")) for row in flags]
    late: dict[str, Callable[[], Any]] = {
        "messages": lambda: transcripts.rows(built.trajectory_id),
        "transitions": lambda: _read_transitions(transitions, ops, pruned),
        "findings": lambda: [explain_break(each, lambda id: ops[id].tokens if id in ops else None) for each in found],
    }
    for name in late:
        del built.__dict__[name]
    built.__dict__.update(_late=late, _found=found, _transcripts=transcripts)
    return built


def _read_transitions(rows: list[Row], ops: dict[int, Op], pruned: Pruning | None) -> list[Transition]:
    steps = [_parsed(row, "trace", "fields") for row in rows]
    for step in steps:
        if pruned is not None and not step["amends"] and step["trace"] is None and step["fields"] is None:
            step["trace"] = pruned.mark
    return [Transition(**row) for row in read_transitions(steps, ops)]


def _tree(spans: list[Row], ops: dict[int, Op]) -> list[Op]:
    top: list[Op] = []
    parents = parents_of(spans, ops)
    for op_id, op in ops.items():
        parent = parents[op_id]
        (top if parent is None else ops[parent].children).append(op)
    return top


def parents_of(spans: list[Row], ops: Container[int]) -> dict[int, int | None]:
    """Under which op each op stands; no more than so many inside each other, and none inside itself."""
    # The parent of a top op may be in the trajectory around this one, or lost.
    parents = {span["op_id"]: span["parent_id"] if span["parent_id"] in ops else None for span in spans}
    depths: dict[int, int] = {}
    for op_id in parents:
        chain: dict[int, None] = {}
        at: int | None = op_id
        while at is not None and at not in depths and at not in chain:
            chain[at] = None
            at = parents[at]
        if at in chain:  # round in a circle: somebody has to be the first
            parents[next(reversed(chain))] = None
        for each in reversed(chain):
            parent = parents[each]
            if parent is None:
                depths[each] = 1
                continue
            if depths[parent] == _MAX_DEPTH:
                parents[each] = parents[parent]
            depths[each] = min(depths[parent] + 1, _MAX_DEPTH)
    return parents


def _parsed(row: Row, *names: str) -> Row:
    return {key: as_value(value) if key in names and value is not None else value for key, value in row.items()}


def explain_break(finding: Finding, tokens_of: Callable[[int], OpTokens | None]) -> Finding:
    """A finding; a prefix break with `first_difference` in its detail, if the tokens of both turns are there.

    The drainer compares hashes and knows only that two turns do not fit together.
    """
    detail = finding.detail
    if finding.flag != "prefix_break" or finding.op_id is None or not isinstance(detail, dict):
        return finding
    now, last = tokens_of(finding.op_id), tokens_of(detail.get("previous_op_id", 0))
    if now is None or last is None or now.prompt_ids is None:
        return finding
    at = first_difference([*(last.prompt_ids or ()), *(last.response_ids or ())], now.prompt_ids)
    return replace(finding, detail={**detail, "first_difference": at})


_EVENT_VIEWS = {"transitions": "_transitions", "scores": "scores", "notes": "notes", "flags": "flags"}
"""Tables -> the views that are read."""
_OWN = "trajectory_id, traceback, parent_trajectory_id, parent_op_id"
_WHERE = frozenset(column.name for column in COORDINATES)
_COLUMNS = {
    schema.name: ", ".join(column.name for column in schema.columns if column.name not in _WHERE)
    for schema in TABLE_SCHEMAS
}
"""Those of each table that do not say where its rows stand in the training run."""
_SKELETON = ", ".join(column.name for column in OPS.columns if column.name not in PAYLOAD)
_RENAMED = {"tokens": "ids AS tokens", "response_mask": "mask AS response_mask"}
"""Columns of the table `tokens` that have other names here."""


class Place(NamedTuple):
    """Where a trajectory is."""

    trajectory_id: str
    step: int | None


def find_trajectory(store: Store, trajectory_id: str) -> Place:
    """The full id and the step of a trajectory, or of a group record; a prefix of its id is enough.

    Raises:
        NotFoundError: no trajectory has this id.
        QueryError: several begin with it.
    """
    try:
        return Place(*store._find(trajectory_id))
    except NotFoundError:
        prefix = trajectory_id.strip().lower()
        rows = record_rows(store, "trajectory_id BETWEEN ? AND ?", [prefix.ljust(32, "0"), prefix.ljust(32, "f")])
        if len(rows) != 1:
            raise
        return Place(rows[0]["trajectory_id"], rows[0]["step"])


def read_one(store: Store, trajectory_id: str) -> Trajectory:
    """The trajectory, or the group record, that `find_trajectory` finds."""
    full_id, step = find_trajectory(store, trajectory_id)
    rows = summaries(store, [full_id], step) or record_rows(store, "trajectory_id = ?", [full_id], step)
    for each in read_whole(store, rows, step):
        return each.trajectory
    raise NotFoundError(f"trajectory {full_id} no longer exists")  # pruned since we found it


class Whole(NamedTuple):
    """A trajectory, and the rows of its ops that it was made from, without what is large."""

    trajectory: Trajectory
    spans: list[Row]


def summaries(store: Store, trajectory_ids: Sequence[str], scope: ScopeKey) -> list[Row]:
    """The rows of the listing of these trajectories, in their order; without those that are gone."""
    columns = ", ".join((*TRAJECTORY_COLUMNS, IS_INT))
    by_id: dict[str, Row] = {}
    for row in _rows(store, "_listing", columns, trajectory_ids, scope, "start_ns"):
        by_id.setdefault(row["trajectory_id"], row)
    return [by_id[each] for each in trajectory_ids if each in by_id]


def read_whole(
    store: Store,
    listed: Sequence[Row],
    scope: ScopeKey,
    *,
    paces: tuple[Pace, Pace] | None = None,
    on_fault: Callable[[str, Exception], None] | None = None,
) -> Iterator[Whole]:
    """The trajectories of these rows of the listing, in their order.

    Args:
        store: The store.
        listed: Their rows, as from `summaries` or `Store.trajectories`.
        scope: Where they are: their step, or the folders of their steps; None to look everywhere.
        paces: How many ops are read at once, of payloads and of tokens, if that is known from others.
        on_fault: Told of a trajectory that cannot be built, and why; it is left out then. If not given, that is raised.
    """
    ids = [row["trajectory_id"] for row in listed]

    def of_each(table: str, columns: str, order: str) -> dict[str, list[Row]]:
        by_id: dict[str, list[Row]] = {each: [] for each in ids}
        for row in _rows(store, table, columns, ids, scope, order):
            by_id[row.pop("trajectory_id")].append(row)
        return by_id

    own = of_each("_trajectories", _OWN, "end_ns DESC NULLS LAST")
    spans = of_each("ops", _SKELETON, "start_ns, op_id")
    events = [of_each(view, _COLUMNS[table], "time_ns, worker") for table, view in _EVENT_VIEWS.items()]
    keys = [OpKey(each, span["op_id"], span["start_ns"] or 0) for each in ids for span in spans[each]]
    contents = Contents(keys, _reader(store, scope), lambda: _logprob_means(store, ids, scope), paces)
    transcripts = Transcripts(store, ids, scope)
    for row, each in zip(listed, ids):
        try:
            inside = [rows_by_id[each] for rows_by_id in events]
            built = _build(row, next(iter(own[each]), None), spans[each], inside, contents, transcripts)
        except Exception as error:
            if on_fault is None:
                raise
            on_fault(each, error)
            continue
        built.__dict__["_store_path"] = store.path
        yield Whole(built, spans[each])


def _reader(store: Store, scope: ScopeKey) -> ReadColumns:
    def read(keys: Sequence[OpKey], columns: Sequence[str]) -> pa.Table | PlainTable:
        ids = list(dict.fromkeys(key.trajectory_id for key in keys))
        where, values = of_trajectories(ids)
        starts = [key.start_ns for key in keys]
        if len(ids) == 1 and all(starts):  # the statistics of the files say where its ops of that time are
            where, values = f"{where} AND start_ns BETWEEN ? AND ?", [*values, min(starts), max(starts)]
        names = ", ".join(_RENAMED.get(name, name) for name in columns)
        table = "ops" if columns == PAYLOAD else "_tokens"
        sql = f"SELECT op_id, {names} FROM {table} WHERE {where} AND op_id IN (SELECT unnest(?::BIGINT[]))"
        ask = store._engine.plain_rows if columns == PAYLOAD else store._engine.query
        return ask(sql, [*values, [key.op_id for key in keys]], scope)

    return read


def _logprob_means(store: Store, ids: Sequence[str], scope: ScopeKey) -> dict[int, float | None]:
    rows = _rows(store, "_tokens", "op_id, list_avg(logprobs) AS mean", ids, scope, "op_id")
    return {row["op_id"]: row["mean"] for row in rows}


def _rows(store: Store, table: str, columns: str, ids: Sequence[str], scope: ScopeKey, order: str) -> list[Row]:
    if not ids:
        return []
    where, values = of_trajectories(ids)
    return store._ask(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}", values, scope, plain=True).rows()
