"""`rolltrace label --score`: a note by hand, seen by everybody."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query import open_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1, rollout_n=0) as trajectory:
        trajectory.reward(0.5)
    rolltrace.shutdown()
    return tmp_path


@pytest.fixture
def trajectory_id(store: Path) -> str:
    return str(open_store(store).trajectories().rows()[0]["trajectory_id"])


def test_numbers_are_numbers_and_the_rest_is_text(
    store: Path, trajectory_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["reward=-1.5", "--reason", "fooled"],
        ["note=guesses \x1b[31m"],
        ["grade=nan"],
        ["answer=42", "--text"],
    ):
        assert main(["label", trajectory_id[:8], "--score", *arguments, "--store", str(store)]) == 0
    assert f"{trajectory_id[:8]}: reward is -1.5" in capsys.readouterr().out
    found = open_store(store).trajectory(trajectory_id)
    assert found.reward == -1.5
    said = [(row["name"], str(row["value"]), row["label"], row["reason"]) for row in found.scores[1:]]
    assert said == [
        ("reward", "-1.5", None, "fooled"),
        ("note", "None", "guesses \x1b[31m", None),
        ("grade", "nan", None, None),
        ("answer", "None", "42", None),
    ]


def test_an_unknown_id_is_one_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label", "ab" * 16, "--score", "note=fine", "--store", str(store)]) == 1
    assert capsys.readouterr().err == f"rolltrace: no trajectory has the id {'ab' * 16} in the store '{store}'\n"
    assert main(["label", "ab" * 16, "--score", "=fine", "--store", str(store)]) == 1
    assert "a score needs a name" in capsys.readouterr().err


def test_a_score_is_given_by_coordinates_too(store: Path) -> None:
    words = ["label", "--step", "1", "--sample", "1", "--rollout", "0", "--score", "judge=1", "--score", "reward=2"]
    assert main([*words, str(store)]) == 0
    (row,) = open_store(store).trajectories(where="score.judge = 1").rows()
    assert row["reward"] == 2


def test_a_score_without_a_value_is_wrong_usage(trajectory_id: str, store: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["label", trajectory_id, "--score", "reward", str(store)])
    assert stopped.value.code == 2
