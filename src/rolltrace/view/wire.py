"""What the server answers: every response type once. OpenAPI and the TypeScript types are generated from here.

Rules of the wire:
- A `Number` that JSON cannot hold is one of the texts `nan`, `inf`, `-inf` (`view.encoding` does that).
- Ids of ops are text: they have 62 bits, and a JavaScript number keeps 53. So are sample indexes, which may be either.
- Times `..._ns` are nanoseconds since 1970; JavaScript rounds them to 256 ns, so what is short is given in seconds.
- Recorded values (`Json`) are bounded: `query.bounded` says what stands where something was cut.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Number = float | Literal["nan", "inf", "-inf"]
Json = Any
State = Literal["recording", "ended", "interrupted"]
Kind = Literal["llm", "aux_llm", "tool", "env", "reward", "other"]


class Problem(Struct, omit_defaults=True):
    """Why there is no answer."""

    error: str
    """In a word: not_found, bad_request, filter, forbidden, unauthorized, timeout, store, internal."""
    detail: str
    """One or two sentences for people."""
    position: int | None = None
    """Of a filter: the index of the character at which it went wrong."""
    length: int | None = None
    """Of a filter: how many characters are wrong."""
    hint: str | None = None
    """What to do or type next."""


class Unreadable(Struct):
    """A file that cannot be read; the rest of the store is shown."""

    file: str
    """Its path inside the store."""
    reason: str


class Status(Struct):
    """The store as a whole: what the frame around every page shows."""

    store_name: str
    """The last part of its path."""
    store_path: str
    version: str
    """Of rolltrace."""
    experiments: int
    running: int
    """How many trajectories are in flight."""
    lost: int
    """How many records were lost; what was pruned or sampled out is not counted."""
    recording: bool
    """Some process writes into the store right now."""
    incomplete: list[Unreadable]
    """What readers could not see."""
    read_only: bool
    """The server cannot write into the store."""
    now_ns: int
    """The server's clock."""


class Run(Struct):
    """One training job of an experiment."""

    run: str | None
    trajectories: int
    steps: int
    first_step: int | None
    last_step: int | None
    running: int
    superseded: int
    """How many of its trajectories a newer run's replace."""
    start_ns: int
    end_ns: int


class OlderRuns(Struct):
    """What an answer leaves out because a newer run reached the same step; `all_runs` shows it."""

    trajectories: int
    runs: int


class ExperimentRow(Struct):
    """One experiment in the list of all."""

    project: str
    experiment: str
    state: State
    start_ns: int
    end_ns: int
    """When the last trajectory ended, or began."""
    last_seen_ns: int
    """The same, or now while it is being recorded."""
    steps: int
    last_step: int | None
    trajectories: int
    superseded: int
    running: int
    rewards: list[float]
    """Mean training reward over the steps, at most 60 points."""
    reward_last: float | None
    """Mean training reward of the last step that has one."""
    flags: dict[str, int]
    """Flag -> how many trajectories have it."""
    lost: int
    size_bytes: int
    """What it takes on disk, without live journals."""
    runs: list[Run]


class Experiments(Struct):
    """All experiments, the newest first."""

    rows: list[ExperimentRow]


class Series(Struct):
    """Columns over the steps of an experiment: the value at i belongs to step[i]."""

    step: list[int | None]
    run: list[str | None]
    start_ns: list[int]
    end_ns: list[int | None]
    trajectories: list[int]
    samples: list[int]
    errors: list[int]
    running: list[int]
    reward_mean: list[float | None]
    """Of the finite rewards, as the next ones."""
    reward_p10: list[float | None]
    reward_p90: list[float | None]
    reward_min: list[float | None]
    reward_max: list[float | None]
    rewards_not_finite: list[int]
    """How many rewards are NaN or infinite."""
    terms: dict[str, list[Number | None]]
    """Name of a reward term -> its mean."""
    pass_rate: list[float | None]
    zero_variance_share: list[float | None]
    response_tokens_p50: list[float | None]
    response_tokens_p95: list[float | None]
    turns_mean: list[float | None]
    tool_calls_mean: list[float | None]
    tool_error_rate: list[float | None]
    """Share of the tool calls that ended in an error."""
    truncated_share: list[float | None]
    """Share of the trajectories with a response that was cut by length."""
    duration_s_p50: list[float | None]
    duration_s_p95: list[float | None]
    duration_s_max: list[float | None]
    staleness_mean: list[float | None]
    flags: dict[str, list[int]]
    """Flag -> how many trajectories have it."""
    lost: list[int]


