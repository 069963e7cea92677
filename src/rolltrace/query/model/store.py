"""The store as a whole: problems, status, experiments with their runs and steps, what is running now."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rolltrace.query.model import Number

State = Literal["recording", "ended", "interrupted"]
Pace = Literal["unknown", "fine", "slow", "hung"]
Kind = Literal["llm", "aux_llm", "tool", "env", "reward", "other"]


class Problem(Struct, omit_defaults=True):
    """Why there is no answer."""

    error: str
    """In a word: not_found, bad_request, filter, forbidden, unauthorized, timeout, store, internal."""
    detail: str
    position: int | None = None
    """Of a filter: the index of the character at which it went wrong."""
    length: int | None = None
    hint: str | None = None
    """What to do or type next."""


class Unreadable(Struct):
    """A file that cannot be read; the rest of the store is shown."""

    file: str
    reason: str


class Status(Struct):
    """The store as a whole: what the frame around every page shows."""

    store_name: str
    store_path: str
    version: str
    experiments: int
    running: int
    lost: int
    """How many records were lost; what was pruned or sampled out is not counted."""
    recording: bool
    incomplete: list[Unreadable]
    read_only: str | None
    """Why nothing can be written here, neither labels nor notes; None if they can."""
    author: str
    """Who labels are from, if the browser names nobody."""
    labels: list[str]
    """The labels of the keys 1 to 9, if the browser has no others set up."""
    stores: list[str]
    """The names of all stores that the server shows, if there are several."""
    now_ns: int


class Written(Struct):
    """What a request that writes did."""

    trajectories: int
    author: str


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

    store: str | None
    """In which store it is, if the list is of several: its address begins with /s/NAME."""

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
    flags: dict[str, int]
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
    terms: dict[str, list[Number | None]]
    pass_rate: list[float | None]
    zero_variance_share: list[float | None]
    response_tokens_p50: list[float | None]
    response_tokens_p95: list[float | None]
    turns_mean: list[float | None]
    tool_calls_mean: list[float | None]
    tool_error_rate: list[float | None]
    truncated_share: list[float | None]
    duration_s_p50: list[float | None]
    duration_s_p95: list[float | None]
    duration_s_max: list[float | None]
    staleness_mean: list[float | None]
    flags: dict[str, list[int]]
    lost: list[int]


class Passing(Struct):
    """What pass means in one experiment."""

    project: str
    experiment: str
    term: str | None
    threshold: float | None
    """None if nobody has chosen: then a reward above 0 counts."""
    title: str
    """What a figure is called: `pass`, or `reward > 0` if nobody has chosen and rewards are not all 0 or 1."""
    text: str
    """`pass: correct >= 1`, `pass: reward = 1` or `reward > 0`."""
    problem: str | None
    """Why nothing can be said to pass: no reward has the term."""


class Experiment(Struct):
    """An experiment over its steps."""

    project: str
    experiment: str
    state: State
    training: Series
    validation: Series
    reward_range: list[float] | None
    """Smallest and largest finite reward of all steps: one colour scale. None without rewards."""
    passing: Passing | None
    """What `pass_rate` is the rate of; None without trajectories."""
    runs: list[Run]
    older_runs: OlderRuns


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
    idle_s: float | None
    """How long it has been between ops; None while it is in one."""
    idle_p95_s: float | None
    """How long 95 of 100 times between ops of this experiment are at most; None with fewer than 5."""
    pace: Pace
    """Slow is longer than usual, hung ten times as long and more than five seconds."""
    turns: int
    tool_calls: int
    tokens: int
    worker: str


class LiveWorker(Struct):
    """One process that records."""

    worker: str
    running: int
    finished: int
    tokens: int
    tool_calls: int
    tool_errors: int


class Live(Struct):
    """What runs right now, the oldest first."""

    rows: list[LiveRow]
    workers: list[LiveWorker]
    window_s: float
    trajectories_per_min: float
    tokens_per_min: float
    tool_error_rate: float | None
    snapshot_age_s: float | None
    """How long ago the drainers looked at what runs: ages are as of then. None if none runs."""
    status: Status
