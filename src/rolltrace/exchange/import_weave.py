"""Reads calls of a Weave project, through Weave's own HTTP interface: no client is needed.

What is named is a project, `ENTITY/NAME` or `NAME`; WANDB_API_KEY, WANDB_BASE_URL and WF_TRACE_SERVER_URL say where it
is, as for the backend. All calls of a trace are a trajectory. Coordinates are the attributes `step`, `sample_index`,
`rollout_n` and `validate` of its calls, as verl's tracing and ours write them. Feedback becomes scores and labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rolltrace.backends import load
from rolltrace.exchange.fields import inside, number_again, pick, time_of
from rolltrace.exchange.import_traces import WHERE, kind_by_name, reader_of, write_traces
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.record import OP_KINDS

_AT_ONCE = 50
_REACTION, _NOTE, _SCORER = "wandb.reaction.1", "wandb.note.1", "wandb.runnable."
_PREFIXES = (_SCORER, "wandb.annotation.")
"""What comes before the name of a scorer, or of what people are asked to say, in the type of feedback."""
_IN_ORDER = [{"field": "started_at", "direction": "asc"}]


def fetch(address: str, folder: Path) -> Path:
    """Fetch the traces of a project into a file."""
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
        whole = {"filter": {"trace_ids": list(traces)}, "sort_by": _IN_ORDER, "include_feedback": True}
        for call in ask(whole):
            traces.setdefault(str(call["trace_id"]), []).append(call)
        yield from (_trace(trace_id, calls) for trace_id, calls in traces.items() if calls)
        offset += len(roots)


def _trace(trace_id: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    root = next((call for call in calls if not call.get("parent_id")), calls[0])
    where: dict[str, Any] = {}
    for call in calls:
        where = {**pick(inside(call, "attributes"), *WHERE), **where}
    spans = [_span(call) for call in calls]
    own = spans[calls.index(root)]
    tags = {
        name: value for name, value in inside(root, "attributes").items() if name not in (*WHERE, "weave", "wb_run_id")
    }
    return {
        **{name: own[name] for name in ("name", "start_ns", "end_ns", "status", "error")},
        "id": trace_id,
        "where": where,
        "tags": {**tags, "weave_trace": trace_id},
        "spans": spans,
        "scores": [score for call in calls for score in _scores(call, is_root=call is root)],
    }


def _span(call: dict[str, Any]) -> dict[str, Any]:
    op_name = str(call.get("op_name") or "call").rpartition("/")[2].partition(":")[0]
    kind = inside(call, "attributes").get("kind")
    start_ns = time_of(call.get("started_at")) or 1
    failed = call.get("exception")
    return {
        "id": call.get("id"),
        "parent": call.get("parent_id"),
        "name": str(call.get("display_name") or op_name),
        "kind": kind if kind in OP_KINDS else kind_by_name(op_name),
        "start_ns": start_ns,
        "end_ns": time_of(call.get("ended_at")) or start_ns,
        "status": "error" if failed else "ok",
        "error": str(failed) if failed else None,
        "inputs": call.get("inputs"),
        "outputs": call.get("output"),
    }


def _scores(call: dict[str, Any], *, is_root: bool) -> Iterator[dict[str, Any]]:
    """What scorers and people said of a call. Numbers about a call inside have its name before theirs, since a score is
    about the whole trajectory; a text is about the op."""
    span = _span(call)
    for feedback in inside(call, "summary", "weave").get("feedback") or ():
        kind, payload = str(feedback.get("feedback_type")), feedback.get("payload")
        prefix = next((each for each in _PREFIXES if kind.startswith(each)), "")
        name, verdict = kind.removeprefix(prefix), payload if isinstance(payload, dict) else {"value": payload}
        if kind == _REACTION:
            name, verdict = str(verdict.get("alias") or verdict.get("emoji") or "reaction").strip(":"), {"value": "yes"}
        elif kind == _NOTE:
            name, verdict = "note", {"value": verdict.get("note")}
        elif prefix == _SCORER:
            output = verdict.get("output")
            verdict = output if isinstance(output, dict) else {"value": output}
            verdict = {key: number_again(value, digits=False) for key, value in verdict.items()}
        author = None if prefix == _SCORER else feedback.get("creator") or feedback.get("wb_user_id") or "weave"
        about = {"reason": verdict.get("reason"), "author": author, "time_ns": time_of(feedback.get("created_at"))}
        about["span"] = None if is_root else span["id"]
        for each, value in _values(name, verdict):
            is_text = isinstance(value, str)
            terms = verdict.get("terms") if each == name and isinstance(verdict.get("terms"), dict) else None
            yield {
                **about,
                "name": each if is_root or is_text else f"{span['name']}.{each}",
                "value": value,
                "terms": terms,
            }


def _values(name: str, verdict: dict[str, Any]) -> list[tuple[str, Any]]:
    """A value of its own, as ours and most scorers have it, else each part that is one."""
    own = next((verdict[key] for key in ("value", "label") if verdict.get(key) is not None), None)
    parts = {name: own} if own is not None else {f"{name}.{key}": value for key, value in verdict.items()}
    plain = {key: float(value) if isinstance(value, bool) else value for key, value in parts.items()}
    return [(key, value) for key, value in plain.items() if isinstance(value, int | float | str)]
