"""Where a text occurs: in what ops were given and gave, in decoded tokens and in transitions, with a bit of text around
it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rolltrace.errors import QueryError
from rolltrace.query.filter_lexer import full_quote
from rolltrace.query.paging import Page, trajectory_page
from rolltrace.query.scope import Row, Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_AROUND = 80
_MOST_MATCHES = 5
"""Of one trajectory."""
_LONGEST = 500
_OPS = """
SELECT trajectory_id, op_id, name, kind, start_ns,
    contains(lower(payload), lower(?)) OR contains(lower(payload), lower(?)) AS in_payload,
    contains(lower(text), lower(?)) AS in_text,
    CASE WHEN in_payload THEN payload END AS payload, CASE WHEN in_text AND NOT in_payload THEN text END AS text
FROM _spans_with_text WHERE trajectory_id IN ({marks}) AND (in_payload OR in_text) ORDER BY start_ns, op_id
"""
_STEPS = """
SELECT trajectory_id, op_id, 'transition' AS name, time_ns AS start_ns, trace
FROM _transitions
WHERE trajectory_id IN ({marks}) AND (contains(lower(trace), lower(?)) OR contains(lower(trace), lower(?)))
ORDER BY time_ns
"""
_TURNS = "SELECT trajectory_id, op_id, start_ns FROM _spans WHERE trajectory_id IN ({marks}) AND kind = 'llm'"


@dataclass(frozen=True)
class SearchPage:
    """What `search_text` gives."""

    hits: list[Row]
    """row: of the listing; matches: op_id, op_name, turn, where, before, match, after, offset; ops: in how many ops and
    transitions."""
    page: Page


def search_text(
    store: Store, text: str, scope: Scope | None = None, *, after: str | None = None, limit: int = 20
) -> SearchPage:
    """The trajectories of a scope in which a text occurs, the newest step first; letters are the same large and small.

    Raises:
        QueryError: the text is empty or very long.
    """
    if not text.strip() or len(text) > _LONGEST:
        raise QueryError(f"search for 1 to {_LONGEST} characters, not {len(text)}")
    scope = scope or Scope()
    condition = f"text ~ {full_quote(text)}"
    where = f"({scope.where}) and {condition}" if scope.where else condition
    page = trajectory_page(
        store, replace(scope, where=where), order="-step,sample_index,rollout_n", after=after, limit=limit
    )
    ids = [row["trajectory_id"] for row in page.rows]
    if not ids:
        return SearchPage([], page)
    steps = {row["step"] for row in page.rows}
    only = next(iter(steps)) if len(steps) == 1 else None
    marks = ", ".join("?" * len(ids))
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    ops = store._ask(_OPS.format(marks=marks), [text, escaped, text, *ids], only).rows()
    ops += store._ask(_STEPS.format(marks=marks), [*ids, text, escaped], only).rows()
    turns: dict[str, list[int]] = {each: [] for each in ids}
    for row in store._ask(_TURNS.format(marks=marks), ids, only):
        turns[row["trajectory_id"]].append(row["start_ns"])
    hits = []
    for row in page.rows:
        own = [op for op in ops if op["trajectory_id"] == row["trajectory_id"]]
        matches = [_match(op, text, escaped, turns[row["trajectory_id"]]) for op in own[:_MOST_MATCHES]]
        hits.append({"row": row, "matches": [each for each in matches if each is not None], "ops": len(own)})
    return SearchPage(hits, page)


def _match(op: Row, text: str, escaped: str, turns: list[int]) -> Row | None:
    names = {"payload": "payload", "text": "tokens", "trace": "transition"}
    where, body = next((where, op[column]) for column, where in names.items() if op.get(column) is not None)
    forms = (text,) if where == "tokens" else (text, escaped)
    matches = [each for form in forms if (each := re.search(re.escape(form), body, re.IGNORECASE))]
    if not matches:
        return None
    at, end = min(each.span() for each in matches)
    before, match, after = body[max(0, at - _AROUND) : at], body[at:end], body[end : end + _AROUND]
    if where != "tokens":
        before, match, after = _readable(before), _readable(match), _readable(after)
    turn = sum(start <= op["start_ns"] for start in turns) - 1
    return {
        "op_id": op["op_id"],
        "op_name": op["name"],
        "turn": turn if turn >= 0 else None,
        "where": where,
        "before": before,
        "match": match,
        "after": after,
        "offset": at,
    }


def _readable(text: str) -> str:
    """A piece of JSON text without the escapes of line ends and quotes."""
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\")
