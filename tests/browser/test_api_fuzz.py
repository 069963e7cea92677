"""The HTTP API, fuzzed from its own OpenAPI description: arguments that fit it, and others. No answer is a fault."""

from __future__ import annotations

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

schema = schemathesis.openapi.from_dict(document()).exclude(path="/api/events")  # has no end


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


@schema.parametrize()
@settings(max_examples=nightly(400, 12), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_a_fault_of_the_server(case: Any, known: dict[str, Any]) -> None:
    if len(str(case.query)) % 2:  # every other one about something that exists
        for name in set(case.path_parameters or {}) & set(known["path"]):
            case.path_parameters[name] = known["path"][name]
        for name in set(case.query or {}) & set(known["query"]):
            case.query[name] = known["query"][name]
    answer = case.call(base_url=known["address"], timeout=60)
    case.validate_response(answer, checks=[not_a_server_error, content_type_conformance, response_schema_conformance])
