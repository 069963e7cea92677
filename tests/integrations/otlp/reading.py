"""What a receiver has of a trajectory, through the receiver's own API, as the contract wants to see it."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone
from typing import Any

from rolltrace.testing import Seen, SeenOp

COORDINATES = ("project", "experiment", "step", "sample_index", "rollout_n", "validate")


def value(attributes: dict[str, Any], which: str) -> Any:
    """What was recorded, from `input.value` or `output.value`."""
    text = attributes.get(f"{which}.value")
    is_json = attributes.get(f"{which}.mime_type") == "application/json" and "[cut by" not in text
    return json.loads(text) if is_json else text


def seen(spans: list[dict[str, Any]]) -> Seen | None:
    """From spans with id, parent, name, failed, error, start_ns, end_ns and plain attributes."""
    roots = [span for span in spans if span["parent"] is None]
    if len(roots) != 1:
        return None
    (root,) = roots
    ops = [span for span in spans if span is not root and span["attributes"]["rl.kind"] != "score"]
    given = [root, *sorted((s for s in spans if s["attributes"].get("rl.kind") == "score"), key=_start)]
    rewards = [span["attributes"]["rl.reward"] for span in given if "rl.reward" in span["attributes"]]
    return Seen(
        [
            SeenOp(
                span["id"],
                None if span["parent"] == root["id"] else span["parent"],
                span["name"],
                span["failed"],
                span["inputs"],
                span["outputs"],
                span["error"],
                span["start_ns"],
                None if span["attributes"]["rl.status"] == "interrupted" else span["end_ns"],
            )
            for span in ops
        ],
        {"reward": rewards[-1]} if rewards else {},
        {name: str(root["attributes"].get(f"rl.{name}")) for name in COORDINATES},
        root["failed"],
    )


def _start(span: dict[str, Any]) -> int:
    return int(span["start_ns"])


def from_mlflow(client: Any, trajectory_id: str) -> Seen | None:
    """Through MlflowClient."""
    from mlflow.exceptions import MlflowException

    try:
        trace = client.get_trace(f"tr-{trajectory_id}")
    except MlflowException:
        return None
    return seen(
        [
            {
                "id": span.span_id,
                "parent": span.parent_id,
                "name": span.name,
                "failed": span.status.status_code.value == "ERROR",
                "error": span.status.description,
                "start_ns": span.start_time_ns,
                "end_ns": span.end_time_ns,
                "attributes": dict(span.attributes),
                "inputs": span.inputs,
                "outputs": span.outputs,
            }
            for span in trace.data.spans
        ]
    )


def get(url: str, **query: Any) -> Any:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query, doseq=True)}", timeout=60) as answer:
        return json.load(answer)


def phoenix_spans(url: str, project: str, **query: Any) -> list[dict[str, Any]]:
    """Through Phoenix's REST API."""
    try:
        found = get(f"{url}/v1/projects/{urllib.parse.quote(project)}/spans", limit=1000, **query)
    except urllib.error.HTTPError as fault:
        if fault.code == 404:  # no span of this project has come yet
            return []
        raise
    data: list[dict[str, Any]] = found["data"]
    return data


def phoenix_search(url: str, project: str, condition: str) -> set[str]:
    """The ids of the spans that a filter finds, as one types it into Phoenix's search bar."""
    spans = f"spans(first: 1000, filterCondition: {json.dumps(condition)}) {{ edges {{ node {{ spanId }} }} }}"
    query = {"query": f"{{ projects {{ edges {{ node {{ name {spans} }} }} }} }}"}
    request = urllib.request.Request(f"{url}/graphql", json.dumps(query).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        projects = json.load(answer)["data"]["projects"]["edges"]
    (found,) = [each["node"]["spans"]["edges"] for each in projects if each["node"]["name"] == project]
    return {edge["node"]["spanId"] for edge in found}


def from_phoenix(url: str, project: str, trajectory_id: str) -> Seen | None:
    spans = phoenix_spans(url, project, trace_id=trajectory_id)
    return seen(
        [
            {
                "id": span["context"]["span_id"],
                "parent": span["parent_id"],
                "name": span["name"],
                "failed": span["status_code"] == "ERROR",
                "error": span["status_message"],
                "start_ns": _ns(span["start_time"]),
                "end_ns": _ns(span["end_time"]),
                "attributes": span["attributes"],
                "inputs": value(span["attributes"], "input"),
                "outputs": value(span["attributes"], "output"),
            }
            for span in spans
        ]
    )


def _ns(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
