"""A number in a string is found, an answer is not."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace.drain.checks.number_as_text import number_as_text


@pytest.mark.parametrize(
    "text",
    ["0.75", "-0.5", "+1.", ".5", "1e-3", "2E5", "1.0 / 2", "3/5", "85%", "12.5 %", "$3.50", "-€2", "1,234.5", "1,234",
     "nan", "-Infinity", " 0.75\n"],
)  # fmt: skip
def test_a_formatted_number_is_found(text: str) -> None:
    (finding,) = number_as_text({"reward_data": {"format": 1.0, "judge": text}}, {})
    assert (finding.flag, finding.detail) == ("number_as_text", {"reward_data.judge": text})


@pytest.mark.parametrize(
    "value",
    ["42", "007", "1.2.3", "2024-01-05", "12:30", "yes", "", "0.75 points", "1,23", "1/2/3", "v1.0", "x" * 100, "0x1f",
     "1" * 50 + ".5", 0.75, 1, True, None, [0.5, 1], {"a": {"b": 0.5}}],
)  # fmt: skip
def test_anything_else_is_not(value: Any) -> None:
    assert list(number_as_text({"reward_data": {"judge": value}}, {"reward": 0.5, "metrics": {"turns": 3}})) == []


def test_it_is_found_at_any_depth_and_in_its_order() -> None:
    trace = {"prompt": "0.5", "reward_data": [{"terms": ["0.1", 0.2, "0.3"]}], "extra": "0.5"}
    (finding,) = number_as_text(trace, {"reward": "1.0", "metrics": {"share": "50%"}, "logs": {"text": "0.5"}})
    assert list((finding.detail or {}).items()) == [
        ("reward", "1.0"),
        ("reward_data[0].terms[0]", "0.1"),
        ("reward_data[0].terms[2]", "0.3"),
        ("metrics.share", "50%"),
    ]


def test_many_of_them_are_one_finding_with_a_few_examples() -> None:
    (finding,) = number_as_text({"reward_data": {str(n): "0.5" for n in range(5000)}}, {})
    assert len(finding.detail or {}) == 8


@pytest.mark.parametrize("trace", [None, "0.5", 3, {"reward_data": "0.5"}])
def test_any_trace_can_be_looked_at(trace: Any) -> None:
    found = [finding.detail for finding in number_as_text(trace, {})]
    assert found == ([{"reward_data": "0.5"}] if isinstance(trace, dict) else [])
