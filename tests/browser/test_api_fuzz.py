"""The HTTP API, fuzzed from its own OpenAPI description: arguments that fit it, and others. No answer is a fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from rolltrace.view.openapi import document
from tests.nightly import nightly
from tests.view.conftest import serving

schema = schemathesis.openapi.from_dict(document())
reads = schema.include(method="GET").exclude(path="/api/events")  # has no end
writes = schema.include(method="POST")
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def known(demo_store: Path) -> Iterator[dict[str, Any]]:
    """A server, and things that it has: what is made up is never found."""
    with serving(demo_store) as client:
        rows = client.get("/api/trajectories", params={"limit": 3}).json()["rows"]
        trajectory_id = rows[0]["trajectory_id"]
        outline = client.get(f"/api/trajectory/{trajectory_id}").json()["outline"]
        yield {
            "address": str(client.base_url).rstrip("/"),
            "path": {"trajectory_id": trajectory_id, "op_id": outline[0]["op_id"], "index": "0"},
            "query": {"project": rows[0]["project"], "experiment": rows[0]["experiment"],
                      "ids": ",".join(row["trajectory_id"] for row in rows)},
        }  # fmt: skip


@reads.parametrize()
@settings(max_examples=nightly(400, 12), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_a_fault_of_the_server(case: Any, known: dict[str, Any]) -> None:
    if len(str(case.query)) % 2:  # every other one about something that exists
        for name in set(case.path_parameters or {}) & set(known["path"]):
            case.path_parameters[name] = known["path"][name]
        for name in set(case.query or {}) & set(known["query"]):
            case.query[name] = known["query"][name]
    answer = case.call(base_url=known["address"], timeout=60)
    case.validate_response(answer, checks=CHECKS)


@pytest.fixture(scope="module")
def written(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A server with a token, of a copy that may be written to, and what its pages send with a request that writes."""
    store = shutil.copytree(demo_store, tmp_path_factory.mktemp("fuzzed") / "copy")
    with serving(store, token=TOKEN) as client:
        address, sent = str(client.base_url).rstrip("/"), {"Authorization": f"Bearer {TOKEN}"}
        rows = client.get("/api/trajectories", params={"limit": 2}, headers=sent).json()["rows"]
        outline = client.get(f"/api/trajectory/{rows[0]['trajectory_id']}", headers=sent).json()["outline"]
        yield {
            "address": address,
            "headers": {**sent, "Origin": address, "X-Rolltrace": "write"},
            "body": {"trajectory_ids": [row["trajectory_id"] for row in rows], "op_id": outline[0]["op_id"]},
        }


@pytest.mark.timeout(600)  # each label is on the disk before it is answered
@writes.parametrize()
@settings(max_examples=nightly(1000, 30), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_that_writes_is_a_fault_of_the_server(case: Any, written: dict[str, Any]) -> None:
    case.headers.update(written["headers"])
    if isinstance(case.body, dict):
        size = len(str(case.body))
        if size % 4:  # most are about something that exists
            case.body["trajectory_ids"] = written["body"]["trajectory_ids"][: 1 + size % 2]
        if "op_id" in case.body and size % 2:
            case.body["op_id"] = written["body"]["op_id"]
        if size % 3:  # and most would be written, but for one thing
            case.body |= {"name": "hack", "value": "yes"}
            case.body.pop("op_id" if size % 5 else "author", None)
    answer = case.call(base_url=written["address"], timeout=60)
    case.validate_response(answer, checks=CHECKS)
