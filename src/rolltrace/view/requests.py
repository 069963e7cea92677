"""What the server is asked: the arguments of every endpoint once. OpenAPI's parameters are generated from here.

Arguments come as text; `msgspec.convert(..., strict=False)` makes them numbers and booleans and says what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Limit = Annotated[int, Meta(ge=1, le=1000)]


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
    """Only this run."""
    all_runs: bool = False
    """Older attempts at a step too."""
    where: str | None = None
    """A filter (docs/reference/filter.md)."""
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
    """`next` of the page before."""
    limit: Limit = 200


class SqlRequest(ScopeRequest, kw_only=True):
    """A listing to be written as SQL."""

    listing: Literal["experiments", "steps", "groups", "trajectories"]
    order: str | None = None


class FilterCheckRequest(ScopeRequest, kw_only=True):
    """A filter to check."""

    count: bool = False
    """Say how many trajectories match."""


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
    """A JSON list of keys and indexes."""
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
    """The user who runs the server if not given."""
    op_id: str | None = None
    """What it is about, if not the whole trajectory."""


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
