"""Every endpoint once: its path, what it is asked, what it answers. Routes and OpenAPI are made from this table.

Arguments come as text; `msgspec.convert(..., strict=False)` makes them numbers and booleans and says what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from rolltrace.errors import QueryError
from rolltrace.query.model import lists, store
from rolltrace.query.model import trajectory as told

Limit = Annotated[int, Meta(ge=1, le=1000)]


def whole_number(text: str) -> int:
    """The number of a message or the id of an op, which travel as text.

    Raises:
        QueryError: it is none.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise QueryError(f"a whole number is needed, not {text[:60]!r}")
    return int(text)


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


class ConversationRequest(Struct, forbid_unknown_fields=True):
    """How a conversation is told."""

    seen_by: int | None = None
    """A turn: the messages as this model call saw them. If not given, as they were produced."""


class ScopeRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which trajectories are meant."""

    project: str | None = None
    experiment: str | None = None
    step: int | None = None
    sample_index: str | None = None
    validate: bool | None = None
    run: str | None = None
    all_runs: bool = False
    where: str | None = None
    term: str | None = None
    """What pass means, with `threshold`, instead of what is stored with the experiment."""
    threshold: float | None = None


class ExperimentRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """One experiment."""

    project: str
    experiment: str
    run: str | None = None
    all_runs: bool = False
    term: str | None = None
    """What pass means, with `threshold`, instead of what is stored with the experiment."""
    threshold: float | None = None


class PageRequest(ScopeRequest, kw_only=True):
    """A page of a listing."""

    order: str | None = None
    """Columns to sort by, `-` before one for descending order: `-reward,step`."""
    after: str | None = None
    limit: Limit = 200


class SqlRequest(ScopeRequest, kw_only=True):
    """A listing to be written as SQL."""

    listing: Literal["experiments", "steps", "groups", "trajectories"]
    order: str | None = None


class FilterCheckRequest(ScopeRequest, kw_only=True):
    """A filter to check."""

    count: bool = False


class FilterCompleteRequest(ScopeRequest, kw_only=True):
    """A filter and where the cursor stands in it."""

    text: str = ""
    cursor: int | None = None
    """Characters (code points) before the cursor; the end if it is not given."""


class TokensRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A range of tokens."""

    start: Annotated[int, Meta(ge=0)] = 0
    end: Annotated[int, Meta(ge=0)] | None = None
    """To the end of the sequence if it is not given, at most 50,000 tokens at once."""


class BranchRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a payload."""

    part: Literal["inputs", "outputs"]
    path: str = "[]"
    offset: Annotated[int, Meta(ge=0)] = 0
    """Of a long list or text: leave out so many items or characters."""


class CompareRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Trajectories to compare."""

    ids: str
    """Two to eight ids, with commas between them."""


class ShareRequest(ScopeRequest, kw_only=True):
    """What a shared file is about: trajectories by their ids, or a group by its place."""

    ids: str | None = None
    """One id, or two to eight with commas between them."""


class SearchRequest(ScopeRequest, kw_only=True):
    """A text to search for."""

    q: str
    after: str | None = None
    limit: Limit = 20


class LabelRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of a request that gives a label or takes it back."""

    trajectory_ids: Annotated[list[str], Meta(min_length=1, max_length=100)]
    name: str
    """`note` is a note."""
    value: str | None
    """None takes back what the author said."""
    author: str | None = None
    op_id: str | None = None


class PassRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of a request that stores what pass means in an experiment."""

    project: str
    experiment: str
    term: str | None = None
    """The reward term that must reach the threshold, which is 1 if not given."""
    threshold: float | None = None
    """Without a term: the least reward that passes. With neither, the choice is taken back."""


class JumpRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """What was typed into the jump box, and where one is."""

    q: str = ""
    project: str | None = None
    experiment: str | None = None
    step: int | None = None


class Endpoint(NamedTuple):
    """One endpoint."""

    name: str
    """Of the handler in `view.api` if it only reads, and the operationId."""
    path: str
    request: type[Struct]
    answer: type[Struct] | str
    """A response type; or a media type, for what is no typed JSON."""
    summary: str


_T = "/api/trajectory/{trajectory_id}"
ENDPOINTS = (
    Endpoint("status", "/api/status", Nothing, store.Status, "The store as a whole"),
    Endpoint("experiments", "/api/experiments", Nothing, store.Experiments, "All experiments"),
    Endpoint("experiment", "/api/experiment", ExperimentRequest, store.Experiment, "Series over the steps"),
    Endpoint("groups", "/api/groups", PageRequest, lists.Groups, "A page of groups"),
    Endpoint("group_records", "/api/group_records", ScopeRequest, lists.GroupRecords, "Records of whole groups"),
    Endpoint("trajectories", "/api/trajectories", PageRequest, lists.Trajectories, "A page of trajectories"),
    Endpoint("sql", "/api/sql", SqlRequest, lists.Sql, "A listing as one SELECT over the documented views"),
    Endpoint("facets", "/api/facets", ScopeRequest, lists.Facets, "Counts and histograms"),
    Endpoint("filter_check", "/api/filter/check", FilterCheckRequest, lists.FilterCheck, "Is this filter right?"),
    Endpoint(
        "filter_complete",
        "/api/filter/complete",
        FilterCompleteRequest,
        lists.Completion,
        "What could stand at the cursor of a filter",
    ),
    Endpoint("trajectory", _T, Nothing, told.TrajectoryHead, "A trajectory without its payloads"),
    Endpoint("conversation", f"{_T}/conversation", ConversationRequest, told.Conversation, "Its messages"),
    Endpoint(
        "message",
        f"{_T}/message/{{index}}",
        ConversationRequest,
        told.Message,
        "One message, nothing cut",
    ),
    Endpoint("tokens", f"{_T}/tokens", TokensRequest, told.TokenRange, "A range of its token sequence"),
    Endpoint("op", f"{_T}/op/{{op_id}}", Nothing, told.OpDetail, "One op with its payload, bounded"),
    Endpoint("branch", f"{_T}/op/{{op_id}}/branch", BranchRequest, told.Branch, "A part of a payload"),
    Endpoint("op_raw", f"{_T}/op/{{op_id}}/raw", Nothing, "application/json", "The whole op, to download"),
    Endpoint("transitions", f"{_T}/transitions", Nothing, told.Transitions, "Its environment steps"),
    Endpoint("raw", f"{_T}/raw", Nothing, "application/json", "Its record as JSON, bounded"),
    Endpoint("blob", "/api/blob/{hash}", Nothing, "image/*", "An image"),
    Endpoint("compare", "/api/compare", CompareRequest, told.Comparison, "Trajectories side by side"),
    Endpoint("share", "/api/share", ShareRequest, "text/html", "Pages with their data in one file, to download"),
    Endpoint("live", "/api/live", Nothing, store.Live, "What runs right now"),
    Endpoint("events", "/api/events", Nothing, "text/event-stream", "`live` events, each a Live as JSON"),
    Endpoint("search", "/api/search", SearchRequest, lists.Search, "Where a text occurs"),
    Endpoint("jump", "/api/jump", JumpRequest, lists.Jump, "Where a few letters could lead"),
)
"""What is asked with GET."""
WRITES = (
    Endpoint("label", "/api/label", LabelRequest, store.Written, "Give labels or a note, or take them back"),
    Endpoint("pass", "/api/pass", PassRequest, store.Passing, "Store what pass means in an experiment"),
)
"""What is asked with POST, its request being the body: see `view.writes`."""
