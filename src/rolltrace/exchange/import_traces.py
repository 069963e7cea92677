"""Reads traces that were fetched from another tool's server, in the one shape that its module writes them in.

A line is a trace: `id`, `name`, `start_ns`, `end_ns`, `status`, `error`, `tags`, `where` (coordinates, as numbers or
text), `scores` and `spans`, each with `id`, `parent`, `name`, `kind`, times, `status`, `error`, `inputs` and
`outputs`. A score has `name` and `value` and perhaps `terms`, `reason`, `author`, `time_ns` and `span`, the id of the
span that a text is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rolltrace.drain import take_columns
from rolltrace.errors import MissingExtraError
from rolltrace.exchange.import_rows import (
    ImportedPlace,
    ImportedRow,
    Malformed,
    is_number,
    listed,
    number_again,
    op_id,
    row,
    sample,
    whole,
)
from rolltrace.exchange.importer import Line, LineReader, Source, place_of
from rolltrace.exchange.text import json_text
from rolltrace.record import SCORES, SPANS, TRAJECTORIES

_ANSWERS = ("chat.completions", "messages.create", "messages.stream", "responses.create", "acompletion", "completion")


def write_traces(file: Path, traces: Iterable[dict[str, Any]]) -> Path:
    """Write what was fetched, a trace a line."""
    with file.open("w", encoding="utf-8") as out:
        for trace in traces:
            out.write(json_text(trace) + "\n")
    return file


def missing(package: str) -> MissingExtraError:
    """What to say when the client of the other tool is not installed."""
    return MissingExtraError(f"this format needs {package}; install it: pip install {package}")


def kind_by_name(name: str) -> str:
    """What an op is, where nothing but its name tells: calls of the usual SDKs, and verl's `generate`."""
    last = name.rpartition("/")[2].partition(":")[0]
    return "llm" if last.endswith(_ANSWERS) or last.rpartition(".")[2] == "generate" else "other"


def reader_of(tool: str, source: Source) -> LineReader:
    """A reader of fetched traces."""
    source.target.named()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        trace_id, where = record.get("id"), record.get("where")
        if not isinstance(trace_id, str):
            raise Malformed("a trace has no id")
        place = _place(source, line, source.id_of(tool, trace_id), where)
        columns = ("name", "start_ns", "end_ns", "status", "error", "tags")
        own = {name: record.get(name) for name in columns}
        spans, end_ns = listed(record, "spans"), record.get("end_ns") or record.get("start_ns")
        numbers = {span.get("id"): number for number, span in enumerate(spans)}
        rows = [row(TRAJECTORIES, place, own), *_spans(place, spans, numbers)]
        rows += _scores(place, listed(record, "scores"), numbers, end_ns)
        return rows

    return read


def _place(source: Source, line: Line, trajectory_id: str, where: Any) -> ImportedPlace:
    coordinates = {name: number_again(value) for name, value in where.items()} if isinstance(where, dict) else {}
    return place_of(
        source, line, trajectory_id,
        step=whole(coordinates.get("step"), "step"), sample_index=sample(coordinates.get("sample_index")),
        rollout_n=whole(coordinates.get("rollout_n"), "rollout_n"),
        validate=source.target.validate or coordinates.get("validate") in (True, "true", "True"),
    )  # fmt: skip


def _spans(place: ImportedPlace, spans: list[dict[str, Any]], numbers: dict[Any, int]) -> Iterator[ImportedRow]:
    for number, span in enumerate(spans):
        inputs, outputs = span.get("inputs"), span.get("outputs")
        fields = take_columns(inputs, outputs) if span.get("kind") in ("llm", "aux_llm") else {}
        parent = numbers.get(span.get("parent"))
        fields.update({name: span.get(name) for name in ("name", "kind", "start_ns", "end_ns", "status", "error")})
        fields.update(
            op_id=op_id(place.trajectory_id, number),
            parent_id=None if parent is None or parent == number else op_id(place.trajectory_id, parent),
        )
        yield row(SPANS, place, {**fields, "inputs": inputs, "outputs": outputs})


def _scores(
    place: ImportedPlace, scores: list[dict[str, Any]], numbers: dict[Any, int], time_ns: Any
) -> Iterator[ImportedRow]:
    """`NAME/TERM` is a term of the score NAME."""
    terms: dict[str, dict[str, Any]] = {}
    for score in scores:
        name, slash, term = str(score.get("name")).partition("/")
        if slash and is_number(score.get("value")):
            terms.setdefault(name, {})[term] = float(score["value"])
    for score in scores:
        name, value = str(score.get("name")), score.get("value")
        if "/" in name or value is None:
            continue
        columns = {"name": name, "reason": score.get("reason"), "time_ns": score.get("time_ns") or time_ns}
        if is_number(value):
            parts = {**terms.get(name, {}), **(score.get("terms") or {})}
            yield row(SCORES, place, {**columns, "value": value, "terms": parts})
        else:
            number = numbers.get(score.get("span"))
            about = None if number is None else op_id(place.trajectory_id, number)
            yield row(SCORES, place, {**columns, "label": str(value), "author": score.get("author"), "op_id": about})
