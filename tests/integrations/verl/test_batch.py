"""What the manager tells its workers of the whole batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rolltrace.capture.sampling import rank_of
from rolltrace.integrations.verl import agent_loop
from rolltrace.integrations.verl.batch import chosen_for

from .rig import Rig, batch_of

RANKED = sorted(range(20), key=lambda sample: rank_of(str(sample), 0))
"""The first is chosen before all others."""


def test_a_group_that_lies_in_two_workers_is_chosen_in_both_or_in_none() -> None:
    first, second, third, *_ = RANKED
    rows = np.repeat([first, second, third], 4)  # dealt out as 4 + 2 and 2 + 4
    assert chosen_for(rows, workers=2, limit=1) == {first, third}
    rows = np.repeat([second, first, third], 4)
    assert chosen_for(rows, workers=2, limit=1) == {first}
    assert chosen_for(rows, workers=2, limit=2) == {first, second, third}


def test_each_worker_has_as_many_as_the_limit_says() -> None:
    samples = RANKED[:8]
    assert chosen_for(np.repeat(samples, 4), workers=4, limit=1) == {samples[number] for number in (0, 2, 4, 6)}
    assert chosen_for(np.repeat(samples, 4), workers=4, limit=0) == set()


def test_samples_may_be_texts() -> None:
    assert chosen_for(np.array(["x", "x", "y", "y"], dtype=object), workers=2, limit=1) == {"x", "y"}


def test_a_worker_leaves_out_the_half_of_a_group_that_another_leaves_out(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    config = rig.config(experiment, "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=1")
    batch = batch_of(["a", "b", "c"], n=4)
    batch.non_tensor_batch["index"] = np.repeat(RANKED[:3], 4)
    manager = SimpleNamespace(config=config, agent_loop_workers=[None, None])
    _, theirs = agent_loop._with_numbers(manager, batch).chunk(2)
    assert theirs.non_tensor_batch["index"].tolist() == [RANKED[1]] * 2 + [RANKED[2]] * 4
    rig.in_process(config, theirs)
    assert [each.sample_index for each in recorded()] == [RANKED[2]] * 4
