"""One trajectory: its outline, conversation, tokens, ops and transitions; several side by side."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rolltrace.query.model import Json, Number
from rolltrace.query.model.lists import Cell, GroupRecord, TrajectoryRow
from rolltrace.query.model.store import Kind


class SampleStep(Struct):
    """One step of a sample."""

    step: int | None
    size: int
    mean: Number | None
    best: str | None
    same_rollout: str
    """Id of the one with the same rollout_n, or the first: where `[` and `]` lead."""


class OutlineOp(Struct):
    """One op, without what it was given and gave."""

    op_id: str
    parent_id: str | None
    depth: int
    turn: int | None
    """Which model call it is, or comes after; from 0. None before the first."""
    name: str
    kind: Kind
    status: str
    """ok, error, cancelled, running, interrupted"""
    offset_s: float
    """From the start of the trajectory to its own."""
    duration_s: float | None
    own_s: float | None
    """Without the ops inside it."""
    error: str | None
    prompt_tokens: int | None
    response_tokens: int | None
    logprob_mean: Number | None
    policy_version: int | None
    finish_reason: str | None
    payload_bytes: int
    flags: list[str]


class ScoreValue(Struct):
    """One time that a score was given."""

    value: Number | None
    label: str | None
    reason: str | None
    trained_step: int | None
    """Of a fate: the step that trained on the trajectory."""
    terms: dict[str, Json]
    time_ns: int
    worker: str | None


class Score(Struct):
    """A score by its name."""

    name: str
    newest: ScoreValue
    history: list[ScoreValue]


class Label(Struct):
    """A label or note that somebody gave or took back."""

    name: str
    value: str | None
    """None if it was taken back."""
    author: str
    op_id: str | None
    """The op that it is about; None if it is the whole trajectory."""
    time_ns: int
    reason: str | None
    counts: bool
    """It is what its author says now."""


class Finding(Struct):
    """A problem that a check found, and where."""

    flag: str
    meaning: str
    op_id: str | None
    turn: int | None
    token: int | None
    detail: Json


class Elsewhere(Struct):
    """The same sample in another experiment of the project, or of another store."""

    store: str | None

    experiment: str
    step: int | None
    """The nearest one."""
    trajectory_id: str


class Loss(Struct):
    """Records of the step that were lost."""

    reason: str
    count: int


class RunPosition(Struct):
    """Which run of its experiment a trajectory belongs to."""

    run: str | None
    index: int
    """From 1, the oldest first."""
    count: int


class Note(Struct):
    """Something that was said about it while it ran."""

    time_ns: int
    op_id: str | None
    event: str
    body: Json


class Link(Struct):
    """A page of a vendor about it or its run."""

    name: str
    url: str


class TrajectoryHead(Struct):
    """A trajectory without its payloads."""

    row: TrajectoryRow
    traceback: str | None
    parent_trajectory_id: str | None
    parent_op_id: str | None
    children: list[str]
    is_group: bool
    """No rollout: a record of its whole group."""
    siblings: list[Cell]
    """All rollouts of its group, itself included."""
    group_records: list[GroupRecord]
    """What was recorded for the whole group, itself included."""
    over_steps: list[SampleStep]
    elsewhere: list[Elsewhere]
    outline: list[OutlineOp]
    """Each op before its children."""
    scores: list[Score]
    """reward first, then by name; without labels."""
    labels: list[Label]
    """Everything that people said, the oldest first."""
    findings: list[Finding]
    notes: list[Note]
    pruned: str | None
    """When payloads went, and why, as a sentence; None if they are there."""
    losses: list[Loss]
    run: RunPosition
    has_tokens: bool
    has_transitions: bool
    token_total: int
    """How many tokens its last model call saw and produced: the sequence has as many, and more where it breaks."""
    reward_range: list[float] | None
    """Smallest and largest finite reward of the experiment: one colour scale. None without rewards."""
    links: list[Link]
    """Where it, or its run, is shown elsewhere: MLflow, Weave, W&B."""


class Part(Struct, omit_defaults=True):
    """A piece of a message."""

    kind: Literal["text", "reasoning", "image", "json"]
    text: str = ""
    """The text, or JSON as text, from its beginning."""
    chars: int = 0
    """How many characters all of it has; more than `text` has if it was cut."""
    blob: str | None = None
    """Of an image that was kept: what to ask `/api/blob/` for."""
    detail: str | None = None
    """Of an image: its type and size as text."""


class ToolCall(Struct, omit_defaults=True):
    """A tool call and what came back."""

    name: str
    arguments: Part
    call_id: str | None = None
    result: list[Part] = []
    """Empty if it is not known."""
    error: str | None = None
    status: str | None = None
    duration_s: float | None = None
    op_id: str | None = None


class Rewrite(Struct):
    """What a prompt changed in the history that it repeats."""

    dropped: int
    """How many messages it leaves out."""
    changed: int
    """How many it has in another form."""
    added: int
    """How many it has in the place of others, such as a summary."""
    reasoning_stripped: int
    """From how many it leaves out the reasoning."""
    tokens_before: int | None
    tokens_after: int | None


class Message(Struct):
    """One message of the conversation."""

    index: int
    role: str
    """`rewrite` if it is no message but says that the history was rewritten here."""
    name: str | None
    parts: list[Part]
    calls: list[ToolCall]
    """The tool calls of an assistant, each with its result; those results are no messages of their own."""
    op_id: str | None
    turn: int | None
    tokens: int | None
    duration_s: float | None
    logprob_mean: Number | None
    policy_version: int | None
    finish_reason: str | None
    flags: list[str]
    rewrite: Rewrite | None


class Conversation(Struct):
    """The messages of a trajectory as they were produced; long texts are cut, `/message/{index}` has them whole."""

    messages: list[Message]
    total: int


class Segment(Struct):
    """A run of tokens of one origin."""

    start: int
    end: int
    kind: Literal["prompt", "response"]
    turn: int
    op_id: str
    policy_version: int | None
    has_text: bool
    """False: its tokens are known by their ids only, and take no characters of the text."""


class TokenBreak(Struct):
    """Where a prompt does not extend what came before: it was tokenised anew."""

    at: int
    """The new prompt goes on here; what it replaces stands before."""
    turn: int
    op_id: str
    first_difference: int
    """Index, in the sequence the model saw before, of the first token that differs."""
    before_ids: list[int]
    """What stood there, from the first difference, at most 64 tokens."""
    before_text: str | None
    after_ids: list[int]
    after_text: str | None
    before_total: int
    after_total: int


class UnlikelyToken(Struct):
    """One of the least likely tokens."""

    index: int
    logprob: float
    text: str | None


class TokenRange(Struct):
    """Tokens start to end of the one sequence of a trajectory. Segments, breaks, minimap cover all of it."""

    start: int
    end: int
    total: int
    responses: int
    trained: int
    """How many of them the mask keeps; all of them without a mask."""
    ids: list[int]
    text: str | None
    """The text of these tokens, joined; None without token2text."""
    piece_chars: list[int] | None
    """How many characters (Unicode code points) of `text` each token ends; 0 inside a character."""
    logprobs: list[Number | None]
    """None where there is none: in prompts."""
    mask: list[int | None]
    """1 trained on, 0 not; None in prompts and without a mask."""
    segments: list[Segment]
    breaks: list[TokenBreak]
    minimap: list[Number | None]
    """Least logprob of each of at most 1,000 equally long stretches; None where there is none."""
    least_likely: list[UnlikelyToken]
    has_logprobs: bool
    has_mask: bool
    has_text: bool


class OpDetail(Struct):
    """One op with its payload."""

    op: OutlineOp
    inputs: Json
    outputs: Json
    traceback: str | None
    thread: str | None
    worker: str | None
    start_ns: int
    end_ns: int | None


class Branch(Struct):
    """A part of a payload, read deeper."""

    part: Literal["inputs", "outputs"]
    path: list[str | int]
    value: Json


class Change(Struct):
    """A place of the environment's state that differs from the step before."""

    path: str
    before: Json
    after: Json


