"""What a set of trajectories can be narrowed down by: values with counts, and histograms of numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rolltrace.query.filter_lexer import full_quote
from rolltrace.query.model.lists import Count, Facet, Facets, Histogram
from rolltrace.query.model.rows import passing
from rolltrace.query.scope import Row, Scope, Selected
from rolltrace.query.views import judged_select

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

HISTOGRAMS = ("reward", "response_tokens", "turns", "duration_s")
_BINS = 20
_MAX_VALUES = 20
_MAX_TAGS = 12
_MAX_VALUE_CHARS = 200

_COUNTS = f"""
SELECT field, value, count(*) AS n, count(*) OVER (PARTITION BY field) AS more
FROM ({{values}}) WHERE value IS NOT NULL AND length(value) <= {_MAX_VALUE_CHARS} GROUP BY field, value
QUALIFY row_number() OVER (PARTITION BY field ORDER BY count(*) DESC, value) <= {_MAX_VALUES} ORDER BY n DESC, value
"""
_FIELDS = """
SELECT 'status' AS field, status AS value FROM selected
UNION ALL SELECT 'fate', fate FROM selected
UNION ALL SELECT 'flag', unnest(flags) FROM selected
UNION ALL SELECT 'label', unnest(labels) FROM selected
UNION ALL SELECT 'validate', validate::VARCHAR FROM selected
UNION ALL SELECT 'passed', _passed::VARCHAR FROM ({judged})
UNION ALL SELECT 'tool', name FROM (
    SELECT DISTINCT s.trajectory_id, s.name FROM ops s SEMI JOIN selected USING (trajectory_id) WHERE s.kind = 'tool'
)
"""
_TAGS = """
SELECT * FROM (
    SELECT field, json_extract(tags, '/' || replace(replace(field, '~', '~0'), '/', '~1'))::VARCHAR AS value
    FROM (SELECT tags, unnest(json_keys(tags)) AS field FROM selected WHERE tags IS NOT NULL)
) WHERE value[1] NOT IN ('{', '[')
"""


def facets_of(store: Store, scope: Scope) -> Facets:
    """Counts of status, pass, fate, flag, label, tool, validation, tags, and histograms, over a scope."""
    meanings, selected = scope.passing(store), scope.selected()
    by_field: dict[str, list[Row]] = {
        name: [] for name in ("status", "passed", "flag", "label", "tool", "fate", "validate")
    }
    judged = judged_select(store._engine.pass_rules, scope.rule, "selected")
    for row in selected.ask(store, _COUNTS.format(values=_FIELDS.format(judged=judged))):
        by_field[row["field"]].append({**row, "where": _where(row["field"], row["value"])})
    tags: dict[str, list[Row]] = {}
    for row in selected.ask(store, _COUNTS.format(values=_TAGS)):
        value = json.loads(row["value"])
        if value is not None:
            text = value if isinstance(value, str) else row["value"]
            tag = f"tag.{_name(row['field'])}"
            condition = f"{tag} = {full_quote(value)}"
            tags.setdefault(tag, []).append({**row, "value": text, "where": condition})
    frequent = sorted(tags, key=lambda tag: -sum(row["n"] for row in tags[tag]))[:_MAX_TAGS]
    every = {**by_field, **{tag: tags[tag] for tag in frequent}}
    histograms, total = _histograms(store, selected)
    facets = [_facet(field, rows) for field, rows in every.items() if rows]
    return Facets(total, facets, histograms, [passing(each) for each in meanings])


def _facet(field: str, rows: list[Row]) -> Facet:
    values = [Count(row["value"], row["n"], row["where"]) for row in rows]
    return Facet(field, values, rows[0]["more"] - len(rows))


def _where(field: str, value: str) -> str:
    if field == "label":
        return f"label.{_name(value)}"
    return f"{field} = {value if field in ('validate', 'passed') else full_quote(value)}"


def _name(tag: str) -> str:
    return tag if tag.isidentifier() else full_quote(tag)


def _histograms(store: Store, selected: Selected) -> tuple[list[Histogram], int]:
    figures = ", ".join(
        f"min({name}) FILTER (isfinite({name}::DOUBLE)) AS {name}_min, "
        f"max({name}) FILTER (isfinite({name}::DOUBLE)) AS {name}_max, "
        f"count(*) FILTER ({name} IS NULL) AS {name}_missing, "
        f"count(*) FILTER (NOT isfinite({name}::DOUBLE)) AS {name}_not_finite"
        for name in HISTOGRAMS
    )
    (row,) = selected.ask(store, f"SELECT count(*) AS total, {figures} FROM {{rows}}")
    edges = {
        name: _edges(name, float(row[f"{name}_min"]), float(row[f"{name}_max"]))
        for name in HISTOGRAMS
        if row[f"{name}_min"] is not None
    }
    counts: dict[str, dict[int, int]] = {name: {} for name in edges}
    if edges:
        parts = " UNION ALL ".join(_bins(name, of_name) for name, of_name in edges.items())
        for found in selected.ask(store, parts):
            counts[found["field"]][found["bin"]] = found["n"]
    histograms = [
        Histogram(
            name,
            edges.get(name, []),
            [counts[name].get(at, 0) for at in range(len(edges[name]) - 1)] if name in edges else [],
            row[f"{name}_missing"],
            row[f"{name}_not_finite"],
        )
        for name in HISTOGRAMS
    ]
    return histograms, row["total"]


def _bins(name: str, edges: list[float]) -> str:
    """SQL: how many trajectories are in which bin."""
    place = f"floor(({name} - {edges[0]!r}::DOUBLE) / {edges[1] - edges[0]!r}::DOUBLE)"
    return (
        f"SELECT '{name}' AS field, greatest(0, least({len(edges) - 2}, {place}))::INT AS bin, count(*) AS n "
        f"FROM selected WHERE isfinite({name}::DOUBLE) GROUP BY bin"
    )


def _edges(name: str, low: float, high: float) -> list[float]:
    """Edges of equally wide bins; of whole numbers, bins of a whole number of them."""
    if name in ("turns", "response_tokens"):
        width = max(1, -(-int(high - low + 1) // _BINS))
        count = max(1, -(-int(high - low + 1) // width))
        return [low + width * at for at in range(count + 1)]
    if low == high:
        return [low - 0.5, low + 0.5]
    return [low + (high - low) * at / _BINS for at in range(_BINS + 1)]
