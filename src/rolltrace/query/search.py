"""Where a text occurs in what was said: each message once, with a bit of text around it, and how often in each step.

The table `messages` holds each message once, however many prompts repeat it, so one pass over it finds every place.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

from rolltrace.errors import QueryError
from rolltrace.query.columns import TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.model.lists import Match, Search, SearchHit, SearchStep
from rolltrace.query.model.rows import listing_row, short_name, typed
from rolltrace.query.model.store import OlderRuns
from rolltrace.query.paging import read_key, write_key
from rolltrace.query.scope import Row, Scope, order_of, whole
from rolltrace.query.trajectory import summaries
from rolltrace.tables import Place

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

MAX_MATCHES = 5
"""Of one trajectory."""
MAX_CHARS = 500
"""Of a text to search for."""
_AROUND = 80
_TEXT_COLUMNS: dict[str, Literal["text", "reasoning", "call"]] = {
    "text": "text", "reasoning": "reasoning", "calls": "call"
}  # fmt: skip
"""Column of `messages` -> what a match in it is called."""
_FOUND = """
hits AS MATERIALIZED (
    SELECT trajectory_id, count(DISTINCT message_id) AS hits FROM _message_rows WHERE {matches} GROUP BY trajectory_id
), found AS MATERIALIZED (
    SELECT t.trajectory_id, t.project, t.experiment, t.step, h.hits, row_number() OVER (ORDER BY {order}) AS place
    FROM selected t JOIN hits h USING (trajectory_id)
)"""
_PAGE = """
SELECT trajectory_id, f.place, project, experiment, step, hits, NULL AS trajectories
FROM found f, (SELECT {begin} AS place) b WHERE f.place > b.place AND f.place <= b.place + {limit} + 1
UNION ALL
SELECT NULL, NULL, project, experiment, step, sum(hits)::BIGINT, count(*) FROM found GROUP BY project, experiment, step
ORDER BY place NULLS LAST, project, experiment, step DESC
"""
_MESSAGES = """
WITH best AS MATERIALIZED (
    SELECT trajectory_id, seq, op_id, role, turn, text, reasoning, calls
    FROM messages WHERE trajectory_id IN ({marks}) AND {matches}
    QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY seq) <= {most}
)
SELECT b.*, coalesce(o.name, b.role) AS op_name
FROM best b LEFT JOIN (SELECT op_id, name FROM ops WHERE trajectory_id IN ({marks})) o USING (op_id)
ORDER BY b.trajectory_id, b.seq
"""


def search_text(
    store: Store, text: str, scope: Scope | None = None, *, after: str | None = None, limit: int = 20
) -> Search:
    """The trajectories of a scope in which a text occurs, the newest step first; letters are the same large and small.

    Searched is what was said: texts of messages, reasoning, tool calls and their results.

    Raises:
        QueryError: the text is empty or very long.
    """
    if not text.strip() or len(text) > MAX_CHARS:
        raise QueryError(f"search for 1 to {MAX_CHARS} characters, not {len(text)}")
    scope = scope or Scope()
    limit = whole("limit", limit)
    matches, patterns = _condition(text)
    begin, key = "0", list[Any]()
    if after is not None:
        place, key = read_key(after, 1)
        begin = f"coalesce((SELECT place FROM found WHERE trajectory_id = ?), {place})"
    order = order_of(
        "-step,sample_index,rollout_n", "trajectories", TRAJECTORY_COLUMNS, ("start_ns", "trajectory_id"),
        TRAJECTORY_HEADERS,
    )  # fmt: skip
    sql = _PAGE.format(begin=begin, limit=limit)
    rows = scope.selected().ask(store, sql, *patterns, *key, before=(_FOUND.format(matches=matches, order=order),))
    steps = [row for row in rows if row["place"] is None]
    found = [row for row in rows if row["place"] is not None]
    more, found = len(found) > limit, found[:limit]
    counts = {row["trajectory_id"]: row["hits"] for row in found}
    places = frozenset(Place(row["project"], row["experiment"], row["step"]) for row in found)
    listed = summaries(store, list(counts), places)
    by_id = _matches(store, text, list(counts), places)
    return Search(
        hits=[
            SearchHit(listing_row(row), by_id.get(row["trajectory_id"], []), counts[row["trajectory_id"]])
            for row in listed
        ],
        total=sum(row["trajectories"] for row in steps),
        steps=[typed(SearchStep, row) for row in steps],
        next=write_key(found[-1]["place"], [found[-1]["trajectory_id"]]) if more else None,
        older_runs=typed(OlderRuns, scope.older_runs(store)),
    )


def _condition(text: str) -> tuple[str, list[str]]:
    """SQL that holds for messages in which the text occurs, and its parameters."""
    forms = [(column, form) for column in _TEXT_COLUMNS for form in _forms(text, column)]
    tests = " OR ".join(f"regexp_matches({column}, '(?i)' || regexp_escape(?))" for column, _ in forms)
    return f"kind = 'message' AND ({tests})", [form for _, form in forms]


def _forms(text: str, column: str) -> list[str]:
    """The text as it may stand in a column. Calls are JSON, and their arguments are JSON in it again."""
    if column != "calls":
        return [text]
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    return list(dict.fromkeys((text, once, json.dumps(once, ensure_ascii=False)[1:-1])))


def _matches(store: Store, text: str, ids: list[str], places: frozenset[Place]) -> dict[str, list[Match]]:
    if not ids:
        return {}
    matches, patterns = _condition(text)
    by_id: dict[str, list[Match]] = {}
    sql = _MESSAGES.format(matches=matches, most=MAX_MATCHES, marks=", ".join("?" * len(ids)))
    for row in store._ask(sql, [*ids, *patterns, *ids], places, plain=True).rows():
        match = _match(row, text)
        if match is not None:
            by_id.setdefault(row["trajectory_id"], []).append(match)
    return by_id


def _match(row: Row, text: str) -> Match | None:
    """The first place in a message."""
    for column, where in _TEXT_COLUMNS.items():
        forms = [re.escape(form) for form in _forms(text, column)]
        places = [place for form in forms if (place := re.search(form, row[column] or "", re.IGNORECASE))]
        if places:
            body, (start, end) = row[column], min(place.span() for place in places)
            pieces = (body[max(0, start - _AROUND) : start], body[start:end], body[end : end + _AROUND])
            before, match, after = map(_readable, pieces) if column == "calls" else pieces
            op_id = None if row["op_id"] is None else str(row["op_id"])
            return Match(op_id, short_name(row["op_name"]), row["turn"], where, before, match, after, start)
    return None


def _readable(text: str) -> str:
    """A piece of JSON in JSON without the escapes of line ends and quotes."""
    for _ in range(2):
        text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\")
    return text
