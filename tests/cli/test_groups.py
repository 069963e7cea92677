"""`rolltrace groups`: a line per group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main

HOSTILE = "\x1b[31mred"


@rolltrace.rollout_trace_op(kind="llm")
def generate(length: int) -> dict[str, object]:
    return {"token_ids": list(range(length))}


@rolltrace.rollout_trace_op(kind="tool")
def search() -> None:
    raise ValueError("no such page")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    for step in (1, 2):
        for sample, rewards in ((2, (0.0, 1.0)), (10, (0.5, 0.5)), (HOSTILE, (None,))):
            for n, reward in enumerate(rewards):
                with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n) as trajectory:
                    generate(10 * (n + 1))
                    if sample == 2:
                        with pytest.raises(ValueError, match="page"):
                            search()
                if reward is not None:
                    trajectory.reward(reward)
    rolltrace.shutdown()
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["groups", *(str(each) for each in arguments)]) == 0
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    return said


def test_a_group_is_a_line_and_one_without_variance_is_marked(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, store, "--step", 1).splitlines()
    assert said[0].split()[:11] == ["step", "sample", "n", "mean", "std", "min", "max", "reward", ">", "0", "tokens"]
    assert said[1].split()[:9] == ["1", "2", "2", "0.5", "0.5", "0", "1", "1/2", "15"]
    assert "(10-20)" in said[1]
    assert "tool_error" in said[1]
    assert said[2].split()[:8] == ["1", "10", "2", "=", "0.5", "0", "0.5", "0.5"]
    assert said[3].split()[:4] == ["1", r"\x1b[31mred", "1", "0/0"]
    assert said[-1] == "3 groups"


def test_groups_as_json_with_pass_at_k(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in ask(capsys, store, "--json", "--k", "1,2", "--threshold", "0.6").splitlines()]
    assert len(rows) == 6
    assert (rows[0]["sample_index"], rows[0]["passed"], rows[0]["pass@1"], rows[0]["pass@2"]) == (2, 1, 0.5, 1.0)
    assert rows[1]["passed"] == 0


def test_groups_are_filtered_sorted_and_limited(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = ask(capsys, store, "--where", "group.zero_variance = true").splitlines()
    assert [line.split()[:2] for line in flat[1:-1]] == [["1", "10"], ["2", "10"]]
    best = ask(capsys, store, "--order=-std,-step", "--limit", 1).splitlines()
    assert best[1].split()[:2] == ["2", "2"]
    assert best[-1] == "1 of 6 groups; all: --limit 6"
    line = f"no groups in the store '{store}' meet the filter; there is no reward 7; there are 0 to 1\n"
    assert ask(capsys, store, "--where", "reward = 7") == line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rollout", "1"], "a group is all rollouts of a sample"),
        (["--k", "0"], "'--k': takes numbers of rollouts, such as 1,4,8; not '0'"),
        (["--k", "a"], "'--k': takes numbers of rollouts, such as 1,4,8; not 'a'"),
        (["--limit", "a"], "'--limit': must be a whole number, 0 or more; not 'a'"),
        (["--limit", "-1"], "'--limit': must be a whole number, 0 or more; not '-1'"),
    ],
)
def test_wrong_usage_is_explained(
    store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["groups", str(store), *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_what_was_recorded_for_the_whole_group_stands_below_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rolltrace.init("p", "e", store=tmp_path, drain="off", quiet=True)
    for n in range(2):
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=n) as handle:
            handle.transition({"prompt": "p"}, reward=0.5)
            handle.amend_transition(reward=1.0, stop_reason="max_turns")
    rolltrace.score(handle, "fate", "trained", trained_step=4)
    with rolltrace.rollout_trace_group(7, 1, name="preferences") as group:
        group.note("the second wins")
    rolltrace.shutdown()
    assert main(["groups", "--step", "1", "--sample", "7", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "1 group" in told
    assert f"group record {group.id[:8]}  preferences  ok  0 ops; look: rolltrace show {group.id[:8]}" in told
    assert main(["groups", "--step", "1", str(tmp_path)]) == 0
    assert "group record" not in capsys.readouterr().out
    assert main(["show", group.id[:8], str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "a record of the whole group, no rollout" in told
    assert "the second wins" in told
    assert main(["show", handle.id, str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "fate trained  in step 4" in told
    assert "reward 1.0" in told
    assert "(before: reward 0.5, stop_reason null)" in told