class Experiment(Struct):
    """An experiment over its steps."""

    project: str
    experiment: str
    state: State
    training: Series
    validation: Series
    reward_range: list[float] | None
    """Smallest and largest finite reward of all steps: one colour scale. None without rewards."""
    runs: list[Run]
    older_runs: OlderRuns


class Cell(Struct):
    """One rollout of a group."""

    trajectory_id: str
    rollout_n: int | None
    reward: Number | None
    status: str
    """ok, error, cancelled, running, interrupted"""
    truncated: bool
    """A response was cut by length."""
    flags: list[str]
    response_tokens: int | None
    turns: int
    duration_s: float | None


class GroupRow(Struct):
    """All rollouts of one sample in one step."""

    step: int | None
    sample_index: str | None
    validate: bool
    run: str | None
    size: int
    scored: int
    """How many have a reward."""
    mean: Number | None
    std: Number | None
    min: Number | None
    max: Number | None
    spread: Number | None
    best: str | None
    """Id of the trajectory with the highest reward."""
    worst: str | None
    passed: int
    pass_rate: float | None
    zero_variance: bool
    response_tokens_mean: float | None
    response_tokens_min: int | None
    response_tokens_max: int | None
    turns_mean: float | None
    duration_s_max: float | None
    flags: list[str]
    errors: int
    cells: list[Cell]


class GroupTotals(Struct):
    """Over all pages."""

    groups: int
    trajectories: int
    reward_mean: Number | None
    zero_variance_share: float | None


class Groups(Struct):
    """A page of groups."""

    rows: list[GroupRow]
    totals: GroupTotals
    next: str | None
    """Give it as `after` to get the next page; None on the last."""
    older_runs: OlderRuns


class TrajectoryRow(Struct):
    """One trajectory, as the documented view `trajectories` has it."""

    trajectory_id: str
    project: str
    experiment: str
    step: int | None
    sample_index: str | None
    rollout_n: int | None
    validate: bool
    name: str
    status: str
    """ok, error, cancelled, running, interrupted"""
    error: str | None
    start_ns: int
    end_ns: int | None
    duration_s: float | None
    turns: int
    tool_calls: int
    tool_errors: int
    prompt_tokens: int | None
    response_tokens: int | None
    reward: Number | None
    advantage: Number | None
    fate: str | None
    fate_reason: str | None
    trained_step: int | None
    policy_version_min: int | None
    policy_version_max: int | None
    staleness: int | None
    flags: list[str]
    tags: dict[str, Json]
    worker: str
    run: str | None
    superseded: bool


class Trajectories(Struct):
    """A page of trajectories."""

    rows: list[TrajectoryRow]
    total: int
    """How many there are on all pages."""
    next: str | None
    """Give it as `after` to get the next page; None on the last."""
    older_runs: OlderRuns


class Count(Struct):
    """One value and how many trajectories have it."""

    value: str
    count: int
    where: str
    """The filter that means it, such as `flag = 'prefix_break'`."""


class Facet(Struct):
    """The values of one field, the most frequent first."""

    field: str
    """status, fate, flag, tool, validate or tag.NAME"""
    values: list[Count]
    more: int
    """How many further values there are."""


class Histogram(Struct):
    """How the numbers of a field are spread: counts[i] of them are from edges[i] up to edges[i+1]."""

    field: str
    """reward, response_tokens, turns or duration_s"""
    edges: list[float]
    counts: list[int]
    missing: int
    """How many trajectories have no such number."""
    not_finite: int
    """How many have NaN or infinity."""


class Facets(Struct):
    """What can be narrowed down, over the trajectories that match the filter."""

    total: int
    facets: list[Facet]
    histograms: list[Histogram]


class Sql(Struct):
    """A listing as one SELECT over the documented views."""

    sql: str


class FilterCheck(Struct, omit_defaults=True):
    """Whether a filter can be understood."""

    valid: bool
    detail: str | None = None
    """What is wrong."""
    position: int | None = None
    length: int | None = None
    hint: str | None = None
    matching: int | None = None
    """How many trajectories match, if `count` was asked for."""


class CompletionOption(Struct, omit_defaults=True):
    """One thing that could stand at the cursor."""

    text: str
    """What to put in the place of start to end."""
    kind: Literal["field", "operator", "value", "keyword"]
    detail: str = ""
    """What a field means."""
    count: int | None = None
    """How many trajectories have this value."""


class Completion(Struct):
    """What could stand at the cursor of a filter."""

    start: int
    """The text from here ..."""
    end: int
    """... to here is replaced."""
    options: list[CompletionOption]


class SampleStep(Struct):
    """One step of a sample."""

    step: int | None
    size: int
    mean: Number | None
    best: str | None
    """Id of the trajectory with the highest reward."""
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
    """Size of its inputs and outputs as JSON."""
    flags: list[str]


