"""Where a text occurs in what was said, with a bit of text around it; and where a few letters could lead.

The table `messages` holds each message once, however many prompts repeat it, so one pass over it finds every place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from rolltrace.errors import FilterError, QueryError
from rolltrace.query.columns import TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.filters import compile_where
from rolltrace.query.model.lists import JumpCandidate, Match, Search, SearchHit, SearchStep
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
_MAX_CANDIDATES = 6
_OF_COLUMN = f"""
SELECT t.project, t.experiment, t.{{column}} AS value, count(*) AS n FROM {{{{rows}}}}
AND starts_with(lower(t.{{column}}::VARCHAR), lower(?)) GROUP BY t.project, t.experiment, t.{{column}}
ORDER BY t.{{column}}::VARCHAR = ? DESC, length(t.{{column}}::VARCHAR), t.{{column}} LIMIT {_MAX_CANDIDATES}
"""
_OF_ID = f"""
SELECT trajectory_id, experiment, step, sample_index, rollout_n, _is_int FROM _listing
WHERE trajectory_id BETWEEN ? AND ? ORDER BY 1 LIMIT {_MAX_CANDIDATES}
"""
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


def jump_targets(store: Store, text: str, scope: Scope | None = None) -> list[JumpCandidate]:
    """What these letters could mean, the most likely first. Steps and samples are looked for in the experiment of the
    scope, samples in its step."""
    scope, text = scope or Scope(), text.strip()
    return list(_find(store, text, scope)) if text else []


def _find(store: Store, text: str, scope: Scope) -> Iterator[JumpCandidate]:
    quoted = quote(text, safe="")
    try:
        compile_where(text)
        yield JumpCandidate("filter", text, "filter", f"{_page_of(scope)}?where={quoted}")
    except FilterError:
        pass
    here = Scope(project=scope.project, experiment=scope.experiment)
    number = re.fullmatch(r"(?:step\s*)?(-?\d{1,18})", text, re.IGNORECASE)
    if number is not None and scope.experiment is not None:
        for row in here.selected().ask(store, _OF_COLUMN.format(column="step"), number[1], number[1]):
            page = _page_of(Scope(row["project"], row["experiment"], row["value"]))
            yield JumpCandidate("step", f"step {row['value']}", f"{row['n']} trajectories", page)
    if scope.experiment is not None and scope.step is not None:
        name = re.sub(r"^sample\s+", "", text, flags=re.IGNORECASE)
        of_step = Scope(project=scope.project, experiment=scope.experiment, step=scope.step)
        for row in of_step.selected().ask(store, _OF_COLUMN.format(column="sample_index"), name, name):
            page = _page_of(Scope(row["project"], row["experiment"], scope.step, row["value"] or ""))
            detail = f"{row['n']} rollouts in step {scope.step}"
            yield JumpCandidate("sample", f"sample {row['value']}", detail, page)
    prefix = text.lower()
    if re.fullmatch(r"[0-9a-f]{4,32}", prefix):
        for row in store._ask(_OF_ID, [prefix.ljust(32, "0"), prefix.ljust(32, "f")]):
            detail = f"{row['experiment']} step {row['step']} sample {row['sample_index']} rollout {row['rollout_n']}"
            yield JumpCandidate("trajectory", row["trajectory_id"][:8], detail, f"/t/{row['trajectory_id']}")
    named = [
        row for row in store.experiments() if text.casefold() in f"{row['project']}/{row['experiment']}".casefold()
    ]
    for row in reversed(named[-_MAX_CANDIDATES:]):
        label, page = f"{row['project']} / {row['experiment']}", _page_of(Scope(row["project"], row["experiment"]))
        yield JumpCandidate("experiment", label, f"{row['trajectories']} trajectories", page)
    place = {"project": scope.project, "experiment": scope.experiment}
    within = "".join(f"&{key}={quote(value, safe='')}" for key, value in place.items() if value is not None)
    yield JumpCandidate("search", text, "search all text", f"/search?q={quoted}{within}")


def _page_of(scope: Scope) -> str:
    """The address of the page of a scope: an experiment, a step or a sample."""
    if scope.experiment is None:
        return "/"
    address = f"/e/{_in_path(scope.project or '')}/{_in_path(scope.experiment)}"
    if scope.step is not None:
        address += f"/step/{scope.step}"
    return address if scope.sample_index is None else f"{address}/sample/{_in_path(str(scope.sample_index))}"


def _in_path(name: str) -> str:
    """A name as a part of a page's path: the rules of viewer/src/model/route.ts."""
    if name in ("", "~"):
        return "~" if name == "" else "%7E"
    if not name.strip("."):
        return name.replace(".", "%252E")
    return quote(name.replace("%", "%25").replace("/", "%2F"), safe="")
