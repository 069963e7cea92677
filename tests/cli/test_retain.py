"""`rolltrace store retain`: shows, sets, tries out, applies and takes away the policy of a store."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Follower
from rolltrace.keeper.policy import RetentionPolicy, read_policy

from .conftest import pruned


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["store", "retain", *words, "--yes", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_store_without_a_policy_says_how_to_set_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "retain", str(store)]) == 0
    assert "no policy: everything is kept; set one: rolltrace store retain --keep" in capsys.readouterr().out


def test_setting_a_policy_says_what_it_will_drop_and_drops_nothing(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, str(store), "--keep", "errors, extremes", "--after-steps", "1")
    assert (found["would_drop"], found["keeps"], found["steps"]) == (4, {"extremes": 4}, 2)
    assert read_policy(store) == RetentionPolicy(keep=("errors", "extremes"))
    assert pruned(store) == set()


def test_the_policy_is_shown_in_words(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["store", "retain", str(store), "--keep", "errors,extremes", "--whole", "--experiments", "e", "--yes"])
    shown = capsys.readouterr().out
    assert main(["store", "retain", str(store)]) == 0
    assert capsys.readouterr().out == shown
    assert "  keep             errors, extremes\n" in shown
    dropped = r"would drop 4 trajectories \(2 whole groups, about [\d.]+ k?B\), keep 4 \(extremes\)\n"
    assert re.search(f"2 finished steps to look at: {dropped}", shown)


def test_options_that_are_not_given_stay_as_they_are(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, str(store), "--keep", "errors,flagged", "--flags", "cut", "--whole", "--seed", "3")
    answer(capsys, str(store), "--share", "0.5", "--slowest-percent", "2")
    assert read_policy(store) == RetentionPolicy(
        keep=("errors", "flagged"), flags=("cut",), whole=True, seed=3, share=0.5, slowest_percent=2.0
    )
    answer(capsys, str(store), "--no-whole")
    assert read_policy(store) == RetentionPolicy(
        keep=("errors", "flagged"), flags=("cut",), seed=3, share=0.5, slowest_percent=2.0
    )


def test_a_dry_run_changes_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))}
    assert answer(capsys, str(store), "--keep", "errors", "--dry-run")["would_drop"] == 8
    assert {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))} == before


def test_now_applies_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, str(store), "--keep", "extremes")
    found = answer(capsys, str(store), "--now")
    assert (found["steps"], found["trajectories"], found["rows"]) == (2, 4, 4)
    assert pruned(store) == {(1, 0), (2, 0)}
    losses = rolltrace.open(store).losses().rows()
    assert [(row["step"], row["reason"], row["count"]) for row in losses] == [(1, "retention", 2), (2, "retention", 2)]
    assert main(["store", "retain", str(store), "--now"]) == 0
    assert capsys.readouterr().out == "0 finished steps: dropped 0 trajectories, 0 B less\n"
    assert answer(capsys, str(store), "--keep", "errors", "--dry-run")["would_drop"] == 4, "those that are left"


def test_off_takes_it_away(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, str(store), "--share", "0.5")
    assert answer(capsys, str(store), "--off") == {"policy": None}
    assert read_policy(store) is None
    assert main(["store", "retain", str(store), "--off"]) == 0


def test_it_is_applied_though_a_drainer_is_at_work(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Follower(store).working():
        assert main(["store", "retain", str(store), "--keep", "extremes", "--now", "--yes"]) == 0
    assert pruned(store) == {(1, 0), (2, 0)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep", "extreme"], "keep has no 'extreme'; did you mean 'extremes'?"),
        (["--keep", "everything"], "keep has no 'everything'; there are: errors, extremes, slowest, flagged"),
        (["--share", "1.5"], "share must be from 0 to 1, not 1.5"),
        (["--share=-0.1"], "share must be from 0 to 1, not -0.1"),
        (["--share", "nan"], "share must be from 0 to 1, not nan"),
        (["--after-steps", "0"], "after_steps must be 1 or more: the last step is never finished, not 0"),
        (["--keep", "errors", "--flags", "cut"], "add 'flagged' to keep"),
        (["--keep", ""], "--keep is empty; leave it out, or write --keep none"),
        (["--experiments", " , "], "--experiments is empty; leave it out"),
        (["--off", "--share", "0.5"], "it cannot be combined with --share"),
    ],
)
def test_what_makes_no_sense_is_refused_and_sets_nothing(
    store: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "retain", str(store), *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert read_policy(store) is None


def test_a_policy_file_that_cannot_be_used_is_a_clear_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "retention.json").write_text('{"shar": 1}')
    assert main(["store", "retain", str(store)]) == 1
    assert "retention.json cannot be used: Object contains unknown field `shar`" in capsys.readouterr().err


def test_what_retention_left_out_is_no_problem_to_the_doctor(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["store", "retain", str(store), "--keep", "errors", "--now", "--yes"])
    assert main(["doctor", str(store)]) == 0
    assert "8 records left out by choice: retention" in capsys.readouterr().out