class ScoreValue(Struct):
    """One time that a score was given."""

    value: Number | None
    label: str | None
    reason: str | None
    terms: dict[str, Json]
    time_ns: int
    worker: str | None


class Score(Struct):
    """A score by its name."""

    name: str
    newest: ScoreValue
    history: list[ScoreValue]
    """All, the oldest first, the newest included."""


class Finding(Struct):
    """A problem that a check found, and where."""

    flag: str
    meaning: str
    op_id: str | None
    turn: int | None
    token: int | None
    """Where in the token sequence, if it is known."""
    detail: Json


class Elsewhere(Struct):
    """The same sample in another experiment of the project."""

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


class TrajectoryHead(Struct):
    """A trajectory without its payloads."""

    row: TrajectoryRow
    traceback: str | None
    parent_trajectory_id: str | None
    parent_op_id: str | None
    children: list[str]
    """Ids of the trajectories that were begun inside it."""
    siblings: list[Cell]
    """All rollouts of its group, itself included."""
    over_steps: list[SampleStep]
    elsewhere: list[Elsewhere]
    outline: list[OutlineOp]
    """Each op before its children."""
    scores: list[Score]
    """reward first, then by name."""
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
    """Of its op, if there is one."""
    duration_s: float | None = None
    op_id: str | None = None


class Message(Struct):
    """One message of the conversation."""

    index: int
    role: str
    name: str | None
    parts: list[Part]
    calls: list[ToolCall]
    """The tool calls of an assistant, each with its result; those results are no messages of their own."""
    op_id: str | None
    """The model call that produced it."""
    turn: int | None
    tokens: int | None
    duration_s: float | None
    logprob_mean: Number | None
    policy_version: int | None
    finish_reason: str | None
    flags: list[str]


class Conversation(Struct):
    """The messages of a trajectory; long texts are cut, `/message/{index}` has them whole."""

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
    """What stands there now."""
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
    """How many tokens the model produced."""
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
    earlier: list[dict[str, Json]]
    """What later words on this step replaced, the oldest first: `time_ns`, and each value as it was."""


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
    """The text of these tokens."""


class Differing(Struct):
    """An attribute or a score that is not the same in all."""

    name: str
    values: list[Json]


class CompareColumn(Struct):
    """One of the trajectories compared."""

    row: TrajectoryRow
    turns: int
    parts_at_turn: int | None
    """Where it leaves the way of the best one; None if it does not."""


class Comparison(Struct):
    """Two to eight trajectories side by side."""

    columns: list[CompareColumn]
    rows: list[CompareRow]
    best: int
    """Which column has the highest reward."""
    identical: bool
    first_diverging_turn: int | None
    first_difference: Difference | None
    attributes: list[Differing]
    scores: list[Differing]


class LiveRow(Struct):
    """A trajectory in flight."""

    trajectory_id: str
    project: str
    experiment: str
    step: int | None
    sample_index: str | None
    rollout_n: int | None
    validate: bool
    name: str
    start_ns: int
    age_s: float
    current_op: str | None
    current_kind: str | None
    op_age_s: float | None
    op_p95_s: float | None
    """What 95 of 100 such ops of this experiment take at most; None with fewer than 5."""
    turns: int
    tool_calls: int
    tokens: int
    """Response tokens so far."""
    worker: str


class LiveWorker(Struct):
    """One process that records."""

    worker: str
    running: int
    finished: int
    """Trajectories that ended within the window."""
    tokens: int
    tool_calls: int
    tool_errors: int


class Live(Struct):
    """What runs right now, the oldest first."""

    rows: list[LiveRow]
    workers: list[LiveWorker]
    window_s: float
    """Over which time the rates are."""
    trajectories_per_min: float
    tokens_per_min: float
    tool_error_rate: float | None
    status: Status


class Match(Struct):
    """One place where a text was found."""

    op_id: str
    op_name: str
    turn: int | None
    where: Literal["payload", "tokens"]
    before: str
    match: str
    after: str
    offset: int
    """Of the match in that text, in characters."""


class SearchHit(Struct):
    """A trajectory in which a text was found."""

    row: TrajectoryRow
    matches: list[Match]
    """The first few."""
    ops: int
    """In how many ops."""


class Search(Struct):
    """A page of trajectories in which a text was found."""

    hits: list[SearchHit]
    next: str | None
    older_runs: OlderRuns


class JumpCandidate(Struct):
    """A place to go to."""

    kind: Literal["experiment", "step", "sample", "trajectory", "filter", "search", "page"]
    label: str
    detail: str
    href: str


class Jump(Struct):
    """Where a few letters could lead, the most likely first."""

    candidates: list[JumpCandidate]
