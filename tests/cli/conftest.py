"""A drained store of several steps, for the commands that take something away from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from tests.draining import drain


def write(store: Path) -> None:
    """Steps 1 to 3, two samples of two rollouts each: those of sample 0 have one reward, of sample 1 different ones."""
    rolltrace.init("p", "e", "rolltrace", store=store)

    @rolltrace.rollout_trace_op
    def op(text: str) -> str:
        return text

    for step in (1, 2, 3):
        for sample in range(2):
            for n in range(2):
                with rolltrace.rollout_trace_attr(step=step, sample_index=sample, rollout_n=n) as trajectory:
                    op(f"{step} {sample} {n}" * 500)
                    trajectory.reward(float(n and sample))
    rolltrace.shutdown()
    drain(store)


@pytest.fixture
def store(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path, write)


def pruned(store: Path) -> set[tuple[int, int]]:
    """The (step, sample) of which payloads are gone."""
    rows = rolltrace.open(store).sql("select step, sample_index, inputs from spans").rows()
    return {(row["step"], int(row["sample_index"])) for row in rows if row["inputs"] is None}
