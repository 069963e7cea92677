"""The one request that writes: who may send it, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from rolltrace.view import Writing
from tests.view.conftest import serving

Serve = Callable[..., httpx.Client]


@pytest.fixture(scope="module")
def harmed(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(demo_store, tmp_path_factory.mktemp("written") / "copy"))


@pytest.fixture(scope="module")
def writable(harmed: Path) -> Iterator[httpx.Client]:
    """A client of a server of that copy."""
    with serving(harmed) as made:
        yield made


def some_trajectory(client: httpx.Client) -> str:
    return str(client.get("/api/trajectories", params={"limit": 1}).json()["rows"][0]["trajectory_id"])


def label(client: httpx.Client, headers: dict[str, str] | None = None, **other: object) -> httpx.Response:
    own = {"Origin": str(client.base_url).rstrip("/"), "X-Rolltrace": "write", **(headers or {})}
    body = {"trajectory_ids": [other.pop("id", None) or some_trajectory(client)], "name": "hack", "value": "yes"}
    sent = {name: value for name, value in own.items() if value}
    return client.post("/api/label", json={**body, **other}, headers=sent)


def test_a_page_of_ours_labels_and_everybody_sees_it(writable: httpx.Client) -> None:
    trajectory = some_trajectory(writable)
    assert label(writable, id=trajectory, author="ann").json() == {"trajectories": 1, "author": "ann"}
    head = writable.get(f"/api/trajectory/{trajectory}").json()
    assert [(each["name"], each["author"], each["counts"]) for each in head["labels"]] == [("hack", "ann", True)]
    assert writable.get("/api/trajectories", params={"where": "label.hack"}).json()["total"] == 1
    facets = writable.get("/api/facets").json()["facets"]
    assert {"value": "hack", "count": 1, "where": "label.hack"} in [
        value for facet in facets if facet["field"] == "label" for value in facet["values"]
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"X-Rolltrace": ""},
        {"X-Rolltrace": "read"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Host": "evil.example"},
    ],
)
def test_what_another_site_could_send_is_refused(writable: httpx.Client, headers: dict[str, str]) -> None:
    assert label(writable, headers, name="forged").status_code in (403, 421)
    assert writable.get("/api/trajectories", params={"where": "label.forged"}).json()["total"] == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_nothing_else_can_be_written(client: httpx.Client, method: str) -> None:
    for path in ("/api/status", "/api/trajectories", "/", "/api/label/", "/api//label"):
        assert client.request(method, path).status_code == 405


@pytest.mark.parametrize(
    "other",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 1000},
        {"name": "reward"},
        {"name": "note", "value": "x" * 50_000},
        {"op_id": "../../etc"},
        {"op_id": "7"},
        {"trajectory_ids": []},
        {"trajectory_ids": ["../../etc/passwd"]},
        {"trajectory_ids": ["f" * 32]},
        {"trajectory_ids": "all"},
        {"unknown": 1},
        {"value": 3},
        {"author": "\x00"},
        {"name": "hack", "value": None},
    ],
)
def test_a_body_that_makes_no_sense_is_a_problem_not_a_fault(client: httpx.Client, other: dict[str, object]) -> None:
    answer = label(client, **other)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["detail"]


def test_a_body_without_end_is_cut_off(client: httpx.Client) -> None:
    headers = {"Origin": str(client.base_url).rstrip("/"), "X-Rolltrace": "write", "Content-Type": "application/json"}
    answer = client.post("/api/label", content=b"[" * 1_000_000, headers=headers)
    assert (answer.status_code, "at most 128 kB" in answer.text) == (400, True)


def test_a_server_that_only_reads_says_so(serve: Serve, harmed: Path) -> None:
    client = serve(harmed, writing=Writing(read_only=True))
    assert "only reads" in client.get("/api/status").json()["read_only"]
    answer = label(client)
    assert (answer.status_code, answer.json()["error"]) == (403, "read_only")
