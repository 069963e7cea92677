"""Twenty questions with their answers: each runs with nothing but the demo's store and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.gen_cookbook import PAGE, answers, run

pytestmark = pytest.mark.timeout(600)  # the first that asks for the demo waits for it
ANSWERS = answers(PAGE.read_text(encoding="utf-8"))


def test_there_are_twenty() -> None:
    assert len(ANSWERS) == 20
    assert PAGE.read_text(encoding="utf-8").count("\n### ") == 20


def test_the_answers_show_rows_as_on_the_page_and_point_at_the_planted_hack(demo: Path) -> None:
    """The sums are the same on every machine that has the same NumPy, the finding on all."""
    printed = run([(language, block) for language, block, _ in ANSWERS], demo)
    for (language, block, shown), text in zip(ANSWERS, printed, strict=True):
        lines, expected = text.splitlines(), shown.splitlines()
        assert len(lines) == len(expected) > 0, f"run make cookbook: {block}"
        if language == "sql":
            assert lines[0].split() == expected[0].split(), f"run make cookbook: {block}"
            assert len(lines) > 1, block
    terms = printed[7].splitlines()
    assert "'verified': 0.0}" in terms[0]
    assert float(terms[-1].rpartition(" ")[2].rstrip("}")) > 0.5
    assert "verified verified" in printed[8]
