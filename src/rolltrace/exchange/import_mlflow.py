"""Reads traces of an MLflow experiment, through MLflow's own client: a server, or a file such as `sqlite:///mlflow.db`.

What is named is an experiment, by its name or id; MLFLOW_TRACKING_URI says where it is. Coordinates are the tags
`step`, `sample_index`, `rollout_n` and `validate`, as verl's tracing and ours write them. Feedback becomes scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.errors import ConfigError, MissingExtraError
from rolltrace.exchange.import_traces import WHERE, kind_by_name, reader_of, write_traces
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.text import parse_if_json

_KINDS = {"CHAT_MODEL": "llm", "LLM": "llm", "TOOL": "tool", "EVALUATOR": "reward"}
_AT_ONCE = 50
_NANOSECONDS = 1_000_000


def fetch(address: str, folder: Path) -> Path:
    """Fetch the traces of an experiment into a file."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise MissingExtraError("this format needs mlflow; install it: pip install mlflow") from None
    client = MlflowClient()
    try:
        experiment = client.get_experiment_by_name(address)
        experiment = client.get_experiment(address) if experiment is None and address.isdecimal() else experiment
        if experiment is None:
            raise ConfigError(f"MLflow has no experiment {address!r} at {client.tracking_uri}; see MLFLOW_TRACKING_URI")
        return write_traces(folder / f"{experiment.experiment_id}.jsonl", _traces(client, experiment.experiment_id))
    except MlflowException as error:
        raise ConfigError(f"MLflow at {client.tracking_uri}: {error.message}") from None


def reader(source: Source) -> LineReader:
    """A reader of what was fetched."""
    return reader_of("mlflow", source)


def _traces(client: Any, experiment_id: str) -> Iterator[dict[str, Any]]:
    token = None
    while True:
        page = client.search_traces(
            locations=[experiment_id], max_results=_AT_ONCE, page_token=token, order_by=["timestamp_ms ASC"]
        )
        yield from map(_trace, page)
        token = page.token
        if not token:
            return


def _trace(trace: Any) -> dict[str, Any]:
    info, spans = trace.info, trace.data.spans
    tags = dict(info.tags)
    root = next((span for span in spans if span.parent_id is None), None)
    start_ns = info.request_time * _NANOSECONDS if root is None else root.start_time_ns
    taken_ns = (info.execution_duration or 0) * _NANOSECONDS
    failed = _has_failed(info.state)
    error = root.status.description if root is not None and failed else None
    return {
        "id": info.trace_id,
        "name": tags.pop("mlflow.traceName", None) or (root.name if root is not None else "trace"),
        "start_ns": start_ns,
        "end_ns": start_ns + taken_ns if root is None else root.end_time_ns,
        "status": "error" if failed else "ok",
        "error": error or ("failed" if failed else None),
        "where": {name: tags.pop(name) for name in WHERE if name in tags},
        "tags": {
            **{name: value for name, value in tags.items() if not name.startswith("mlflow.")},
            "mlflow_trace": info.trace_id,
        },
        "spans": [_span(span) for span in spans],
        "scores": [_score(each) for each in info.assessments or () if getattr(each, "feedback", None) is not None],
    }


def _span(span: Any) -> dict[str, Any]:
    failed = _has_failed(span.status.status_code)
    return {
        "id": span.span_id,
        "parent": span.parent_id,
        "name": span.name,
        "kind": _KINDS.get(span.span_type or "") or kind_by_name(span.name),
        "start_ns": span.start_time_ns,
        "end_ns": span.end_time_ns,
        "status": "error" if failed else "ok",
        "error": (span.status.description or "failed") if failed else None,
        "inputs": _plain(span.inputs),
        "outputs": _plain(span.outputs),
    }


def _has_failed(state: Any) -> bool:
    return str(getattr(state, "value", state)) == "ERROR"


def _score(assessment: Any) -> dict[str, Any]:
    return {"name": assessment.name, "value": assessment.feedback.value, "reason": assessment.rationale}


def _plain(value: Any) -> Any:
    """What MLflow gives as values or, of older traces, as text."""
    return parse_if_json(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
