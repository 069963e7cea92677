"""`rolltrace store rm`: what it deletes is gone, and the space with it; the rest stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.tables import TABLE_SCHEMAS
from tests.draining import drain


def rows(store: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["ls", "--json", *options, str(store)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def size(store: Path) -> int:
    return sum(
        file.stat().st_size for schema in TABLE_SCHEMAS for file in (store / schema.name / "data").rglob("*.parquet")
    )


def add_experiment(store: Path, name: str, *, run: str = "second", late: bool = True) -> None:
    rolltrace.init("p", name, "rolltrace", store=store, run=run, drain="off")

    @rolltrace.rollout_trace_op
    def op(text: str) -> str:
        return text

    for step in (1, 2):
        for n in range(2):
            with rolltrace.rollout_trace_attr(step=step, sample_index=0, rollout_n=n):
                op(f"{name} {step} {n}" * 500)
            if late:
                rolltrace.score((step, 0, n), "reward", float(n))
    rolltrace.shutdown()
    drain(store)


def test_an_experiment_is_deleted_with_everything_in_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, kept = size(store), rows(store, capsys)
    add_experiment(store, "other")
    assert size(store) > before
    assert main(["store", "rm", "--experiment", "other", "--yes", str(store)]) == 0
    assert "deleted 4 trajectories of p / other (2 steps); " in capsys.readouterr().out
    assert rows(store, capsys) == kept
    assert size(store) == before
    for view in ("ops", "messages", "spans", "scores", "unmatched_scores", "notes"):
        assert main(["sql", f"select * from {view} where experiment = 'other'", "--csv", str(store)]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1, view
    assert main(["doctor", str(store)]) == 0
    assert "all is well" in capsys.readouterr().out


def test_what_a_filter_finds_is_deleted_and_the_rest_of_its_group_stays(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = size(store)
    assert main(["store", "rm", "--where", "step = 2 and rollout_n = 1", "--yes", "--json", str(store)]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["deleted"], done["steps"]) == (2, 1)
    left = rows(store, capsys)
    assert len(left) == 10
    assert [row["rollout_n"] for row in left if row["step"] == 2] == [0, 0]
    assert [row["reward"] for row in left if row["step"] == 3] == [0, 0, 0, 1]
    assert done["bytes"] == max(0, before - size(store))


def test_a_run_is_deleted_and_the_older_one_is_shown_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_experiment(store, "e", run="again")
    assert len([row for row in rows(store, capsys) if row["step"] == 1]) == 2
    assert main(["store", "rm", "--run", "again", "--yes", str(store)]) == 0
    left = rows(store, capsys, "--all-runs")
    assert len(left) == 12
    assert "again" not in {row["run"] for row in left}
    assert [row["reward"] for row in left if row["step"] == 1] == [0, 0, 0, 1]


def test_a_trajectory_is_deleted_by_its_id(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, *rest = (row["trajectory_id"] for row in rows(store, capsys))
    assert main(["store", "rm", one[:12], other, "--yes", str(store)]) == 0
    assert [row["trajectory_id"] for row in rows(store, capsys)] == rest
    assert main(["show", one, str(store)]) == 1


def test_a_dry_run_says_what_would_go_and_deletes_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, kept = size(store), rows(store, capsys)
    assert main(["store", "rm", "--experiment", "e", "--dry-run", str(store)]) == 0
    assert capsys.readouterr().out.startswith("would delete 12 trajectories of p / e (3 steps, about ")
    assert main(["store", "rm", "--experiment", "e", "--dry-run", "--json", str(store)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["would_delete"], told["steps"]) == (12, 3)
    assert before / 2 < told["bytes"] <= before
    assert (rows(store, capsys), size(store)) == (kept, before)


def test_without_a_terminal_nothing_is_deleted_unless_told_so(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "rm", "--experiment", "e", str(store)]) == 1
    assert "this would delete 12 trajectories of p / e (3 steps, about " in capsys.readouterr().err
    assert len(rows(store, capsys)) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what to delete: --experiment NAME, --run ID, --where FILTER"),
        (["--all-runs"], "say what to delete"),
        (["--experiment", "E"], "there is no experiment 'E'; did you mean 'e'?"),
        (["--where", "reward > 7"], "no trajectories"),
        (["ffffffff"], "no trajectory has the id"),
        (["abcd", "--step", "1"], "say what to delete"),
    ],
)
def test_what_is_not_there_or_not_named_is_an_error(
    options: list[str], message: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "rm", *options, "--yes", str(store)]) == 1
    assert message in capsys.readouterr().err
    assert len(rows(store, capsys)) == 12


def test_what_still_runs_is_left_alone(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, run="third", drain="off")
    with rolltrace.rollout_trace_attr(step=9, sample_index=0, rollout_n=0):
        assert main(["store", "rm", "--experiment", "e", "--yes", str(store)]) == 0
        assert "1 trajectory left alone, because" in capsys.readouterr().err
    rolltrace.shutdown()
    assert [row["step"] for row in rows(store, capsys)] == [9]


def test_what_was_deleted_can_be_imported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, chats = tmp_path / "store", tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"messages": [{"role": "user", "content": "?"}], "step": 1}) + "\n")
    command = ["import", "chat", str(chats), "--project", "q", "--experiment", "f", str(store)]
    for _ in range(2):
        assert main(command) == 0
        assert len(rows(store, capsys)) == 1
        assert main(["store", "rm", "--experiment", "f", "--yes", str(store)]) == 0
        assert rows(store, capsys) == []


def test_pruning_says_that_the_listing_stays(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["store", "prune", "--where", "experiment = 'e'", "--whole", "--yes", str(store)]) == 0
        assert "they stay listed: rolltrace store rm deletes them" in capsys.readouterr().out
