"""Twenty questions with their answers: each runs alone against the demo's store and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.gen_cookbook import PAGE, answers, run

ANSWERS = answers(PAGE.read_text(encoding="utf-8"))


def test_there_are_twenty() -> None:
    assert len(ANSWERS) == 20
    assert PAGE.read_text(encoding="utf-8").count("\n### ") == 20


@pytest.mark.parametrize("number", range(1, len(ANSWERS) + 1))
def test_an_answer_shows_rows_as_on_the_page(number: int, demo: Path) -> None:
    language, block, shown = ANSWERS[number - 1]
    printed, expected = run(language, block, demo).splitlines(), shown.splitlines()
    assert len(printed) == len(expected) > 0, "run make cookbook"
    if language == "sql":
        assert printed[0].split() == expected[0].split(), "run make cookbook"
        assert len(printed) > 1


def test_the_answers_point_at_the_planted_hack(demo: Path) -> None:
    """The sums are the same on every machine that has the same NumPy, the finding on all."""
    terms = run(*ANSWERS[7][:2], demo).splitlines()
    assert "'verified': 0.0}" in terms[0]
    assert float(terms[-1].rpartition(" ")[2].rstrip("}")) > 0.5
    assert "verified verified" in run(*ANSWERS[8][:2], demo)
