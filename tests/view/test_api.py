"""Every endpoint over HTTP, on a store that was recorded with rolltrace."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolltrace
from rolltrace.capture import Recorder
from rolltrace.view.requests import ENDPOINTS, WRITES
from tests.view.stores import EXPERIMENT, PROJECT
from tests.view.texts import HOSTILE

Ask = Callable[..., Any]
MATHS = {"project": PROJECT, "experiment": EXPERIMENT}
LAST = 3
"""The last step."""


def one(ask: Ask, where: str, **scope: Any) -> str:
    """The id of a trajectory that meets a filter."""
    return str(ask("trajectories", where=where, limit=1, **scope)["rows"][0]["trajectory_id"])


def test_the_status_names_the_store_and_what_runs(ask: Ask) -> None:
    status = ask("status")
    assert status["store_name"] == "demo"
    assert status["experiments"] == 4
    assert (status["running"], status["lost"], status["recording"], status["incomplete"]) == (0, 0, False, [])


def test_experiments_have_their_state_curve_flags_runs_and_size(ask: Ask) -> None:
    rows = {(row["project"], row["experiment"]): row for row in ask("experiments")["rows"]}
    maths = rows[PROJECT, EXPERIMENT]
    assert maths["state"] == "ended"
    assert rows[PROJECT, "interrupted"]["state"] == "interrupted"
    assert len(maths["rewards"]) == maths["steps"] == LAST + 1
    assert maths["reward_last"] == maths["rewards"][-1]
    assert [run["run"] for run in maths["runs"]] == ["run-a", "run-b"]
    assert maths["superseded"] > 0
    assert maths["size_bytes"] > 1_000
    assert maths["flags"]


def test_an_experiment_is_columns_of_one_length_over_its_steps(ask: Ask) -> None:
    answer = ask("experiment", **MATHS)
    for series in (answer["training"], answer["validation"]):
        columns = {**series, **series["terms"], **series["flags"]}
        lengths = {len(column) for name, column in columns.items() if name not in ("terms", "flags")}
        assert lengths == {len(series["step"])}
    assert answer["training"]["step"] == [0, 1, 2, 3]
    assert answer["validation"]["step"] == [0, 2]
    assert set(answer["training"]["terms"]) == {"format", "correct", "brevity"}
    low, high = answer["reward_range"]
    assert 0 <= low < high <= 1
    assert answer["older_runs"]["runs"] == 1


def test_one_nan_leaves_no_hole_in_the_reward(ask: Ask) -> None:
    training = ask("experiment", **MATHS, run="run-b")["training"]
    at = training["step"].index(2)
    assert training["rewards_not_finite"][at] == 1
    assert 0 < training["reward_mean"][at] < 1


def test_groups_have_a_cell_for_each_rollout(ask: Ask) -> None:
    page = ask("groups", **MATHS, step=1)
    assert page["totals"]["groups"] == len(page["rows"]) == 3
    for row in page["rows"]:
        assert [cell["rollout_n"] for cell in row["cells"]] == [0, 1, 2, 3]
        rewards = [cell["reward"] for cell in row["cells"] if cell["reward"] is not None]
        assert max(rewards) == row["max"]
    assert page["next"] is None


def test_a_filter_on_groups_keeps_all_cells_of_those_that_match(ask: Ask) -> None:
    wanted = ask("groups", **MATHS, step=1)["rows"][0]["cells"][2]["trajectory_id"]
    (row,) = ask("groups", **MATHS, step=1, where=f"trajectory_id = '{wanted}'")["rows"]
    assert len(row["cells"]) == 4


def test_nan_travels_as_text(ask: Ask) -> None:
    cells = [cell for row in ask("groups", **MATHS, step=2)["rows"] for cell in row["cells"]]
    assert [cell["reward"] for cell in cells].count("nan") == 1


@pytest.mark.parametrize(("listing", "order"), [("trajectories", "-reward,sample"), ("groups", "-std")])
def test_pages_together_are_the_whole_listing(ask: Ask, listing: str, order: str) -> None:
    whole = ask(listing, **MATHS, order=order, limit=1000)["rows"]
    paged: list[Any] = []
    after: dict[str, str] = {}
    while True:
        page = ask(listing, **MATHS, order=order, limit=7, **after)
        paged += page["rows"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert paged == whole
    assert len(whole) > 7


def test_a_page_after_a_row_that_is_gone_goes_on_at_its_place(ask: Ask) -> None:
    first = ask("trajectories", **MATHS, step=1, limit=3)
    rest = ask("trajectories", **MATHS, step=1, after=first["next"], where=f"reward != {first['rows'][-1]['reward']}")
    assert rest["rows"]


def test_facets_count_what_the_filter_finds_and_say_how_to_narrow_it(ask: Ask) -> None:
    facets = ask("facets", **MATHS, step=1)
    by_field = {facet["field"]: facet["values"] for facet in facets["facets"]}
    assert {"status", "fate", "tool", "validate", "tag.difficulty"} <= set(by_field)
    for field in ("status", "tool", "fate", "tag.domain"):
        for value in by_field[field]:
            found = ask("trajectories", **MATHS, step=1, where=value["where"])
            assert found["total"] == value["count"], value
    for histogram in facets["histograms"]:
        assert sum(histogram["counts"]) + histogram["missing"] + histogram["not_finite"] == facets["total"]
        assert len(histogram["edges"]) == len(histogram["counts"]) + 1


def test_a_wrong_filter_is_pointed_at(ask: Ask, client: httpx.Client) -> None:
    text = "reward < 0.5 and statsu = 'ok'"
    check = ask("filter/check", where=text)
    assert check["valid"] is False
    assert text[check["position"] : check["position"] + check["length"]] == "statsu"
    answer = client.get("/api/groups", params={"where": text})
    assert answer.status_code == 400
    assert (answer.json()["error"], answer.json()["position"]) == ("filter", check["position"])


@pytest.mark.parametrize("where", ["term.formatt > 0", "not term.formatt > 0"])
def test_a_misspelt_name_in_a_filter_is_told(where: str, ask: Ask) -> None:
    check = ask("filter/check", where=where)
    assert check["valid"]
    assert "nothing in the store has the term 'formatt'; did you mean 'format'?" in check["hint"]
    for listing in ("trajectories", "groups"):
        (notice,) = ask(listing, where=where)["notices"]
        assert notice == check["hint"]
        assert ask(listing, where="term.format > 0")["notices"] == []


def test_a_right_filter_says_how_many_it_finds(ask: Ask) -> None:
    check = ask("filter/check", where="status = 'error'", count=True, **MATHS)
    assert check == {"valid": True, "matching": ask("trajectories", where="status = 'error'", **MATHS)["total"]}


def test_completion_knows_fields_operators_and_values(ask: Ask) -> None:
    def texts(text: str) -> list[str]:
        return [option["text"] for option in ask("filter/complete", text=text, **MATHS)["options"]]

    assert texts("rew") == ["reward"]
    assert "<=" in texts("reward ")
    assert texts("fate = 'tr") == ["'trained'"]


def test_the_head_of_a_trajectory_leads_everywhere(ask: Ask) -> None:
    row = ask("groups", **MATHS, step=1)["rows"][0]
    head = ask(f"trajectory/{row['best']}")
    assert head["row"]["trajectory_id"] == row["best"]
    assert head["siblings"] == row["cells"]
    assert [each["step"] for each in head["over_steps"]] == [0, 1, 2, 3]
    assert head["reward_range"] == ask("experiment", **MATHS)["reward_range"]
    assert head["run"] == {"run": "run-a", "index": 1, "count": 2}
    assert head["outline"][0]["depth"] == 0
    assert [score["name"] for score in head["scores"]] == ["reward", "advantage", "fate"]
    assert set(head["scores"][0]["newest"]["terms"]) == {"format", "correct", "brevity"}
    turns = [op["turn"] for op in head["outline"] if op["kind"] == "llm"]
    assert turns == list(range(head["row"]["turns"]))
    for op in head["outline"]:
        assert 0 <= op["own_s"] <= op["duration_s"]


def test_the_same_sample_is_found_in_another_experiment(ask: Ask) -> None:
    here = ask("trajectories", experiment="grpo-7b", step=2, sample_index="0", validate=False, limit=1)["rows"][0]
    (there,) = ask(f"trajectory/{here['trajectory_id']}")["elsewhere"]
    assert (there["experiment"], there["step"]) == ("interrupted", 0)
    back = ask(f"trajectory/{there['trajectory_id']}")["elsewhere"]
    assert [(each["experiment"], each["step"]) for each in back] == [("grpo-7b", 0)]


def test_the_first_letters_of_an_id_are_enough(ask: Ask) -> None:
    whole = one(ask, "status = 'ok'")
    assert ask(f"trajectory/{whole[:12]}")["row"]["trajectory_id"] == whole


def test_a_finding_leads_to_its_turn_and_token(ask: Ask) -> None:
    trajectory_id = one(ask, "tag.oddity = 'prefix_break'")
    head = ask(f"trajectory/{trajectory_id}")
    (finding,) = [each for each in head["findings"] if each["flag"] == "prefix_break"]
    tokens = ask(f"trajectory/{trajectory_id}/tokens")
    assert finding["token"] == tokens["breaks"][0]["at"]
    assert finding["turn"] == tokens["breaks"][0]["turn"] == 2
    assert finding["meaning"]


def test_a_nested_trajectory_and_the_one_around_it_name_each_other(ask: Ask) -> None:
    outer = ask("trajectory/" + one(ask, "name = 'planner'"))
    (child,) = outer["children"]
    inner = ask(f"trajectory/{child}")
    assert inner["parent_trajectory_id"] == outer["row"]["trajectory_id"]
    assert inner["parent_op_id"] in {op["op_id"] for op in outer["outline"]}


def test_a_conversation_pairs_tool_calls_with_results(ask: Ask) -> None:
    messages = ask(f"trajectory/{one(ask, 'tool_calls > 2 and tool_errors = 0', **MATHS)}/conversation")["messages"]
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    assert {message["role"] for message in messages[2:]} == {"assistant"}
    for message in messages[2:-1]:
        (call,) = message["calls"]
        assert call["result"][0]["text"]
        assert call["op_id"] is not None
        assert message["tokens"] > 0
        assert message["logprob_mean"] < 0
    assert messages[2]["parts"][0]["kind"] == "reasoning"


def test_a_conversation_known_by_tokens_only_looks_the_same(ask: Ask) -> None:
    messages = ask(f"trajectory/{one(ask, 'tool_calls > 1', experiment='tool-agent')}/conversation")["messages"]
    assert [message["role"] for message in messages[:3]] == ["system", "user", "assistant"]
    (call,) = messages[2]["calls"]
    assert call["name"] in ("search", "python", "book")
    assert "<tool_call>" not in str(messages)


def test_a_failed_tool_call_has_its_error(ask: Ask) -> None:
    trajectory_id = one(ask, "tag.oddity = 'tool_error'")
    messages = ask(f"trajectory/{trajectory_id}/conversation")["messages"]
    errors = [call["error"] for message in messages for call in message["calls"] if call.get("error")]
    assert errors == ["NameError: name 'fare_new' is not defined"]


def test_an_image_can_be_fetched(ask: Ask, client: httpx.Client) -> None:
    trajectory_id = one(ask, "tag.oddity = 'image'")
    call = ask(f"trajectory/{trajectory_id}/conversation")["messages"][2]["calls"][0]
    (image,) = [part for part in call["result"] if part["kind"] == "image"]
    answer = client.get(f"/api/blob/{image['blob']}")
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")


def test_a_long_text_is_cut_and_can_be_had_whole(ask: Ask) -> None:
    trajectory_id = one(ask, "sample = 'd5f1c2aa-uuid'")
    answer = ask(f"trajectory/{trajectory_id}/conversation")
    assert answer["total"] == len(answer["messages"])
    (text,) = [part for part in answer["messages"][2]["parts"] if part["kind"] == "text"]
    assert len(text["text"]) < text["chars"]
    whole = ask(f"trajectory/{trajectory_id}/message/2")
    assert text["chars"] in [len(part["text"]) for part in whole["parts"]]


def test_tokens_are_one_sequence_in_ranges(ask: Ask) -> None:
    trajectory_id = one(ask, "tool_calls > 2", **MATHS)
    whole = ask(f"trajectory/{trajectory_id}/tokens")
    assert whole["end"] == whole["total"] == len(whole["ids"]) == len(whole["logprobs"]) == len(whole["mask"])
    assert sum(whole["piece_chars"]) == len(whole["text"])
    edges = [(segment["start"], segment["end"]) for segment in whole["segments"]]
    assert edges[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(edges))
    part = ask(f"trajectory/{trajectory_id}/tokens", start=10, end=30)
    assert part["ids"] == whole["ids"][10:30]
    before = sum(whole["piece_chars"][:10])
    assert part["text"] == whole["text"][before : before + sum(part["piece_chars"])]
    least = whole["least_likely"][0]
    assert least["logprob"] == min(value for value in whole["logprobs"] if value is not None)
    assert len(whole["minimap"]) <= 1000


def test_a_break_shows_both_versions_of_the_text(ask: Ask) -> None:
    trajectory_id = one(ask, "tag.oddity = 'prefix_break'")
    (found,) = ask(f"trajectory/{trajectory_id}/tokens")["breaks"]
    assert found["before_ids"] != found["after_ids"]
    shorter, longer = sorted((found["before_text"], found["after_text"]), key=len)
    assert longer.startswith(shorter)  # the same text in other tokens, as far as both are shown


def test_an_op_has_its_payload_and_can_be_read_deeper(ask: Ask, client: httpx.Client) -> None:
    trajectory_id = one(ask, "tool_calls > 2", **MATHS)
    op_id = next(op["op_id"] for op in ask(f"trajectory/{trajectory_id}")["outline"] if op["kind"] == "llm")
    op = ask(f"trajectory/{trajectory_id}/op/{op_id}")
    assert op["inputs"]["messages"][0]["role"] == "system"
    assert op["op"]["op_id"] == op_id
    branch = ask(f"trajectory/{trajectory_id}/op/{op_id}/branch", part="inputs", path='["messages", 0, "role"]')
    assert branch["value"] == "system"
    raw = client.get(f"/api/trajectory/{trajectory_id}/op/{op_id}/raw")
    assert raw.headers["content-disposition"].startswith("attachment")
    assert raw.json()["name"] == "generate"


def test_transitions_say_what_changed(ask: Ask) -> None:
    found = ask(f"trajectory/{one(ask, 'turns > 0', experiment='gridworld')}/transitions")["transitions"]
    assert [each["index"] for each in found] == [0, 1, 2, 3, 4]
    assert found[0]["changes"] == []
    assert "inventory[0]" in {change["path"] for change in found[3]["changes"]}
    assert found[-1]["stop_reason"] == "won"
    assert set(found[0]["reward_data"]) == {"distance", "bonus"}
    assert found[0]["fields"]["metrics"] == {"moves": 1}


def test_the_record_can_be_had_as_json(ask: Ask) -> None:
    trajectory_id = one(ask, "tool_calls > 2", **MATHS)
    raw = ask(f"trajectory/{trajectory_id}/raw")
    assert raw["trajectory_id"] == trajectory_id
    assert {op["name"] for op in raw["ops"]} >= {"run", "generate"}


def test_a_comparison_folds_equal_turns_and_points_at_the_first_difference(ask: Ask) -> None:
    for step in range(LAST + 1):
        for row in ask("groups", **MATHS, step=step)["rows"]:
            ids = [cell["trajectory_id"] for cell in row["cells"] if cell["status"] == "ok"][:2]
            found = ask("compare", ids=",".join(ids))
            if found["rows"][0]["equal"] and found["first_difference"]:
                break
        else:
            continue
        break
    folded = found["rows"][0]
    assert len(folded["turns"]) == folded["last_turn"] - folded["first_turn"] + 1
    difference = found["first_difference"]
    assert difference["turn"] == folded["last_turn"] + 1
    assert len(found["columns"]) == 2
    for column, at, value in zip(found["columns"], difference["sequence_index"], difference["values"]):
        tokens = ask(f"trajectory/{column['row']['trajectory_id']}/tokens")
        assert value is None or tokens["ids"][at] == value
    assert "rollout_n" in {each["name"] for each in found["attributes"]}


def test_search_finds_text_with_what_is_around_it(ask: Ask) -> None:
    found = ask("search", q="CERTIFICATE", **MATHS, limit=3)
    assert len(found["hits"]) == 3
    assert found["next"] is not None
    for hit in found["hits"]:
        assert hit["matches"][0]["match"].lower() == "certificate"
        assert hit["matches"][0]["before"] + hit["matches"][0]["after"]
    more = ask("search", q="CERTIFICATE", **MATHS, limit=3, after=found["next"])
    ids = [hit["row"]["trajectory_id"] for hit in (*found["hits"], *more["hits"])]
    assert len(set(ids)) == len(ids)


def test_jumps_know_steps_samples_ids_experiments_and_filters(ask: Ask) -> None:
    def jump(q: str, **place: Any) -> dict[str, str]:
        return {each["kind"]: each["href"] for each in ask("jump", q=q, **place)["candidates"]}

    assert jump("2", **MATHS)["step"] == "/e/maths/grpo-7b/step/2"
    assert jump("17", **MATHS, step=2)["sample"] == "/e/maths/grpo-7b/step/2/sample/17"
    trajectory_id = one(ask, "status = 'ok'")
    assert jump(trajectory_id[:10])["trajectory"] == f"/t/{trajectory_id}"
    assert jump("gridw")["experiment"] == "/e/games/gridworld"
    assert jump("reward < 0.5", **MATHS)["filter"] == "/e/maths/grpo-7b?where=reward%20%3C%200.5"
    assert jump("hello & bye")["search"] == "/search?q=hello%20%26%20bye"


def test_a_rollout_that_waits_between_ops_is_told_with_its_pace(
    tmp_path: Path, serve: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    monkeypatch.setitem(Recorder.__init__.__kwdefaults__, "wall_ns", lambda: real() - 3600 * 10**9)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for n in range(6):
        with rolltrace.rollout_trace_attr(7, step=3, rollout_n=n):
            pass
    with rolltrace.rollout_trace_attr(8, step=3, rollout_n=0):
        (row,) = serve(tmp_path).get("/api/live").json()["rows"]
    assert (row["pace"], row["op_age_s"], row["idle_s"] > 3000) == ("hung", None, True)


def test_nothing_is_live_in_a_finished_store(ask: Ask) -> None:
    live = ask("live")
    assert live["rows"] == []
    assert live["status"]["store_name"] == "demo"


def test_hostile_text_passes_as_text(ask: Ask) -> None:
    rows = ask("trajectories", where="sample = 'hostile-<b>'")["rows"]
    assert {row["name"] for row in rows} == {HOSTILE[0]}
    assert HOSTILE[1] in {row["tags"]["note"] for row in rows}
    texts = str([ask(f"trajectory/{row['trajectory_id']}/conversation") for row in rows])
    assert "<svg onload=alert(3)>" in texts
    for row in rows:
        ask(f"trajectory/{row['trajectory_id']}/tokens")
    assert ask("search", q="<script>alert", **MATHS)["hits"]


def test_every_endpoint_is_listed_and_described(client: httpx.Client) -> None:
    paths = client.get("/api/openapi.json").json()["paths"]
    assert set(paths) == {each.path for each in (*ENDPOINTS, *WRITES)}


GAMES = {"project": "games", "experiment": "gridworld"}


def test_records_of_groups_are_listed_and_stand_beside_their_rollouts(ask: Ask) -> None:
    records = ask("group_records", **GAMES, step=1)["records"]
    assert [(each["name"], each["sample_index"], each["ops"]) for each in records] == [
        ("preferences", "0", 2),
        ("preferences", "1", 2),
    ]
    (own,) = ask("group_records", **GAMES, step=1, sample_index="1")["records"]
    assert own == records[1]
    assert ask("group_records", **MATHS, step=1)["records"] == []
    rollout = ask("trajectory/" + one(ask, "sample_index = 1", **GAMES, step=1))
    assert rollout["group_records"] == [own]
    assert not rollout["is_group"]


def test_a_record_of_a_group_is_opened_as_a_trajectory_is(ask: Ask) -> None:
    record = ask("group_records", **GAMES, step=1, sample_index="0")["records"][0]
    head = ask("trajectory/" + record["trajectory_id"][:10])
    assert head["is_group"]
    assert head["row"]["trajectory_id"] == record["trajectory_id"]
    assert [op["name"] for op in head["outline"]] == ["prefer", "prefer"]
    assert len(head["siblings"]) == 2
    assert head["row"]["tags"] == {"judge": "pairwise"}
    op = ask(f"trajectory/{record['trajectory_id']}/op/{head['outline'][0]['op_id']}")
    assert op["outputs"]["margin"] == 0.25
    assert ask(f"trajectory/{record['trajectory_id']}/raw")["is_group"] is True


def test_amended_steps_have_what_they_were_and_until_when(ask: Ask) -> None:
    trajectory = one(ask, "sample_index = 0 and rollout_n = 0", **GAMES, step=1)
    *others, last = ask(f"trajectory/{trajectory}/transitions")["transitions"]
    assert all(step["earlier"] == [] for step in others)
    assert last["reward"] == 0.75
    first, second = last["earlier"]
    assert second["values"] == {"reward": 0.5, "logs": {"judge": "first reading"}}
    assert first["values"]["logs"] is None
    assert first["time_ns"] < second["time_ns"]
    assert not last["amends"]


def test_the_step_that_trained_on_a_rollout_is_told_and_filtered_by(ask: Ask) -> None:
    rows = ask("trajectories", **GAMES, where="trained_step = 3")["rows"]
    assert {(row["step"], row["trained_step"]) for row in rows} == {(1, 3)}
    head = ask("trajectory/" + rows[0]["trajectory_id"])
    (fate,) = (score for score in head["scores"] if score["name"] == "fate")
    assert fate["newest"]["trained_step"] == 3


def test_the_mean_of_a_step_is_that_of_training(ask: Ask) -> None:
    rows = ask("groups", **MATHS, step=2)["rows"]
    assert {row["validate"] for row in rows} == {True, False}
    training = ask("groups", **MATHS, step=2, validate=False)["totals"]
    assert ask("groups", **MATHS, step=2)["totals"]["reward_mean"] == training["reward_mean"]
    assert ask("groups", **MATHS, step=2, validate=True)["totals"]["reward_mean"] != training["reward_mean"]
