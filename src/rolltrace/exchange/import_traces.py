"""Reads traces that were fetched from another tool's server, in the one shape that its module writes them in.

A line is a trace: `id`, `name`, `start_ns`, `end_ns`, `status`, `error`, `tags`, `where` (coordinates, as numbers or
text), `scores` and `spans`, each with `id`, `parent`, `name`, `kind`, times, `status`, `error`, `inputs` and
`outputs`. A score has `name` and `value` and perhaps `terms`, `reason`, `author`, `time_ns` and `span`, the id of the
span that a text is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedPlace, ImportedRow, op_id
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import json_text

WHERE = ("step", "sample_index", "rollout_n", "validate")
"""The attributes or tags of a trace that are its coordinates, as verl's tracing and ours write them."""
_COLUMNS = ("name", "kind", "start_ns", "end_ns", "status", "error", "inputs", "outputs")
_ANSWERS = ("chat.completions", "messages.create", "messages.stream", "responses.create", "acompletion", "completion")


def write_traces(file: Path, traces: Iterable[dict[str, Any]]) -> Path:
    """Write what was fetched, a trace a line."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json_text(trace) + "\n" for trace in traces)
    return file


def kind_by_name(name: str) -> str:
    """What an op is, where nothing but its name tells: calls of the usual SDKs, and verl's `generate`."""
    last = name.rpartition("/")[2].partition(":")[0]
    return "llm" if last.endswith(_ANSWERS) or last.rpartition(".")[2] == "generate" else "other"


def reader_of(tool: str, source: Source) -> LineReader:
    """A reader of fetched traces."""

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        trace_id = record.get("id")
        if not isinstance(trace_id, str):
            raise fields.Malformed("a trace has no id")
        where = fields.number_again(fields.inside(record, "where"))
        where["validate"] = where.get("validate") in (True, "true")
        place = ImportedPlace.read(where, *source.target.named(), validate=source.target.validate)
        place = place._replace(trajectory_id=source.id_of(tool, trace_id))
        spans, start_ns = fields.objects(record, "spans"), record.get("start_ns")
        draft = Draft(place, str(record.get("name")), start_ns if isinstance(start_ns, int) else source.start_ns(line))
        op_ids = {span.get("id"): op_id(place.trajectory_id, number) for number, span in enumerate(spans)}
        for span in spans:
            columns: dict[str, Any] = {name: span.get(name) for name in _COLUMNS}
            parent_id = op_ids.get(span.get("parent")) if span.get("parent") != span.get("id") else None
            draft.op(**columns, parent_id=parent_id, is_open=columns["end_ns"] is None)
        _add_scores(draft, fields.objects(record, "scores"), op_ids)
        outcome = {name: record.get(name) for name in ("error", "status", "end_ns")}
        return draft.finish(fields.inside(record, "tags"), is_open=outcome["end_ns"] is None, **outcome)

    return read


def _add_scores(draft: Draft, scores: list[dict[str, Any]], op_ids: dict[Any, int]) -> None:
    """`NAME/TERM` is a term of the score NAME."""
    terms: dict[str, dict[str, Any]] = {}
    for score in scores:
        name, slash, term = str(score.get("name")).partition("/")
        if slash and fields.is_number(score.get("value")):
            terms.setdefault(name, {})[term] = float(score["value"])
    for score in scores:
        name, value = str(score.get("name")), score.get("value")
        if "/" in name or value is None:
            continue
        told = {key: score[key] for key in ("reason", "time_ns") if score.get(key)}
        if fields.is_number(value):
            draft.score(name, value, {**terms.get(name, {}), **(score.get("terms") or {})}, **told)
        else:
            about = op_ids.get(score.get("span"))
            draft.score(name, label=str(value), author=score.get("author"), op_id=about, **told)
