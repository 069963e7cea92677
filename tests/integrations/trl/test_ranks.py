"""Two ranks: each records its own rows, and together they are what TRL gathers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from .told import Ran, told_by_store, told_by_trl

GROUP, GROUP_EVAL = 4, 2
RanOf = Callable[[str], Ran]


@pytest.mark.parametrize("mode", ["split", "tools"])
def test_the_rollouts_of_both_ranks_are_those_of_trls_table(ran_on_two_ranks: RanOf, mode: str) -> None:
    run = ran_on_two_ranks(mode)
    tables = run.logged("train")
    assert set(tables) == {1, 2, 3}
    for step, table in tables.items():
        assert told_by_store(run.of_step(step), table) == told_by_trl(table, GROUP)
    for step, table in run.logged("eval").items():
        rollouts = run.of_step(step, validate=True)
        last = table.tail(len(rollouts)).reset_index(drop=True)
        assert told_by_store(rollouts, last) == told_by_trl(last, GROUP_EVAL)


def test_a_group_that_is_split_over_ranks_is_one_group(ran_on_two_ranks: RanOf) -> None:
    run = ran_on_two_ranks("split")
    for step in (1, 2, 3):
        rollouts = run.of_step(step)
        assert len({each.sample_index for each in rollouts}) == 1
        assert sorted(each.rollout_n or 0 for each in rollouts) == [0, 1, 2, 3]
        assert sorted((each.tags["rank"], each.rollout_n or 0) for each in rollouts) == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert len({each.run for each in run.all}) == 1


def test_each_rank_says_what_it_trained_on(ran_on_two_ranks: RanOf) -> None:
    run = ran_on_two_ranks("split")
    assert {each.fate for each in run.training} == {"trained"}
    recorded = Counter((each.trained_step, tuple(each.tokens[0].response_ids)) for each in run.training)
    assert recorded == Counter(run.losses())
