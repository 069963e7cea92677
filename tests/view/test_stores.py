"""A server of several stores: which of them a request is about, and what they say together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolltrace
from rolltrace.view.stores import names_of
from tests.view.conftest import serving


def written(folder: Path, experiment: str, reward: float) -> Path:
    for name in (experiment, "both"):
        rolltrace.init("p", name, "rolltrace", store=folder, quiet=True)

        @rolltrace.rollout_trace_op(name="generate", kind="llm")
        def generate(messages: list[dict[str, str]]) -> dict[str, str]:
            return {"role": "assistant", "content": f"answer of {experiment}"}

        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=0) as trajectory:
            generate([{"role": "user", "content": "question"}])
            trajectory.reward(reward)
        rolltrace.shutdown()
    return folder


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("stores")
    stores = [written(folder / "A", "one", 0.25), written(folder / "B", "two", 0.75)]
    with serving(stores) as made:
        yield made


def ask(client: httpx.Client, path: str, **arguments: Any) -> Any:
    answer = client.get(path, params=arguments)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(client: httpx.Client, store: str, experiment: str) -> str:
    rows = ask(client, f"/s/{store}/api/trajectories", experiment=experiment)["rows"]
    return str(rows[0]["trajectory_id"])


def test_experiments_of_all_are_listed_with_their_store(client: httpx.Client) -> None:
    rows = ask(client, "/api/experiments")["rows"]
    assert {(row["store"], row["experiment"]) for row in rows} == {
        ("A", "one"), ("A", "both"), ("B", "two"), ("B", "both"),
    }  # fmt: skip
    assert {row["experiment"] for row in ask(client, "/s/B/api/experiments")["rows"]} == {"two", "both"}
    status = ask(client, "/api/status")
    assert (status["stores"], status["experiments"], status["store_name"]) == (["A", "B"], 4, "A, B")
    assert ask(client, "/s/A/api/status")["experiments"] == 2


def test_an_address_without_a_store_means_the_only_one_that_has_it(client: httpx.Client) -> None:
    trajectory = ids(client, "B", "two")
    assert ask(client, f"/api/trajectory/{trajectory}")["row"]["experiment"] == "two"
    assert ask(client, "/api/experiment", project="p", experiment="one")["training"]["reward_mean"] == [0.25]
    several = client.get("/api/experiment", params={"project": "p", "experiment": "both"})
    assert (several.status_code, "/s/A/ or /s/B/" in several.json()["detail"]) == (400, True)
    assert ask(client, "/s/B/api/experiment", project="p", experiment="both")["training"]["reward_mean"] == [0.75]
    assert client.get("/api/experiment", params={"project": "p", "experiment": "none"}).status_code == 404
    assert client.get("/s/C/api/status").status_code == 404


def test_trajectories_of_two_stores_are_compared(client: httpx.Client) -> None:
    first, second = ids(client, "A", "both"), ids(client, "B", "both")
    for address, asked in (("/api", f"{first},{second}"), ("/s/A/api", f"{first},B:{second}")):
        comparison = ask(client, f"{address}/compare", ids=asked)
        assert [column["store"] for column in comparison["columns"]] == ["A", "B"]
        assert comparison["best"] == 1
        assert comparison["first_diverging_turn"] == 0


def test_the_same_sample_is_found_in_the_other_store(client: httpx.Client) -> None:
    head = ask(client, f"/s/A/api/trajectory/{ids(client, 'A', 'one')}")
    assert {(each["store"], each["experiment"]) for each in head["elsewhere"]} == {
        (None, "both"), ("B", "both"), ("B", "two"),
    }  # fmt: skip


def test_a_label_is_written_into_the_store_of_its_trajectory(client: httpx.Client) -> None:
    trajectory = ids(client, "B", "two")
    headers = {"Origin": str(client.base_url).rstrip("/"), "X-Rolltrace": "write"}
    for address, name in (("/api", "good"), ("/s/B/api", "odd")):
        body = {"trajectory_ids": [trajectory], "name": name, "value": "yes", "author": "ann"}
        assert client.post(f"{address}/label", json=body, headers=headers).status_code == 200
    assert ask(client, "/s/B/api/trajectories", where="label.good and label.odd")["total"] == 1
    assert ask(client, "/s/A/api/trajectories", where="label.good")["total"] == 0
    forged = client.post("/s/B/api/label", json={}, headers={"Origin": "http://evil.example", "X-Rolltrace": "write"})
    assert forged.status_code == 403


def test_letters_lead_to_both_stores(client: httpx.Client) -> None:
    places = [each["href"] for each in ask(client, "/api/jump", q="both")["candidates"] if each["kind"] == "experiment"]
    assert places == ["/s/A/e/p/both", "/s/B/e/p/both"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/runs/a", "/runs/b"], ["a", "b"]),
        (["/x/store", "/y/store"], ["x-store", "y-store"]),
        (["/only"], ["only"]),
    ],
)
def test_a_name_is_as_short_as_it_can_be(paths: list[str], names: list[str]) -> None:
    assert names_of([Path(path) for path in paths]) == names
