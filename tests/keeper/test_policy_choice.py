"""What a policy keeps: every reason is respected, groups are whole, the share is stable."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltrace.keeper.policy import KEEP, SHARE, RetentionPolicy, choose
from rolltrace.keeper.pruning import WAITING, Choice
from tests.nightly import nightly

NOTHING = RetentionPolicy(keep=())


def row(name: str, sample: Any = 1, **fields: Any) -> dict[str, Any]:
    """A trajectory in which there is nothing special."""
    usual = {
        "trajectory_id": name, "project": "p", "experiment": "e", "step": 1, "sample_index": sample, "validate": False,
        "status": "ok", "reward": 1.0, "duration_s": 1.0, "flags": [], "parent_trajectory_id": None,
    }  # fmt: skip
    return {**usual, **fields}


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some steps of groups of rollouts, all of which have ended and have a reward."""
    rows = []
    for step in range(draw(st.integers(1, 2))):
        for sample in range(draw(st.integers(1, 6))):
            validate = draw(st.booleans())
            for n in range(draw(st.integers(1, 4))):
                made = row(
                    f"{step}-{sample}-{n}",
                    draw(st.sampled_from([sample, str(sample)])),
                    step=step,
                    validate=validate,
                    status=draw(st.sampled_from(["ok"] * 6 + ["error", "cancelled", "interrupted"])),
                    reward=draw(st.sampled_from([0.0, 0.0, 1.0])),
                    duration_s=draw(st.floats(0, 100)),
                    flags=draw(st.sampled_from([[]] * 5 + [["cut"], ["cut", "tool_error"]])),
                )
                rows.append(made)
    return draw(st.permutations(rows))


policies = st.builds(
    RetentionPolicy,
    keep=st.lists(st.sampled_from(KEEP), unique=True).map(tuple),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    slowest_percent=st.sampled_from([1.0, 30.0, 100.0]),
    seed=st.integers(0, 5),
)