class Earlier(Struct):
    """What an amendment of an environment step replaced."""

    time_ns: int
    values: dict[str, Json]


class Transition(Struct):
    """One environment step."""

    index: int
    time_ns: int
    op_id: str | None
    prompt: Json
    policy_response: Json
    reward: Number | None
    reward_data: Json
    env_state: Json
    changes: list[Change]
    """Of env_state, since the transition before."""
    extra: Json
    fields: dict[str, Json]
    """Everything else that was given: metrics, logs, ..."""
    episode_done: bool | None
    stop_reason: str | None
    earlier: list[Earlier]
    """What later words on this step replaced, the oldest first."""
    amends: bool
    """It changes a step that is not there: that of number `turn`."""
    turn: int | None
    backfill: bool | None
    """It was added after the rollout, and no step was recorded before it."""


class Transitions(Struct):
    """The transitions of a trajectory."""

    transitions: list[Transition]


class CompareTurn(Struct):
    """One turn of one trajectory: the model's reply with its tool calls, and what was said before it."""

    turn: int
    op_id: str | None
    messages: list[Message]
    tokens: int | None


class CompareRow(Struct):
    """The same turn of every trajectory, or a run of turns that are equal in all of them."""

    first_turn: int
    last_turn: int
    """The same as first_turn, except in a run of equal turns."""
    equal: bool
    tokens: int | None
    """Of equal turns: how many response tokens they have together."""
    turns: list[CompareTurn | None]
    """One for each column; None for a trajectory that ended before. Of equal turns: those of the first column."""


class Difference(Struct):
    """The first place where the replies differ."""

    turn: int
    unit: Literal["token", "character"]
    index: int
    """Among all replies, one after the other."""
    index_in_turn: int
    sequence_index: list[int | None]
    """The same place in the token sequence of each trajectory."""
    values: list[int | str | None]
    pieces: list[str | None]


class Differing(Struct):
    """An attribute or a score that is not the same in all."""

    name: str
    values: list[Json]


class CompareColumn(Struct):
    """One of the trajectories compared."""

    row: TrajectoryRow
    store: str | None
    """Of several stores, the one it is in."""
    turns: int
    parts_at_turn: int | None
    """Where it leaves the way of the best one; None if it does not."""


class Comparison(Struct):
    """Two to eight trajectories side by side."""

    columns: list[CompareColumn]
    rows: list[CompareRow]
    best: int
    identical: bool
    first_diverging_turn: int | None
    first_difference: Difference | None
    attributes: list[Differing]
    scores: list[Differing]
