"""One trajectory: the tree of its ops, its messages, tokens, scores.

It is a skeleton: payloads, tokens and texts of ops (query/contents.py) and messages (query/conversation.py) are read
when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rolltrace.errors import QueryError
from rolltrace.messages import MessageRow
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.contents import Contents, Pruning, pruning_of
from rolltrace.query.conversation import Chat, Transcripts, as_seen, to_chat
from rolltrace.query.events import Finding, Note, Score, Transition, human_notes, labels_of
from rolltrace.query.op import Op, OpTokens, TokensOfOps, TokenUsage, first_difference, op_of, total_usage
from rolltrace.query.transitions import read_transitions
from rolltrace.query.values import Row, as_object, as_value, tags_of
from rolltrace.tables import PRUNED

if TYPE_CHECKING:
    from rolltrace.query.sequence import TokenSequence

_LARGE = ("ops", "tokens", "messages")
_COORDINATES = ("step", "sample_index", "rollout_n", "validate", "run")
_EVENTS = ("transitions", "scores", "notes", "findings")
_MOST_OPS_DEEP = 100
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
    """The training job that wrote it."""
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
    """The trajectory it was begun in."""
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
            self.tokens.release()
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
        return to_chat(row for row in self.messages if row.kind == "message")

    def seen_by(self, turn: int) -> list[Chat]:
        """The messages that a model call was given, which may be a rewritten history, in OpenAI's chat format.

        Args:
            turn: Which call of the policy, from 0.

        Raises:
            QueryError: there is no such call, or it was given no messages.
        """
        return to_chat(self.messages_seen_by(turn))

    def messages_seen_by(self, turn: int) -> list[MessageRow]:
        """The same as rows."""
        calls = [op for op in self.walk() if op.turn == turn and op.saw is not None]
        if not calls:
            raise QueryError(f"trajectory {self.trajectory_id[:8]} has no model call {turn} that was given messages")
        return as_seen(self.messages, calls[-1].saw or "", turn)

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
        pruned = None if self.pruned is None else str(self.pruned)
        attributes = {name: getattr(self, name) for name in _SMALL}
        return {
            **attributes,
            **{name: [dict(each) for each in attributes[name]] for name in _EVENTS},
            "pruned": pruned,
        }

    def token_sequence(self) -> TokenSequence:
        """All tokens as one sequence, each prompt without what the turn before had: see `query.token_sequence`."""
        from rolltrace.query.sequence import token_sequence

        return token_sequence(self)

    @property
    def logprob_means(self) -> dict[int, float | None]:
        """The mean logprob of the response of each op that has tokens."""
        return self.tokens.logprob_means if isinstance(self.tokens, TokensOfOps) else {}


_SMALL = tuple(each.name for each in fields(Trajectory) if each.name not in _LARGE)


def build(
    summary: Row,
    own: Row | None,
    spans: list[Row],
    contents: Contents,
    transitions: list[Row],
    scores: list[Row],
    notes: list[Row],
    findings: list[Row],
    *,
    transcripts: Transcripts,
) -> Trajectory:
    """A trajectory from its rows; `own` is its row of the `trajectories` table, if it has one.

    The rows of ops are without what is large; `contents` has that, and `transcripts` the messages.
    """
    inside: Row = {name: (own or {}).get(name) for name in ("traceback", "parent_trajectory_id", "parent_op_id")}
    notes = [_parsed(row, "body") for row in notes]
    pruned = pruning_of(notes)
    ops = {span["op_id"]: op_of(span, contents, pruned) for span in spans}
    tokens = TokensOfOps(list(ops.values()), contents)
    built = Trajectory(
        **{**summary, "tags": tags_of(summary["tags"])},
        **inside,
        ops=_tree(spans, ops),
        tokens=tokens,
        scores=[
            Score(**{**row, "terms": None if row["terms"] is None else as_object(row["terms"], "terms")})
            for row in scores
        ],
        notes=[Note(**note) for note in notes if note["event"] != PRUNED],
        pruned=pruned,
    )
    found = [Finding(**_parsed(row, "detail")) for row in findings]
    late: dict[str, Callable[[], Any]] = {
        "messages": lambda: transcripts.rows(built.trajectory_id),
        "transitions": lambda: _transitions(transitions, ops, pruned),
        "findings": lambda: [explained(each, tokens) for each in found],
    }
    for name in late:
        del built.__dict__[name]
    built.__dict__.update(_late=late, _found=found, _transcripts=transcripts)
    return built


def _transitions(rows: list[Row], ops: dict[int, Op], pruned: Pruning | None) -> list[Transition]:
    events = [_marked(_parsed(row, "trace", "fields"), pruned) for row in rows]
    return [Transition(**row) for row in read_transitions(events, ops)]


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
            if depths[parent] == _MOST_OPS_DEEP:
                parents[each] = parents[parent]
            depths[each] = min(depths[parent] + 1, _MOST_OPS_DEEP)
    return parents


def _marked(transition: Row, pruned: Pruning | None) -> Row:
    if pruned is None or transition["amends"] or transition["trace"] is not None or transition["fields"] is not None:
        return transition
    return {**transition, "trace": pruned.mark}


def _parsed(row: Row, *names: str) -> Row:
    return {key: as_value(value) if key in names and value is not None else value for key, value in row.items()}


class KnownTokens(Protocol):
    """The tokens of ops, by their id."""

    def get(self, op_id: int, /) -> OpTokens | None: ...


def explained(finding: Finding, tokens: KnownTokens) -> Finding:
    """A finding; a prefix break with `first_difference` in its detail, if the tokens of both turns are there.

    The drainer compares hashes and knows only that two turns do not fit together.
    """
    detail = finding.detail
    if finding.flag != "prefix_break" or finding.op_id is None or not isinstance(detail, dict):
        return finding
    now, last = tokens.get(finding.op_id), tokens.get(detail.get("previous_op_id", 0))
    if now is None or last is None or now.prompt_ids is None:
        return finding
    at = first_difference([*(last.prompt_ids or ()), *(last.response_ids or ())], now.prompt_ids)
    return replace(finding, detail={**detail, "first_difference": at})
