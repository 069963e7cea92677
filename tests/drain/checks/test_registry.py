"""Which checks there are, which are on, and what happens when one is at fault."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import _guard
from rolltrace.drain.checks import registry
from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.flags import FLAGS
from tests.draining import drain
from tests.nightly import nightly

from .conftest import Find, flags_of, generate, names, tool, turn


def everything_wrong() -> None:
    with pytest.raises(ValueError, match="no"):
        tool(ValueError("no"))
    turn([1], [])
    turn([9], [4, 5], logprobs=[-1.0], finish_reason="length")


def broken(op: OpFacts, *more: Any) -> None:
    raise RuntimeError("a bug")


def test_every_flag_has_a_check_and_every_check_a_flag() -> None:
    of_ops = {*registry.OF_OP, *registry.OF_OP_AND_META, *registry.OF_OP_AND_PAST}
    checks = {*of_ops, *registry.OF_TRANSITION, *registry.OF_TRAJECTORY}
    assert checks == {flag.name for flag in FLAGS}


@pytest.mark.parametrize(
    ("checks", "found"),
    [
        ("all", {"tool_error", "empty_response", "prefix_break", "length_mismatch", "cut_by_length"}),
        ("off", set()),
        ("tool_error,prefix_break", {"tool_error", "prefix_break"}),
        (["-tool_error", "-prefix_break"], {"empty_response", "length_mismatch", "cut_by_length"}),
        ("zero_logprobs", set()),
    ],
)
def test_the_setting_says_which_are_on(find: Find, checks: Any, found: set[str]) -> None:
    assert set(names(find(everything_wrong, limits={"checks": checks}))) == found


def test_the_environment_says_it_too(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_CHECKS", "cut_by_length")
    assert names(find(everything_wrong)) == ["cut_by_length"]


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    ("table", "name"), [(registry.OF_OP, "empty_response"), (registry.OF_OP_AND_PAST, "prefix_break")]
)
def test_a_fault_in_one_check_stops_neither_draining_nor_the_others(
    find: Find, table: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(table, name, broken)

    def rollout() -> None:
        for _ in range(3):
            generate(output={"text": "so", "finish_reason": "length"})

    with caplog.at_level(logging.ERROR, logger="rolltrace"):
        found = find(rollout)
    assert sorted(names(found)) == ["check_failed"] * 3 + ["cut_by_length"] * 3
    (detail,) = {str(each["detail"]) for each in found if each["flag"] == "check_failed"}
    assert detail == str({"check": name, "error": "RuntimeError: a bug"})
    assert set(_guard.internal_errors) == {f"check {name}: RuntimeError"}
    assert _guard.internal_errors[f"check {name}: RuntimeError"] == nightly(6, 3)
    assert len(caplog.records) == 1


def test_a_fault_is_raised_when_rolltrace_is_strict(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OF_OP, "empty_response", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        find(lambda: generate(output="x"))


def test_a_check_may_find_several_things_and_ask_how_its_writer_was_set_up(
    find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(op: OpFacts, meta: Mapping[str, Any]) -> Iterator[Finding]:
        yield Finding("first", {"experiment": meta["experiment"]})
        yield Finding("second")

    monkeypatch.setitem(registry.OF_OP_AND_META, "several", check)
    assert [(each["flag"], each["detail"]) for each in find(lambda: generate(output="x"))] == [
        ("first", {"experiment": "e"}),
        ("second", None),
    ]


def test_a_check_of_a_transition_sees_its_trace_and_what_else_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(trace: Any, body: Mapping[str, Any]) -> Finding:
        return Finding("strange", {"prompt": trace["prompt"], "reward": body["reward"]})

    monkeypatch.setitem(registry.OF_TRANSITION, "strange", check)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        trajectory.transition({"prompt": "p"}, reward=0.5)
    rolltrace.shutdown()
    drain(tmp_path)
    (found,) = flags_of(tmp_path, trajectory.id)
    assert (found["flag"], found["detail"]) == ("strange", {"prompt": "p", "reward": 0.5})
