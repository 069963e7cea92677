"""Every endpoint once: its path, what it is asked, what it answers. Routes and OpenAPI are made from this table."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from rolltrace.query.model import comparison, lists, store
from rolltrace.query.model import trajectory as told
from rolltrace.view import requests


class Endpoint(NamedTuple):
    """One GET endpoint."""

    name: str
    """Of the handler in `view.api`, and the operationId."""
    path: str
    request: type[Struct]
    answer: type[Struct] | str
    """A response type; or a media type, for what is no typed JSON."""
    summary: str


_T = "/api/trajectory/{trajectory_id}"
ENDPOINTS = (
    Endpoint("status", "/api/status", requests.Nothing, store.Status, "The store as a whole"),
    Endpoint("experiments", "/api/experiments", requests.Nothing, store.Experiments, "All experiments"),
    Endpoint("experiment", "/api/experiment", requests.ExperimentRequest, store.Experiment, "Series over the steps"),
    Endpoint("groups", "/api/groups", requests.PageRequest, lists.Groups, "A page of groups"),
    Endpoint(
        "group_records", "/api/group_records", requests.ScopeRequest, lists.GroupRecords, "Records of whole groups"
    ),
    Endpoint("trajectories", "/api/trajectories", requests.PageRequest, lists.Trajectories, "A page of trajectories"),
    Endpoint("sql", "/api/sql", requests.SqlRequest, lists.Sql, "A listing as one SELECT over the documented views"),
    Endpoint("facets", "/api/facets", requests.ScopeRequest, lists.Facets, "Counts and histograms"),
    Endpoint(
        "filter_check", "/api/filter/check", requests.FilterCheckRequest, lists.FilterCheck, "Is this filter right?"
    ),
    Endpoint(
        "filter_complete",
        "/api/filter/complete",
        requests.FilterCompleteRequest,
        lists.Completion,
        "What could stand at the cursor of a filter",
    ),
    Endpoint("trajectory", _T, requests.Nothing, told.TrajectoryHead, "A trajectory without its payloads"),
    Endpoint("conversation", f"{_T}/conversation", requests.ConversationRequest, told.Conversation, "Its messages"),
    Endpoint(
        "message",
        f"{_T}/message/{{index}}",
        requests.ConversationRequest,
        told.Message,
        "One message, nothing cut",
    ),
    Endpoint("tokens", f"{_T}/tokens", requests.TokensRequest, told.TokenRange, "A range of its token sequence"),
    Endpoint("op", f"{_T}/op/{{op_id}}", requests.Nothing, told.OpDetail, "One op with its payload, bounded"),
    Endpoint("branch", f"{_T}/op/{{op_id}}/branch", requests.BranchRequest, told.Branch, "A part of a payload"),
    Endpoint("op_raw", f"{_T}/op/{{op_id}}/raw", requests.Nothing, "application/json", "The whole op, to download"),
    Endpoint("transitions", f"{_T}/transitions", requests.Nothing, told.Transitions, "Its environment steps"),
    Endpoint("raw", f"{_T}/raw", requests.Nothing, "application/json", "Its record as JSON, bounded"),
    Endpoint("blob", "/api/blob/{hash}", requests.Nothing, "image/*", "An image"),
    Endpoint("compare", "/api/compare", requests.CompareRequest, comparison.Comparison, "Trajectories side by side"),
    Endpoint(
        "share", "/api/share", requests.ShareRequest, "text/html", "Pages with their data in one file, to download"
    ),
    Endpoint("live", "/api/live", requests.Nothing, store.Live, "What runs right now"),
    Endpoint("events", "/api/events", requests.Nothing, "text/event-stream", "`live` events, each a Live as JSON"),
    Endpoint("search", "/api/search", requests.SearchRequest, lists.Search, "Where a text occurs"),
    Endpoint("jump", "/api/jump", requests.JumpRequest, lists.Jump, "Where a few letters could lead"),
)
