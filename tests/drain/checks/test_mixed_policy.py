"""Weights that change while a trajectory is on its way."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from tests.draining import drain

from .conftest import Find, findings_of, generate, names


def say(version: object) -> None:
    generate(output={"text": "a", "policy_version": version})


def test_a_newer_version_is_told_once(find: Find) -> None:
    def rollout() -> None:
        for version in (3, 3, 4, 4, 5):
            say(version)

    (found,) = find(rollout)
    assert (found["flag"], found["detail"]) == ("mixed_policy", {"policy_version": 4, "previous": 3})


@pytest.mark.parametrize("versions", [(3, 3, 3), (3,), (None, 3, None, 3), (None, None), ("a", "b")])
def test_one_version_or_none_is_fine(find: Find, versions: tuple[object, ...]) -> None:
    def rollout() -> None:
        for version in versions:
            say(version)

    assert find(rollout) == []


@pytest.mark.parametrize("wrap", [lambda span: span, lambda span: {"extra_fields": span}], ids=["plain", "extra"])
def test_a_change_within_one_op_is_told(find: Find, wrap: object) -> None:
    output = {"text": "a", **wrap({"param_version_start": 7, "param_version_end": 9})}  # type: ignore[operator]
    (found,) = find(lambda: generate(output=output))
    assert found["detail"] == {"policy_version": 9, "previous": 7}


def test_every_trajectory_has_its_own(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    made = []
    for version in (1, 2):
        with rolltrace.rollout_trace_attr(step=1, sample_index=version) as trajectory:
            say(version)
        made.append(trajectory.id)
    rolltrace.shutdown()
    drain(tmp_path)
    assert [names(findings_of(tmp_path, each)) for each in made] == [[], []]
