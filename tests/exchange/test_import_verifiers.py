"""Episodes of verifiers and rollouts of prime-rl become trajectories. The samples were written by verifiers itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange import episode
from rolltrace.exchange.importer import ImportReport

from .conftest import Importer, write
from .mutations import SAMPLES, outcomes

FILE = SAMPLES / "verifiers" / "traces.jsonl"
RUN = SAMPLES / "prime_rl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text().splitlines()]
EPISODE = LINES[0]
TRACE: dict[str, Any] = EPISODE["traces"][0]


def with_trace(**changes: Any) -> dict[str, Any]:
    return {**EPISODE, "traces": [{**TRACE, **changes}]}


def test_an_episode_keeps_calls_tokens_tools_times_and_rewards(into: Importer) -> None:
    assert into("verifiers", FILE) == ImportReport(len(LINES), 0, 0)
    (row,) = into.store.trajectories(where="sample_index = 'rolltrace_sums/0'").rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert (row["status"], row["turns"], row["tool_calls"]) == ("ok", 3, 1)
    phases = [op for op in trajectory.ops if op.kind == "other"]
    assert [op.name for op in phases] == ["boot", "setup", "agent", "finalize", "scoring"]
    calls = [op for op in trajectory.walk() if op.kind == "llm"]
    for op, call in zip(calls, TRACE["calls"]):
        node = TRACE["nodes"][call["node"]]
        assert op.start_ns == int(call["time"]["start"] * 1e9)
        assert op.response_tokens == sum(node["mask"])
    assert [op.outputs for op in trajectory.walk() if op.kind == "tool"] == ["4"]
    scores = {each["name"]: each for each in trajectory.scores}
    assert scores["reward"]["terms"] == {name: each["score"] for name, each in TRACE["rewards"].items()}
    assert scores["reward_weights"]["terms"] == {"right": 1.0, "brief": 0.5}
    assert row["reward"] == pytest.approx(1.0 + 0.5 / 3)
    assert trajectory.tags["branches"] == 2
    assert into("verifiers", FILE) == ImportReport(0, len(LINES), 0)


def test_an_episode_that_failed_says_why(into: Importer) -> None:
    into("verifiers", FILE)
    (row,) = into.store.trajectories(where="sample_index = 'rolltrace_sums/1'").rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert row["status"] == "error"
    assert "the agent crashed" in (trajectory.error or "")
    assert "the agent crashed" in trajectory.notes[0]["body"]["text"]


def test_an_episode_without_any_trace_is_a_trajectory_with_its_error(tmp_path: Path, into: Importer) -> None:
    lost = {**EPISODE, "traces": [], "ok": False, "errors": [{"type": "EnvError", "message": "no box"}]}
    assert into("verifiers", write(tmp_path / "traces.jsonl", [lost])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert into.store.trajectory(row["trajectory_id"]).error == "EnvError: no box"


def test_several_agents_of_an_episode_have_samples_of_their_own(tmp_path: Path, into: Importer) -> None:
    other = {**TRACE, "id": "f" * 32, "agent": {**TRACE["agent"], "name": "judge"}}
    file = write(tmp_path / "traces.jsonl", [{**EPISODE, "traces": [TRACE, other]}])
    assert into("verifiers", file) == ImportReport(2, 0, 0)
    samples = {row["sample_index"] for row in into.store.trajectories().rows()}
    assert samples == {"rolltrace_sums/0/agent", "rolltrace_sums/0/judge"}


def test_a_trace_that_stands_alone_is_read_too(tmp_path: Path, into: Importer) -> None:
    assert into("verifiers", write(tmp_path / "traces.jsonl", [TRACE])) == ImportReport(1, 0, 0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "a record is a JSON object"),
        ({"task": {}}, 'it has no "traces"'),
        ({**EPISODE, "traces": 5}, "traces must be a list"),
        ({**EPISODE, "traces": [5]}, r"traces\[0\] must be an object"),
        (with_trace(id=None), "a trace has no id"),
        (with_trace(nodes=[{"message": {"role": "user"}, "parent": 0}]), r"nodes\[0\].parent must be an earlier node"),
        (with_trace(nodes=[{"message": "x"}]), r"nodes\[0\].message must be an object with a role"),
        (with_trace(calls=[{"node": 99}]), "calls.node must be the place of a node"),
        (with_trace(rewards={"right": 1.0}), "rewards.right must be an object"),
        (with_trace(timing={"start": -5}), "start must be seconds since 1970"),
        (with_trace(timing={"start": "now"}), "start must be a number"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_harms_nothing(line: Any, why: str, tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "traces.jsonl", [line, EPISODE])
    assert into("verifiers", file) == ImportReport(1, 0, 1)
    (bad,) = into.bad
    assert (bad.path, bad.number) == (file, 1)
    assert re.search(why, bad.reason), bad.reason


def test_a_small_graph_with_huge_paths_is_refused(
    tmp_path: Path, into: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode, "_MAX_ITEMS", 100_000)
    message = {"role": "assistant", "content": "x"}
    about = {"message": message, "sampled": True, "token_ids": [1] * 100, "mask": [True] * 100}
    nodes = [{**about, "parent": at - 1 if at else None} for at in range(100)]
    file = write(tmp_path / "traces.jsonl", [with_trace(nodes=nodes, calls=[])])
    assert into("verifiers", file) == ImportReport(0, 0, 1)
    assert "tokens and messages" in into.bad[0].reason


def short(node: dict[str, Any]) -> dict[str, Any]:
    tokens = {name: node[name][:1] for name in ("token_ids", "mask", "logprobs") if node.get(name)}
    return {"parent": node.get("parent"), "message": node["message"], "sampled": node["sampled"], **tokens}


def test_whatever_is_wrong_in_an_episode_is_refused_by_name_or_read(tmp_path: Path) -> None:
    trace = {
        "id": TRACE["id"], "agent": {"name": "agent"}, "nodes": [short(node) for node in TRACE["nodes"][:3]],
        "calls": TRACE["calls"][:1], "rewards": {"right": TRACE["rewards"]["right"]}, "metrics": {"turns": 1.0},
        "timing": {"start": 1.0, "agent": {"start": 1.0, "end": 2.0}}, "errors": [{"type": "E", "message": "m"}],
    }  # fmt: skip
    episode = {"env": {"id": "x"}, "task": {"data": {"idx": 0}}, "run": LINES[0].get("run"), "traces": [trace]}
    good, refused = outcomes("verifiers", write(tmp_path / "traces.jsonl", [episode]), tmp_path)
    assert good > 100
    assert refused > 100


def test_rollouts_of_prime_rl_are_one_trajectory_whether_shipped_or_not(into: Importer) -> None:
    report = into("prime-rl", RUN)
    assert report == ImportReport(5, 0, 0)
    rows = into.store.trajectories(validate=False, order="sample_index,rollout_n").rows()
    told = [(row["step"], row["sample_index"], row["rollout_n"], row["fate"], row["trained_step"]) for row in rows]
    assert told == [
        (3, "rolltrace_sums/0", 0, "trained", 4),
        (3, "rolltrace_sums/0", 1, "trained", 4),
        (3, "rolltrace_sums/1", 0, None, None),
        (3, "rolltrace_sums/1", 1, None, None),
    ]
    assert [row["advantage"] for row in rows] == [0.5, -0.5, None, None]
    (checked,) = into.store.trajectories(validate=True).rows()
    assert (checked["step"], checked["fate"]) == (3, None)
    assert into("prime-rl", RUN / "rollouts") == ImportReport(0, 5, 0)


def test_what_is_trained_on_later_is_known_after_importing_again(tmp_path: Path, into: Importer) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    shipped = run / "rollouts" / "step_4" / "train" / "effective"
    shipped.rename(tmp_path / "later")
    into("prime-rl", run)
    assert {row["fate"] for row in into.store.trajectories().rows()} == {None}
    (tmp_path / "later").rename(shipped)
    assert into("prime-rl", run).imported == 0
    assert [row["fate"] for row in into.store.trajectories().rows()].count("trained") == 2


def test_damaged_files_of_a_run_cost_their_own_lines_only(tmp_path: Path, into: Importer) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    with (run / "rollouts" / "step_3" / "train" / "all" / "traces.jsonl").open("a") as file:
        file.write('{"traces": [{"id": 5}]}\n{"traces"\n')
    with (run / "rollouts" / "step_4" / "train" / "effective" / "traces.jsonl").open("a") as file:
        file.write("\x00\n[]\n")
    assert into("prime-rl", run) == ImportReport(5, 0, 2)
