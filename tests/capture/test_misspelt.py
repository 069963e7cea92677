"""A coordinate that is misspelt becomes a tag, and whoever wrote it is told the right name."""

from __future__ import annotations

from typing import Any

import pytest

import rolltrace
from rolltrace.capture import misspelt
from rolltrace.testing import Recording


@pytest.fixture(autouse=True)
def _nothing_told_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misspelt, "_warned_of", set())


def said(caplog: pytest.LogCaptureFixture, **arguments: Any) -> list[str]:
    caplog.clear()
    for _ in range(2):
        with rolltrace.rollout_trace_attr(**arguments):
            pass
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sample", "sample_index"), ("sample_idx", "sample_index"), ("sampleindex", "sample_index"),
        ("samle_index", "sample_index"), ("global_steps", "step"), ("stepp", "step"), ("Step", "step"),
        ("rollout", "rollout_n"), ("rolout_n", "rollout_n"), ("validation", "validate"), ("valdate", "validate"),
    ],
)  # fmt: skip
def test_a_misspelt_coordinate_is_told_once(
    name: str, meant: str, traced: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = said(caplog, **{name: 3})
    assert f"rollout_trace_attr has no argument {name!r}, so it becomes a tag; did you mean {meant}?" in line
    assert name in traced.trajectories[0].tags


@pytest.mark.parametrize("name", ["experiment", "experiment_name", "experimentname", "exp_name"])
def test_an_experiment_is_named_elsewhere(name: str, traced: Recording, caplog: pytest.LogCaptureFixture) -> None:
    (line,) = said(caplog, sample_index=0, step=1, **{name: "a"})
    assert "rolltrace.init(project_name, experiment_name)" in line


@pytest.mark.parametrize(
    "name",
    ["difficulty", "level", "task", "seed", "split", "temperature", "model", "source", "stop", "stage", "value", "n",
     "uid", "data_source", "index", "reward", "evaluator", "tags", "sampler", "max_steps", "env_steps", "user"],
)  # fmt: skip
def test_a_tag_that_resembles_no_coordinate_stays_a_tag(
    name: str, traced: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(caplog, **{name: "x"}) == []
    assert name in traced.trajectories[0].tags


def test_a_tag_beside_the_coordinate_it_resembles_is_meant(traced: Recording, caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, sample_index=0, step=0, rollout_n=0, steps=12, rollout="r1", sample="s") == []
