"""Coordinates and names that do not fit are never written: every record can be shaped by whoever reads it."""

from __future__ import annotations

import itertools
import threading
from collections import UserDict
from typing import Any

import numpy as np
import pytest

import rolltrace
from rolltrace import _guard
from rolltrace.errors import ConfigError
from rolltrace.record import Event, TrajectoryEnd, decode_coordinates, decode_value, score_body, target_of
from rolltrace.testing import Recording

LONE = "a\ud800b"
CLEAN = "a\\ud800b"


def entered(**coordinates: Any) -> None:
    with rolltrace.rollout_trace_attr(**coordinates):
        pass


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("name", ["step", "rollout_n"])
@pytest.mark.parametrize(
    "value", [1 << 63, -(1 << 63) - 1, 10**30, 1e300, 2.5, float("nan"), float("inf"), "x", object()]
)
def test_a_number_that_does_not_fit_costs_only_itself(traced: Recording, name: str, value: Any) -> None:
    entered(sample_index=7, **{name: value})
    (trajectory,) = traced.trajectories
    assert getattr(trajectory.coordinates, name) is None
    assert trajectory.coordinates.sample_index == 7
    assert _guard.internal_errors == {f"rollout_trace_attr {name}: ConfigError": 1}


class Shy:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("value", [1 << 63, 2.5, 10**5000, Shy()], ids=["wide", "float", "very wide", "without a repr"])
def test_the_error_says_what_to_write(traced: Recording, value: Any) -> None:
    with pytest.raises(ConfigError, match="step must be a whole number of 64 bits, not "):
        entered(step=value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1 << 63) - 1, (1 << 63) - 1),
        (-(1 << 63), -(1 << 63)),
        (True, 1),
        (3.0, 3),
        (np.int32(4), 4),
        (np.float64(5), 5),
    ],
)
def test_a_number_that_fits_is_kept(traced: Recording, value: Any, kept: int) -> None:
    entered(step=value, rollout_n=value)
    assert traced.trajectories[0].coordinates[::2] == (kept, kept)


@pytest.mark.parametrize(
    ("value", "kept"), [(1 << 63, str(1 << 63)), (LONE, CLEAN), (-(1 << 200), str(-(1 << 200))), (np.str_("q"), "q")]
)
def test_a_sample_that_is_no_64_bit_number_is_text(traced: Recording, value: Any, kept: str) -> None:
    entered(sample_index=value)
    assert traced.trajectories[0].coordinates.sample_index == kept


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("value", ["x" * 1001, 10**5000], ids=["text", "number"])
def test_a_sample_of_many_kilobytes_is_refused(traced: Recording, value: Any) -> None:
    entered(sample_index=value, step=1)
    assert traced.trajectories[0].coordinates[:2] == (1, None)


@pytest.mark.parametrize("where", [(1 << 63, 0, 0), (0, 0, 1 << 63), (0, 0, -(1 << 64))])
def test_a_score_for_coordinates_that_do_not_fit_is_refused(where: Any) -> None:
    with pytest.raises(ConfigError, match="a score is about"):
        target_of(where)


def test_lone_surrogates_in_names_are_written_out(traced: Recording) -> None:
    @rolltrace.rollout_trace_op(name=LONE)
    def op() -> None:
        pass

    with rolltrace.rollout_trace_attr(name=LONE, **{LONE: 1}) as handle:
        op()
        handle.tag(**{LONE: 2, LONE + LONE: 3})
        handle.transition(stop_reason=LONE)
        handle.reward(1.0, terms={LONE: 0.5})
        rolltrace.score(handle, LONE, LONE, terms={LONE: 1}, reason=LONE)
    thread = threading.Thread(target=op, name=LONE)
    thread.start()
    thread.join()
    assert {each.name for each in traced.ops} == {CLEAN}
    assert [each.thread for each in traced.ops] == ["", CLEAN]
    (trajectory,) = traced.trajectories
    assert (trajectory.name, trajectory.tags) == (CLEAN, {CLEAN: 2, CLEAN * 2: 3})
    bodies = [each.body for each in traced.events]
    assert bodies[0] == {CLEAN: 2, CLEAN * 2: 3}
    assert bodies[1]["stop_reason"] == CLEAN
    assert bodies[2]["terms"] == {CLEAN: 0.5}
    assert bodies[3] == {"name": CLEAN, "value": CLEAN, "terms": {CLEAN: 1}, "reason": CLEAN}


def test_a_project_that_no_file_could_be_named_after_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="project_name must be text that UTF-8 can hold"):
        rolltrace.init(LONE, "e", "rolltrace", store=tmp_path)


def test_terms_without_end_are_cut() -> None:
    class Endless(UserDict[str, float]):
        def __iter__(self) -> Any:
            return (str(number) for number in itertools.count())

        def __getitem__(self, key: str) -> float:
            return 1.0

        def __len__(self) -> int:
            return 1

    assert 0 < len(score_body(1.0, Endless())["terms"]) <= 10_000


def test_every_record_of_these_can_be_read(traced: Recording) -> None:
    entered(step=(1 << 63) - 1, sample_index=LONE, rollout_n=-1, **{LONE: LONE})
    ends = [each for each in traced.records if isinstance(each, TrajectoryEnd)]
    assert [decode_coordinates(each.coordinates) for each in ends] == [((1 << 63) - 1, CLEAN, -1, False)]
    assert [decode_value(each.body) for each in traced.records if isinstance(each, Event)] == []
