"""The backend and the real Weave, without the sender between."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import rolltrace
from rolltrace.backends.weave import WeaveBackend
from rolltrace.backends.weave.calls import call_id
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory

from .conftest import WeaveServer, run_workers, start_hanging
from .reading import assert_same, plain, scores_in, trajectories_of


def traced(store: Path, workers: int = 2, count: int = 8) -> list[Trajectory]:
    run_workers(store, workers, count)
    return trajectories_of(rolltrace.open(store))


def test_everything_is_in_weave_as_it_is_in_the_store(tmp_path: Path, project: str, client: Any) -> None:
    trajectories = traced(tmp_path, workers=3)
    assert WeaveBackend().send(trajectories) == []
    assert_same(client, trajectories)
    assert scores_in(client) == {
        call_id(each.trajectory_id): {"reward": {"value": each.reward, "terms": each.scores[-1]["terms"]}}
        for each in trajectories
    }


def test_weave_shows_a_call_where_the_viewer_says(
    tmp_path: Path, project: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "run 7")
    trajectories = traced(tmp_path, workers=1, count=1)
    backend = WeaveBackend()
    backend.send(trajectories)
    links = backend.links(trajectories[0])
    assert links["Weave call"].endswith(f"/{quote(project)}/r/call/{{uuid}}")
    assert links["W&B run"].endswith(f"/{quote(project)}/runs/run%207")


def test_what_is_sent_again_is_there_once(tmp_path: Path, client: Any) -> None:
    trajectories = traced(tmp_path)
    WeaveBackend().send(trajectories[:5])
    backend = WeaveBackend()
    for _ in range(2):
        assert backend.send([*trajectories, *trajectories]) == []
    assert_same(client, trajectories)
    assert all(len(scores) == 1 for scores in scores_in(client).values())


REWARD = {"$getField": "feedback.[wandb.runnable.reward].payload.output.value"}


def equal(field: str, value: Any) -> dict[str, Any]:
    return {"$expr": {"$eq": [{"$getField": field}, {"$literal": value}]}}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory, shared_server: WeaveServer) -> tuple[str, Path]:
    """A project and the store it was sent from, to ask both the same questions."""
    store, name = tmp_path_factory.mktemp("store"), "filtered"
    with pytest.MonkeyPatch.context() as environment:
        from .conftest import point_to

        point_to(shared_server, environment)
        environment.setenv("PROJECT", name)
        environment.setenv("ROLLTRACE_DRAIN", "off")
        WeaveBackend().send(traced(store))
    return name, store


@pytest.mark.parametrize(
    ("weaves", "ours"),
    [
        (equal("attributes.step", 1), {"step": 1}),
        (equal("attributes.sample_index", 3), {"sample_index": 3}),
        (equal("attributes.sample_index", "uuid-2"), {"sample_index": "uuid-2"}),
        (equal("attributes.rollout_n", 1), {"rollout_n": 1}),
        (equal("attributes.validate", True), {"validate": True}),
        (equal("attributes.validate", False), {"validate": False}),
        (equal("attributes.experiment_name", "试验 1"), {"experiment": "试验 1"}),
        (equal("attributes.experiment_name", "another"), {"experiment": "another"}),
        (equal("attributes.tags.difficulty", "难"), {"where": "tag.difficulty = '难'"}),
        ({"$expr": {"$gt": [REWARD, {"$literal": 0.3}]}}, {"where": "reward > 0.3"}),
        (
            {
                "$expr": {
                    "$contains": {"input": {"$getField": "attributes.flags"}, "substr": {"$literal": "tool_error"}}
                }
            },
            {"where": "flag = 'tool_error'"},
        ),
    ],
)
def test_weaves_filters_find_what_ours_find(
    filtered: tuple[str, Path], server: WeaveServer, weaves: dict[str, Any], ours: dict[str, Any]
) -> None:
    import weave

    project, store = filtered
    client = weave.init(f"somebody/{project}")
    found = {call.id for call in client.get_calls(filter={"trace_roots_only": True}, query=weaves)}
    weave.finish()
    rows = rolltrace.open(store).trajectories(**ours).rows()
    assert found == {call_id(row["trajectory_id"]) for row in rows}
    assert (len(rows) > 0) == ("another" not in ours.values())


def test_ops_are_found_by_name(tmp_path: Path, project: str, client: Any) -> None:
    trajectories = traced(tmp_path, workers=1, count=4)
    WeaveBackend().send(trajectories)
    found = list(client.get_calls(filter={"op_names": [f"weave:///somebody/{project}/op/search:*"]}))
    assert len(found) == sum(op.name == "search" for each in trajectories for op in each.walk()) == 8


def test_the_example_of_the_docs_runs(tmp_path: Path, server: WeaveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs/howto/weave.md").read_text()
    (example,) = re.findall(r"^    import weave\n(?:    .*\n|\n)+", page, re.MULTILINE)
    monkeypatch.setenv("PROJECT", "maths")
    run_workers(tmp_path, 2, 16)
    WeaveBackend().send(trajectories_of(rolltrace.open(tmp_path)))
    names: dict[str, Any] = {}
    exec(textwrap.dedent(example).replace('"attributes.sample_index", 7', '"attributes.sample_index", 13'), names)
    found = {name: len(list(names[name])) for name in ("group", "low", "flagged", "searches")}
    names["weave"].finish()
    assert found == {"group": 2, "low": 10, "flagged": 12, "searches": 64}


def test_a_later_score_takes_the_place_of_the_earlier_one(tmp_path: Path, project: str, client: Any) -> None:
    backend = WeaveBackend()
    rolltrace.init(project, "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        pass
    backend.send(trajectories_of(rolltrace.open(tmp_path)))
    root = call_id(trajectory.id)
    assert scores_in(client) == {root: {}}

    trajectory.reward(0.25)
    rolltrace.flush(30)
    backend.update(trajectories_of(rolltrace.open(tmp_path)))
    assert scores_in(client) == {root: {"reward": {"value": 0.25}}}

    client.get_call(root).feedback.add_note("a person wrote this")
    client.flush()
    trajectory.reward(float("nan"), terms={"格式": 1.0})
    rolltrace.flush(30)
    for _ in range(2):
        backend.update(trajectories_of(rolltrace.open(tmp_path)))
    assert scores_in(client) == {root: {"reward": {"value": {"$float": "nan"}, "terms": {"格式": 1.0}}}}
    assert "wandb.note.1" in {each.feedback_type for each in client.get_call(root).feedback}


def test_a_wrong_key_is_told_at_once(
    tmp_path: Path, project: str, server: WeaveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "wrong")
    with pytest.raises(BackendError, match=r"401: .*check WANDB_API_KEY"):
        WeaveBackend().send(traced(tmp_path, workers=1, count=1))


def test_a_payload_over_weaves_limit_comes_through_cut(tmp_path: Path, project: str, client: Any) -> None:
    @rolltrace.rollout_trace_op
    def echo(text: str) -> str:
        return text

    rolltrace.init(project, "e", "rolltrace", store=tmp_path, limits={"max_bytes": "100MiB"})
    with rolltrace.rollout_trace_attr(step=1):
        echo("很长" * 1_000_000)
    rolltrace.shutdown()
    (trajectory,) = trajectories_of(rolltrace.open(tmp_path))
    assert WeaveBackend().send([trajectory]) == []
    (call,) = client.get_calls(filter={"call_ids": [call_id(trajectory.trajectory_id, trajectory.ops[0].op_id)]})
    cut = plain(call.output)["$cut"]
    assert cut["full_length"] == 2_000_000
    assert cut["kept"].startswith("很长很长")


def test_a_server_that_dies_before_it_answers_gets_the_rest_later(
    tmp_path: Path, own_server: WeaveServer, client: Any
) -> None:
    trajectories = traced(tmp_path / "store")
    own_server.kill()
    own_server.start(batches_to_live=3)
    backend = WeaveBackend()
    assert [backend.send([each]) for each in trajectories[:2]] == [[], []]
    with pytest.raises(OSError, match=r"[Cc]onnection"):
        backend.send(trajectories[2:3])
    own_server.start()
    assert len(list(client.get_calls(filter={"trace_roots_only": True}))) == 3
    assert backend.send(trajectories) == []
    assert_same(client, trajectories)
    assert all(len(scores) == 1 for scores in scores_in(client).values())


def test_the_ops_of_a_killed_worker_say_that_they_were_interrupted(tmp_path: Path, project: str, client: Any) -> None:
    worker, ids = start_hanging(tmp_path, 2)
    worker.kill()
    worker.communicate()
    trajectories = trajectories_of(rolltrace.open(tmp_path))
    assert {each.trajectory_id for each in trajectories} == set(ids)
    WeaveBackend().send(trajectories)
    assert_same(client, trajectories)
    (hung,) = client.get_calls(filter={"op_names": [f"weave:///somebody/{project}/op/hang:*"]})
    assert (hung.attributes["status"], json.loads(hung.exception)["type"]) == ("interrupted", "Interrupted")
    assert hung.ended_at >= hung.started_at
