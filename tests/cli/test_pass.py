"""What pass means on the command line: `--term`, `--threshold` and `--save`, the same in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main

COMMANDS: dict[str, list[str]] = {
    "groups": [], "ls --steps": [], "ls --columns id,passed": [], "plot --of pass": [], "stats": [],
    "diff --step 1 --sample 7": [], "export jsonl": ["--where", "passed = true", "-o", "/dev/null"],
}  # fmt: skip
"""The commands in which pass appears, and what else they need."""


@rolltrace.rollout_trace_op(kind="llm")
def generate() -> dict[str, Any]:
    return {"text": "an answer", "token_ids": [1]}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def record(path: Path, rewards: list[tuple[float, dict[str, Any] | None]], experiment: str = "e") -> Path:
    rolltrace.init("p", experiment, "rolltrace", store=path, drain="off")
    for step in (1, 2):
        for n, (reward, terms) in enumerate(rewards):
            with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n) as trajectory:
                generate()
            rolltrace.score(trajectory, "reward", reward, terms=terms)
    rolltrace.shutdown()
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Rewards above 0, of which one in four is of a right answer."""
    terms = [{"correct": 1.0}, {"correct": 0.0}, {"correct": 0.0}, {"correct": 0.0}]
    return record(tmp_path, list(zip((1.2, 0.9, 0.5, 0.3), terms)))


def said(capsys: pytest.CaptureFixture[str], command: str, store: Path, *options: str) -> str:
    words = [*command.split(), *COMMANDS.get(command, []), *options, "--store", str(store)]
    assert main(words) == 0
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_same_options_and_prints_the_rule(
    command: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "pass: correct >= 1" in said(capsys, command, store, "--term", "correct")
    assert "pass: reward >= 0.5" in said(capsys, command, store, "--threshold", "0.5")
    assert "pass: correct >= 0.25" in said(capsys, command, store, "--term", "correct", "--threshold", "0.25")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_choice_no_table_says_pass(command: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(capsys, command, store)
    assert "pass:" not in printed
    if not command.startswith("diff"):  # which shows the rewards themselves
        assert "reward > 0" in printed
    if command in ("groups", "ls --steps", "stats"):
        assert "pass" not in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_what_one_command_stores_counts_in_all(command: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "stored with p / e: pass: correct >= 1" in said(capsys, "stats", store, "--term", "correct", "--save")
    assert "pass: correct >= 1" in said(capsys, command, store)


def test_the_figures_follow_the_choice(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(command: str, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in said(capsys, command, store, "--json", *options).splitlines()]

    assert [(row["passed"], row["pass_rule"]) for row in rows("groups")] == [(4, "reward > 0")] * 2
    for options in ([], ["--threshold", "0.9"]):
        said(capsys, "groups", store, "--term", "correct", "--save")
        expected = (2, "reward >= 0.9") if options else (1, "correct >= 1")
        assert [(row["passed"], row["pass_rule"]) for row in rows("groups", *options)] == [expected] * 2
        assert [row["pass_rate"] for row in rows("ls --steps", *options)] == [expected[0] / 4] * 2
        assert [(row["mean"], row["pass_rule"]) for row in rows("plot --of pass", *options)] == [
            (expected[0] / 4, expected[1])
        ] * 2
        assert [row["passed"] for row in rows("diff --step 1 --sample 7", *options)] == [
            [True, expected[0] == 2, False, False]
        ]
        (fact,) = rows("stats", *options)[0]["passed"]
        assert (fact["passed"], fact["scored"], fact["pass_rule"]) == (2 * expected[0], 8, expected[1])
        assert len(rows("ls", "--where", "passed = true", *options)) == 2 * expected[0]


def test_rewards_of_0_and_1_are_called_pass_and_the_table_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [(1.0, None), (0.0, None)])
    assert said(capsys, "groups", tmp_path).splitlines()[-1] == "2 groups; pass: reward = 1"
    assert "pass: reward = 1, share of rollouts by step" in said(capsys, "plot --of pass", tmp_path)


def test_experiments_that_differ_are_told_apart(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(store, [(1.0, None), (0.0, None)], "other")
    said(capsys, "groups", store, "--experiment", "e", "--term", "correct", "--save")
    printed = said(capsys, "groups", store)
    assert "pass: correct >= 1 (p / e); pass: reward = 1 (p / other)" in printed
    assert "pass: correct >= 1" in said(capsys, "plot --of pass", store)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_term_that_does_not_exist_is_an_error_with_the_nearest_name(
    command: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), *COMMANDS[command], "--term", "corect", "--store", str(store)]) == 1
    printed = capsys.readouterr()
    assert "has the term 'corect'; did you mean 'correct'?" in printed.err
    assert printed.out == ""


def test_save_without_a_choice_says_what_to_add(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groups", "--save", "--store", str(store)])
    assert "--save stores what --term or --threshold say; add one of them" in capsys.readouterr().err


def test_a_stored_term_that_no_reward_has_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off", limits={"pass_term": "corect"})
    rolltrace.shutdown()
    record(tmp_path, [(1.0, {"correct": 1.0})])
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off", limits={"pass_term": "corect"})
    with rolltrace.rollout_trace_attr(8, step=3, rollout_n=0) as trajectory:
        generate()
    rolltrace.score(trajectory, "reward", 0.5)
    rolltrace.shutdown()
    printed = said(capsys, "groups", tmp_path)
    assert "pass is stored as corect >= 1, but no reward of p / e has the term 'corect'" in printed
    assert "did you mean 'correct'?" in printed
