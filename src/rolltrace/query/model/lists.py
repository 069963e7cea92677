"""Lists of groups and trajectories, and what narrows them down: facets, filters, search, jumps."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rolltrace.query.model import Json, Number
from rolltrace.query.model.store import OlderRuns, Passing


class Cell(Struct):
    """One rollout of a group."""

    trajectory_id: str
    rollout_n: int | None
    reward: Number | None
    status: str
    """ok, error, cancelled, running, interrupted"""
    truncated: bool
    flags: list[str]
    labels: list[str]
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
    mean: Number | None
    std: Number | None
    min: Number | None
    max: Number | None
    spread: Number | None
    best: str | None
    worst: str | None
    passed: int | None
    """How many passed; None if no reward has the term that decides."""
    pass_rate: float | None
    pass_rule: str
    """What passed means: `correct >= 1`."""
    zero_variance: bool
    response_tokens_mean: float | None
    response_tokens_min: int | None
    response_tokens_max: int | None
    turns_mean: float | None
    duration_s_max: float | None
    flags: list[str]
    errors: int
    cells: list[Cell]


class GroupRecord(Struct):
    """What was recorded for all rollouts of a group together, such as comparisons. It is no rollout."""

    trajectory_id: str
    step: int | None
    sample_index: str | None
    validate: bool
    run: str | None
    name: str
    status: str
    """ok, error, cancelled, running, interrupted"""
    start_ns: int
    duration_s: float | None
    ops: int
    errors: int


class GroupRecords(Struct):
    """The records of groups, the oldest first."""

    records: list[GroupRecord]


class GroupTotals(Struct):
    """Over all pages."""

    groups: int
    trajectories: int
    reward_mean: Number | None
    zero_variance_share: float | None


class ListingPage(Struct):
    """Some rows of a listing."""

    next: str | None
    """Give it as `after` to get the next page; None on the last."""
    older_runs: OlderRuns
    notices: list[str]
    """Names in the filter that nothing in the store has, most likely misspelt."""


class Groups(ListingPage):
    """A page of groups."""

    rows: list[GroupRow]
    totals: GroupTotals
    passing: list[Passing]


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
    labels: list[str]
    tags: dict[str, Json]
    worker: str
    run: str | None
    superseded: bool


class Trajectories(ListingPage):
    """A page of trajectories."""

    rows: list[TrajectoryRow]
    total: int


class Sql(Struct):
    """A listing as one SELECT over the documented views."""

    sql: str


class Count(Struct):
    """One value and how many trajectories have it."""

    value: str
    count: int
    where: str
    """The filter that means it, such as `flag = 'prefix_break'`."""


class Facet(Struct):
    """The values of one field, the most frequent first."""

    field: str
    """status, fate, flag, label, tool, validate or tag.NAME"""
    values: list[Count]
    more: int


class Histogram(Struct):
    """How the numbers of a field are spread: counts[i] of them are from edges[i] up to edges[i+1]."""

    field: str
    edges: list[float]
    counts: list[int]
    missing: int
    not_finite: int
    """How many have NaN or infinity."""


class Facets(Struct):
    """What can be narrowed down, over the trajectories that match the filter."""

    total: int
    facets: list[Facet]
    histograms: list[Histogram]
    passing: list[Passing]


class FilterCheck(Struct, omit_defaults=True):
    """Whether a filter can be understood."""

    valid: bool
    detail: str | None = None
    position: int | None = None
    length: int | None = None
    hint: str | None = None
    """What to write instead; of a valid filter, which names in it nothing in the store has."""
    matching: int | None = None
    """How many trajectories match, if `count` was asked for."""


class CompletionOption(Struct, omit_defaults=True):
    """One thing that could stand at the cursor."""

    text: str
    """What to put in the place of start to end."""
    kind: Literal["field", "operator", "value", "keyword"]
    detail: str = ""
    count: int | None = None


class Completion(Struct):
    """What could stand at the cursor of a filter."""

    start: int
    """The text from here ..."""
    end: int
    """... to here is replaced."""
    options: list[CompletionOption]


class Match(Struct):
    """One place where a text was found."""

    op_id: str | None
    """None for a message that no op produced."""
    op_name: str
    """Of a message that no op produced: its role."""
    turn: int | None
    where: Literal["text", "reasoning", "call"]
    before: str
    match: str
    after: str
    offset: int
    """Of the match in that text, in characters."""


class SearchHit(Struct):
    """A trajectory in which a text was found."""

    row: TrajectoryRow
    matches: list[Match]
    ops: int
    """In how many messages."""


class SearchStep(Struct):
    """How often a text was found in a step."""

    project: str
    experiment: str
    step: int | None
    trajectories: int
    hits: int
    """In how many messages."""


class Search(Struct):
    """A page of trajectories in which a text was found."""

    hits: list[SearchHit]
    total: int
    """In how many trajectories, on all pages."""
    steps: list[SearchStep]
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
