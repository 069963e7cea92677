"""Reads calls of a Weave project, through Weave's own HTTP interface: no client is needed.

What is named is a project, `ENTITY/NAME` or `NAME`; WANDB_API_KEY, WANDB_BASE_URL and WF_TRACE_SERVER_URL say where it
is, as for the backend. All calls of a trace are a trajectory. Coordinates are the attributes `step`, `sample_index`,
`rollout_n` and `validate` of its calls, as verl's tracing and ours write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rolltrace.backends import load
from rolltrace.exchange.import_traces import kind_by_name, reader_of, write_traces
from rolltrace.exchange.import_turns import time_of
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.record import OP_KINDS

_WHERE = ("step", "sample_index", "rollout_n", "validate")
_AT_ONCE = 50
_IN_ORDER = [{"field": "started_at", "direction": "asc"}]


def fetch(address: str, folder: Path) -> Path:
    """Fetch the traces of a project into a file.

    Raises:
        BackendError: there is no key, or the server refuses it.
    """
    weave: Any = load("weave")  # the backend knows where Weave is and how to ask it
    return write_traces(folder / "weave.jsonl", _traces(partial(weave.calls_in, address)))


def reader(source: Source) -> LineReader:
    """A reader of what was fetched."""
    return reader_of("weave", source)


def _traces(ask: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        page = {"limit": _AT_ONCE, "offset": offset}
        roots = ask({"filter": {"trace_roots_only": True}, "sort_by": _IN_ORDER, **page})
        if not roots:
            return
        traces: dict[str, list[dict[str, Any]]] = {str(root["trace_id"]): [] for root in roots}
        for call in ask({"filter": {"trace_ids": list(traces)}, "sort_by": _IN_ORDER}):
            traces.setdefault(str(call["trace_id"]), []).append(call)
        yield from (_trace(trace_id, calls) for trace_id, calls in traces.items() if calls)
        offset += len(roots)


def _trace(trace_id: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    root = next((call for call in calls if not call.get("parent_id")), calls[0])
    where: dict[str, Any] = {}
    for call in calls:
        told = _attributes(call)
        where = {**{name: told[name] for name in _WHERE if told.get(name) is not None}, **where}
    spans = [_span(call) for call in calls]
    own = spans[calls.index(root)]
    tags = {name: value for name, value in _attributes(root).items() if name not in (*_WHERE, "weave", "wb_run_id")}
    return {
        **{name: own[name] for name in ("name", "start_ns", "end_ns", "status", "error")},
        "id": trace_id,
        "where": where,
        "tags": {**tags, "weave_trace": trace_id},
        "spans": spans,
        "scores": [],
    }


def _span(call: dict[str, Any]) -> dict[str, Any]:
    op_name = str(call.get("op_name") or "call").rpartition("/")[2].partition(":")[0]
    told = _attributes(call).get("kind")
    start_ns = time_of(call.get("started_at")) or 1
    failed = call.get("exception")
    return {
        "id": call.get("id"),
        "parent": call.get("parent_id"),
        "name": str(call.get("display_name") or op_name),
        "kind": told if told in OP_KINDS else kind_by_name(op_name),
        "start_ns": start_ns,
        "end_ns": time_of(call.get("ended_at")) or start_ns,
        "status": "error" if failed else "ok",
        "error": str(failed) if failed else None,
        "inputs": call.get("inputs"),
        "outputs": call.get("output"),
    }


def _attributes(call: dict[str, Any]) -> dict[str, Any]:
    attributes = call.get("attributes")
    return attributes if isinstance(attributes, dict) else {}