def groups(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for each in rows:
        found[each["step"], str(each["sample_index"]), each["validate"]].append(each)
    return list(found.values())


@settings(max_examples=nightly(2000, 80), deadline=None)
@given(rows=steps(), policy=policies)
def test_groups_are_whole_and_each_trajectory_has_one_fate(rows: list[dict[str, Any]], policy: RetentionPolicy) -> None:
    choice = choose(rows, policy)
    assert choice.drop.isdisjoint(choice.keep)
    assert choice.drop | set(choice.keep) == {each["trajectory_id"] for each in rows}
    for group in groups(rows):
        assert len({choice.keep.get(each["trajectory_id"]) for each in group}) == 1


@settings(max_examples=nightly(2000, 80), deadline=None)
@given(rows=steps(), policy=policies)
def test_whatever_there_is_a_reason_to_keep_is_kept_and_nothing_else(
    rows: list[dict[str, Any]], policy: RetentionPolicy
) -> None:
    choice = choose(rows, policy)
    for group in groups(rows):
        same_step = [
            each for each in rows if (each["step"], each["validate"]) == (group[0]["step"], group[0]["validate"])
        ]
        slow_enough = sorted((each["duration_s"] for each in same_step), reverse=True)
        limit = slow_enough[math.ceil(len(slow_enough) * policy.slowest_percent / 100) - 1]
        rewards = {each["reward"] for each in group}
        reasons = {
            "errors": any(each["status"] in ("error", "interrupted") for each in group),
            "extremes": len(rewards) > 1,
            "slowest": any(each["duration_s"] > limit for each in group),
            "flagged": any(each["flags"] for each in group),
        }
        ties = any(each["duration_s"] == limit for each in group)
        wanted = [word for word in policy.keep if reasons[word]]
        why = choice.keep.get(group[0]["trajectory_id"])
        if wanted:
            assert why in {*wanted, *(["slowest"] if ties else [])}
        elif why is not None:
            assert why == SHARE or (why == "slowest" and ties)


@settings(max_examples=nightly(1000, 50), deadline=None)
@given(rows=steps(), policy=policies, data=st.data())
def test_the_order_of_the_rows_does_not_matter(
    rows: list[dict[str, Any]], policy: RetentionPolicy, data: st.DataObject
) -> None:
    one, other = choose(rows, policy), choose(data.draw(st.permutations(rows)), policy)
    assert (set(one.groups), one.keep) == (set(other.groups), other.keep)


@settings(max_examples=nightly(1000, 50), deadline=None)
@given(rows=steps(), policy=policies)
def test_choosing_again_from_what_was_kept_drops_no_error_extreme_or_flagged_group(
    rows: list[dict[str, Any]], policy: RetentionPolicy
) -> None:
    kept = choose(rows, policy).keep
    again = choose([each for each in rows if each["trajectory_id"] in kept], policy)
    assert not [name for name in again.drop if kept[name] != "slowest"]


def fate(rows: list[dict[str, Any]], policy: RetentionPolicy, **more: Any) -> dict[str, str]:
    choice: Choice = choose(rows, policy, **more)
    return {each["trajectory_id"]: choice.keep.get(each["trajectory_id"], "dropped") for each in rows}


@pytest.mark.parametrize(("status", "kept"), [("ok", 0), ("cancelled", 0), ("error", 1), ("interrupted", 1)])
def test_errors_are_those_that_failed(status: str, kept: int) -> None:
    assert len(choose([row("a", status=status)], RetentionPolicy(keep=("errors",))).keep) == kept


def test_groups_of_different_rewards_are_kept_and_those_of_one_reward_are_not() -> None:
    rows = [row("a", 1, reward=0.0), row("b", 1, reward=1.0), row("c", 2, reward=1.0), row("d", 2, reward=1.0)]
    assert fate(rows, RetentionPolicy(keep=("extremes",))) == {
        "a": "extremes", "b": "extremes", "c": "dropped", "d": "dropped"
    }  # fmt: skip


def test_a_reward_that_is_no_number_is_no_extreme() -> None:
    rows = [row("a", reward=math.nan), row("b", reward=1.0)]
    assert choose(rows, RetentionPolicy(keep=("extremes",))).drop == {"a", "b"}


def test_training_and_validation_of_one_sample_are_two_groups() -> None:
    rows = [row("a", reward=0.0), row("b", reward=1.0, validate=True)]
    assert choose(rows, RetentionPolicy(keep=("extremes",))).drop == {"a", "b"}


def test_the_slowest_are_those_of_each_step() -> None:
    rows = [row(f"{step} {n}", n, step=step, duration_s=float(n * step)) for step in (1, 100) for n in range(40)]
    kept = choose(rows, RetentionPolicy(keep=("slowest",), slowest_percent=5)).keep
    assert set(kept) == {"1 39", "1 38", "100 39", "100 38"}


def test_chosen_flags_count_and_others_do_not() -> None:
    rows = [row("a", 1, flags=["cut"]), row("b", 2, flags=["tool_error"]), row("c", 3)]
    assert set(choose(rows, RetentionPolicy(keep=("flagged",))).keep) == {"a", "b"}
    assert set(choose(rows, RetentionPolicy(keep=("flagged",), flags=("cut",))).keep) == {"a"}


def test_the_share_is_as_large_as_asked_for() -> None:
    rows = [row(str(sample), sample) for sample in range(4000)]
    assert 1000 < len(choose(rows, RetentionPolicy(keep=(), share=0.3)).keep) < 1400
    assert not choose(rows, RetentionPolicy(keep=(), share=0.0)).keep
    assert not choose(rows, RetentionPolicy(keep=(), share=1.0)).drop


def test_the_share_is_the_same_samples_in_every_step_and_grows_by_others() -> None:
    def kept(share: float, seed: int = 0, step: int = 1) -> set[str]:
        rows = [row(str(sample), sample if step else str(sample), step=step) for sample in range(500)]
        return set(choose(rows, RetentionPolicy(keep=(), share=share, seed=seed)).keep)

    assert kept(0.2, step=0) == kept(0.2, step=7) < kept(0.5)
    assert kept(0.2, seed=1) != kept(0.2)


def test_a_share_of_samples_that_were_chosen_by_their_hash_is_still_a_share() -> None:
    from rolltrace.capture import choose_samples

    rows = [row(str(sample), sample) for sample in choose_samples(range(10_000), limit=500)]
    assert 20 < len(choose(rows, RetentionPolicy(keep=(), share=0.1)).keep) < 100


def test_a_group_that_lacks_a_reward_waits_while_others_have_one() -> None:
    rows = [row("a", 1, reward=None), row("b", 1), row("c", 2)]
    assert fate(rows, NOTHING) == {"a": WAITING, "b": WAITING, "c": "dropped"}


def test_rewards_of_other_steps_make_a_group_wait() -> None:
    rows = [row("a", reward=None)]
    assert fate(rows, NOTHING) == {"a": "dropped"}
    assert fate(rows, NOTHING, rewarded={("p", "e")}) == {"a": WAITING}
    assert fate(rows, NOTHING, rewarded={("p", "other")}) == {"a": "dropped"}


@pytest.mark.parametrize("status", ["error", "cancelled", "interrupted"])
def test_no_reward_is_expected_of_what_failed(status: str) -> None:
    rows = [row("a", 1, reward=None, status=status), row("b", 1)]
    assert fate(rows, NOTHING) == {"a": "dropped", "b": "dropped"}


def test_a_group_that_still_runs_waits() -> None:
    rows = [row("a", 1, status="running", reward=None), row("b", 1), row("c", 2)]
    assert fate(rows, NOTHING) == {"a": WAITING, "b": WAITING, "c": "dropped"}
    assert fate([row("a"), row("b")], NOTHING, unsent={"b"}) == {"a": WAITING, "b": WAITING}


def test_trajectories_without_a_sample_stand_alone() -> None:
    rows = [row("a", None, reward=0.0), row("b", None, reward=1.0), row("c", None, status="error")]
    assert fate(rows, RetentionPolicy(keep=("extremes", "errors"))) == {"a": "dropped", "b": "dropped", "c": "errors"}


def test_what_was_begun_inside_belongs_to_the_group() -> None:
    inside = {"parent_trajectory_id": "a", "reward": None}
    rows = [row("a", 1), row("b", None, **inside), row("c", 2), row("d", None, parent_trajectory_id="b", reward=None)]
    assert set(fate(rows, NOTHING).values()) == {"dropped"}
    failed = [*rows[:3], row("d", None, parent_trajectory_id="b", reward=None, status="error")]
    assert fate(failed, RetentionPolicy(keep=("errors",))) == {
        "a": "errors",
        "b": "errors",
        "c": "dropped",
        "d": "errors",
    }
