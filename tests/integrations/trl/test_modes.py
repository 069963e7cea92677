"""Whole training runs, in each of TRL's modes: the store against TRL's own tables, metrics and losses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest

from rolltrace.query import Trajectory

from .told import Ran, told_by_store, told_by_trl

GROUP, GROUP_EVAL = 4, 2
MODES = ("plain", "text", "tools", "environments", "replay", "rollouts")
GENERATED = {"replay": {1: 16, 5: 16}}
"""Rollouts by the step before which they were generated; in the other modes, eight before each of three."""
RanOf = Callable[[str], Ran]


def steps_of(mode: str) -> dict[int, int]:
    return GENERATED.get(mode, {1: 8, 2: 8, 3: 8})


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_are_those_of_trls_table(ran: RanOf, mode: str) -> None:
    run = ran(mode)
    tables = run.logged("train")
    assert Counter(each.step for each in run.training) == steps_of(mode)
    for step in steps_of(mode):
        assert told_by_store(run.of_step(step), tables[step]) == told_by_trl(tables[step], GROUP)


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_is_apart_and_stands_at_the_step_of_trls_log(ran: RanOf, mode: str) -> None:
    run = ran(mode)
    tables = run.logged("eval")
    assert set(tables) == {each.step for each in run.validation}
    for step, table in tables.items():
        rollouts = run.of_step(step, validate=True)
        assert len(rollouts) == 2 * GROUP_EVAL
        last = table.tail(len(rollouts)).reset_index(drop=True)  # behind those of training
        assert told_by_store(rollouts, last) == told_by_trl(last, GROUP_EVAL)
        assert {each.fate for each in rollouts} == {None}


@pytest.mark.parametrize("mode", MODES)
def test_means_are_those_of_trls_metrics(ran: RanOf, mode: str) -> None:
    run = ran(mode)
    for step in steps_of(mode):
        rollouts = run.of_step(step)
        rewards = [each.reward for each in rollouts if each.reward is not None and not math.isnan(each.reward)]
        assert sum(rewards) / len(rewards) == pytest.approx(run.metrics(step, "reward"), rel=1e-5)
        tokens = [sum(mask_of(each)) for each in rollouts]
        assert sum(tokens) / len(tokens) == pytest.approx(run.metrics(step, "completions/mean_length"))


def mask_of(trajectory: Trajectory) -> list[int]:
    return [one for tokens in trajectory.tokens for one in tokens.response_mask]


@pytest.mark.parametrize("mode", MODES)
def test_what_was_trained_on_is_what_losses_were_computed_of(ran: RanOf, mode: str) -> None:
    run = ran(mode)
    losses = Counter(run.losses())
    recorded: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for each in run.training:
        last = list(each.tokens)[-1]
        first_prompt = len(each.tokens[0].prompt_ids)
        ids = (*last.prompt_ids[first_prompt:], *last.response_ids)
        fates = [score for score in each.scores if score.name == "fate"]
        for fate in fates:
            if fate.label == "trained":
                recorded[fate.trained_step, ids] += 1
    masked = {key: count for key, count in losses.items() if not key[1]}  # nothing of it is left to train on
    assert recorded == Counter({key: count for key, count in losses.items() if key not in masked})
    filtered = [each for each in run.training if each.fate == "filtered" and "no token" in (each.fate_reason or "")]
    assert len(filtered) == sum(masked.values())
    assert bool(masked) == (mode == "rollouts")


def test_replayed_rollouts_are_trained_on_again_and_the_rest_is_left_over(ran: RanOf) -> None:
    run = ran("replay")
    fates = {
        each.trajectory_id: [(score.label, score.trained_step) for score in each.scores if score.name == "fate"]
        for each in run.training
    }
    counted = Counter(tuple(each) for each in fates.values())
    assert counted == {
        (("trained", 1), ("trained", 3)): 8,
        (("trained", 2), ("trained", 4)): 8,
        (("trained", 5),): 8,
        (("filtered", None),): 8,
    }
    assert {each.fate_reason for each in run.training if each.fate == "filtered"} == {
        "left over at the end of training"
    }


def test_tokens_masks_and_versions_are_recorded_of_every_turn(ran: RanOf) -> None:
    for each in ran("plain").training:
        (turn,) = [op for op in each.walk() if op.kind == "llm"]
        (tokens,) = each.tokens
        assert tokens.response_mask == [1] * len(tokens.response_ids)
        assert turn.policy_version == (each.step or 0) - 1
        assert turn.finish_reason in ("stop", "length")
        assert turn.start_ns <= (turn.end_ns or 0)
        assert turn.response_text is not None
        assert turn.prompt_text is not None
        assert turn.prompt_text.endswith("<|im_start|>assistant\n")


def test_samples_without_an_id_of_their_own_are_known_by_what_they_say(ran: RanOf) -> None:
    named, unnamed = ran("rollouts"), ran("plain")
    assert {type(each.sample_index) for each in named.training} == {int}
    by_prompt: dict[str, set[object]] = {}
    for each in unnamed.all:
        by_prompt.setdefault(str(each.ops[0].inputs["messages"]), set()).add(each.sample_index)
    assert {len(samples) for samples in by_prompt.values()} == {1}


def test_a_rollout_function_keeps_its_logprobs_and_mask(ran: RanOf) -> None:
    for each in ran("rollouts").training:
        (tokens,) = each.tokens
        assert set(tokens.logprobs) == {-0.5}
        assert tokens.response_mask.count(0) == 5


def test_tracing_changes_nothing_in_training(ran: RanOf) -> None:
    traced, untraced = ran("plain"), ran("untraced")
    times = {"train_runtime", "train_samples_per_second", "train_steps_per_second", "step_time"}

    def numbers(run: Ran) -> list[dict[str, float]]:
        lines = [{name: value for name, value in line.items() if "time" not in name} for line in run.history]
        return [{name: value for name, value in line.items() if name not in times} for line in lines]

    drop = {"eval_samples_per_second", "eval_steps_per_second"}
    assert [{k: v for k, v in line.items() if k not in drop} for line in numbers(traced)] == [
        {k: v for k, v in line.items() if k not in drop} for line in numbers(untraced)
    ]
    assert untraced.all == []


def test_nothing_of_a_run_is_flagged_as_interrupted(ran: RanOf) -> None:
    assert {each.status for mode in MODES for each in ran(mode).all} == {"ok"}
