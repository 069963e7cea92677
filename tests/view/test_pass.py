"""What pass means, over HTTP: asked for in a request, stored by a page, the same in every answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolltrace
from rolltrace.query import open_store
from rolltrace.view import Writing
from tests.view.conftest import serving

PLACE = {"project": "p", "experiment": "e"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One of four right answers; all rewards are above 0."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for n, (reward, correct) in enumerate(((1.2, 1.0), (0.9, 0.0), (0.5, 0.0), (0.3, 0.0))):
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=n) as trajectory:
            pass
        rolltrace.score(trajectory, "reward", reward, terms={"correct": correct})
    rolltrace.shutdown()
    return tmp_path


@pytest.fixture
def client(store: Path) -> Iterator[httpx.Client]:
    with serving(store) as made:
        yield made


def get(client: httpx.Client, path: str, **arguments: Any) -> Any:
    answer = client.get(path, params={**PLACE, **arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()


def choose(client: httpx.Client, headers: dict[str, str] | None = None, **choice: Any) -> httpx.Response:
    own = {"Origin": str(client.base_url).rstrip("/"), "X-Rolltrace": "write", **(headers or {})}
    return client.post("/api/pass", json={**PLACE, **choice}, headers=own)


def figures(client: httpx.Client, **asked: Any) -> tuple[float, int, str, int]:
    """Pass rate, passed rollouts of the group, the rule, and the count of the facet; each answer says the same rule."""
    experiment, groups, facets = (get(client, f"/api/{name}", **asked) for name in ("experiment", "groups", "facets"))
    (group,), (passing,), (of_facets,) = groups["rows"], groups["passing"], facets["passing"]
    assert experiment["passing"] == passing == of_facets
    (facet,) = [each for each in facets["facets"] if each["field"] == "passed"]
    count = next(value["count"] for value in facet["values"] if value["value"] == "true")
    return experiment["training"]["pass_rate"][0], group["passed"], passing["text"], count


def test_a_request_may_say_what_pass_means(client: httpx.Client) -> None:
    assert figures(client) == (1.0, 4, "reward > 0", 4)
    assert figures(client, threshold=0.9) == (0.5, 2, "pass: reward >= 0.9", 2)
    assert figures(client, term="correct") == (0.25, 1, "pass: correct >= 1", 1)
    found = get(client, "/api/trajectories", where="passed = true", term="correct")
    assert found["total"] == 1


def test_a_page_stores_what_pass_means_and_takes_it_back(client: httpx.Client, store: Path) -> None:
    before = client.get("/api/groups", params=PLACE)
    written = choose(client, term="correct")
    assert written.status_code == 200, written.text
    assert (written.json()["text"], written.json()["title"]) == ("pass: correct >= 1", "pass")
    assert figures(client) == (0.25, 1, "pass: correct >= 1", 1)
    again = client.get("/api/groups", params=PLACE, headers={"If-None-Match": before.headers["etag"]})
    assert again.status_code == 200
    assert open_store(store).pass_meanings()[0].text == "pass: correct >= 1"
    assert choose(client).json()["text"] == "reward > 0"
    assert figures(client) == (1.0, 4, "reward > 0", 4)


def test_a_term_that_does_not_exist_is_a_problem_with_the_nearest_name(client: httpx.Client) -> None:
    for answer in (
        choose(client, term="corect"),
        *(
            client.get(f"/api/{name}", params={**PLACE, "term": "corect"})
            for name in ("groups", "experiment", "facets")
        ),
    ):
        assert answer.status_code == 400
        assert "has the term 'corect'; did you mean 'correct'?" in answer.json()["detail"]


@pytest.mark.parametrize("choice", [{"threshold": "much"}, {"term": 3}, {"experiment": "x"}, {"unknown": 1}])
def test_a_choice_that_makes_no_sense_is_a_problem(client: httpx.Client, choice: dict[str, Any]) -> None:
    answer = choose(client, **choice)
    assert answer.status_code in (400, 404)
    assert answer.json()["detail"]


def test_another_site_cannot_choose(client: httpx.Client) -> None:
    assert choose(client, {"Origin": "http://evil.example"}, threshold=0.5).status_code == 403
    assert figures(client)[2] == "reward > 0"


def test_a_server_that_only_reads_refuses_and_says_what_to_type(store: Path) -> None:
    with serving(store, writing=Writing(read_only=True)) as client:
        answer = choose(client, threshold=0.5)
        assert answer.status_code == 403
        assert answer.json()["hint"] == "rolltrace groups --term NAME --save"
